"""Context managers of the library as classes of TorchScript, for `with` statements."""

from __future__ import annotations

from typing import Any, Optional

from tritorch.jit.frontend.globals import public
from tritorch.jit.internals import FunctionModifiers

torch = public()


class no_grad:
    """torch.no_grad"""

    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = torch.is_grad_enabled()
        torch.set_grad_enabled(False)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        torch.set_grad_enabled(self.prev)


class enable_grad:
    """torch.enable_grad"""

    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = torch.is_grad_enabled()
        torch.set_grad_enabled(True)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        torch.set_grad_enabled(self.prev)


_open: dict[int, Any] = {}  # ranges of the profiler that scripts have entered


def _begin(name: str, args: Optional[str]) -> int:  # noqa: UP045
    opened = torch.autograd.profiler.record_function(name, args)
    opened.__enter__()
    _open[id(opened)] = opened
    return id(opened)


def _end(handle: int) -> None:
    _open.pop(handle).__exit__(None, None, None)


for _function in (_begin, _end):  # they stay in Python
    _function._torchscript_modifier = FunctionModifiers.IGNORE  # type: ignore[attr-defined]


class record_function:
    """torch.autograd.profiler.record_function"""

    def __init__(self, name: str, args: Optional[str] = None) -> None:  # noqa: UP045
        self.name: str = name
        self.run_args: Optional[str] = args  # noqa: UP045
        self.handle: int = 0

    def __enter__(self) -> None:
        self.handle = _begin(self.name, self.run_args)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        _end(self.handle)


for _class, _home in (
    (no_grad, "autograd.grad_mode"),
    (enable_grad, "autograd.grad_mode"),
    (record_function, "autograd.profiler"),
):
    _class.__module__ = f"torch.{_home}"
    _class._jit_script_class = True  # type: ignore[attr-defined]


def context_of(python: type) -> type | None:
    """The class of TorchScript for a context manager of the library; None of others."""
    return {
        torch.no_grad: no_grad,
        torch.enable_grad: enable_grad,
        torch.autograd.profiler.record_function: record_function,
    }.get(python)
