"""Compiled regions: what `torch.compile` makes of a function, and what is told about it."""
