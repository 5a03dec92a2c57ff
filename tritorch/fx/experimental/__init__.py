"""Tracing below autograd."""
