"""What torch.compile gives: modules and functions whose calls are followed."""

from __future__ import annotations

import dataclasses
import functools
import os
import warnings
from collections.abc import Callable, Sized
from typing import Any

from tritorch.compat.torch_private._dynamo import config
from tritorch.compat.torch_private._dynamo.backends.registry import lookup_backend
from tritorch.compilation.follow import compiled, stances
from tritorch.compilation.follow.regions import Options, following, paused
from tritorch.compilation.follow.stances import DynamoStance as DynamoStance
from tritorch.nn.modules import module as _modules
from tritorch.nn.modules.module import Module

Unset = object
_set_stance = stances.take


# ---- the functions inside ------------------------------------------------------------------------


def innermost_fn(fn: Any) -> Any:
    """The function that was compiled, or disabled, perhaps several times."""
    while getattr(fn, "_torchdynamo_wrapper_id", None) == id(fn):
        fn = fn._torchdynamo_orig_callable
        if not callable(fn):
            raise AssertionError(f"A callable function is expected, but {type(fn)} is provided.")
    return fn


def innermost_backend(fn: Any) -> Any:
    """The backend that others wrap."""
    while hasattr(fn, "_torchdynamo_orig_backend"):
        fn = fn._torchdynamo_orig_backend
    return fn


def _marked(wrapper: Any, fn: Any) -> Any:
    wrapper._torchdynamo_orig_callable = fn
    wrapper._torchdynamo_wrapper_id = id(wrapper)
    return wrapper


class _TorchDynamoContext:
    """A way to call functions and modules: what decorates them."""

    compiler_config: Any = None

    def _function(self, fn: Any, owner: Module | None = None) -> Any:
        raise NotImplementedError

    def _methods(self, kind: type) -> tuple[str, ...]:
        return ("__call__",)

    def __call__(self, fn: Any) -> Any:
        """What runs a function, a module, or the calls of a class's instances this way."""
        if isinstance(fn, OptimizedModule):
            return fn if fn.dynamo_ctx == self else OptimizedModule(fn._orig_mod, self)
        fn = innermost_fn(fn)
        if isinstance(fn, Module):
            made = OptimizedModule(fn, self)
            made._torchdynamo_orig_callable = fn.forward
            made._torchdynamo_wrapper_id = id(made)
            made.get_compiler_config = self._get_compiler_config
            return made
        if isinstance(fn, type):
            for name in self._methods(fn):
                setattr(fn, name, self(getattr(fn, name)))
            return fn
        if isinstance(fn, (staticmethod, classmethod)):
            return type(fn)(self(fn.__func__))
        if not callable(fn):
            raise AssertionError(f"A callable function is expected, but {type(fn)} is provided.")
        return self._function(fn)

    def _get_compiler_config(self) -> Any:
        return self.compiler_config


@dataclasses.dataclass
class OptimizeContext(_TorchDynamoContext):
    """Follows calls."""

    backend: Any = None
    fullgraph: bool = False
    dynamic: bool | None = None
    mode: str | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    name: str | None = None
    recompile_limit: int | None = None
    error_on_graph_break: bool | None = None
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def compiler_config(self) -> Any:
        """The settings of the package's own backend, with what mode and options change."""
        if self.backend not in (None, "inductor", "cudagraphs"):
            return None
        from tritorch.compat.torch_private import _inductor

        chosen = _inductor.list_mode_options(self.mode) if self.mode else {}
        with _inductor.config.patch({**chosen, **self.options}):
            return _inductor.config.get_config_copy()

    def as_options(self, owner: Module | None = None) -> Options:
        """What a follower is told."""
        return self._options(owner, self.backend)

    def _options(self, owner: Module | None, backend: Any) -> Options:
        mode = self.mode
        if backend == "cudagraphs":  # the package's own, launched as CUDA's graphs
            backend, mode = None, "reduce-overhead"
        from tritorch.compat.torch_private._inductor import (
            fusing,
            passes_off,
            settles_checks,
            wants_graphs,
        )
        from tritorch.compilation.plan.plans import Making

        maker = None
        if backend not in (None, "inductor"):
            from tritorch.compilation.tools.backends import Adapter

            kwargs = self.kwargs or _kwargs(self.mode, self.options)
            maker = Adapter(lookup_backend(backend), kwargs, owner)
        return Options(
            fullgraph=self.fullgraph, dynamic=self.dynamic, backend=maker, mode=mode,
            options=self.options, recompile_limit=self.recompile_limit, name=self.name,
            making=Making(
                maker is None and wants_graphs(mode, self.options), fusing(mode, self.options),
                passes_off(self.options),
            ),
            settle_checks=settles_checks(self.options),
        )  # fmt: skip

    def _function(self, fn: Any, owner: Module | None = None) -> Any:
        bound = getattr(fn, "__self__", None)
        if owner is None and isinstance(bound, Module):  # Module.compile, or a method
            owner = bound
        options = self.as_options(owner)
        with_backend = functools.partial(self._options, owner)
        errors = None if self.fullgraph else self.error_on_graph_break
        made: Any = compiled.compiled_function(fn, options, with_backend, errors)
        made._torchdynamo_inline = fn
        made.get_compiler_config = self._get_compiler_config
        return _marked(made, fn)


def _kwargs(mode: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """What a backend is told of mode and options: what is not the default."""
    told: dict[str, Any] = {}
    if mode and mode != "default":
        told["mode"] = mode
    if options:
        told["options"] = options
    return told


@dataclasses.dataclass
class DisableContext(_TorchDynamoContext):
    """Leaves the region that is followed, for the time of a call."""

    msg: str | None = None
    wrapping: bool = True

    def _methods(self, kind: type) -> tuple[str, ...]:
        return ("__init__", "__call__")

    def _function(self, fn: Any, owner: Module | None = None) -> Any:
        def disabled(*args: Any, **kwargs: Any) -> Any:
            if following() is None:
                return fn(*args, **kwargs)
            with paused():
                return fn(*args, **kwargs)

        made: Any = functools.wraps(fn)(disabled) if self.wrapping else disabled
        made._torchdynamo_disable = made._torchdynamo_disable_recursive = True
        made._torchdynamo_disable_msg = self.msg
        return _marked(made, fn)


@dataclasses.dataclass
class RunOnlyContext(DisableContext):
    """Runs functions without following them."""


class _NullDecorator(_TorchDynamoContext):
    """Leaves functions as they are: `compile(disable=True)`."""

    def __call__(self, fn: Any) -> Any:
        """The function."""
        if not callable(fn):
            raise AssertionError(f"A callable function is expected, but {type(fn)} is provided.")
        return fn


# ---- modules -------------------------------------------------------------------------------------


class OptimizedModule(Module):
    """What compile() makes of a module: its attributes, and its parameters below `_orig_mod`.

    Its hooks run outside of the region, those of the module inside."""

    _torchdynamo_orig_callable: Callable[..., Any]
    get_compiler_config: Callable[[], Any]
    dynamo_ctx: _TorchDynamoContext
    _opt_mod_attributes = frozenset(
        (
            "_orig_mod", "dynamo_ctx", "_torchdynamo_orig_callable", "_torchdynamo_wrapper_id",
            "get_compiler_config", "forward", "__dict__",
        )
    )  # fmt: skip

    def __init__(self, mod: Module, dynamo_ctx: _TorchDynamoContext | None = None) -> None:
        object.__setattr__(self, "_orig_mod", mod)  # which `training` asks for
        super().__init__()
        del self.__dict__["_orig_mod"]
        super().__setattr__("_orig_mod", mod)
        self.dynamo_ctx = OptimizeContext() if dynamo_ctx is None else dynamo_ctx
        self._initialize()

    def _initialize(self) -> None:
        context: Any = self.dynamo_ctx
        self.forward = context._function(self._orig_mod.__call__, self._orig_mod)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the module, followed."""
        if _modules._global.calls():
            warnings.warn(
                "Using `torch.compile(module)` when there are global hooks on modules (e.g., from "
                "`register_module_forward_hook`); this will cause the hooks to fire an extra time "
                "for the `OptimizedModule` created by `torch.compile(module)`. If this causes "
                "undesired behavior, please try using `module.compile()`, or use the per-module "
                "hooks instead",
                stacklevel=2,
            )
        return super().__call__(*args, **kwargs)

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        if "_modules" in self.__dict__:  # not in __init__
            self._orig_mod.training = value

    def __len__(self) -> int:
        if isinstance(self._orig_mod, Sized):
            return len(self._orig_mod)
        raise TypeError(f"{type(self._orig_mod).__name__} does not support len()")

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        original = self.__dict__["_modules"]["_orig_mod"]
        return original if name == "_orig_mod" else getattr(original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._opt_mod_attributes or hasattr(type(self), name) or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self._opt_mod_attributes or hasattr(type(self), name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __getstate__(self) -> dict[str, Any]:
        made = ("forward", "get_compiler_config", "_torchdynamo_orig_callable")
        return {key: value for key, value in self.__dict__.items() if key not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._initialize()

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


# ---- decorators ----------------------------------------------------------------------------------


def optimize(
    backend: Any = "inductor", *, nopython: bool = False, error_on_graph_break: bool | None = None,
    guard_export_fn: Any = None, guard_fail_fn: Any = None, guard_filter_fn: Any = None,
    disable: bool = False, dynamic: bool | None = None, recompile_limit: int | None = None,
    isolate_recompiles: bool = False, shapes_spec: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """A decorator that follows functions: what `compile` is made of.

    There are no guards, each function keeps what was recorded of it to itself, and sizes are found
    at each call: the options about those change nothing."""
    if disable or switched_off():
        return _NullDecorator()
    return OptimizeContext(
        backend, fullgraph=nopython, dynamic=dynamic, recompile_limit=recompile_limit,
        error_on_graph_break=error_on_graph_break, **options,
    )  # fmt: skip


def optimize_assert(backend: Any = "inductor", **options: Any) -> Any:
    """`optimize` of one graph only."""
    return optimize(backend, nopython=True, **options)


def switched_off() -> bool:
    """Whether the environment, or a setting, turns compilation off."""
    return os.environ.get("TORCHDYNAMO_DISABLE", "") == "1" or bool(config.disable)


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """`explain(f)(*args)` runs the function once and says which graphs there are, and why they end.

    See `tritorch.compilation.tools.explain`."""
    from tritorch.compilation.tools.explain import explain

    return explain(f, *extra_args, **extra_kwargs)
