"""What torch.jit raises."""

from typing import NoReturn


class Error(Exception):
    """TorchScript's own exception: here, of values that have no TorchScript type."""


Error.__module__ = "tritorch.jit"
JITException = Error


def refuse(name: str) -> NoReturn:
    """Says that something of TorchScript is not there yet."""
    raise NotImplementedError(f"tritorch has no {name} yet: TorchScript is not compiled")
