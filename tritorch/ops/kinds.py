"""The pointwise kinds: unary, binary and ternary operators from one line each.

A kind owns validation, promotion, broadcasting and allocation.  Its function has a fast path, plain
ndarrays of one dtype that the ufunc handles as PyTorch does, and a general path for all else.

# Note [Dtype rules]
A rule names how inputs become the dtype that is computed in, and what comes out:

    SAME            what the inputs promote to
    INT_TO_FLOAT    the same, integers and bools becoming the default float
    ALWAYS_BOOL     computed in the promoted dtype, gives bool
    COMPLEX_TO_REAL the promoted dtype; complex gives its parts' dtype
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.autograd.graph import check_inplace
from tritorch.core import arrays, defaults
from tritorch.core.arrays import cast_number
from tritorch.core.dtype import all_dtypes, bool_, complex32, complex64, dtype, float32
from tritorch.core.promotion import category, promote_types, result_type
from tritorch.core.tensor import Tensor
from tritorch.cpu.narrow import PER, WIDE, is_narrow, round_block, widen_block
from tritorch.ops.checks import (
    broadcast_shapes,
    not_implemented,
    require_castable,
    require_distinct_elements,
)
from tritorch.ops.declare import (
    PUBLIC,
    Array,
    Operator,
    in_place,
    ndarray,
    refuse_grad_with_out,
    resize_output,
)
from tritorch.ops.outputs import require_dtype, require_separate

SAME, INT_TO_FLOAT, ALWAYS_BOOL, COMPLEX_TO_REAL = range(4)
BIG = 1 << 20  # elements from which threads pay; the CPU's functions of several passes cut blocks

_CATEGORY = {"bool": 0, "int": 1, "float": 2, "complex": 3}
_NARROW = {"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"}  # compute in float32
_HALF = ("float16", "bfloat16")


class Pointwise(Operator):
    """A pointwise record: also its dtype rule, and which dtypes it does not take."""

    def __init__(
        self,
        name: str,
        inputs: str,
        cpu: Callable[..., Any],
        *,
        rule: int,
        grad: Any = None,
        params: str = "",
        without: str = "",
        gpu: str | None = None,
        node: str | None = None,
        domain: tuple[float, float] = (-3.0, 3.0),
        direct: bool | str = True,
        masks: int = 0,
        lends: str = "",
        keeps: str = "",
        numbers: str = "any",
        refuses: str | NotImplementedError = "",
        layout: str = "elementwise",
        beside: int = 0,
        apart: str = "",
        narrow: dict[str, str] | None = None,
    ) -> None:
        """without: the categories that PyTorch does not implement, "half" being both narrow floats
        and "chalf" complex32.
        direct: whether the CPU's function promotes numbers as PyTorch does and gives its dtype,
        for all dtypes or for "float" alone.
        numbers: which of two operands may be one: "any", "other", "none".
        refuses: what PyTorch says (a RuntimeError, or an exception of its own, before anything
        else) of the category that it refuses: the first of `without`.
        beside: how many of the last inputs are numbers that do not promote.
        apart: inputs that are no operands where they are numbers: in PyTorch they do not take part
        in where the result lies, as do other numbers.
        narrow: the jit functions of narrow types, of an operator whose result depends on how far
        apart their numbers lie; others compute in float32."""
        super().__init__(
            name, inputs, params, cpu=cpu, gpu=gpu or name, grad=grad, node=node,
            kind="pointwise", lends=lends, keeps=keeps, layout=layout,
        )  # fmt: skip
        self.beside = beside
        names = (*apart.split(), *self.inputs[len(self.inputs) - beside :])
        self.apart = sum(1 << self.inputs.index(name) for name in names)
        self.function = cpu
        self.cpu = _C.Quiet(cpu)  # type: ignore[method-assign]
        self.gpu_name = gpu or name
        self.narrow = narrow or {}
        self.rule = rule
        self.masks = masks  # the first inputs are bools, whatever is computed in
        self.domain = domain
        words = without.split()
        self.without = frozenset(_CATEGORY[word] for word in words if word not in ("half", "chalf"))
        self.without_half = "half" in words
        self.without_chalf = "chalf" in words
        self.widens = 2 not in self.without and not self.without_half and not self.narrow
        refusal = RuntimeError(refuses) if isinstance(refuses, str) else refuses
        self.refuses = (_CATEGORY[words[0]], type(refusal), str(refusal)) if refuses else None
        self.numbers = numbers
        self.is_ufunc = isinstance(cpu, np.ufunc)
        # On the GPU: what inputs of one dtype are computed in, and what comes out.
        self.plans = {
            kind: (kind, self.result_dtype(kind))
            for kind in all_dtypes
            if category(kind) not in self.without
            and not kind.is_complex
            and not (self.without_half and kind.name in _HALF)
            and (rule != INT_TO_FLOAT or kind.is_floating_point)
            and kind.name not in self.narrow
        }
        # The dtypes that the ufunc maps to PyTorch's result, all inputs having the same one.
        self.direct = frozenset(
            kind.numpy
            for kind in all_dtypes
            if direct and self._is_direct(kind) and (direct is True or category(kind) == 2)
        )

    def _is_direct(self, kind: dtype) -> bool:
        rank = category(kind)
        if rank in self.without or kind.name in _NARROW:
            return False
        return rank >= 2 or self.rule in (SAME, ALWAYS_BOOL, COMPLEX_TO_REAL)

    def compute_dtype(self, common: dtype) -> dtype:
        """What is computed in, given what the inputs promote to."""
        if not self.implements(common):
            raise not_implemented(self.name, common)
        if self.rule == INT_TO_FLOAT and category(common) < 2:
            return defaults.dtype()
        return common

    def implements(self, common: dtype) -> bool:
        """Whether PyTorch has a kernel for what inputs promote to; a RuntimeError if it says so."""
        rank = category(common)
        if self.refuses is not None and self.refuses[0] == rank:
            raise self.refuses[1](self.refuses[2])
        if rank in self.without or (self.without_half and common.name in _HALF):
            return False
        return common.native or (common is complex32 and not self.without_chalf)

    def refuse(self, inputs: Sequence[Any], common: dtype, out: Tensor | None, shape: Any) -> None:
        """Says what is wrong with a call for whose dtype there is no kernel.  What does not depend
        on kernels is looked at first, as in PyTorch: shapes, and whether the result can be cast.

        shape: that of a tensor that is written in place."""
        broadcast = broadcast_shapes(*(x.shape for x in inputs if isinstance(x, Tensor)))
        if shape is not None and broadcast != tuple(shape):
            raise shape_error(shape, broadcast)
        if isinstance(out, Tensor):
            to_float = self.rule == INT_TO_FLOAT and category(common) < 2
            result = defaults.dtype() if to_float else common
            check = (
                require_castable
                if shape is not None
                else functools.partial(require_dtype, self.name)
            )
            check(self.result_dtype(result), out.dtype)
            require_distinct_elements(out)
            require_separate(out, inputs)
            if broadcast != tuple(out.shape) and any(x is out for x in inputs):
                raise shape_error(out.shape, broadcast)
        raise not_implemented(self.name, common)

    def result_dtype(self, compute: dtype) -> dtype:
        """What comes out."""
        if self.rule == ALWAYS_BOOL:
            return bool_
        return compute.to_real() if self.rule == COMPLEX_TO_REAL else compute

    def compute(self, operands: Sequence[Any], compute: dtype, result: dtype) -> Any:
        """The result's array; operands are arrays of one device, broadcastable, and numbers."""
        for operand in operands:
            if type(operand) is Array:
                name = self.narrow.get(compute.name, self.gpu_name)
                return _gpu().call(name, tuple(operands), compute, result)
        widens = compute.name in _NARROW and compute.name not in self.narrow
        kind = float32 if widens else compute
        if widens and not self.masks:
            quick = self._narrow_in_blocks(operands, compute.numpy)
            if quick is not None:
                return quick
        if compute is complex32:
            kind = complex64
        values = [
            arrays.cast(operand, kind) if type(operand) is ndarray else cast_number(operand, kind)
            for operand in operands[self.masks :]
        ]
        values[:0] = operands[: self.masks]
        if not any(type(operand) is ndarray for operand in operands):
            values = [np.asarray(value, kind.numpy) for value in values]
        out = self._on_cpu(values, kind)
        if type(out) is not ndarray:
            out = np.asarray(out)
        return arrays.cast(out, result)

    def _narrow_in_blocks(self, operands: Sequence[Any], kind: np.dtype[Any]) -> Any:
        """Large dense arrays of one narrow type, each block widened, computed and rounded in the
        cache; else None."""
        first = operands[0]
        if type(first) is not ndarray or first.size < BIG or self.result_dtype(float32) is bool_:
            return None
        given: dict[int, Any] = {}  # by identity: h + h widens once
        for operand in operands:
            if type(operand) is ndarray:
                if operand.dtype != kind or operand.shape != first.shape:
                    return None
                if not operand.flags.c_contiguous:
                    return None
                given[id(operand)] = operand
        from tritorch.cpu import threads

        places = {each: i for i, each in enumerate(given)}
        which = [places.get(id(operand)) for operand in operands]
        values = [o if type(o) is ndarray else cast_number(o, float32) for o in operands]

        def compute(*parts: Any) -> Any:
            wide = [widen_block(part) for part in parts]
            result = self.cpu(*(v if i is None else wide[i] for v, i in zip(values, which)))
            return round_block(result, kind)

        return threads.mapped(compute, kind, *given.values(), per=PER)

    def _on_cpu(self, values: list[Any], kind: dtype) -> Any:
        if max(getattr(value, "size", 0) for value in values) < BIG:
            return self.cpu(*values)
        shape = np.broadcast_shapes(*(getattr(value, "shape", ()) for value in values))
        arrays_given = [v for v in values if type(v) is ndarray]
        same = [v for v in arrays_given if v.shape == shape]
        if all(v.flags.c_contiguous for v in same):
            from tritorch.cpu import threads

            out_dtype = self.result_dtype(kind).numpy
            if self.is_ufunc:
                out = np.empty(shape, out_dtype)
                threads.elementwise(self.cpu, out, *values)
                return out
            if len(same) == len(arrays_given):  # several passes: over blocks, each stays in cache
                into = getattr(self.cpu, "into", None) if out_dtype is kind.numpy else None
                return threads.mapped(self.cpu, out_dtype, *values, into=into)
        return self.cpu(*values)


@functools.cache
def _gpu() -> Any:
    from tritorch.gpu import pointwise

    return pointwise


def _export(name: str, function: Any, *, method: bool = True, public: bool = True) -> None:
    function.__name__ = function.__qualname__ = name
    if public:
        PUBLIC[name] = function
    if method:
        setattr(Tensor, name, function)


def _write(array: Any, value: Any) -> None:
    """array[...] = value, with whatever cast that takes."""
    if type(array) is ndarray:
        if array.dtype.kind in "iu" and value.dtype.kind == "f":
            value = value.astype(np.int64)
        elif array.dtype.kind != "c" and value.dtype.kind == "c":
            value = value.real
        if array.dtype.names and not value.dtype.names:  # complex32 is a pair of numbers
            array["real"], array["imag"] = value.real, value.imag
            return
        np.copyto(array, value, casting="unsafe")
    else:
        array.copy_(value)


def _direct(op: Pointwise, inputs: Sequence[Any]) -> Any:
    """The result for floats of one dtype and numbers: NumPy promotes them as PyTorch; else None."""
    masks = op.masks
    operands: list[Any] = []
    kind = None
    try:
        for value in inputs:
            number = type(value)
            if number is not float and number is not int:
                value = value._a
                if type(value) is not ndarray or value.size >= BIG:
                    return None
                if len(operands) >= masks:
                    if kind is None:
                        kind = value.dtype
                    elif value.dtype is not kind:
                        return None
            operands.append(value)
        if kind in op.direct and kind.kind == "f":
            result = op.cpu(*operands)
        elif kind is not None and is_narrow(kind) and op.widens:
            wide: dict[int, Any] = {}  # by identity: h + h widens once
            for i in range(masks, len(operands)):
                value = operands[i]
                if type(value) is ndarray:
                    operands[i] = wide.get(id(value))
                    if operands[i] is None:
                        wide[id(value)] = operands[i] = value.astype(WIDE)
            result = op.cpu(*operands)
            if result.dtype is WIDE:
                result = result.astype(kind)
        else:
            return None
        return result if type(result) is ndarray else None
    except (AttributeError, ValueError, OverflowError, TypeError):
        return None  # the general path says what is wrong, if anything is


def _require_integers(inputs: Sequence[Any]) -> None:
    """Refuses Python integers that no integer type holds."""
    for value in inputs:
        if type(value) is int and not -(2**63) <= value < 2**64:
            raise OverflowError("int too big to convert")


def shape_error(shape: Sequence[int], broadcast: Sequence[int]) -> RuntimeError:
    """Results of one shape do not fit a tensor of another."""
    return RuntimeError(
        f"output with shape {list(shape)} doesn't match the broadcast shape {list(broadcast)}"
    )


def apply(op: Pointwise, inputs: Sequence[Any], out: Any = None) -> Any:
    """The general path: tensors and numbers, any dtypes, shapes that broadcast."""
    if out is None:
        result = _direct(op, inputs)
        if result is not None:
            return op.finish(result, *inputs)
    _require_integers(inputs)
    common = result_type(*inputs[op.masks : len(inputs) - op.beside])
    if not op.implements(common):
        op.refuse(inputs, common, out, None)
    compute = op.compute_dtype(common)
    result = op.result_dtype(compute)
    operands, shape, _ = _operands(op, inputs)
    if operands is None:
        from tritorch.ops import careful

        return careful.pointwise(op, inputs, out)
    if out is None:
        return op.finish_cast(op.compute(operands, compute, result), compute.numpy, *inputs)
    refuse_grad_with_out(op.name, *inputs, out)
    if not isinstance(out, Tensor):
        raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if op.rule == COMPLEX_TO_REAL and compute.is_complex:
        if out.dtype is not compute:
            require_castable(result, out.dtype)
    else:
        require_dtype(op.name, result, out.dtype)
    require_distinct_elements(out)
    require_separate(out, inputs)
    if tuple(out.shape) != tuple(shape) and any(x is out for x in inputs):
        raise shape_error(out.shape, shape)
    value = op.compute(operands, compute, result)
    resize_output(out, shape, lambda: op.finish_cast(value, compute.numpy, *inputs).stride())
    check_inplace(out)
    _write(out._array, value)
    _C.bump_version(out)
    return out


def _operands(op: Pointwise, inputs: Sequence[Any]) -> tuple[Any, tuple[int, ...], Any]:
    """Arrays (or numbers), the broadcast shape, the device.  No operands: take care."""
    operands: list[Any] = []
    shapes: list[tuple[int, ...]] = []
    on_gpu = None
    for value in inputs:
        if isinstance(value, Tensor):
            try:
                array = value._a
            except AttributeError:
                return None, (), None
            kind = type(array)
            if kind is Array:
                if on_gpu is not None and array.device_index != on_gpu.device_index:
                    _refuse_devices(inputs)
                on_gpu = array
            elif kind is not ndarray:
                return None, (), None
            operands.append(array)
            shapes.append(array.shape)
        else:
            operands.append(value)
    if on_gpu is not None:
        # A 0-d tensor on the CPU may meet tensors on a GPU, as a number.
        for i, operand in enumerate(operands):
            if type(operand) is ndarray:
                if operand.ndim:
                    _refuse_devices(inputs)
                operands[i] = operand.item()
    return operands, broadcast_shapes(*shapes) if shapes else (), on_gpu


def _refuse_devices(inputs: Sequence[Any]) -> None:
    devices = list(dict.fromkeys(str(t.device) for t in inputs if isinstance(t, Tensor)))
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, "
        f"{devices[0]} and {devices[1]}!"
    )


def apply_in_place(op: Pointwise, inputs: Sequence[Any]) -> Tensor:
    """The in-place form: the result goes into the first input."""
    self = inputs[0]
    check_inplace(self, *inputs[1:])
    _require_integers(inputs)
    common = result_type(*inputs[op.masks : len(inputs) - op.beside])
    if not op.implements(common):
        op.refuse(inputs, common, self, self.shape)
    compute = op.compute_dtype(common)
    result = op.result_dtype(compute)
    if op.rule == COMPLEX_TO_REAL and compute.is_complex:
        raise RuntimeError(f"In-place {op.name} is not supported for complex tensors.")
    require_castable(result, self.dtype)
    operands, shape, _ = _operands(op, inputs)
    if operands is None:
        from tritorch.ops import careful

        return careful.in_place(op, inputs)
    array = self._a
    if shape != tuple(array.shape):
        raise shape_error(array.shape, shape)
    require_distinct_elements(self)
    require_separate(self, inputs)

    def write() -> None:
        if (
            op.is_ufunc
            and type(array) is ndarray
            and result.numpy is array.dtype
            and array.dtype in op.direct
            and all(type(o) is not ndarray or o.dtype is array.dtype for o in operands)
        ):
            try:
                if len(operands) == 1 and array.size >= BIG and _in_blocks(array, operands):
                    from tritorch.cpu import threads

                    threads.elementwise(op.cpu, array, *operands)
                else:
                    op.cpu(*operands, out=array)  # type: ignore[call-arg]
                return
            except (OverflowError, TypeError):
                pass
        if type(array) is Array and not compute.is_complex and _gpu().may_write(array, operands):
            name = op.narrow.get(compute.name, op.gpu_name)
            _gpu().call(name, tuple(operands), compute, result, array)
        else:
            _write(array, op.compute(operands, compute, result))

    return in_place(op, self, (), inputs, write)


def _in_blocks(array: Any, operands: Sequence[Any]) -> bool:
    """Whether blocks of an array may be written while others are read: all dense, none shifted."""
    return array.flags.c_contiguous and all(
        o is array or (o.flags.c_contiguous and not np.may_share_memory(o, array))
        for o in operands
        if type(o) is ndarray
    )


# ---- unary ---------------------------------------------------------------------------------------


def unary(
    name: str,
    cpu: Callable[..., Any],
    *,
    rule: int = SAME,
    grad: Any = None,
    without: str = "",
    gpu: str | None = None,
    aliases: Sequence[str] = (),
    inplace: bool | str = True,
    method: bool = True,
    public: bool = True,
    node: str | None = None,
    domain: tuple[float, float] = (-3.0, 3.0),
    direct: bool | str = True,
    lends: str = "",
    refuses: str | NotImplementedError = "",
    layout: str = "elementwise",
    out: bool = True,
    doc: str = "",
) -> Callable[..., Tensor]:
    """Declares y = f(x): the function, the method, in place and `out=`.

    inplace: "constant" where PyTorch cannot differentiate the form in place."""
    op = Pointwise(
        name, "x", cpu, rule=rule, grad=grad, without=without, gpu=gpu, node=node,
        domain=domain, direct=direct, lends=lends, refuses=refuses, layout=layout,
    )  # fmt: skip
    may_write = out
    run, finish, fits, plans = op.apply, op.finish, op.direct, op.plans

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        try:
            a = input._a
            kind = a.dtype
            if kind in fits and out is None and type(a) is ndarray and a.size < BIG:
                return run(cpu, a, input)
            elif type(a) is Array and kind in plans and out is None and a.is_contiguous():
                return finish(_gpu().flat1(op.gpu_name, a, *plans[kind]), input)
        except AttributeError:
            if not isinstance(input, Tensor):
                raise TypeError(
                    f"{name}(): argument 'input' (position 1) must be Tensor, not "
                    f"{type(input).__name__}"
                ) from None
        if out is not None and not may_write:
            raise TypeError(f"{name}() got an unexpected keyword argument 'out'")
        return apply(op, (input,), out)

    function.__doc__ = doc or f"{name} of each element."
    _publish(op, function, aliases, method, public)
    if inplace:
        written = op
        if inplace == "constant":
            written = Pointwise(
                f"{name}_", "x", cpu, rule=rule, without=without, gpu=gpu or name,
                node=f"{name.title()}1", grad=without_derivative_in_place(name),
            )  # fmt: skip

        def method_in_place(self: Tensor) -> Tensor:
            return apply_in_place(written, (self,))

        method_in_place.__doc__ = f"In-place version of {name}."
        for alias in (name, *aliases):
            _export(f"{alias}_", method_in_place, public=alias in _TORCH_IN_PLACE)
    return function


def without_derivative_in_place(name: str) -> Callable[..., Any]:
    """The gradient of a form in place of which PyTorch has none."""

    def refuse(g: Tensor) -> Tensor:
        raise NotImplementedError(
            f"the derivative for 'inplace version of {name}' is not implemented."
        )

    return refuse


# torch publishes some in-place forms as functions too.
_TORCH_IN_PLACE = frozenset(
    [
        "abs",
        "acos",
        "acosh",
        "arccos",
        "arccosh",
        "arcsin",
        "arcsinh",
        "arctan",
        "arctanh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "ceil",
        "conj",
        "cos",
        "cosh",
        "deg2rad",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "fix",
        "floor",
        "frac",
        "log",
        "log10",
        "log1p",
        "log2",
        "neg",
        "negative",
        "rad2deg",
        "reciprocal",
        "relu",
        "round",
        "rsqrt",
        "sigmoid",
        "sin",
        "sinc",
        "sinh",
        "sqrt",
        "square",
        "tan",
        "tanh",
        "trunc",
    ]
)


def _publish(
    op: Operator, function: Any, aliases: Sequence[str], method: bool, public: bool
) -> None:
    function.op = op
    for alias in (*aliases, op.name):  # the last one names the function
        _export(alias, function, method=method, public=public)


# ---- binary --------------------------------------------------------------------------------------


def binary(
    name: str,
    cpu: Callable[..., Any],
    *,
    rule: int = SAME,
    grad: Any = None,
    without: str = "",
    gpu: str | None = None,
    aliases: Sequence[str] = (),
    inplace: bool = True,
    method: bool = True,
    public: bool = True,
    operator: str | None = None,
    node: str | None = None,
    domain: tuple[float, float] = (-3.0, 3.0),
    direct: bool | str = True,
    numbers: str = "any",
    keeps: str = "",
    refuses: str | NotImplementedError = "",
    layout: str = "elementwise",
    apart: str = "",
    export: bool = True,
    narrow: dict[str, str] | None = None,
    doc: str = "",
) -> Callable[..., Tensor]:
    """Declares z = f(a, b): the function, the method, in place, `out=`, and Python's operator."""
    op = Pointwise(
        name, "a b", cpu, rule=rule, grad=grad, without=without, gpu=gpu, node=node,
        domain=domain, direct=direct, numbers=numbers, keeps=keeps, refuses=refuses, layout=layout,
        apart=apart, narrow=narrow,
    )  # fmt: skip
    function = fast_binary(op, _general_binary(op))
    function.__doc__ = doc or f"{name} of each pair of elements, broadcasting."
    if export:
        _publish(op, function, aliases, method, public)
    else:
        function.op = op  # type: ignore[attr-defined]
        function.__name__ = name
    if operator:
        attach_operator(
            operator,
            fast_binary(op, _general_operator(op)),
            lambda self, other: apply_in_place(op, (self, other)),
        )
    if inplace and export:
        method_in_place = fast_in_place(op)
        method_in_place.__doc__ = f"In-place version of {name}."
        for alias in (name, *aliases):
            _export(f"{alias}_", method_in_place, public=False)
    return function


def fast_in_place(op: Pointwise) -> Callable[..., Tensor]:
    """a.f_(b) on plain ndarrays of one dtype that nobody records; the general path for all else."""
    cpu, wants, fits, plans = op.cpu, op.wants, op.direct, op.plans
    bump, numbers, meet = _C.bump_version, op.numbers != "none", np.may_share_memory

    def method(self: Tensor, other: Any) -> Tensor:
        if op.is_ufunc and op.rule == SAME:
            try:
                a = self._a
                kind = a.dtype
                number = type(other)
                if number is float or number is int:
                    if (
                        numbers
                        and type(a) is ndarray
                        and kind in fits
                        and (kind.kind == "f" or (number is int and kind.kind in "iu"))
                        and a.size < BIG
                        and 0 not in a.strides
                        and not self._inference
                        and not wants(self)
                    ):
                        cpu(a, other, a)
                        bump(self)
                        return self
                    _require_operands(op, self, other)
                    return apply_in_place(op, (self, other))
                b = other._a
                if b.dtype is kind and kind in fits and type(a) is ndarray and type(b) is ndarray:
                    if (
                        a.shape == b.shape
                        and a.size < BIG
                        and (a.base is None is b.base or not np.may_share_memory(a, b))
                        and 0 not in a.strides
                        and (a is b or a.base is None is b.base or not meet(a, b))
                        and not self._inference
                        and not wants(self, other)
                    ):
                        cpu(a, b, a)
                        bump(self)
                        return self
                elif (
                    type(a) is Array
                    and kind in plans
                    and type(b) is Array
                    and b.dtype is kind
                    and not wants(self, other)
                ):
                    if a.shape == b.shape and a.is_contiguous() and b.is_contiguous():
                        if _gpu().may_write(a, (b,)) and not self._inference:
                            _gpu().flat2(op.gpu_name, a, b, *plans[kind], a)
                            bump(self)
                            return self
            except (AttributeError, OverflowError):
                pass
        _require_operands(op, self, other)
        return apply_in_place(op, (self, other))

    return method


def fast_binary(op: Pointwise, general: Callable[..., Any]) -> Callable[..., Any]:
    """f(a, b) on plain ndarrays of one dtype (or with a number); `general` for all else."""
    cpu, run, finish, fits, plans = op.function, op.apply, op.finish, op.direct, op.plans
    numbers = op.numbers != "none"
    # NumPy compares narrow integers with numbers that they do not hold; PyTorch casts those.
    integers = "i" if op.rule == ALWAYS_BOOL else "iu"
    least = 8 if op.rule == ALWAYS_BOOL else 1

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        try:
            a = input._a
            kind = a.dtype
            if kind in fits and out is None and type(a) is ndarray and a.size < BIG:
                number = type(other)
                if number is float or number is int:
                    if numbers and (
                        kind.kind == "f"
                        or (number is int and kind.kind in integers and kind.itemsize >= least)
                    ):
                        return run(cpu, a, other, input, other)
                else:
                    b = other._a
                    if type(b) is ndarray and b.dtype is kind and b.size < BIG:
                        return run(cpu, a, b, input, other)
            elif type(a) is Array and kind in plans and out is None and a.is_contiguous():
                number = type(other)
                if number is float or number is int:
                    if kind.is_floating_point and numbers:
                        launched = _gpu().flat2_number(op.gpu_name, a, other, *plans[kind])
                        return finish(launched, input, other)
                else:
                    b = other._a
                    if b.dtype is kind and a.shape == b.shape and b.is_contiguous():
                        if a.device_index == b.device_index:
                            launched = _gpu().flat2(op.gpu_name, a, b, *plans[kind])
                            return finish(launched, input, other)
        except (AttributeError, ValueError, OverflowError, TypeError):
            pass  # the general path says what is wrong, if anything is
        return general(input, other, out)

    return function


def _general_binary(op: Pointwise) -> Callable[..., Any]:
    def general(input: Any, other: Any, out: Any) -> Any:
        _require_operands(op, input, other)
        return apply(op, (input, other), out)

    return general


def _general_operator(op: Pointwise) -> Callable[..., Any]:
    def general(input: Any, other: Any, out: Any) -> Any:
        if isinstance(other, OPERANDS):
            return apply(op, (input, other), out)
        if op.name == "eq" and isinstance(other, ndarray):
            return apply(op, (input, _C.wrap(other)), out)  # as in PyTorch; not <, >, !=
        return NotImplemented

    return general


def _require_operands(op: Pointwise, input: Any, other: Any) -> None:
    allowed = {"any": (True, True), "other": (False, True), "none": (False, False)}[op.numbers]
    for value, argument, position in ((input, "input", 1), (other, "other", 2)):
        kinds = (Tensor, int, float, complex, bool, np.generic)
        if not isinstance(value, kinds if allowed[position - 1] else Tensor):
            raise TypeError(
                f"{op.name}(): argument '{argument}' (position {position}) must be Tensor, not "
                f"{type(value).__name__}"
            )
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        raise TypeError(
            f"{op.name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )


OPERANDS = (Tensor, int, float, complex, np.generic)


def attach_operator(
    name: str,
    forward: Callable[..., Any],
    in_place_function: Callable[..., Any] | None,
    backward: Callable[..., Any] | None = None,
) -> None:
    """Makes a function of two operands Python's operator `name` ("add") of Tensor.

    Foreign types get their say: NotImplemented.  backward(self, other): other `name` self, where
    PyTorch computes that in another way.
    """

    def reflected(self: Any, other: Any) -> Any:
        if isinstance(other, OPERANDS):
            return backward(self, other) if backward else forward(other, self)
        if isinstance(other, np.ndarray):
            return forward(_C.wrap(other), self)
        return NotImplemented

    def in_place_operator(self: Any, other: Any) -> Any:
        assert in_place_function is not None
        return in_place_function(self, other) if isinstance(other, OPERANDS) else NotImplemented

    _export(f"__{name}__", forward, public=False)
    if name not in ("eq", "ne", "lt", "le", "gt", "ge"):
        _export(f"__r{name}__", reflected, public=False)
        if name == "truediv":
            _export("__rdiv__", reflected, public=False)
        if in_place_function is not None:
            _export(f"__i{name}__", in_place_operator, public=False)


def ternary(
    name: str, inputs: str, cpu: Callable[..., Any], *, rule: int = SAME, **options: Any
) -> Pointwise:
    """Declares the record of a pointwise function of three or more operands."""
    return Pointwise(name, inputs, cpu, rule=rule, **options)


__all__ = [
    "ALWAYS_BOOL",
    "COMPLEX_TO_REAL",
    "INT_TO_FLOAT",
    "SAME",
    "Pointwise",
    "apply",
    "apply_in_place",
    "attach_operator",
    "binary",
    "fast_binary",
    "fast_in_place",
    "promote_types",
    "ternary",
    "unary",
]
