"""Random numbers, launched on a GPU."""
