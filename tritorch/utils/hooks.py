"""Handles of hooks, as in torch.utils.hooks."""

from tritorch.autograd.graph import RemovableHandle

__all__ = ["RemovableHandle"]
