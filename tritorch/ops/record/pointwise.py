"""The pointwise record, and what every call of one goes through.

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
from tritorch.arrays import arrays
from tritorch.arrays.arrays import cast_number
from tritorch.arrays.meta import MetaArray
from tritorch.core import defaults
from tritorch.core.dtype import (
    all_dtypes,
    bool_,
    complex32,
    complex64,
    dtype,
    float32,
    from_numpy_dtype,
)
from tritorch.core.promotion import category, not_implemented
from tritorch.core.tensor import Tensor
from tritorch.gpu.pointwise.layout import LONG
from tritorch.host import threads
from tritorch.host.chains.chained import Chained, with_chains
from tritorch.host.pointwise.narrow import WIDE
from tritorch.ops.record.backends import composed_backend
from tritorch.ops.record.checks import (
    broadcast_shapes,
    require_castable,
    require_distinct_elements,
    shape_error,
)
from tritorch.ops.record.elements import decide
from tritorch.ops.record.groups import Operands, Without
from tritorch.ops.record.infer import elementwise, note_call
from tritorch.ops.record.operator import Array, Operator, ndarray
from tritorch.ops.record.outputs import require_dtype, require_separate

SAME, INT_TO_FLOAT, ALWAYS_BOOL, COMPLEX_TO_REAL = range(4)


ALIKE = Operands()  # operands of which none differs from the others
BIG = 1 << 20  # elements from which threads pay; the CPU's functions of several passes cut blocks


_CATEGORY = {"bool": 0, "int": 1, "float": 2, "complex": 3}


_NARROW = {"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"}  # compute in float32


_HALF = ("float16", "bfloat16")


@functools.cache
def _planned(rule: int, without: frozenset[int], without_half: bool) -> tuple[dtype, ...]:
    return tuple(
        kind
        for kind in all_dtypes
        if category(kind) not in without
        and not kind.is_complex
        and not (without_half and kind.name in _HALF)
        and (rule != INT_TO_FLOAT or kind.is_floating_point)
    )


@functools.cache
def _direct(rule: int, without: frozenset[int], direct: bool | str) -> frozenset[Any]:
    of_all = rule in (SAME, ALWAYS_BOOL, COMPLEX_TO_REAL)
    return frozenset(
        kind.numpy
        for kind in all_dtypes
        if direct
        and category(kind) not in without
        and kind.name not in _NARROW
        and (category(kind) >= 2 or of_all)
        and (direct is True or category(kind) == 2)
    )


class Pointwise(Operator):
    """A pointwise record: also its dtype rule, and which dtypes it does not take."""

    def __init__(
        self,
        name: str,
        inputs: str,
        cpu: Callable[..., Any],
        *,
        rule: int,
        schema: str = "",
        numbers: str = "any",
        operands: Operands = ALIKE,
        gpu: str | None = None,
        direct: bool | str = True,
        narrow: dict[str, str] | None = None,
        long: bool = False,
        composed: Callable[..., Tensor] | None = None,
        simpler: Callable[..., Any] | None = None,
        grad: Any = None,
        domain: tuple[float, float] = (-3.0, 3.0),
        zero: str = "",
        layout: str = "elementwise",
        without: str | Without = "",
    ) -> None:
        """numbers: which of two operands may be one: "all" (both at once, too), "any", "other",
        "none".
        direct: whether the CPU's function promotes numbers as PyTorch does and gives its dtype,
        for all dtypes or for "float" alone.
        narrow: the jit functions of narrow types, of an operator whose result depends on how far
        apart their numbers lie; others compute in float32.
        long: whether a thread computes two elements at most, as its registers would not do for
        more.
        simpler: of its operands, the same by cheaper operators where some are certain numbers, else
        None: for kernels in which numbers are constants.
        domain: between which numbers tests call it.
        zero: "kept" by a function of one number; "linear" if the function is that, too; "divided":
        kept where the second operand is a number."""
        self.simpler = simpler
        self.constant = rule == ALWAYS_BOOL
        self.raises = getattr(cpu, "raises", False)
        super().__init__(
            name, inputs, schema=schema, kind="pointwise", cpu=cpu, gpu=gpu or name,
            composed=composed, grad=grad, layout=layout,
        )  # fmt: skip
        self.refusal = refusal = without if isinstance(without, Without) else Without(without)
        self.masks, self.beside, apart = operands
        names = (*apart.split(), *self.inputs[len(self.inputs) - self.beside :])
        self.apart = sum(1 << self.inputs.index(name) for name in names)
        self.function = cpu
        self.gpu_name = gpu or name
        self.narrow, self.zero = narrow or {}, zero
        if long:
            LONG.add(self.gpu_name)
        self.rule = rule
        self.domain = domain
        words, says, shuns = refusal.dtypes.split(), refusal.says, refusal.shuns
        self.without = frozenset(_CATEGORY[word] for word in words if word not in ("half", "chalf"))
        self.without_half = "half" in words
        self.without_chalf = "chalf" in words
        self.widens = 2 not in self.without and not self.without_half and not self.narrow
        error = RuntimeError(says) if isinstance(says, str) else says
        self.refuses = (_CATEGORY[words[0]], type(error), str(error)) if says else None
        self.numbers = numbers
        self.shuns = _CATEGORY[shuns] if shuns else None
        self.is_ufunc = isinstance(cpu, np.ufunc)
        # Small arrays gain nothing where NumPy has the function, others do.
        self.chained = Chained(cpu, self.widens, lambda kind: self._result_kind(kind))
        self.large = with_chains(self.chained)
        self.eager = cpu if self.is_ufunc else self.large
        self.cpu = _C.Quiet(self.eager)  # type: ignore[method-assign]
        # On the GPU: what inputs of one dtype are computed in, and what comes out.
        self.plans = {
            kind: (kind, self.result_dtype(kind))
            for kind in _planned(rule, self.without, self.without_half)
            if kind.name not in self.narrow
        }
        self.elements = _C.ElementPlans(self, functools.partial(decide, self))
        # The dtypes that the ufunc maps to PyTorch's result, all inputs having the same one.
        self.direct = set(_direct(rule, self.without, direct))

    @functools.cached_property
    def rule_of_results(self) -> Callable[..., Any]:
        """A call on arrays without memory, or numbers."""
        from tritorch.ops.record.apply import apply

        return composed_backend(lambda *operands: apply(self, operands, None))

    def _result_kind(self, kind: np.dtype[Any]) -> np.dtype[Any]:
        return self.result_dtype(from_numpy_dtype(kind)).numpy

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

    def is_widened(self, compute: dtype) -> bool:
        """True if a dtype computes in float32, and results are rounded."""
        return compute.name in _NARROW and compute.name not in self.narrow

    def result_dtype(self, compute: dtype) -> dtype:
        """What comes out."""
        if self.rule == ALWAYS_BOOL:
            return bool_
        return compute.to_real() if self.rule == COMPLEX_TO_REAL else compute

    def compute(self, operands: Sequence[Any], compute: dtype, result: dtype) -> Any:
        """The result's array; operands are arrays of one device, broadcastable, and numbers."""
        for operand in operands:
            if type(operand) is MetaArray:
                found = elementwise(self, operands, compute, result)
                note_call(self, operands, (), found)
                return found
            if type(operand) is Array:
                name = self.narrow.get(compute.name, self.gpu_name)
                if compute.is_complex and not gpu_complex().computes(name, len(operands)):
                    path = f"pointwise.{name} (complex)"
                    from tritorch.gpu.by_host import through_host

                    return through_host(path, self.compute)(operands, compute, result)
                return gpu_pointwise().call(name, tuple(operands), compute, result)
        widens = self.is_widened(compute)
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
        if all(type(x) is not ndarray or x.dtype == kind for x in operands):
            quick = _C.call_seen(self.chained, *operands)
            if quick is not None:
                return quick
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
        places = {each: i for i, each in enumerate(given)}
        which = [places.get(id(operand)) for operand in operands]
        values = [o if type(o) is ndarray else cast_number(o, float32) for o in operands]

        def compute(*parts: Any) -> Any:
            wide = [arrays.convert(part, WIDE) for part in parts]
            result = self.cpu(*(v if i is None else wide[i] for v, i in zip(values, which)))
            return arrays.convert(result, kind)

        return threads.mapped(compute, kind, *given.values())

    def _on_cpu(self, values: list[Any], kind: dtype) -> Any:
        if max(getattr(value, "size", 0) for value in values) < BIG:
            return self.cpu(*values)
        quick = _C.call_seen(self.chained, *values)
        if quick is not None:
            return quick
        shape = np.broadcast_shapes(*(getattr(value, "shape", ()) for value in values))
        arrays_given = [v for v in values if type(v) is ndarray]
        same = [v for v in arrays_given if v.shape == shape]
        if all(v.flags.c_contiguous for v in same):
            out_dtype = self.result_dtype(kind).numpy
            if self.is_ufunc:
                out = np.empty(shape, out_dtype)
                threads.elementwise(self.cpu, out, *values)
                return out
            if len(same) == len(arrays_given):  # several passes: over blocks, each stays in cache
                into: Any = getattr(self.cpu, "into", None) if out_dtype is kind.numpy else None
                into = None if into is None else _C.Quiet(into)
                return threads.mapped(self.cpu, out_dtype, *values, into=into)
        return self.cpu(*values)


@functools.cache
def gpu_pointwise() -> Any:
    from tritorch.gpu.pointwise import pointwise

    return pointwise


@functools.cache
def gpu_complex() -> Any:
    from tritorch.gpu.pointwise import complex

    return complex
