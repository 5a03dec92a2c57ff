"""The names of backends: those that come with the package, that a program registers, or packages.

A package names its own in the group `torch_dynamo_backends` of its entry points.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

from tritorch.core.tensor import Tensor


class CompiledFn(Protocol):
    """What a backend gives: a function of a graph's inputs."""

    def __call__(self, *args: Tensor) -> tuple[Tensor, ...]: ...


CompilerFn = Callable[[Any, list[Tensor]], CompiledFn]  # of a GraphModule
_BACKENDS: dict[str, EntryPoint | None] = {}
_COMPILER_FNS: dict[str, CompilerFn] = {}
_OWN = ("debugging", "inductor", "cudagraphs")
_default_backend: Any = "inductor"


def register_backend(
    compiler_fn: CompilerFn | None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Any:
    """Gives a backend a name, its own by default; as a decorator too."""
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise AssertionError(f"compiler_fn must be callable, got {type(compiler_fn)}")
    function: Any = compiler_fn
    name = name or function.__name__
    if name in _COMPILER_FNS:
        raise AssertionError(f"duplicate name: {name}")
    _BACKENDS[name] = None
    _COMPILER_FNS[name] = compiler_fn
    function._tags = tuple(tags)
    return compiler_fn


register_debug_backend = functools.partial(register_backend, tags=("debug",))
register_experimental_backend = functools.partial(register_backend, tags=("experimental",))


def lookup_backend(compiler_fn: Any) -> Any:
    """The backend of a name; a function is one itself."""
    if not isinstance(compiler_fn, str):
        return compiler_fn
    if compiler_fn not in _BACKENDS:
        _lazy_import()
    if compiler_fn not in _BACKENDS:
        from tritorch.compat.torch_private._dynamo.exc import InvalidBackend

        raise InvalidBackend(compiler_fn)
    if compiler_fn not in _COMPILER_FNS:
        entry_point = _BACKENDS[compiler_fn]
        assert entry_point is not None
        register_backend(entry_point.load(), name=compiler_fn)
    return _COMPILER_FNS[compiler_fn]


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that `torch.compile(backend=...)` takes, without those that have such a tag."""
    _lazy_import()
    excluded = set(exclude_tags or ())
    return sorted(
        name
        for name in _BACKENDS
        if name not in _COMPILER_FNS
        or not excluded.intersection(getattr(_COMPILER_FNS[name], "_tags", ()))
    )


@functools.cache
def _lazy_import() -> None:
    for module in _OWN:
        importlib.import_module(f"tritorch._dynamo.backends.{module}")
    _discover_entrypoint_backends()


@functools.cache
def _discover_entrypoint_backends() -> None:
    for entry_point in entry_points(group="torch_dynamo_backends"):
        _BACKENDS[entry_point.name] = entry_point


def _is_registered_backend(compiler_fn: Any) -> bool:
    _lazy_import()
    name = getattr(compiler_fn, "compiler_name", None)
    return compiler_fn in _COMPILER_FNS.values() or name in _BACKENDS


def set_default_backend(backend: Any) -> None:
    """Names the backend that `compile` uses where it is given none; None: "inductor"."""
    global _default_backend
    if backend is not None and not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"backend must be a string or callable, got {type(backend)}")
    _default_backend = "inductor" if backend is None else backend


def get_default_backend() -> Any:
    """The backend that `compile` uses where it is given none."""
    return _default_backend
