"""Fourier transforms, declared as operators."""
