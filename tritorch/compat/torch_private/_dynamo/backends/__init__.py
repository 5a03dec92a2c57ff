"""Backends of torch.compile: what compiles a graph."""
