"""How an operator is declared: one record, from which everything else is derived.

    exp = unary("exp", np.exp, rule=INT_TO_FLOAT, grad=lambda g, out: g * out.conj())

A record (`Operator`) names the backends and the gradients.  Kinds (`ops/kinds.py`) derive from it
the function, the method, the in-place and `out=` forms; structured operators are a checked function
around `record.call(tensors, params)`.

# Note [Gradients name what they need]
A gradient is a function whose *argument names* say what it needs: `g` (the output's gradient),
`out` (the output; of several a tuple, or `out1` for the second alone), the operator's inputs and
params by their declared names, and `x_shape` for the shape alone of an input `x`.  What no wanted
gradient names is not saved, so it may be freed, and changed in place.  It uses public operators
only, so it differentiates again.

    grad=(lambda g, b: g * b.conj(), lambda g, a: g * a.conj())        one for each input
    joint=lambda g, x, weight, needs: (dx, dweight)                    or one for all of them
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tritorch import _C
from tritorch.autograd.graph import Node, check_inplace, packed_output, place, rewrite_history
from tritorch.core import arrays
from tritorch.core.promotion import promote_types
from tritorch.core.tensor import Tensor
from tritorch.ops.backends import composed_backend, resolve
from tritorch.ops.checks import OVERLAP, dtypes_of, not_implemented, require_castable
from tritorch.ops.outputs import (
    cpp_name,
    overload,
    require_common_dtype,
    require_dtype,
    require_own_memory,
    require_own_shape,
    require_separate,
)

ndarray = np.ndarray
FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
Array = _C.Array
MOST = 16  # inputs that the native half tells apart
NOT_IMPLEMENTED = "torch::autograd::NotImplemented"  # PyTorch's node of what has no derivative
ALL = 0xFFFFFFFF  # a mask of all inputs, or outputs
# By the numbers that the native half (src/tensor/placing.h) knows them by.
PLACINGS = (
    "", "elementwise", "row-major", "copy", "format", "column-major", "indexed",
    "part", "reshaped", "unsqueezed",
)  # fmt: skip
OPERATORS: dict[str, Operator] = {}  # every record, by name
PUBLIC: dict[str, Callable[..., Any]] = {}  # tritorch.<name>


class Operator(_C.OperatorBase):
    """One operator: its backends, its gradients, and how calls are recorded."""

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
        of: Callable[..., Tensor] | None = None,
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
    ) -> None:
        """inputs, params: names in the order of `call`'s arguments.  cpu, gpu: a function, or
        "family.function" of tritorch.cpu / tritorch.gpu (one string is enough for both).
        composed: a fused operator by smaller ones, `composed(*inputs, *params)`, giving its first
        output: gradients go through it when they are differentiated again, when there is no other,
        and when `joint` returns NotImplemented.
        of: instead of cpu and gpu, the operator by smaller ones, recorded as one call.
        outputs: for several outputs, a mask of those that gradients flow through.
        variadic: the last name of `inputs` stands for all tensors from there on.
        unread: of a fused operator, the inputs whose values no gradient depends on.
        lends: inputs, or `out`, that are kept for the gradient but may be written:
        Note [Lent tensors].
        keeps: inputs that PyTorch keeps for the gradient, which this one does not need: whoever
        writes them before the backward pass gets the error that he would get there.
        layout: where results of the CPU's function lie: "elementwise", as PyTorch's TensorIterator
        derives it from the operands; "row-major"; "copy", as one of the first input would;
        "format", in the memory format that the inputs suggest; "column-major" matrices; "indexed",
        as x[indices]; "part", "reshaped" and "unsqueezed", as such a view; else where the function
        has put them.
        without: the dtypes, or categories of them ("bool", "int", "half", "complex"), of which
        PyTorch has no kernel; kernel: what its error calls that; typed: how many of the first
        inputs decide."""
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
        self.of = of
        if of is not None:
            cpu = gpu = composed_backend(of)
        self._cpu = cpu
        self._gpu = gpu if gpu is not None or callable(cpu) else cpu
        self.gradients = _normalise(grad, len(self.inputs))
        self.joint = joint
        self.composed = composed
        functions = (joint, composed, *self.gradients)
        differentiable = view or any(function is not None for function in functions)
        stem = (node or "").rstrip("0123456789")  # node="Sum1": SumBackward1
        number = (node or "")[len(stem) :] or "0"
        title = "".join(part.title() for part in name.strip("_").split("_"))
        self.backward_name = f"{stem or title}Backward{number}"
        if node == NOT_IMPLEMENTED:
            self.backward_name = node
        node_type = type(self.backward_name, (Node,), {"__slots__": ()})
        lent = sum(1 << i for i, each in enumerate(self.inputs) if each in self.lends)
        lent |= ("out" in self.lends) << 31
        kept = sum(1 << i for i, each in enumerate(self.inputs) if each in self.keeps)
        if self.variadic and self.inputs[-1] in self.keeps:
            kept |= ALL & -(1 << len(self.inputs) - 1)
        self._define(node_type, *self._what_is_saved(), lent, kept, differentiable)
        self.placing = PLACINGS.index(layout)
        self.layout = layout
        self._without, self.kernel, self.typed = without, kernel or name, typed
        self.lacks = dtypes_of(without)
        if name in OPERATORS:
            raise ValueError(f"there is a record named {name} already")
        OPERATORS[name] = self

    def like(self, name: str, node: str, **changes: Any) -> Operator:
        """The same operator under another name, for another of PyTorch's overloads."""
        same = {
            "cpu": self._cpu, "gpu": self._gpu, "grad": self.gradients, "joint": self.joint,
            "composed": self.composed, "of": self.of, "view": self.is_view,
            "outputs": self.outputs, "kind": self.kind, "variadic": self.variadic,
            "unread": " ".join(self.unread), "lends": " ".join(self.lends),
            "keeps": " ".join(self.keeps), "layout": self.layout, "without": self._without,
            "kernel": self.kernel, "typed": self.typed,
        }  # fmt: skip
        inputs, params = " ".join(self.inputs), " ".join(self.params)
        return Operator(name, inputs, params, node=node, **(same | changes))

    def __repr__(self) -> str:
        return f"<operator {self.name}({', '.join(self.inputs + self.params)})>"

    def _what_is_saved(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """For the gradient of each input, as masks: the inputs, their shapes and the outputs that
        it needs."""
        functions = [self.joint] * max(len(self.inputs), 1) if self.joint else self.gradients
        saves, shapes, outs = [], [], []
        bits = {x: 1 << j for j, x in enumerate(self.inputs)}
        if self.variadic:
            bits[self.inputs[-1]] = ALL & -bits[self.inputs[-1]]
        for function in functions:
            names = _argument_names(function) if function else ()
            for name in names:
                if name not in (*self.inputs, *self.params, "g", "needs"):
                    if name != "out" and _output_of(name) is None and not self._shape_of(name):
                        raise TypeError(f"{self.name}: a gradient asks for '{name}': no such thing")
            whole, shaped = set(names), {self._shape_of(name) for name in names}
            if self.composed:
                whole = set(self.inputs) - self.unread
                shaped |= self.unread
            saves.append(sum(bit for x, bit in bits.items() if x in whole))
            shapes.append(sum(bit for x, bit in bits.items() if x in shaped))
            numbers = [_output_of(name) for name in names]
            outs.append(ALL if "out" in names else sum(1 << k for k in numbers if k is not None))
        if self.variadic:
            return (saves[0],) * MOST, (shapes[0],) * MOST, (outs[0],) * MOST
        return tuple(saves), tuple(shapes), tuple(outs)

    def _shape_of(self, name: str) -> str | None:
        """x of "x_shape", if that is not the name of an input or param itself."""
        stem = name.removesuffix("_shape")
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

    def require_kernel(self, tensors: Sequence[Any]) -> None:
        """Refuses dtypes of which PyTorch has no kernel."""
        kinds = [tensor.dtype for tensor in tensors[: self.typed]]
        common = functools.reduce(promote_types, kinds)
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

    def _careful(self, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
        """Forward-mode duals, vmapped arrays."""
        from tritorch.ops import careful

        return careful.call(self, tensors, params)

    # ---- backward -----------------------------------------------------------------------------

    def backward(self, node: Any, g: Any) -> Any:
        """The gradients of a recorded call, one for each input or None; compiled at first use."""
        self.backward = _compile_backward(self)  # type: ignore[method-assign, assignment]
        return self.backward(node, g)


def _normalise(grad: Any, n: int) -> tuple[Any, ...]:
    if grad is None:
        return (None,) * n
    if callable(grad):
        return (grad,) + (None,) * (n - 1)
    return tuple(grad) + (None,) * (n - len(grad))


def _argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    if code is None:
        return tuple(inspect.signature(function).parameters)
    return code.co_varnames[: code.co_argcount]


def _output_of(name: str) -> int | None:
    """k of "outk"."""
    number = name.removeprefix("out")
    return int(number) if number != name and number.isdigit() else None


def _shape(saved: Any) -> tuple[int, ...]:
    """The shape of an input that was saved, or of which only that was."""
    return saved if type(saved) is tuple else tuple(saved._array.shape)


def _resolve(which: str, function: Any, name: str) -> Callable[..., Any]:
    if function is None:
        raise NotImplementedError(f"{name} has no implementation on the {which.upper()}")
    if not callable(function):
        return resolve(which, function)
    return _C.Quiet(function) if which == "cpu" else function


def _compile_backward(op: Operator) -> Callable[[Any, Any], Any]:
    """`backward(node, g)` as straight-line Python: fetch what is named, call what is wanted."""
    if op.composed:
        return _fused_backward(op)
    functions = [op.joint] if op.joint else [f for f in op.gradients if f]
    names = {name for function in functions for name in _argument_names(function)}
    lines = ["def backward(node, g):"]
    if op.keeps or set(op.inputs) & (names | {op._shape_of(name) for name in names}):
        lines.append("    saved = node.unpack()")
    if set(op.params) & names:
        lines.append("    params = node.params")
    if "out" in names or any(_output_of(name) is not None for name in names):
        lines.append("    out = fetch_output(node)")
    lines.append("    edges = node.edges")
    world: dict[str, Any] = {"fetch_output": _fetch_output, "shape": _shape}

    def saved(name: str) -> str:
        i = op.inputs.index(name)
        return f"saved[{i}:]" if op.variadic and i == len(op.inputs) - 1 else f"saved[{i}]"

    def argument(name: str) -> str:
        if name in ("g", "out"):
            return name
        if name == "needs":
            return "[edge is not None for edge in edges]"
        if name in op.inputs:
            return saved(name)
        if name in op.params:
            return f"params[{op.params.index(name)}]"
        if _output_of(name) is not None:
            return f"out[{_output_of(name)}]"
        whole = op._shape_of(name)
        assert whole is not None
        if op.variadic and whole == op.inputs[-1]:
            return f"[shape(each) for each in {saved(whole)}]"
        return f"shape({saved(whole)})"

    def call(i: int, function: Callable[..., Any]) -> str:
        world[f"f{i}"] = function
        return f"f{i}({', '.join(map(argument, _argument_names(function)))})"

    if op.joint:
        lines.append(f"    return {call(0, op.joint)}")
    else:
        parts = [
            f"{call(i, f)} if edges[{i}] is not None else None" if f else "None"
            for i, f in enumerate(op.gradients)
        ]
        lines.append(f"    return ({', '.join(parts)},)")
    exec("\n".join(lines), world)
    return world["backward"]


def _fetch_output(node: Any) -> Any:
    return packed_output(node) if node.packed else node.output()


def _fused_backward(op: Operator) -> Callable[[Any, Any], Any]:
    """A fused operator's gradients: `joint`'s, or those of its composed definition."""
    joint = op.joint
    names = _argument_names(joint) if joint else ()
    numbers = {name: k for name in names if (k := _output_of(name)) is not None}
    shapes = {name: op.inputs.index(x) for name in names if (x := op._shape_of(name))}
    fetches = "out" in names or numbers

    def backward(node: Any, g: Any) -> Any:
        inputs, params = node.unpack(), node.params or ()
        if joint is not None and not _C.is_grad_enabled():
            known = dict(zip(op.inputs + op.params, (*inputs, *params)), g=g)
            if fetches:
                known["out"] = out = _fetch_output(node)
                known |= {name: out[k] for name, k in numbers.items()}
            for name, i in shapes.items():
                known[name] = _shape(inputs[i])
            found = joint(*(known[name] for name in names))
            if found is not NotImplemented:
                return found
        return _through_composed(op, g[0] if node.n_outputs else g, inputs, params)

    return backward


def _through_composed(
    op: Operator, g: Tensor, inputs: Sequence[Any], params: Sequence[Any]
) -> tuple[Any, ...]:
    from tritorch.autograd import grad

    assert op.composed is not None
    again = _C.set_grad_enabled(True)  # the caller's mode: whether these are differentiated again
    try:
        # What no gradient depends on was not saved: zeros of its shape do as well.
        inputs = [
            g.new_zeros(x).requires_grad_() if name in op.unread and type(x) is tuple else x
            for name, x in zip(op.inputs, inputs)
        ]
        if not again:
            inputs = [
                x.detach().requires_grad_() if isinstance(x, Tensor) and x._requires_grad else x
                for x in inputs
            ]
        wanted = [x for x in inputs if isinstance(x, Tensor) and x._requires_grad]
        out = op.composed(*inputs, *params)
        found = iter(grad(out, wanted, g, create_graph=again, allow_unused=True))
    finally:
        _C.set_grad_enabled(again)
    return tuple(
        next(found) if isinstance(x, Tensor) and x._requires_grad else None for x in inputs
    )


def laid_out(layout: str, out: Tensor, *inputs: Any) -> Tensor:
    """A composed function's new result, moved to where one of a record with this layout lies."""
    return _C.place(PLACINGS.index(layout), out, *inputs)


def lies(layout: str) -> Callable[..., Any]:
    """Says where the results of a composed function of one tensor lie."""
    placing = PLACINGS.index(layout)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def placed(input: Tensor, *args: Any, **kwargs: Any) -> Any:
            return _C.place(placing, function(input, *args, **kwargs), input)

        return placed

    return decorate


# ---- public names --------------------------------------------------------------------------------


def public(
    *,
    method: bool | str = True,
    inplace: bool = False,
    alone: bool = False,
    out: bool | str = False,
    torch: bool = True,
    aliases: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Publishes a function as `tritorch.name`, as a method, in place and with `out=`, as asked.

    alone: in place, no argument may share memory with what is written.
    out: "dtype" if it computes in the dtype of its output."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        exposed = with_out(function, computes_in_out=out == "dtype") if out else function
        for alias in (name, *aliases):
            if torch:
                PUBLIC[alias] = exposed
            if method:
                setattr(Tensor, method if isinstance(method, str) else alias, function)
            if inplace:
                setattr(Tensor, f"{alias}_", in_place_of(function, f"{alias}_", alone))
        return exposed

    return decorate


def with_out(function: Callable[..., Any], *, computes_in_out: bool = False) -> Any:
    """The function with an `out=` argument.

    computes_in_out: an output's dtype is the one that is computed in, unless `dtype` says another.
    """

    def wrapper(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return function(*args, **kwargs)
        name = function.__name__
        if computes_in_out and isinstance(out, Tensor):
            if kwargs.get("dtype") is None:
                kwargs["dtype"] = out.dtype
            elif kwargs["dtype"] is not out.dtype:
                raise RuntimeError(
                    f"Expected out tensor to have dtype {cpp_name(kwargs['dtype'])}, but got "
                    f"{cpp_name(out.dtype)} instead"
                )
        return compute_out(name, function, out, *args, **kwargs)

    wrapper.__name__ = function.__name__
    wrapper.__qualname__ = function.__name__
    wrapper.__doc__ = function.__doc__
    wrapper.__wrapped__ = function  # type: ignore[attr-defined]
    return wrapper


def compute_out(
    name: str, function: Callable[..., Any], out: Any, *args: Any, own_dtype: bool = False,
    **named: Any,
) -> Any:  # fmt: skip
    """Writes what a function gives into an output; name: whose rules about outputs hold.

    own_dtype: the result surely has the dtype that the inputs promote to."""
    inputs = (*args, *named.values())
    refuse_grad_with_out(name, *inputs, out)
    try:
        result = function(*args, **named)
    except NotImplementedError:
        require_common_dtype(name, inputs, out, own_dtype)  # PyTorch says this first
        raise
    require_own_memory(name, inputs, out)
    return write_out(result, out, name)


def refuse_grad_with_out(name: str, *tensors: Any) -> None:
    """Gradients exclude out=, whether inputs or outputs want them."""
    if not _C.is_grad_enabled():
        return
    for tensor in tensors:
        several = tensor if isinstance(tensor, (tuple, list)) else ()
        if _C.any_requires_grad(tensor, *several):
            who = f"{name}(): " if name else ""
            raise RuntimeError(
                f"{who}functions with out=... arguments don't support automatic differentiation, "
                f"but one of the arguments requires grad."
            )


def write_out(result: Any, out: Any, name: str = "") -> Any:
    """Writes an operator's results into given tensors, resizing them as PyTorch does."""
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)):
            kind = type(out).__name__
            raise TypeError(f"{name}(): argument 'out' must be tuple of Tensors, not {kind}")
        if len(out) != len(result):
            raise TypeError(f"expected tuple of {len(result)} elements but got {len(out)}")
        name = overload(name)
        for value, target in zip(result, out):
            if isinstance(target, Tensor):
                require_dtype(name, value.dtype, target.dtype)
        for value, target in zip(result, out):
            write_out(value, target, name)
        if hasattr(result, "_fields"):
            return getattr(result, "written", type(result))(*out)
        return tuple(out)
    if not isinstance(out, Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {type(out).__name__}")
    refuse_grad_with_out(name, result, out)
    if out.device != result.device:
        raise RuntimeError(
            f"Expected out tensor to be on {result.device}, but got {out.device} instead"
        )
    require_dtype(name, result.dtype, out.dtype)
    resize_output(out, result.shape, result.stride)
    before = _C.set_grad_enabled(False)
    try:
        out.copy_(result)
    finally:
        _C.set_grad_enabled(before)
    return out


def resize_output(out: Tensor, shape: Sequence[int], strides: Callable[[], Any]) -> None:
    """Gives an output another shape, dense in a result's order; warns when it had elements."""
    if tuple(out._array.shape) == tuple(shape):
        return
    if out.numel():
        warnings.warn(
            f"An output with one or more elements was resized since it had shape "
            f"{list(out.shape)}, which does not match the required output shape {list(shape)}. "
            f"This behavior is deprecated, and in a future PyTorch release outputs will not be "
            f"resized unless they have zero elements. You can explicitly reuse an out tensor t by "
            f"resizing it, inplace, to zero elements with t.resize_(0).",
            stacklevel=4,
        )
    out.resize_(shape)
    if (wanted := strides()) != out.stride():
        out._a = arrays.strided(out._array, shape, wanted, 0)


def in_place_of(function: Callable[..., Any], name: str, alone: bool = False) -> Any:
    """`x.f_(...)` from `f(x, ...)`: computes, then copies into x."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_inplace(self, *args)
        source = self
        if _C.is_grad_enabled() and _C.any_requires_grad(self, *args, *kwargs.values()):
            source = PUBLIC["clone"](self)  # gradients may need it as it was
        result = function(source, *args, **kwargs)
        require_separate(self, args, alone)
        require_castable(result.dtype, self.dtype)
        require_own_shape(function.__name__, result, self)
        node = result._raw_node
        if node is None or self._base is not None or result.dtype is not self.dtype:
            return self.copy_(result)
        before = _C.set_grad_enabled(False)
        try:
            self.copy_(result)
        finally:
            _C.set_grad_enabled(before)
        place(self, node, result.output_nr)
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place version of {function.__name__}."
    return method


def accepts_expanded(name: str, fill: Callable[..., Any]) -> None:
    """Lets `Tensor.name` write tensors whose elements share memory, which PyTorch advises against.

    fill(array, *arguments): writes NumPy's array where the operator would."""
    plain = getattr(Tensor, name)

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        try:
            return cast(Tensor, plain(self, *args, **kwargs))
        except RuntimeError as error:
            if str(error) != OVERLAP or type(self._array) is not ndarray:
                raise
            if differentiated(self, *args, *kwargs.values()):
                raise
        warnings.warn(
            f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before "
            f"performing this operation. This also applies to advanced indexing e.g. tensor[mask] "
            f"= scalar",
            stacklevel=2,
        )
        plainly = lambda x: x._array if isinstance(x, Tensor) else x
        fill(self._array, *map(plainly, args), **{k: plainly(x) for k, x in kwargs.items()})
        _C.bump_version(self)
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = plain.__doc__
    setattr(Tensor, name, method)


def differentiated(*tensors: Any) -> bool:
    """Whether a call on these is recorded."""
    return _C.is_grad_enabled() and _C.any_requires_grad(*tensors)


def in_place(
    op: Operator, self: Tensor, params: tuple[Any, ...], inputs: Sequence[Any], write: Any
) -> Tensor:
    """Runs `write()` on self's memory and makes the call self's history.

    inputs: the record's inputs, self first.
    """
    if any(isinstance(x, Tensor) and x._tangent is not None for x in inputs):
        return _write_dual(op, self, params, inputs, write)
    check_inplace(self, *inputs[1:])
    first, others = inputs[0], inputs[1:]
    before, shared = 0, list[Tensor]()
    if op.wants(*inputs):
        again = any(x is self for x in others)
        if again:
            twin = _as_it_was(self, _C.alias(self))
            others = [twin if x is self else x for x in others]
        shared = [x for x in others if isinstance(x, Tensor) and x._shared is self._shared]
        before = self._shared.version
        if again or _saves_self(op, inputs):
            first = _as_it_was(self, _C.wrap(arrays.copy(self._array)))
    write()
    _C.bump_version(self)
    node = op.record(self, params, first, *others)
    if shared and node is not None and node.saved is not None:
        # The gradient will say that what it needs was written.
        versions = node.versions or (0,) * len(node.saved)
        node.versions = tuple(
            before if any(x is each for each in shared) else version
            for x, version in zip(node.saved, versions)
        )
    rewrite_history(self, node)
    return self


def _as_it_was(tensor: Tensor, other: Tensor) -> Tensor:
    """Another tensor at the place in the graph that a tensor has before it is written."""
    other._raw_node, other.output_nr, other._leaf = tensor._node, tensor.output_nr, tensor._leaf
    return other


def _write_dual(
    op: Operator, self: Tensor, params: tuple[Any, ...], inputs: Sequence[Any], write: Any
) -> Tensor:
    from tritorch.ops import careful

    def plain(primal: Tensor, primals: Sequence[Any]) -> None:
        in_place(op, primal, params, primals, write)

    return careful.write_dual(op, self, inputs, params, plain)


def _saves_self(op: Operator, inputs: Sequence[Any]) -> bool:
    if op.joint:
        return op.inputs[0] in _argument_names(op.joint)
    return any(
        function is not None
        and op.inputs[0] in _argument_names(function)
        and isinstance(tensor, Tensor)
        and tensor._requires_grad
        for function, tensor in zip(op.gradients, inputs)
    )
