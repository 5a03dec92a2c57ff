"""How an operator is declared: one record, from which everything else is derived.

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
    joint=lambda g, x, weight, needs: (dx, dweight)                    or one for all of them
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
        cpu: Callable[..., Any] | str | None = None,
        gpu: Callable[..., Any] | str | None = None,
        grad: Any = None,
        joint: Callable[..., Any] | None = None,
        composed: Callable[..., Tensor] | None = None,
        view: bool = False,
        outputs: int = 1,
        node: str | None = None,
        kind: str = "structured",
        variadic: bool = False,
        unread: str = "",
        lends: str = "",
        keeps: str = "",
        layout: str = "",
        without: str = "",
        kernel: str = "",
        typed: int = 1,
        infer: Callable[..., Any] | None = None,
        batch: str = "",
        schema: str = "",
        axes: str | Callable[..., str | None] | None = None,
        cost: Callable[..., Any] | None = None,
        picks: bool = False,
        identity: Any = None,
        averages: Operator | None = None,
        parts: Callable[..., Any] | None = None,
        fuses: str = "",
    ) -> None:
        """inputs, params: names in the order of `call`'s arguments.  cpu, gpu: a function, or
        "family.function" of tritorch.host / tritorch.gpu (one string is enough for both).
        composed: the operator by smaller ones, `composed(*inputs, *params)`, giving its first
        output.  Without cpu and gpu it is what runs, recorded as one call.  Without grad, gradients
        go through it when they are differentiated again, when there is no other, and when `joint`
        returns NotImplemented.
        outputs: for several outputs, a mask of those that gradients flow through.
        variadic: the last name of `inputs` stands for all tensors from there on.
        unread: of a fused operator, the inputs whose values no gradient depends on.
        lends: inputs, or `out`, that are kept for the gradient but may be written:
        Note [Lent tensors].
        keeps: inputs that PyTorch keeps for the gradient, which this one does not need: whoever
        writes them before the backward pass gets the error that he would get there.
        layout: where results of the CPU's function lie: "elementwise", as PyTorch's TensorIterator
        derives it from the operands; "row-major"; "copy", as one of the first input would;
        "format", in the memory format that all inputs suggest ("format x y": these of them), "any
        format", channels_last where one of them suggests it; "column-major" matrices; "indexed",
        as x[indices]; "part", "reshaped" and "unsqueezed", as such a view; "magnitude",
        elementwise, but of complex numbers as a copy; else where the function has put them.
        without: the dtypes, or categories of them ("bool", "int", "half", "complex"), of which
        PyTorch has no kernel; kernel: what its error calls that; typed: how many of the first
        inputs decide.
        node: what its node is called, where its schema does not say it: Note [Names of nodes] in
        `record/nodes.py`.
        infer: the results for MetaArrays in place of arrays, where the kind does not say it
        (`record/infer.py`).
        batch: the rule by which it runs on a batch of inputs at once, where the kind does not say
        it (`interpret/batching.py`).
        schema: what it computes in ATen's terms, where its name does not say it: Note [Schemas of
        records] in `record/schema.py`.
        axes: what becomes of the axes of its inputs: Note [Axes] in `record/axes.py`.
        cost: its floating point operations, for its results (a list), inputs and params as
        described (`record/cost.py`).
        picks: of its first input it reads no more than goes into its result.
        identity: of a reduction, the number that changes nothing among those that are reduced;
        "lowest" or "highest": the dtype's.  averages: the record of the sum of which this is the
        mean.
        parts: all results by smaller operators, `parts(*inputs, *params)`, for a kernel that is
        written for several calls; a tuple if there are several.
        fuses: how an element of the result is computed in such a kernel, where the kind does not
        say it (`compilation/fuse/definitions.py`)."""
        self.name = name
        self.inputs = tuple(inputs.split())
        self.params = tuple(params.split())
        self.kind = kind
        self.variadic = variadic
        self.unread = frozenset(unread.split())
        self.lends = frozenset(lends.split())
        self.keeps = frozenset(keeps.split())
        self.outputs = outputs
        self.is_view = view
        self.composed = composed
        self.runs_composed = composed is not None and cpu is None and gpu is None
        if composed is not None and self.runs_composed:
            cpu = gpu = composed_backend(composed)
        self._infer, self.batch, self.declared_schema = infer, batch, schema
        self.declared_axes, self.declared_cost, self.picks = axes, cost, picks
        self.identity, self.averages = identity, averages
        self.parts = parts or (composed if self.runs_composed and outputs == 1 else None)
        self.fuses = fuses
        self._cpu = cpu
        self._gpu = gpu if gpu is not None or callable(cpu) else cpu
        self.gradients = _normalise(grad, len(self.inputs))
        self.joint = joint
        alone = self.constant or self.runs_composed or any(map(callable, self.gradients))
        self.fused = None if alone else composed  # what gradients go through
        functions = (joint, self.fused, *self.gradients)
        differentiable = any(function is not None for function in functions)
        said = node if node and node[0].isupper() else ""
        stem = said.rstrip("0123456789")  # node="Sum1": SumBackward1
        number = said[len(stem) :] or "0"
        title = "".join(part.title() for part in name.strip("_").split("_"))
        self.backward_name = f"{stem or title}Backward{number}"
        if node == NOT_IMPLEMENTED:
            self.backward_name = node
        self.declared_node = node or ""
        lent = sum(1 << i for i, each in enumerate(self.inputs) if each in self.lends)
        lent |= ("out" in self.lends) << 31
        kept = sum(1 << i for i, each in enumerate(self.inputs) if each in self.keeps)
        if self.variadic and self.inputs[-1] in self.keeps:
            kept |= ALL & -(1 << len(self.inputs) - 1)
        self._define(*self._what_is_saved(), lent, kept, differentiable)
        kind, word, deciding = layout.partition("format")
        self.layout = kind + word
        self.placing = PLACINGS.index(self.layout)
        self.deciding = sum(1 << self.inputs.index(x) for x in deciding.split()) or ALL
        self._without, self.kernel, self.typed = without, kernel or name, typed
        self.lacks = dtypes_of(without)
        if not name.isidentifier():  # it is a schema's name too
            raise ValueError(f"a record's name is an identifier, not {name!r}")
        if name in OPERATORS:
            raise ValueError(f"there is a record named {name} already")
        OPERATORS[name] = self

    def like(self, name: str, node: str, **changes: Any) -> Operator:
        """The same operator under another name, for another of PyTorch's overloads."""
        same = {
            "cpu": None if self.runs_composed else self._cpu,
            "gpu": None if self.runs_composed else self._gpu,
            "grad": self.gradients, "joint": self.joint,
            "composed": self.composed, "view": self.is_view,
            "outputs": self.outputs, "kind": self.kind, "variadic": self.variadic,
            "unread": " ".join(self.unread), "lends": " ".join(self.lends),
            "keeps": " ".join(self.keeps), "layout": self.layout, "without": self._without,
            "kernel": self.kernel, "typed": self.typed, "infer": self._infer, "batch": self.batch,
            "schema": self.declared_schema, "axes": self.declared_axes,
            "cost": self.declared_cost, "picks": self.picks, "identity": self.identity,
            "averages": self.averages, "parts": self.parts, "fuses": self.fuses,
        }  # fmt: skip
        inputs, params = " ".join(self.inputs), " ".join(self.params)
        return Operator(name, inputs, params, node=node, **(same | changes))

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
        """What was declared as `infer`, or follows from the kind or the composed definition."""
        if self._infer is not None:
            return self._infer
        if self.composed is not None and self.runs_composed:
            return composed_backend(self.composed)
        if self.kind in KINDS:
            return KINDS[self.kind](self)
        if self.composed is not None and self.outputs == 1:
            return composed_backend(self.composed)
        raise NotImplementedError(f"{self.name} has no rule for results without data")

    def axes(self, specs: Sequence[Any], params: tuple[Any, ...] = ()) -> Axes | None:
        """What becomes of the axes of inputs as MetaArrays describe them; None: nobody says."""
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
        """What makes of inputs and params a call of the schema."""
        from tritorch.ops.record.schema import called

        return called(self)

    def require_kernel(self, tensors: Sequence[Any]) -> None:
        """Refuses dtypes of which PyTorch has no kernel."""
        common = tensors[0].dtype
        for tensor in tensors[1 : self.typed]:
            common = promote_types(common, tensor.dtype)
        if common in self.lacks:
            raise not_implemented(self.kernel, common)

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
        """What a node keeps, by PyTorch's name; raw: the object that hooks are put on."""
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
