"""torch.compiler: functions whose calls are followed, and what programs say about that.

Kernels that this process launched are its cache artifacts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from tritorch.core.scopes import ScopeWhenMade

Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = [
    "CacheInfo", "allow_in_graph", "assume_constant_result", "bisect", "compile",
    "cudagraph_mark_step_begin", "disable", "get_default_backend", "is_compiling",
    "is_dynamo_compiling", "is_exporting",
    "keep_portable_guards_unsafe", "keep_tensor_guards_unsafe", "list_backends",
    "load_cache_artifacts", "nested_compile_region", "reset", "save_cache_artifacts",
    "set_default_backend", "set_enable_guard_collectives", "set_stance", "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe", "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe", "substitute_in_graph", "wrap_numpy",
]  # fmt: skip


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
    dynamic_shapes: Any = None,
) -> Any:
    """A function, a module or a class whose calls are followed; also as a decorator with arguments.

    The first run of a way through the function is plain and recorded; where a later one makes the
    same calls, they are computed together, at its end or where the program wants a value.  What
    lies between is a graph.  fullgraph: a graph that ends before the function does is an error.
    backend: "inductor" (the package's own), another of `list_backends`, or a function that gets a
    GraphModule and example inputs and gives a function.  mode, options: as PyTorch's, of the
    backend.  disable: the function stays as it is.  recompile_limit: how many ways are recorded.
    Each call of `compile` keeps its own recordings (isolate_recompiles), and finds sizes itself
    (shapes_spec, which PyTorch 2.14 calls dynamic_shapes)."""
    shapes_spec = dynamic_shapes if shapes_spec is None else shapes_spec
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if dynamic is not None and shapes_spec is not None:
        raise ValueError(
            "`dynamic` and `shapes_spec` cannot both be set. `shapes_spec` controls dynamic "
            "behavior."
        )
    if backend is None:
        backend = get_default_backend()
    chosen = dict(options or {})
    chosen.pop("guard_filter_fn", None)  # there are no guards
    _check_backend(backend, mode, chosen)
    from tritorch.compat.torch_private._dynamo.eval_frame import optimize

    decorate = optimize(
        backend, nopython=fullgraph, dynamic=dynamic, disable=disable, mode=mode, options=chosen,
        name=name, recompile_limit=recompile_limit, isolate_recompiles=isolate_recompiles,
    )  # fmt: skip
    return _decorator(decorate) if model is None else decorate(model)


def _decorator(decorate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decorated(model: Any) -> Any:
        if model is None:
            raise RuntimeError("Model can't be None")
        return decorate(model)

    return decorated


def _check_backend(backend: Any, mode: str | None, options: dict[str, Any]) -> None:
    """Raises what PyTorch does about a backend, a mode or an option that nobody knows."""
    if backend == "inductor":
        from tritorch.compat.torch_private import _inductor

        _inductor.check_options({**_inductor.list_mode_options(mode or "default"), **options})
    elif isinstance(backend, str):
        from tritorch.compat.torch_private._dynamo.backends.registry import lookup_backend

        lookup_backend(backend)


def is_compiling() -> bool:
    """Whether this thread is in a region that is followed.

    Python runs in it as it always does, so that nothing depends on the answer; but programs have a
    way without values for a compiler (masks that are not skipped when they are all ones, checks
    that are left out), and that is the way with the fewest graphs.  It is the same in the run that
    is recorded and in those that follow it.  In a `disable`d function the answer is False."""
    compiled = sys.modules.get("tritorch.compilation.follow.compiled")
    return is_exporting() or (compiled is not None and compiled.is_in_region())


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Whether this thread exports a program (`torch.export`)."""
    state = sys.modules.get("tritorch.export._state")
    return state is not None and state.is_exporting()


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that `compile` takes, without those of backends that have such a tag."""
    from tritorch.compat.torch_private._dynamo.backends import registry

    return registry.list_backends(exclude_tags)


def reset() -> None:
    """Forgets what was recorded of all compiled functions."""
    compiled = sys.modules.get("tritorch.compilation.follow.compiled")
    if compiled is not None:
        compiled.reset()


def cudagraph_mark_step_begin() -> None:
    """Says that results of earlier steps are not needed: they are never overwritten, so that
    nothing is to be done."""


def allow_in_graph(fn: Any) -> Any:
    """The function itself, or a list of functions: what it calls is part of graphs anyway."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(each) for each in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    return fn


def assume_constant_result(fn: Function) -> Function:
    """The function, marked: it runs at each call all the same, and is believed.

    In an export it runs once, on the values that the export was given."""

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        state = sys.modules.get("tritorch.export._state")
        if state is not None and state.is_exporting():
            return state.computed(fn, args, kwargs)
        return fn(*args, **kwargs)

    called._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return called  # type: ignore[return-value]


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function, or a module, that is not followed where a region calls it; also with arguments.

    What is pending is computed before it runs.  recursive=False: the function itself, since what
    it calls may be followed."""
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)

    from tritorch.compat.torch_private._dynamo.eval_frame import DisableContext, innermost_fn

    if recursive:
        return DisableContext(msg=reason)(fn)
    fn = innermost_fn(fn)
    fn._torchdynamo_disable, fn._torchdynamo_disable_msg = True, reason
    fn._torchdynamo_disable_recursive = False
    return fn


def bisect(
    fn: Callable[..., Any], /, *args: Any, backend: Any = None, mode: str | None = None,
    options: dict[str, Any] | None = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """The first operator whose compiled result differs from the plain one beyond rounding, or None.

    It runs the function, or module, once with these arguments, and parts of its graphs several
    times.  What it gives says which call it is, where the program makes it, and by how much it
    differs.  backend, mode, options: as `compile`'s."""
    from tritorch.compat.torch_private._dynamo.eval_frame import OptimizeContext, innermost_fn
    from tritorch.compilation.tools.bisect import first_difference

    context = OptimizeContext(backend or get_default_backend(), mode=mode, options=options or {})
    inner = innermost_fn(getattr(fn, "_orig_mod", fn))
    return first_difference(inner, args, kwargs, context.as_options())


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

    from tritorch.triton import cache

    packed, places = io.BytesIO(), sorted(cache.used)
    if not places or cache.pack(packed, places) == 0:
        return None
    return packed.getvalue(), CacheInfo({"precompile": places})


def load_cache_artifacts(serialized_artifacts: bytes) -> CacheInfo | None:
    """Keeps the kernels that `save_cache_artifacts` gave; None if they are none."""
    import io

    from tritorch.triton import cache

    try:
        kept, _ = cache.unpack(io.BytesIO(serialized_artifacts))
    except ValueError:
        return None
    return CacheInfo({"precompile": kept})


class set_stance(ScopeWhenMade, contextlib.ContextDecorator):
    """How compiled functions run, from now on; as a context or a decorator, for a while.

    "default" follows, "force_eager" does not, "eager_on_recompile" follows what is recorded and
    records nothing more, "fail_on_recompile" raises where that would be needed.  The first run is
    eager by nature, so that "eager_then_compile" and "aot_eager_then_compile" are as the default.
    force_backend: a backend for all compiled functions."""

    def changes(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ) -> Any:  # fmt: skip
        from tritorch.compilation.follow import stances

        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        self.stance = stances.DynamoStance(stance, skip_guard_eval_unsafe, force_backend)
        return stances.taken(self.stance)

    def decorate(self, func: Any) -> Any:
        """The function, in this stance."""
        return contextlib.ContextDecorator.__call__(self, func)


def get_default_backend() -> Any:
    """The backend that `compile` uses where it is given none."""
    registry = sys.modules.get("tritorch._dynamo.backends.registry")
    return "inductor" if registry is None else registry.get_default_backend()


def set_default_backend(backend: Any) -> None:
    """Names the backend that `compile` uses where it is given none; None: "inductor"."""
    from tritorch.compat.torch_private._dynamo.backends import registry

    registry.set_default_backend(backend)


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

    from tritorch.core.tensor import Tensor
    from tritorch.ops.shape.factory import from_numpy
    from tritorch.trees.walk import tree_map

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        give = lambda x: x.numpy() if isinstance(x, Tensor) else x
        take = lambda x: from_numpy(x) if isinstance(x, np.ndarray) else x
        args, kwargs = tree_map(give, args), tree_map(give, kwargs)
        return tree_map(take, fn(*args, **kwargs))

    return wrapped
