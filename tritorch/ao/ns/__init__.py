"""Numeric comparison of float and quantized models."""
