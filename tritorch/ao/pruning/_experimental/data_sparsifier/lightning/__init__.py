"""Data sparsifiers for PyTorch Lightning."""
