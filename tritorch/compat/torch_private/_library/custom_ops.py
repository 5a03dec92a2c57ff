"""`custom_op`: an operator from an annotated function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tritorch.compat.torch_private._library import operators
from tritorch.compat.torch_private._library.infer_schema import infer_schema
from tritorch.compat.torch_private._library.utils import has_kwarg_only_tensors, program_source
from tritorch.core.scopes import Scope, scoped
from tritorch.ops.record.overloads import OpOverload
from tritorch.schema.parser import parse_schema
from tritorch.schema.tags import Tag

OPDEFS: dict[str, CustomOpDef] = {}


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Sequence[Tag] | Tag | None = None,
) -> Any:
    """Makes a function an operator: "namespace::name".

    mutates_args: the names of the arguments that it writes.  device_types: where it computes,
    None for everywhere.  schema: where annotations do not say it."""

    def made(function: Callable[..., Any]) -> CustomOpDef:
        text = schema or infer_schema(function, mutates_args=mutates_args, tags=tags)
        namespace, found, opname = name.partition("::")
        if not found:
            raise ValueError(
                f"Expected `qualname` to be of the form `namespace::name` and got {name} instead"
            )
        given = () if tags is None else (tags,) if isinstance(tags, Tag) else tuple(tags)
        if schema is not None:
            _require_mutated(text, name, mutates_args)
        op = CustomOpDef(namespace, opname, text, function, given)
        op.register_kernel(device_types)(function)
        return op

    return made if fn is None else made(fn)


def _require_mutated(text: str, name: str, mutates_args: str | Iterable[str]) -> None:
    written = {a.name for a in parse_schema(f"{name}{text}").arguments if a.is_write}
    expected = set() if isinstance(mutates_args, str) else set(mutates_args)
    if not isinstance(mutates_args, str) and written != expected:
        raise ValueError(
            f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema="
            f"{text}. The schema suggests that the op mutates {written}which is different from "
            "what was provided to us in `mutates_args`. Please make these consistent."
        )


class CustomOpDef:
    """An operator that `custom_op` made; calling it is calling the operator."""

    def __init__(
        self, namespace: str, name: str, schema: str, fn: Callable[..., Any],
        tags: Sequence[Tag] = (),
    ) -> None:  # fmt: skip
        self._namespace, self._name, self._schema = namespace, name, schema
        self._init_fn, self._tags = fn, tuple(tags)
        self.__doc__, self.__name__ = fn.__doc__, name
        self._disabled_kernel: set[str] = set()
        if Tag.out not in self._tags and has_kwarg_only_tensors(parse_schema(name + schema)):
            raise NotImplementedError(
                "custom_op with kwarg-only Tensor args. Please make your tensors not kwarg-only. "
                f"Got: {name}{schema}"
            )
        old = OPDEFS.pop(self._qualname, None)
        if old is not None:
            operators.forget(old._definition)
        self._definition: operators.Definition = operators.define(
            namespace, name + schema, self._tags
        )
        self._definition.checks_aliases = True
        self._definition.refuse = self._refuse
        OPDEFS[self._qualname] = self

    def _refuse(self, key: str) -> None:
        """Says what to register for tensors without data."""
        if key == "Meta":
            raise RuntimeError(
                f"There was no fake impl registered for {self}. This is necessary for "
                f"torch.compile/export/fx tracing to work. Please use "
                f"`{self._init_fn.__name__}.register_fake` to add an fake impl."
            )

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    @property
    def _opoverload(self) -> OpOverload:
        return self._definition.operator

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    @scoped
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Scope:
        """Inside, what was registered for a kind of device computes, or the first function."""
        others = self._disabled_kernel - {device_type}
        disabled = others if enabled else others | {device_type}
        return Scope((self, "_disabled_kernel", disabled))

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        """Registers what computes it on kinds of devices; None: on all."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            kinds = [device_types] if isinstance(device_types, str) else device_types
            for kind in [None] if kinds is None else list(kinds):
                key = {"cpu": "CPU", "cuda": "CUDA", None: "CompositeExplicitAutograd"}.get(kind)
                if key is None:
                    raise ValueError(f"Unknown device type: {kind}")

                def kernel(*args: Any, kind: Any = kind, **kwargs: Any) -> Any:
                    off = kind is not None and kind in self._disabled_kernel
                    return (self._init_fn if off else function)(*args, **kwargs)

                self._definition.kernels[key] = kernel
            return function

        if device_types is not None and not isinstance(device_types, str):
            device_types = list(device_types)
        return register if fn is None else register(fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Registers what its results look like, for tensors without data."""
        self._definition.fake, self._definition.fake_source = fn, program_source()
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Registers its gradient."""
        schema = self._definition.schema
        if schema.is_mutable:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema "
                f"{schema}. Please create a functional operator and register an autograd formula "
                "for that."
            )
        require_keyword_only(self._definition, setup_context)
        self._definition.backward = backward
        self._definition.setup_context = setup_context

    def register_torch_dispatch(
        self, torch_dispatch_class: Any, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        """Registers what a class's, or a mode's, `__torch_dispatch__` does for it."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._definition.by_class[torch_dispatch_class] = function
            return function

        return register if fn is None else register(fn)

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Registers its rule under vmap."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._definition.vmap = function
            return function

        return register if func is None else register(func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Registers the dtype to which autocast takes its inputs."""
        if device_type not in ("cpu", "cuda"):
            raise ValueError(f"Unknown device type: {device_type}")
        self._definition.autocast[device_type] = cast_inputs


def require_keyword_only(definition: operators.Definition, setup_context: Any) -> None:
    """Refuses tensors among keyword-only arguments, which gradients do not reach."""
    from tritorch.ops.record.schema import is_tensor

    names = [a.name for a in definition.schema.arguments if a.kwarg_only and is_tensor(a)]
    if names:
        raise NotImplementedError(
            f"register_autograd with kwarg-only Tensor args. In the original definition of the op, "
            f"please make your tensors not kwarg-only. Got: {definition.schema}"
        )
    if setup_context is not None:
        inspect.signature(setup_context)
