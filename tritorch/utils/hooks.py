"""Handles of hooks, as in torch.utils.hooks."""

from tritorch.autograd.nodes import RemovableHandle

__all__ = ["RemovableHandle"]
