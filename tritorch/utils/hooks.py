"""Handles of hooks, and the hooks behind a module's backward hooks, as in torch.utils.hooks."""

from tritorch.autograd.nodes import RemovableHandle
from tritorch.nn.hooks import BackwardHook, unserializable_hook, warn_if_has_hooks

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]
