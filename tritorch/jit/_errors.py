"""What torch.jit raises."""

import warnings
from typing import NoReturn


class Error(Exception):
    """TorchScript's own exception: here, of values that have no TorchScript type."""


class TracerWarning(Warning):
    """What a trace could not follow."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Such warnings of the package itself are not shown."""
        warnings.filterwarnings("ignore", category=TracerWarning, module=r"(tri)?torch")


Error.__module__ = TracerWarning.__module__ = "tritorch.jit"
JITException = Error


def refuse(name: str) -> NoReturn:
    """Says that something of TorchScript is not there yet."""
    raise NotImplementedError(f"tritorch has no {name} yet: TorchScript is not compiled")
