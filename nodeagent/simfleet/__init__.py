"""Many simulated hosts in one process, each polling on its own."""
