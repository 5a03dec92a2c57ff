"""Fourier transforms, launched on a GPU."""
