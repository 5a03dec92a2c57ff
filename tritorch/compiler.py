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
    "disable", "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting",
    "keep_portable_guards_unsafe", "keep_tensor_guards_unsafe", "list_backends",
    "load_cache_artifacts", "nested_compile_region", "reset", "save_cache_artifacts",
    "set_default_backend", "set_enable_guard_collectives", "set_stance", "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe", "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe", "substitute_in_graph", "wrap_numpy",
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


def _disable_dynamo(fn: Any = None, recursive: bool = True) -> Any:
    """The function: it is not compiled."""
    return fn if fn is not None else lambda function: function


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


_default_backend: Any = "inductor"


def get_default_backend() -> Any:
    """What `set_default_backend` was given; none compiles."""
    return _default_backend


def set_default_backend(backend: Any) -> None:
    """Names the backend that `compile` would use; None: "inductor"."""
    global _default_backend
    if backend is not None and not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"backend must be a string or callable, got {type(backend)}")
    _default_backend = "inductor" if backend is None else backend


def skip_all_guards_unsafe(guard_entries: Any) -> list[bool]:
    """A filter of guards that keeps none; there are none to keep."""
    return [False for _ in guard_entries]


def _kept(guard_entries: Any) -> list[bool]:
    """A filter of guards, of which there are none."""
    return [True for _ in guard_entries]


skip_guard_on_inbuilt_nn_modules_unsafe = skip_guard_on_all_nn_modules_unsafe = _kept
skip_guard_on_globals_unsafe = keep_tensor_guards_unsafe = keep_portable_guards_unsafe = _kept


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Whether processes would agree on what is compiled; returns what was set before."""
    global _guard_collectives
    before, _guard_collectives = _guard_collectives, bool(enabled)
    return before


_guard_collectives = False


def substitute_in_graph(
    original_fn: Callable[..., Any], *, can_constant_fold_through: bool = False,
    skip_signature_check: bool = False, is_embedded_type: bool = False,
) -> Callable[[Function], Function]:  # fmt: skip
    """A decorator of what a compiler would trace in place of a function: it changes nothing."""
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)}")
    return lambda traceable_fn: traceable_fn


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
