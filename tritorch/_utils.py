"""What programs take from `torch._utils`: lists of tensors in one buffer, exceptions on their way
from a worker to who waits for it, a device's module."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterable
from typing import Any, NoReturn

from tritorch import cuda
from tritorch.core.deprecation import deprecated
from tritorch.core.device import device as Device
from tritorch.core.tensor import Tensor
from tritorch.ops.joining import cat


@deprecated(
    "`torch._utils.is_compiling` is deprecated. Use `torch.compiler.is_compiling` instead.",
    UserWarning,
)
def is_compiling() -> bool:
    """False: nothing is."""
    return False


class KeyErrorMessage(str):
    """A text that KeyError shows as it is: KeyError prints the repr, in one line."""

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """The current exception as its type and its traceback in words, which can be pickled."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, error, trace = exc_info if exc_info is not None else sys.exc_info()
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raises the same type of exception, with the traceback in its message."""
        message: str = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            message = KeyErrorMessage(message)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=message)
        try:
            error = self.exc_type(message)
        except Exception:  # its constructor takes something else
            raise RuntimeError(message) from None
        raise error


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """The elements of all tensors, one after the other; of one tensor a view, if that can be."""
    parts = [t.contiguous().view(-1) for t in tensors]
    return parts[0] if len(parts) == 1 else cat(parts)


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Views of a buffer that have the shapes of tensors; of those without elements, (0,)."""
    views, start = [], 0
    for t in tensors:
        size = t.numel()
        views.append(flat.narrow(0, start, size).view_as(t) if size else flat.new_empty(0))
        start += size
    return tuple(views)


def get_device_module(device: Any = None) -> Any:
    """torch.cpu or torch.cuda, of a device, its name, or (None) the GPU if there is one."""
    if device is None:
        kind = "cuda" if cuda.is_available() else "cpu"
    elif isinstance(device, (str, Device)):
        kind = Device(device).type
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    if kind == "meta":
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered")
    return importlib.import_module(f"tritorch.{kind}")
