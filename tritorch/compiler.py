"""torch.compiler, until there is a compiler: nothing is compiled, and that is what it says.

Kernels are, and those that this process launched are its cache artifacts.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = [
    "CacheInfo", "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin",
    "disable", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends",
    "load_cache_artifacts", "nested_compile_region", "reset", "save_cache_artifacts", "set_stance",
    "wrap_numpy",
]  # fmt: skip


_MODES = "default lite reduce-overhead max-autotune-no-cudagraphs max-autotune"


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """torch.compile, until there is a compiler: the function itself, a module in an
    `OptimizedModule`, which runs it; also as a decorator with arguments."""
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in _MODES.split():
        raise RuntimeError(
            f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES.split())}"
        )

    _check_backend(backend, options or {})

    def run(model: Any) -> Any:
        from tritorch._dynamo import OptimizedModule
        from tritorch.nn.modules.module import Module

        if not callable(model):
            raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
        wraps = isinstance(model, Module) and not isinstance(model, OptimizedModule)
        return OptimizedModule(model) if wraps and not disable else model

    return run if model is None else run(model)


# Programs name these, and run as they are; what a program registers itself is a function.
_BACKENDS = ("cudagraphs", "eager", "aot_eager", "inductor", "openxla", "tvm")
_PUBLIC_BACKENDS = ("cudagraphs", "inductor", "openxla", "tvm")


def _check_backend(backend: Any, options: dict[str, Any]) -> None:
    """Raises what PyTorch does about a backend, or an option of inductor's, that nobody knows."""
    from tritorch import _names
    from tritorch._dynamo.exc import InvalidBackend

    if isinstance(backend, str) and backend not in _BACKENDS:
        raise InvalidBackend(backend)
    for name in options if backend in (None, "inductor") else ():
        first = name.replace("-", "_").partition(".")[0]
        if not _names.has_name("_inductor.config", first):
            raise RuntimeError(
                f"Unexpected optimization option {name}, known options are those of "
                "torch._inductor.config"
            )


def is_compiling() -> bool:
    """False: nothing is."""
    return False


def is_dynamo_compiling() -> bool:
    """False: nothing is."""
    return False


def is_exporting() -> bool:
    """False: nothing is."""
    return False


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that `compile` takes: programs run as they are with any of them."""
    return list(_BACKENDS if exclude_tags is None else _PUBLIC_BACKENDS)


def reset() -> None:
    """Nothing is kept."""


def cudagraph_mark_step_begin() -> None:
    """No graph is recorded behind the program's back."""


def allow_in_graph(fn: Function) -> Function:
    """The function itself."""
    return fn


assume_constant_result = allow_in_graph


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself, which runs as it is anyway; also with arguments."""
    return allow_in_graph if fn is None else fn


def nested_compile_region(fn: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The function itself; also with arguments."""
    return allow_in_graph if fn is None else fn


@dataclasses.dataclass
class CacheInfo:
    """What artifacts hold, by kind: here compiled kernels, by generation and key."""

    artifacts: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    @property
    def precompile_artifacts(self) -> list[str]:
        """Compiled kernels."""
        return self.artifacts.get("precompile", [])

    def empty(self) -> bool:
        """Whether there are none."""
        return not self.precompile_artifacts


def save_cache_artifacts() -> tuple[bytes, CacheInfo] | None:
    """The compiled kernels that this process has used, for `load_cache_artifacts` elsewhere.

    None if it used none that are kept.  `python -m tritorch precompile --pack` writes the same.
    """
    import io

    from tritorch._triton import cache

    packed, places = io.BytesIO(), sorted(cache.used)
    if not places or cache.pack(packed, places) == 0:
        return None
    return packed.getvalue(), CacheInfo({"precompile": places})


def load_cache_artifacts(serialized_artifacts: bytes) -> CacheInfo | None:
    """Keeps the kernels that `save_cache_artifacts` gave; None if they are none."""
    import io

    from tritorch._triton import cache

    try:
        kept, _ = cache.unpack(io.BytesIO(serialized_artifacts))
    except ValueError:
        return None
    return CacheInfo({"precompile": kept})


class set_stance(contextlib.ContextDecorator):
    """How compiled functions run; as a call, a context or a decorator, it changes nothing."""

    def __init__(self, stance: str = "default", **options: Any) -> None:
        known = "default eager_then_compile aot_eager_then_compile force_eager eager_on_recompile"
        if stance not in [*known.split(), "fail_on_recompile"]:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}")
        self.stance = stance

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        pass


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of ndarrays as one of tensors."""
    import functools

    import numpy as np

    from tritorch._trees.walk import tree_map
    from tritorch.core.tensor import Tensor
    from tritorch.ops.factory import from_numpy

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        give = lambda x: x.numpy() if isinstance(x, Tensor) else x
        take = lambda x: from_numpy(x) if isinstance(x, np.ndarray) else x
        args, kwargs = tree_map(give, args), tree_map(give, kwargs)
        return tree_map(take, fn(*args, **kwargs))

    return wrapped
