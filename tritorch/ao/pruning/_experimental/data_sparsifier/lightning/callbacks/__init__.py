"""Callbacks of PyTorch Lightning."""
