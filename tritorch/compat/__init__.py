"""PyTorch's names and habits that are not part of tritorch's own design."""
