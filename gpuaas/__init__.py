"""GPU platform control plane: the kernel below, the surfaces above."""
