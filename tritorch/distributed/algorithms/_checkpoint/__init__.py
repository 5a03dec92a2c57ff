"""Modules that are computed again in the backward pass, or whose saved tensors lie on the CPU."""
