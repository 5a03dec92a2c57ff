"""Operators that programs define, and kernels that they replace (torch.library).

    @torch.library.custom_op("mylib::scale", mutates_args=())
    def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor

    torch.library.impl("aten::gelu", "cuda", my_gelu)        # a built-in kernel, replaced

docs/custom_operators.md shows all of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from tritorch.amp import policies
from tritorch.compat.native.dispatch_keys import DispatchKey
from tritorch.compat.torch_private._library import custom_ops, operators
from tritorch.compat.torch_private._library.custom_ops import CustomOpDef, custom_op
from tritorch.compat.torch_private._library.fake_impl import get_ctx
from tritorch.compat.torch_private._library.infer_schema import infer_schema
from tritorch.compat.torch_private._library.opcheck import opcheck
from tritorch.compat.torch_private._library.triton import triton_op, wrap_triton
from tritorch.compat.torch_private._library.utils import program_source
from tritorch.core.deprecation import deprecated
from tritorch.core.device import device as Device
from tritorch.core.scopes import Giving, Scope, scoped, set_back
from tritorch.ops.record.operator import OPERATORS
from tritorch.ops.record.overloads import OpOverload, computed_by, overload_of
from tritorch.ops.record.replacing import replace
from tritorch.schema import table
from tritorch.schema.tags import Tag

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

_RESERVED = ("prim",)
_namespaces: set[str] = set()  # that a DEF library holds
_impls: set[str] = set()  # "namespace/name.overload/key" of all kernels that are registered
_defs: set[str] = set()  # the names of all operators that are defined


def fallthrough_kernel(*args: Any, **kwargs: Any) -> Any:
    """Stands for "no kernel here"; it is never called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """A set of definitions and kernels that is taken back as a whole.

    kind: "DEF" for a new namespace, "FRAGMENT" for more of one, "IMPL" for kernels alone."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError("Unsupported kind: ", kind)
        if ns in _RESERVED and kind in ("DEF", "FRAGMENT"):
            raise ValueError(
                ns, " is a reserved namespace. Please try creating a library with another name."
            )
        if kind == "DEF":
            if ns in _namespaces or ns == "aten":
                raise RuntimeError(
                    f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; "
                    "please put all of your definitions in a single TORCH_LIBRARY block. If you "
                    "were trying to specify implementations, consider using TORCH_LIBRARY_IMPL "
                    "(which can be duplicated)."
                )
            _namespaces.add(ns)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._undo: list[Callable[[], None]] = []
        self._op_defs: set[str] = set()
        self._op_impls: set[str] = set()
        if kind == "DEF":
            self._undo.append(lambda: _namespaces.discard(ns))
        self._finalizer = weakref.finalize(
            self, _del_library, _impls, self._op_impls, _defs, self._op_defs, self._undo
        )

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(
        self, schema: str, alias_analysis: str = "", *, tags: Tag | Sequence[Tag] = ()
    ) -> str:
        """Defines an operator by its schema; gives its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        if self.kind == "IMPL":
            raise RuntimeError(
                "define() cannot be called on a library of kind IMPL: use DEF or FRAGMENT"
            )
        given = (tags,) if isinstance(tags, Tag) else tuple(tags)
        definition = operators.define(self.ns, schema, given)
        self._undo.append(lambda: operators.forget(definition))
        self._op_defs.add(definition.schema.name)
        _defs.add(definition.schema.name)
        overload = definition.schema.overload_name
        name = definition.schema.name.partition("::")[2]
        return f"{name}.{overload}" if overload else name

    def impl(
        self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *,
        with_keyset: bool = False, allow_override: bool = False,
    ) -> None:  # fmt: skip
        """Registers what computes an operator for a dispatch key ("CPU", "CUDA", "Meta", ...).

        Of an operator of the namespace "aten" it replaces the built-in kernel."""
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        key = dispatch_key or self.dispatch_key or operators.COMPOSED
        if self.dispatch_key and key != self.dispatch_key:
            raise RuntimeError(
                f"Explicitly provided dispatch key ({key}) is inconsistent with the dispatch key "
                f"of the enclosing TORCH_LIBRARY_IMPL block ({self.dispatch_key})."
            )
        name = self._name_of(op_name)
        registered = f"{name.replace('::', '/')}/{key}"
        if not allow_override and registered in _impls:
            raise RuntimeError(
                "This is not allowed since there's already a kernel registered from python "
                f"overriding {name.partition('::')[2]}'s behavior for {key} dispatch key and "
                f"{self.ns} namespace."
            )
        if fn is fallthrough_kernel:
            found = operators.find(name)
            if found is not None:
                found.passed_over.add(key)
            elif key in ("AutocastCPU", "AutocastCUDA"):
                stem = name.removeprefix("aten::").partition(".")[0]
                self._undo.append(policies.without(stem, key.removeprefix("Autocast").lower()))
            return
        kernel = (lambda *args, **kwargs: fn(None, *args, **kwargs)) if with_keyset else fn
        definition = operators.find(name)
        if definition is None:
            self._undo.append(_replaced(name, key, kernel))
        else:
            _registered(definition.kernels, key, kernel, self._undo)
        self._op_impls.add(registered)
        _impls.add(registered)

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", *,
                 with_keyset: bool = False) -> None:  # fmt: skip
        """Refused: there is no dispatcher whose keys another function could stand for."""
        raise NotImplementedError("Library.fallback() has no meaning without a C++ dispatcher")

    def _name_of(self, op: Any) -> str:
        if isinstance(op, OpOverload):
            return op._name
        if not isinstance(op, str):
            raise RuntimeError(
                "impl should be passed either a name or an OpOverload object as the first argument"
            )
        name = op if "::" in op else f"{self.ns}::{op}"
        if name.partition("::")[0] != self.ns:
            raise ValueError(
                f"impl(...): op '{op}' is not in the namespace '{self.ns}' of this library"
            )
        return name

    def _register_fake(self, op_name: str, fn: Callable[..., Any], _stacklevel: int = 1, *,
                       allow_override: bool = True) -> None:  # fmt: skip
        definition = _definition(op_name if "::" in op_name else f"{self.ns}::{op_name}")
        if not allow_override:
            _require_no_fake(definition)
        before = definition.fake, definition.fake_source
        definition.fake, definition.fake_source = fn, program_source()

        def undo() -> None:
            definition.fake, definition.fake_source = before

        self._undo.append(undo)

    def _register_torch_dispatch_rule(self, op_name: str, torch_dispatch_class: type,
                                      fn: Callable[..., Any]) -> None:  # fmt: skip
        definition = _definition(f"{self.ns}::{op_name}")
        _registered(definition.by_class, torch_dispatch_class, fn, self._undo)

    def _destroy(self) -> None:
        self._finalizer()


def _require_no_fake(definition: operators.Definition) -> None:
    """Refuses a second thing that says what an operator's results look like."""
    name = definition.operator._name
    if definition.fake is not None:
        raise RuntimeError(
            f"register_fake(...): the operator {name} already has a fake impl registered at "
            f"{definition.fake_source}."
        )
    if "Meta" in definition.kernels:
        raise RuntimeError(
            f"register_fake(...): the operator {name} already has a DispatchKey::Meta "
            "implementation via a pre-existing torch.library or TORCH_LIBRARY registration. Please "
            "either remove that registration or don't call register_fake."
        )
    if operators.COMPOSED in definition.kernels:
        raise RuntimeError(
            f"register_fake(...): the operator {name} already has an implementation for this "
            "device type via a pre-existing registration to DispatchKey::CompositeImplicitAutograd."
            "CompositeImplicitAutograd operators do not need a fake impl; instead, the operator "
            "will decompose into its constituents and those can have fake impls defined on them."
        )


def _registered(table_of: dict[Any, Any], key: Any, value: Any, undo: list[Any]) -> None:
    before = table_of.get(key)
    table_of[key] = value
    if before is None:
        undo.append(lambda: table_of.pop(key, None))
    else:
        undo.append(lambda: table_of.__setitem__(key, before))


def _del_library(
    captured_impls: set[str], op_impls: set[str], captured_defs: set[str], op_defs: set[str],
    steps: list[Callable[[], None]],
) -> None:  # fmt: skip
    """Takes back what a library registered."""
    captured_impls -= op_impls
    captured_defs -= op_defs
    while steps:
        steps.pop()()


@scoped
def _scoped_library(*args: Any, **kwargs: Any) -> Scope:
    """A library for the time of a block."""
    library = Library(*args, **kwargs)
    return Giving(library, set_back(library._destroy))


def _replaced(name: str, key: str, kernel: Callable[..., Any]) -> Callable[[], None]:
    """Puts a function in place of a built-in kernel; gives what undoes it."""
    space, _, rest = name.partition("::")
    stem, _, overload = rest.partition(".")
    if space != "aten" or not table.overloads(stem):
        raise RuntimeError(f"operator {name} does not exist")
    backends = {"CPU": "cpu", "CUDA": "gpu"}
    records = [
        op
        for op in list(OPERATORS.values())
        if any(n == f"aten::{stem}" and overload in ("", o) for n, o in computed_by(op))
        and getattr(op, backends.get(key, ""), None) is not None
    ]
    if not records:
        raise NotImplementedError(
            f"no kernel of {name} can be replaced for {key}: "
            + ("kernels are of CPU or CUDA" if records else "it is composed of other operators")
        )
    steps = [replace(op, backends[key], kernel) for op in records]

    def undo() -> None:
        for step in steps:
            step()

    return undo


def _definition(op: Any) -> operators.Definition:
    if isinstance(op, OpOverload):
        op = op._name
    elif isinstance(op, CustomOpDef):
        op = op._qualname
    elif not isinstance(op, str):
        raise ValueError(f"register: got unexpected type for op: {type(op)}")
    if "::" not in op:
        raise ValueError(
            f"Expected `qualname` to be of the form `namespace::name` and got {op} instead"
        )
    found = operators.find(op)
    if found is None:
        raise RuntimeError(f"operator {op} does not exist")
    return found


_kept: list[Library] = []  # what is defined without a library stays for the whole program


def _library_for(op: str, lib: Library | None) -> Library:
    if lib is not None:
        return lib
    made = Library(op.partition("::")[0], "FRAGMENT")
    _kept.append(made)
    return made


def define(qualname: Any, schema: Any = None, alias_analysis: str = "", *,
           lib: Library | None = None, tags: Tag | Sequence[Tag] = ()) -> Any:  # fmt: skip
    """Defines "namespace::name" by a schema of its arguments, "(Tensor x) -> Tensor"; or, as a
    decorator `define(lib, schema)`, with its kernel."""
    if isinstance(qualname, Library):
        name = qualname.define(schema, alias_analysis, tags=tags)

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            qualname.impl(name, function)
            return function

        return decorate
    if not isinstance(qualname, str):
        raise ValueError(
            f"define(qualname, schema): expected qualname to be instance of str, got "
            f"{type(qualname)}"
        )
    _, found, name = qualname.partition("::")
    if not found:
        raise ValueError(
            f"Expected `qualname` to be of the form `namespace::name` and got {qualname} instead"
        )
    if not schema.lstrip().startswith("("):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> '
            f'Tensor" but got "{schema}"'
        )
    _library_for(qualname, lib).define(name + schema, tags=tags)
    return None


_DEVICES = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "default": "CompositeExplicitAutograd"}


def _key(device_type: str | None) -> str:
    if device_type is None:
        return "CompositeExplicitAutograd"
    if device_type in DispatchKey.__members__:
        return device_type
    return _DEVICES.get(device_type) or _DEVICES.get(Device(device_type).type, device_type)


def impl(qualname: Any, types: Any, func: Callable[..., Any] | None = None, *,
         lib: Library | None = None) -> Any:  # fmt: skip
    """Registers what computes an operator for kinds of devices; of a built-in operator
    ("aten::gelu"), in place of its kernel."""
    if isinstance(qualname, Library):  # impl(lib, name, dispatch_key)
        library, name, key = qualname, types, func or ""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            library.impl(name, function, key)  # type: ignore[arg-type]
            return function

        return decorate

    keys = dict.fromkeys(map(_key, (types,) if isinstance(types, str) else types))

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = qualname._name if isinstance(qualname, OpOverload) else qualname
        library = _library_for(name, lib)
        for key in keys:
            library.impl(name, function, key)
        return function

    if func is None:
        return register
    register(func)
    return None


class SafeKernelFunction:
    """What computes an operator for a dispatch key, as it is registered now."""

    def __init__(self, kernel: Callable[..., Any], op: OpOverload) -> None:
        self._kernel, self.op_handle = kernel, op

    def call_boxed(self, keyset: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Its result; keyset: of dispatch keys, without meaning here."""
        return self._kernel(*args, **kwargs)

    __call__ = call_boxed


def get_kernel(op: Any, dispatch_key: Any) -> SafeKernelFunction:
    """What computes an operator for a dispatch key; RuntimeError without."""
    name = op._name if isinstance(op, OpOverload) else getattr(op, "_qualname", op)
    if not isinstance(name, str):
        raise ValueError(f"get_kernel({op}): got unexpected type for op: {type(op)}")
    key = str(getattr(dispatch_key, "name", dispatch_key))
    definition = operators.find(name)
    if definition is not None:
        found = definition.kernels.get(key) or next(
            (definition.kernels[k] for k in operators.EVERYWHERE if k in definition.kernels), None
        )
        if found is not None:
            return SafeKernelFunction(found, definition.operator)
    stem, _, overload = name.removeprefix("aten::").partition(".")
    if name.startswith("aten::") and overload in table.overloads(stem):
        if key in (*operators.BACKENDS, *operators.EVERYWHERE, operators.COMPOSED):
            found_op = overload_of(table.find(stem, overload))
            return SafeKernelFunction(found_op._op, found_op)
    raise RuntimeError(f"get_kernel: {name} has no kernel for {key}")


def register_kernel(op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *,
                    lib: Library | None = None) -> Any:  # fmt: skip
    """Registers what computes an operator for kinds of devices, None for all."""
    name = op._name if isinstance(op, OpOverload) else op
    made = op if isinstance(op, CustomOpDef) else custom_ops.OPDEFS.get(name)
    if made is not None:
        return made.register_kernel(device_types, func)
    kinds = "default" if device_types is None else device_types
    return impl(op, kinds, func, lib=lib)


@deprecated(
    "`torch.library.impl_abstract` was renamed to `torch.library.register_fake`. Please use that "
    "instead; we will remove `torch.library.impl_abstract` in a future version of PyTorch."
)
def impl_abstract(qualname: Any, func: Callable[..., Any] | None = None, *,
                  lib: Library | None = None, _stacklevel: int = 1) -> Any:  # fmt: skip
    """`register_fake` (former name)."""
    return register_fake(qualname, func, lib=lib)


def register_fake(op: Any, func: Callable[..., Any] | None = None, /, *,
                  lib: Library | None = None, _stacklevel: int = 1,
                  allow_override: bool = False) -> Any:  # fmt: skip
    """Registers what the results of an operator look like, for tensors without data."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        definition = _definition(op)
        _library_for(definition.schema.name, lib)._register_fake(
            definition.operator._name, function, allow_override=allow_override
        )
        return function

    return register if func is None else register(func)


def register_autograd(op: Any, backward: Callable[..., Any], /, *,
                      setup_context: Callable[..., Any] | None = None,
                      lib: Library | None = None) -> None:  # fmt: skip
    """Registers an operator's gradient: `backward(ctx, *grads)`, and what it needs of the call."""
    definition = _definition(op)
    if definition.schema.is_mutable:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {definition.operator} "
            f"with schema {definition.schema}. Please create a functional operator and register an "
            "autograd formula for that."
        )
    custom_ops.require_keyword_only(definition, setup_context)
    definition.backward, definition.setup_context = backward, setup_context


def register_torch_dispatch(op: Any, torch_dispatch_class: Any,
                            func: Callable[..., Any] | None = None, /, *,
                            lib: Library | None = None) -> Any:  # fmt: skip
    """Registers what a class's, or a mode's, `__torch_dispatch__` does for an operator."""
    definition = _definition(op)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        definition.by_class[torch_dispatch_class] = function
        return function

    return register if func is None else register(func)


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *,
                  lib: Library | None = None) -> Any:  # fmt: skip
    """Registers an operator's rule under vmap: `func(info, in_dims, *args)` gives the results and
    their batch dims."""
    definition = _definition(op)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        definition.vmap = function
        return function

    return register if func is None else register(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *,
                      lib: Library | None = None) -> None:  # fmt: skip
    """Registers the dtype to which autocast takes an operator's inputs."""
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device type: {device_type}")
    _definition(op).autocast[device_type] = cast_inputs
