"""The declaration of an operator: one record, from which everything else is derived.

    exp = unary("exp", np.exp, rule=INT_TO_FLOAT, grad=lambda g, out: g * out.conj())

A record (`Operator`) names the backends and the gradients.  Kinds (`kinds.py`) derive from it
the function, the method, the in-place and `out=` forms; structured operators are a checked function
around `record.call(tensors, params)`.

# Note [Gradients name what they need]
A gradient is a function whose *argument names* say what it needs: `g` (the output's gradient),
`out` (the output; of several a tuple, or `out1` for the second alone), the operator's inputs and
params by their declared names (`params`: all of them), `x_shape` for the shape alone of an input
`x`, or `x_spec` for all that is known of it without its values.  What no wanted gradient names is
not saved, so it may be freed, and changed in place.  It uses public operators only, so it
differentiates again.

    grad=(lambda g, b: g * b.conj(), lambda g, a: g * a.conj())        one for each input
    grad=Gradient(joint=lambda g, x, weight, needs: (dx, dweight))     or one for all of them
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.autograd.nodes import Node
from tritorch.core.promotion import not_implemented, promote_types
from tritorch.core.tensor import Tensor
from tritorch.ops.record.backends import composed_backend, resolve
from tritorch.ops.record.checks import dtypes_of
from tritorch.ops.record.gradients import argument_names, compile_backward, output_of
from tritorch.ops.record.groups import Gradient, Rules, Without
from tritorch.ops.record.infer import KINDS, inferred, laid_out as infer_layout

if TYPE_CHECKING:
    from tritorch.ops.record.axes import Axes
    from tritorch.ops.record.cost import Cost
    from tritorch.ops.record.schema import Call
    from tritorch.schema.signature import FunctionSchema

ndarray = np.ndarray
FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
Array = _C.Array
MOST = 16  # inputs that the native half tells apart
NOT_IMPLEMENTED = "torch::autograd::NotImplemented"  # PyTorch's node of what has no derivative
ALL = 0xFFFFFFFF  # a mask of all inputs, or outputs
NO_RULES = Rules()
# By the numbers that the native half (src/tensor/placing.h) knows them by.
PLACINGS = (
    "", "elementwise", "row-major", "copy", "format", "column-major", "indexed",
    "part", "reshaped", "unsqueezed", "magnitude", "any format",
)  # fmt: skip
OPERATORS: dict[str, Operator] = {}  # every record, by name


class Operator(_C.OperatorBase):
    """One operator: its backends, its gradients, and how calls are recorded."""

    back: Any = None  # of a view of some elements: the record of its gradient,
    embeds: Operator  # which knows it by this name
    order: Any = None  # in which PyTorch's node has its inputs, where it is another
    flushes = False  # whether a call may fail for values of its inputs: it is never deferred
    raises = False  # whether the CPU's function may refuse values: then no call is dead code
    constant = False  # whether no gradient flows through it, whatever its definition is
    # Of what the CPU computes in steps, a function of the inputs: how many multiply-adds a step is.
    step: Callable[..., int] | None = None
    meets = False  # whether other processes wait for each call: Note [Collectives as records]

    def __init__(
        self,
        name: str,
        inputs: str,
        params: str = "",
        *,
        schema: str = "",
        kind: str = "structured",
        view: bool = False,
        cpu: Callable[..., Any] | str | None = None,
        gpu: Callable[..., Any] | str | None = None,
        composed: Callable[..., Tensor] | None = None,
        parts: Callable[..., Any] | bool = False,
        fuses: str = "",
        grad: Any = None,
        layout: str = "",
        without: str | Without = "",
        rules: Rules = NO_RULES,
    ) -> None:
        """inputs, params: names in the order of `call`'s arguments; "*tensors" as the last input
        stands for all tensors from there on.
        schema: what it computes in ATen's terms, where its name does not say it: Note [Schemas of
        records] in `record/schema.py`.
        cpu, gpu: a function, or "family.function" of tritorch.host / tritorch.gpu (one string is
        enough for both).
        composed: the operator by smaller ones, `composed(*inputs, *params)`, giving its first
        output.  Without cpu and gpu it is what runs, recorded as one call.  Without a gradient,
        gradients go through it when they are differentiated again, and when there is no other.
        parts: all results by smaller operators, `parts(*inputs, *params)`, for a kernel that is
        written for several calls; a tuple if there are several.  True: the composed definition.
        fuses: how an element of the result is computed in such a kernel, where the kind does not
        say it (`compilation/fuse/definitions.py`).
        grad: a `Gradient`, or its functions alone.
        layout: where results of the CPU's function lie: "elementwise", as PyTorch's TensorIterator
        derives it from the operands; "row-major"; "copy", as one of the first input would;
        "format", in the memory format that all inputs suggest ("format x y": these of them), "any
        format", channels_last where one of them suggests it; "column-major" matrices; "indexed",
        as x[indices]; "part", "reshaped" and "unsqueezed", as such a view; "magnitude",
        elementwise, but of complex numbers as a copy; else where the function has put them.
        without: the dtypes that it refuses, as `Without` or its first field.
        rules: facts that the kind does not say."""
        if not name.isidentifier():  # it is a schema's name too
            raise ValueError(f"a record's name is an identifier, not {name!r}")
        if name in OPERATORS:
            raise ValueError(f"there is a record named {name} already")
        gradient = grad if isinstance(grad, Gradient) else Gradient(grad)
        self.declaration: dict[str, Any] = {
            "schema": schema, "kind": kind, "view": view, "cpu": cpu, "gpu": gpu,
            "composed": composed, "parts": parts, "fuses": fuses, "grad": gradient,
            "layout": layout, "without": without, "rules": rules,
        }  # fmt: skip
        self.name = name
        self.inputs = tuple(inputs.replace("*", "").split())
        self.params = tuple(params.split())
        self.kind, self.declared_schema, self.fuses = kind, schema, fuses
        self.rules, self.is_view = rules, view
        self.variadic = "*" in inputs
        self.runs_composed = composed is not None and cpu is None and gpu is None
        self.composed = composed
        if composed is not None and self.runs_composed:
            cpu = gpu = composed_backend(composed)
        self._cpu = cpu
        self._gpu = gpu if gpu is not None or callable(cpu) else cpu
        self._declare_gradient(gradient)
        whole = parts or (self.runs_composed and self.outputs == 1)
        self.parts = parts if callable(parts) else composed if whole else None
        kind, word, deciding = layout.partition("format")
        self.layout = kind + word
        self.placing = PLACINGS.index(self.layout)
        self.deciding = sum(1 << self.inputs.index(x) for x in deciding.split()) or ALL
        self.refusal = without if isinstance(without, Without) else Without(without)
        self.lacks, self.typed = dtypes_of(self.refusal.dtypes), self.refusal.typed
        OPERATORS[name] = self

    def _declare_gradient(self, gradient: Gradient) -> None:
        """Tells the native half what to record of a call, and to save for its gradient."""
        self.gradient, self.joint, self.outputs = gradient, gradient.joint, gradient.outputs
        self.unread = frozenset(gradient.unread.split())
        self.lends = frozenset(gradient.lends.split())
        self.keeps = frozenset(gradient.keeps.split())
        self.gradients = _normalise(gradient.by, len(self.inputs))
        alone = self.constant or self.runs_composed or any(map(callable, self.gradients))
        self.fused = None if alone else self.composed  # what gradients go through
        functions = (self.joint, self.fused, *self.gradients)
        differentiable = any(function is not None for function in functions)
        node = gradient.node
        said = node if node and node[0].isupper() else ""
        stem = said.rstrip("0123456789")  # node="Sum1": SumBackward1
        number = said[len(stem) :] or "0"
        title = "".join(part.title() for part in self.name.strip("_").split("_"))
        self.backward_name = f"{stem or title}Backward{number}"
        if node == NOT_IMPLEMENTED:
            self.backward_name = node
        lent = sum(1 << i for i, each in enumerate(self.inputs) if each in self.lends)
        lent |= ("out" in self.lends) << 31
        kept = sum(1 << i for i, each in enumerate(self.inputs) if each in self.keeps)
        if self.variadic and self.inputs[-1] in self.keeps:
            kept |= ALL & -(1 << len(self.inputs) - 1)
        self._define(*self._what_is_saved(), lent, kept, differentiable)

    def like(self, name: str, node: str, **changes: Any) -> Operator:
        """The same operator under another name, for another of PyTorch's overloads.

        changes: other arguments than this one's, or fields of their groups."""
        same, changes = dict(self.declaration), {"node": node, **changes}
        for group in ("grad", "rules"):
            own = {field: changes.pop(field) for field in same[group]._fields if field in changes}
            same[group] = same[group]._replace(**own)
        inputs, params = " ".join(self.inputs), " ".join(self.params)
        return Operator(name, inputs, params, **(same | changes))

    def __repr__(self) -> str:
        return f"<operator {self.name}({', '.join(self.inputs + self.params)})>"

    def _make_node_type(self) -> type[Node]:
        """The class of the nodes that its calls record."""
        return type(self.backward_name, (Node,), {"__slots__": (), "_settled": False})

    def _what_is_saved(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """For the gradient of each input, as masks: the inputs, their shapes and the outputs that
        it needs."""
        functions = [self.joint] * max(len(self.inputs), 1) if self.joint else self.gradients
        saves, shapes, outs = [], [], []
        known = {*self.inputs, *self.params, "g", "needs", "params", "out"}
        bits = {x: 1 << j for j, x in enumerate(self.inputs)}
        if self.variadic:
            bits[self.inputs[-1]] = ALL & -bits[self.inputs[-1]]
        for function in functions:
            names = argument_names(function) if function else ()
            whole, shaped, numbered = set(names), set(), 0
            for name in whole - known:
                number, shape = output_of(name), self._shape_of(name)
                if number is not None:
                    numbered |= 1 << number
                elif shape is not None:
                    shaped.add(shape)
                    self.describes |= name.endswith("_spec")
                else:
                    raise TypeError(f"{self.name}: a gradient asks for '{name}': no such thing")
            if self.fused:
                whole = set(self.inputs) - self.unread
                shaped |= self.unread
            saves.append(sum([bits[x] for x in whole & bits.keys()]))
            shapes.append(sum([bits[x] for x in shaped]))
            outs.append(ALL if "out" in names else numbered)
        if self.variadic:
            return (saves[0],) * MOST, (shapes[0],) * MOST, (outs[0],) * MOST
        return tuple(saves), tuple(shapes), tuple(outs)

    def _shape_of(self, name: str) -> str | None:
        """x of "x_shape" and "x_spec", if that is not the name of an input or param itself."""
        stem = name.removesuffix("_shape").removesuffix("_spec")
        given = (*self.inputs, *self.params)
        return stem if name not in given and stem != name and stem in self.inputs else None

    # ---- forward ------------------------------------------------------------------------------

    def cpu(self, *args: Any) -> Any:
        """The CPU function; resolved at the first call."""
        self.cpu = _resolve("cpu", self._cpu, self.name)  # type: ignore[method-assign]
        return self.cpu(*args)

    def gpu(self, *args: Any) -> Any:
        """The GPU function; resolved at the first call."""
        self.gpu = _resolve("gpu", self._gpu, self.name)  # type: ignore[method-assign]
        return self.gpu(*args)

    def call(self, tensors: Sequence[Any], params: tuple[Any, ...] = ()) -> Any:
        """Runs on checked and promoted inputs, and records the call."""
        if self.lacks:
            self.require_kernel(tensors)
        found = self.call_on_host(tensors, params)
        if found is not None:
            return found
        try:
            values = [None if tensor is None else tensor._a for tensor in tensors]
        except AttributeError:
            return self._careful(tensors, params)
        backend = self.cpu
        for array in values:
            if type(array) is not ndarray and array is not None:
                if type(array) is not Array:
                    return self._careful(tensors, params)
                backend = self.gpu
        if backend is not self.cpu:
            self._same_device(tensors)
        result = backend(values, *params) if self.variadic else backend(*values, *params)
        if type(result) is tuple:
            return self.finish_many(result, self.outputs, params, *tensors)
        if self.is_view:
            return self.finish_view(result, params, tensors[0])
        return self.finish_with(result, params, *tensors)

    def infer(self, specs: Sequence[Any], params: tuple[Any, ...] = ()) -> Any:
        """The results for inputs as MetaArrays describe them: MetaArrays too."""
        return inferred(self, specs, params)

    @functools.cached_property
    def rule_of_results(self) -> Callable[..., Any]:
        """The declared `infer`, or what follows from the kind or the composed definition."""
        if self.rules.infer is not None:
            return self.rules.infer
        if self.composed is not None and self.runs_composed:
            return composed_backend(self.composed)
        if self.kind in KINDS:
            return KINDS[self.kind](self)
        if self.composed is not None and self.outputs == 1:
            return composed_backend(self.composed)
        raise NotImplementedError(f"{self.name} has no rule for results without data")

    def axes(self, specs: Sequence[Any], params: tuple[Any, ...] = ()) -> Axes | None:
        """The fate of each axis of inputs as MetaArrays describe them; None: nobody says."""
        from tritorch.ops.record.axes import axes_of

        return axes_of(self, specs, params)

    def cost(self, specs: Sequence[Any], params: tuple[Any, ...] = ()) -> Cost:
        """The floating point operations and bytes of a call, for inputs as described."""
        from tritorch.ops.record.cost import cost_of

        return cost_of(self, specs, params)

    @functools.cached_property
    def schema(self) -> FunctionSchema:
        """Its name and typed arguments as PyTorch writes them."""
        from tritorch.ops.record.schema import schema_of

        return schema_of(self)

    @functools.cached_property
    def as_call(self) -> Callable[[Sequence[Any], Sequence[Any]], Call]:
        """The function that makes of inputs and params a call of the schema."""
        from tritorch.ops.record.schema import called

        return called(self)

    def require_kernel(self, tensors: Sequence[Any]) -> None:
        """Refuses dtypes of which PyTorch has no kernel."""
        common = tensors[0].dtype
        for tensor in tensors[1 : self.typed]:
            common = promote_types(common, tensor.dtype)
        if common in self.lacks:
            raise not_implemented(self.refusal.kernel or self.name, common)

    def view(self, source: Tensor, params: tuple[Any, ...]) -> Tensor:
        """Replays a view on another base."""
        return self.call((source,), params)

    def _same_device(self, tensors: Sequence[Any]) -> None:
        where = None
        for tensor in tensors:
            if tensor is None:
                continue
            device = tensor.device
            if where is not None and device != where:
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but found at least two "
                    f"devices, {where} and {device}! (when checking arguments of {self.name})"
                )
            where = device

    # Runs on arrays that are no plain ones: `door.call`, which door.py puts here.
    _careful: ClassVar[Callable[..., Any]]

    # ---- backward -----------------------------------------------------------------------------

    def settle(self, node: Any) -> None:
        """Gives a node the class that PyTorch's has: Note [Names of nodes]."""
        from tritorch.ops.record.nodes import settle

        settle(self, node)

    def read(self, node: Any, name: str, raw: bool) -> Any:
        """A value that a node keeps, by PyTorch's name; raw: the object that hooks are put on."""
        from tritorch.ops.record.nodes import read

        return read(node, name, raw)

    def backward(self, node: Any, g: Any) -> Any:
        """The gradients of a recorded call, one for each input or None; compiled at first use."""
        self.backward = compile_backward(self)  # type: ignore[method-assign, assignment]
        return self.backward(node, g)


def _normalise(grad: Any, n: int) -> tuple[Any, ...]:
    if grad is None:
        return (None,) * n
    if callable(grad):
        return (grad,) + (None,) * (n - 1)
    return tuple(grad) + (None,) * (n - len(grad))


def _resolve(which: str, function: Any, name: str) -> Callable[..., Any]:
    if function is None:
        raise NotImplementedError(f"{name} has no implementation on the {which.upper()}")
    if not callable(function):
        return resolve(which, function)
    return _C.Quiet(function) if which == "cpu" else function


def laid_out(layout: str, out: Tensor, *inputs: Any) -> Tensor:
    """A composed function's new result, moved to where one of a record with this layout lies."""
    return _placed(layout, out, *inputs)


def _placed(layout: str, out: Tensor, *inputs: Any) -> Tensor:
    if type(out._array) is MetaArray:
        specs = [x._array for x in inputs if isinstance(x, Tensor)]
        out._a = infer_layout(layout, out._array, specs)
        return out
    return _C.place(PLACINGS.index(layout), out, *inputs)


def lies(layout: str) -> Callable[..., Any]:
    """Says where the results of a composed function of one tensor lie."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def placed(input: Tensor, *args: Any, **kwargs: Any) -> Any:
            return _placed(layout, function(input, *args, **kwargs), input)

        return placed

    return decorate


# ---- public names --------------------------------------------------------------------------------
