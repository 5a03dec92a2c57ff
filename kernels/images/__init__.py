"""Kernels on images: convolution, pooling, interpolation."""
