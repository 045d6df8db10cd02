"""What is measured, how samples become windows, and how windows reach the control plane."""
