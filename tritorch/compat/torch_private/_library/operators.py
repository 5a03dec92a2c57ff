"""Operators that programs define: what a call goes through, from autograd down to a kernel.

# Note [A custom operator's call]
Arguments are put into the order of the schema; then, in this order, each if it has a say:
autocast's dtype, a kernel for all devices that is made of other operators, autograd (the formula
that was registered, as one node), vmap (its rule, or one example after the other), dispatch modes
and classes, and what was registered for the kind of device of the tensors.  Tensors without memory
take the fake function.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.batched import BatchedArray
from tritorch.arrays.meta import MetaArray, mode_of
from tritorch.autograd.function import Function
from tritorch.compat.torch_private._library.fake_impl import FakeImplCtx, on_meta, set_ctx_getter
from tritorch.compat.torch_private._library.utils import (
    can_generate_trivial_fake_impl,
    generate_trivial_fake_impl,
)
from tritorch.core import dispatching
from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret import dispatch, vmap
from tritorch.ops.record.overloads import DEFINED, OpOverload, OpOverloadPacket, bind, namespace
from tritorch.ops.shape.joining import stack
from tritorch.schema.objects import converters, default_of
from tritorch.schema.parser import parse_schema
from tritorch.schema.signature import FunctionSchema
from tritorch.schema.tags import Tag

# Kinds of kernels, by the names of PyTorch's dispatch keys.
BACKENDS = {"CPU": "cpu", "CUDA": "cuda", "Meta": "meta"}
EVERYWHERE = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
COMPOSED = "CompositeImplicitAutograd"
AUTOGRAD = ("Autograd", "AutogradCPU", "AutogradCUDA")
FACTORY = "BackendSelect"  # what computes without tensors


class Definition:
    """One overload that a program defined, and what is registered for it."""

    def __init__(self, schema: FunctionSchema, tags: Sequence[Tag] = ()) -> None:
        self.schema, self.tags = schema, tuple(tags)
        self.converters = converters(schema)
        self.kernels: dict[str, Callable[..., Any]] = {}  # by dispatch key
        self.passed_over: set[str] = set()  # keys of which somebody said that nothing runs there
        self.fake: Callable[..., Any] | None = None
        self.fake_source = ""  # the line that registered it
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.vmap: Callable[..., Any] | None = None
        self.autocast: dict[str, Any] = {}  # the dtype, by kind of device
        self.by_class: dict[type, Callable[..., Any]] = {}  # `__torch_dispatch__` of modes, classes
        self.checks_aliases = False
        self.refuse: Callable[[str], Any] | None = None  # says that nothing computes for a key
        self._made: OpOverload | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What it is found by."""
        return self.schema.name, self.schema.overload_name

    def overload(self, packet: OpOverloadPacket) -> OpOverload:
        """The object that programs call."""
        if self._made is None:
            self._made = OpOverload(packet, self.schema, self, self.tags)
        return self._made

    @property
    def operator(self) -> OpOverload:
        """The same, found in torch.ops."""
        space, _, name = self.schema.name.partition("::")
        return getattr(getattr(namespace(space), name), self.schema.overload_name or "default")

    def keys(self) -> set[str]:
        """The dispatch keys that something is registered for."""
        found = set(self.kernels)
        if self.fake is not None:
            found.add("Meta")
        if self.backward is not None or self.checks_aliases:
            found.add("Autograd")
        return found

    def computes(self, key: str) -> bool:
        """Whether something runs for a backend's key."""
        return not {key, *EVERYWHERE, COMPOSED}.isdisjoint(self.kernels)

    # ---- a call ---------------------------------------------------------------------------------

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        named = bind(self.schema, args, kwargs)
        values = [named[a.name] for a in self.schema.arguments]
        for place, convert in self.converters:
            values[place] = convert(values[place])
        if self.autocast:
            values = self._cast(values)
        if COMPOSED in self.kernels:
            return self._run(self.kernels[COMPOSED], values)
        for key in AUTOGRAD:
            if key in self.kernels and not _inside.skips(self):
                with _inside.without(self):
                    return self._run(self.kernels[key], values)
        tensors = [x for x in leaves(values) if isinstance(x, Tensor)]
        if _C.is_grad_enabled() and _C.any_requires_grad(*tensors):
            if self.backward is not None or self.checks_aliases:
                return self._recorded(values)
            return self._without_formula(values, tensors)
        return self.below(values)

    def _cast(self, values: list[Any]) -> list[Any]:
        from tritorch.amp.state import is_autocast_enabled

        tensors = [x for x in leaves(values) if isinstance(x, Tensor)]
        where = tensors[0].device.type if tensors else "cpu"
        kind = self.autocast.get(where)
        if kind is None or not is_autocast_enabled(where):
            return values
        cast = lambda x: x.to(kind) if isinstance(x, Tensor) and x.is_floating_point() else x
        return [_mapped(cast, value) for value in values]

    def _split(self, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Values of all arguments as those by position and those by name."""
        args, kwargs = [], {}
        for argument, value in zip(self.schema.arguments, values):
            if argument.kwarg_only:
                kwargs[argument.name] = value
            else:
                args.append(value)
        return args, kwargs

    def _run(self, kernel: Callable[..., Any], values: Sequence[Any]) -> Any:
        args, kwargs = self._split(values)
        return kernel(*args, **kwargs)

    def below(self, values: Sequence[Any]) -> Any:
        """The call below autograd."""
        tensors = [x for x in leaves(values) if isinstance(x, Tensor)]
        if any(type(x._array) is BatchedArray for x in tensors):
            return self._vmapped(values, tensors)
        if dispatching.asked(*tensors):
            for asked in (*reversed(dispatching.entered.modes[-1:]), *tensors):
                rule = self.by_class.get(type(asked))
                if rule is not None:
                    given = (*_first(asked), self.operator, [type(x) for x in tensors])
                    return self._run(functools.partial(rule, *given), values)
            args, kwargs = self._split(values)
            args = [list(x) if isinstance(x, tuple) else x for x in args]
            while args and argument_is_default(self.schema, len(args) - 1, args[-1]):
                args.pop()
            return dispatch.answered(self.operator, args, kwargs)
        result = self._run(self._kernel(tensors), values)
        if self.schema.is_mutable:
            for argument, value in zip(self.schema.arguments, values):
                if argument.is_write:
                    for x in leaves([value]):
                        if isinstance(x, Tensor):
                            _C.bump_version(x)
        if self.checks_aliases:
            self._refuse_aliases(result, tensors)
        return result

    def _kernel(self, tensors: Sequence[Tensor]) -> Callable[..., Any]:
        described = next((x._array for x in tensors if type(x._array) is MetaArray), None)
        if described is not None:
            return self._described(described)
        if not tensors and FACTORY in self.kernels:
            return self.kernels[FACTORY]
        where = next((x.device.type for x in tensors if x.device.type != "cpu"), "cpu")
        for key, device in BACKENDS.items():
            if device == where and key in self.kernels:
                return self.kernels[key]
        for key in EVERYWHERE:
            if key in self.kernels:
                return self.kernels[key]
        if self.refuse is not None:
            self.refuse(where.upper() if tensors else "Undefined")
        have = [*self.kernels]
        raise NotImplementedError(
            f"Could not run '{self.operator._name}' with arguments from the '{where.upper()}' "
            f"backend. '{self.operator._name}' is only available for these backends: {have}."
        )

    def _described(self, array: MetaArray) -> Callable[..., Any]:
        """What says what results look like: of fake tensors with sizes that depend on data."""
        if self.fake is not None:
            mode = mode_of(array)
            if mode is None:
                return on_meta(self.fake, self.operator._name, self.fake_source)
            return functools.partial(self._fake_of, mode)
        everywhere = () if self.checks_aliases else EVERYWHERE
        for key in ("Meta", *everywhere):
            if key in self.kernels:
                return self.kernels[key]
        if can_generate_trivial_fake_impl(self.operator):
            return functools.partial(generate_trivial_fake_impl, self.operator)
        if self.refuse is not None and self.checks_aliases:
            self.refuse("Meta")
        raise NotImplementedError(
            f"{self.schema.name}: attempted to run this operator with Meta tensors, but there was "
            "no fake impl or Meta kernel registered for this operator. You may have run into this "
            "message while using an operator with PT2 compilation APIs "
            "(torch.compile/torch.export); in order to use this operator with those APIs you'll "
            "need to add a fake impl. Please see the following to learn how to add one: "
            "torch.library.register_fake"
        )

    def _fake_of(self, mode: Any, /, *args: Any, **kwargs: Any) -> Any:
        assert self.fake is not None
        with set_ctx_getter(lambda: FakeImplCtx(mode, self.operator)):
            return self.fake(*args, **kwargs)

    def _refuse_aliases(self, result: Any, tensors: Sequence[Tensor]) -> None:
        seen = [id(x._shared) for x in tensors]
        for out in leaves([result]):
            if not isinstance(out, Tensor):
                continue
            if id(out._shared) in seen:
                raise RuntimeError(
                    f"{self.operator._name} (with implementation in ???): The output of this "
                    "custom operator (1) must not also be an input to this custom operator and (2) "
                    "may not alias any inputs to this custom operator or other returns. The most "
                    "common way to trigger this error is if we have y = custom_op(x) and y and x "
                    "are the same Tensor. Please instead return a clone of the offending output "
                    "tensor(s) (e.g. return x.clone()) or refactor the custom operator to not "
                    "return y."
                )
            seen.append(id(out._shared))

    # ---- autograd --------------------------------------------------------------------------------

    def _recorded(self, values: Sequence[Any]) -> Any:
        flat, put = _flattened(values)
        shapes: list[Any] = []
        out = self._node_of_calls.apply(put, shapes, *flat)
        (shape,) = shapes
        return out if shape is None else shape(out if isinstance(out, tuple) else (out,))

    @functools.cached_property
    def _node_of_calls(self) -> Any:
        """The autograd function of recorded calls.  It takes what puts items into lists again, and
        a list that gets the same for the results; then all items."""
        definition = self

        def forward(ctx: Any, put: Any, shapes: list[Any], *leaves: Any) -> Any:
            given = put(leaves)
            output = definition.below(given)
            if definition.setup_context is not None:
                definition._set_up(ctx, given, output)
            ctx._counts = [len(v) if isinstance(v, (list, tuple)) else None for v in given]
            ctx._shape, ctx._given = None, _given(definition.schema, given)
            if isinstance(output, (list, tuple)):
                outs, ctx._shape = _flattened(output)
                output = tuple(outs)
            shapes.append(ctx._shape)
            return output

        def backward(ctx: Any, *grads: Any) -> Any:
            if definition.backward is None:
                raise RuntimeError(
                    f"Trying to backward through {definition.operator} but no autograd formula was "
                    "registered. Please use register_autograd to add one."
                )
            given = grads if ctx._shape is None else tuple(ctx._shape(grads))
            found = definition.backward(ctx, *given)
            found = found if isinstance(found, tuple) else (found,)
            expected = sum(not a.kwarg_only for a in definition.schema.arguments)
            if len(found) == ctx._given:  # what a call left at its defaults has no gradients
                found += (None,) * (expected - ctx._given)
            if len(found) != expected:
                raise RuntimeError(
                    f"function {definition.operator} returned an incorrect number of gradients "
                    f"(expected {expected}, got {len(found)})"
                )
            keywords = [None] * (len(definition.schema.arguments) - expected)
            return None, None, *_gradients([*found, *keywords], ctx._counts)

        name = f"GeneratedBackwardFor_{self.schema.name.replace('::', '_')}_" + (
            self.schema.overload_name or "default"
        )
        parts: dict[str, Any] = {"forward": staticmethod(forward)}
        parts["backward"] = staticmethod(backward)
        parts["_of_package"] = True
        return type(name, (Function,), parts)

    def _without_formula(self, values: Sequence[Any], tensors: Sequence[Tensor]) -> Any:
        """A call that nobody gave a gradient: what its kernel does with tensors is recorded, and
        the rest warns in a backward pass (`torch._C._set_autograd_fallback_mode`)."""
        result = self.below(values)
        if fallback.mode == "nothing":
            return result
        given = {id(x) for x in tensors}
        wanting = [x for x in tensors if x.requires_grad]

        def noted(x: Any) -> Any:
            alone = isinstance(x, Tensor) and not x.requires_grad and id(x) not in given
            if not alone or not (x.is_floating_point() or x.is_complex()):
                return x
            return _NoFormula.apply(self.operator._name, x, *wanting)

        return _mapped(noted, result)

    def _set_up(self, ctx: Any, values: Sequence[Any], output: Any) -> None:
        assert self.setup_context is not None
        arguments = self.schema.arguments
        inputs = tuple(v for a, v in zip(arguments, values) if not a.kwarg_only)
        keywords = {a.name: v for a, v in zip(arguments, values) if a.kwarg_only}
        if keywords:
            self.setup_context(ctx=ctx, inputs=inputs, keyword_only_inputs=keywords, output=output)
        else:
            self.setup_context(ctx=ctx, inputs=inputs, output=output)

    # ---- vmap ------------------------------------------------------------------------------------

    def _vmapped(self, values: Sequence[Any], tensors: Sequence[Tensor]) -> Any:
        level = vmap.level_of(tensors)
        size = next(x._array.array.shape[0] for x in tensors if vmap.is_batched(x, level))
        whole = lambda x: _C.wrap(x._array.array) if vmap.is_batched(x, level) else x
        place = lambda x: 0 if vmap.is_batched(x, level) else None
        if self.vmap is not None:
            info = vmap.VmapInfo(size, vmap.active.modes[-1] if vmap.active.modes else "error")
            dims = tuple(_mapped(place, value) for value in values)
            rule = functools.partial(self.vmap, info, dims)
            out, out_dims = self._run(rule, [_mapped(whole, value) for value in values])
            return vmap.rebatched(out, out_dims, level)
        outs = []
        for i in range(size):
            part = lambda x, i=i: (
                _C.wrap(x._array.array).select(0, i) if vmap.is_batched(x, level) else x
            )
            parts = [_mapped(part, value) for value in values]
            outs.append(self._run(self, parts))
        if isinstance(outs[0], (list, tuple)):
            columns = [stack(list(column)) for column in zip(*outs)]
            return type(outs[0])(vmap.to_batched(column, level) for column in columns)
        if outs[0] is None:
            return None
        return vmap.to_batched(stack(outs), level)


class _Fallback:
    mode = "warn"  # or "nothing", "error"


fallback = _Fallback()


class _NoFormula(Function):
    """The node of a result whose operator has no gradient."""

    @staticmethod
    def forward(ctx: Any, name: str, result: Tensor, *inputs: Tensor) -> Tensor:
        ctx.operator = name
        return result.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        text = (
            f"{ctx.operator}: an autograd kernel was not registered to the Autograd key(s) but we "
            "are trying to backprop through it. This may lead to silently incorrect behavior. This "
            "behavior is deprecated and will be removed in a future version of PyTorch. If your "
            "operator is differentiable, please ensure you have registered an autograd kernel to "
            "the correct Autograd key (e.g. DispatchKey::Autograd, "
            "DispatchKey::CompositeImplicitAutograd). If your operator is not differentiable, or "
            "to squash this warning and use the previous behavior, please register "
            "torch::CppFunction::makeFallthrough() to DispatchKey::Autograd."
        )
        if fallback.mode == "error":
            raise RuntimeError(text)
        warnings.warn(text, stacklevel=2)
        return (None,) * len(ctx.needs_input_grad)


def _first(asked: Any) -> tuple[Any, ...]:
    """A rule of a mode's gets the mode first."""
    return () if isinstance(asked, Tensor) else (asked,)


def argument_is_default(schema: FunctionSchema, place: int, value: Any) -> bool:
    """Whether an argument is what it would be if it were left out."""
    argument = [a for a in schema.arguments if not a.kwarg_only][place]
    if not argument.has_default_value():
        return False
    default = default_of(argument)
    return value is default or (type(value) is type(default) and value == default)


def _given(schema: FunctionSchema, values: Sequence[Any]) -> int:
    """How many arguments by place a call has, without those at the end that are their defaults."""
    count = sum(not a.kwarg_only for a in schema.arguments)
    while count and argument_is_default(schema, count - 1, values[count - 1]):
        count -= 1
    return count


# ---- arguments with lists inside -----------------------------------------------------------------


def leaves(values: Sequence[Any]) -> list[Any]:
    """The items of a call's arguments, those of lists too."""
    return [
        x for value in values for x in (value if isinstance(value, (list, tuple)) else (value,))
    ]


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    return type(value)(map(function, value)) if type(value) in (list, tuple) else function(value)


def _flattened(values: Sequence[Any]) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """All items, and what puts as many into the same lists again."""
    kind = type(values) if isinstance(values, (list, tuple)) else list
    shape = [len(v) if isinstance(v, (list, tuple)) else None for v in values]
    kinds = [type(v) for v in values]

    def put(leaves: Sequence[Any]) -> Any:
        items = iter(leaves)
        whole = [
            next(items) if n is None else kinds[i](next(items) for _ in range(n))
            for i, n in enumerate(shape)
        ]
        return kind(whole)

    return leaves(values), put


def _gradients(found: Sequence[Any], counts: Sequence[int | None]) -> tuple[Any, ...]:
    """The gradients of all items: None for a list stands for None for each item."""
    flat: list[Any] = []
    for grad, count in zip(found, counts):
        if count is None:
            flat.append(grad)
        else:
            flat += [None] * count if grad is None else list(grad)
    return tuple(flat)


class _Inside(threading.local):
    """Which definitions' own autograd kernels are running, so that they call what is below."""

    def __init__(self) -> None:
        self.running: list[Definition] = []

    def skips(self, definition: Definition) -> bool:
        """Whether a definition's kernel is running."""
        return definition in self.running

    def without(self, definition: Definition) -> Any:
        """A scope inside of which a definition's kernel does not run."""
        return Scope((self, "running", [*self.running, definition]))


_inside = _Inside()


# ---- definitions ---------------------------------------------------------------------------------


def define(space: str, text: str, tags: Sequence[Tag] = ()) -> Definition:
    """Defines an operator by its schema, without the namespace."""
    schema = parse_schema(f"{space}::{text}", allow_typevars=False)
    definition = Definition(schema, tags)
    if definition.key in DEFINED:
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the same name and overload name "
            "multiple times."
        )
    DEFINED[definition.key] = definition
    return definition


def forget(definition: Definition) -> None:
    """Takes a definition back."""
    DEFINED.pop(definition.key, None)
    space, _, name = definition.schema.name.partition("::")
    namespace(space).forget(name)


def find(qualname: str) -> Definition | None:
    """The definition of "namespace::name" or "namespace::name.overload"."""
    name, _, overload = qualname.partition(".")
    return DEFINED.get((name, "" if overload == "default" else overload))
