"""Programs of scalars: written from a function of 0-d tensors, run on tensors, or emitted as the
source of a kernel's function.

# Note [Programs of scalars]
A function of a user's, of 0-d tensors, is called once on tensors that hold no numbers: each record
that it reaches leaves a step (`interpret/written.py`).  Gradients are records too, so a derivative
is written by differentiating.  All pointwise records can be emitted, by the functions that their
own kernels call; elements of tensors are loaded at places that are computed.  What a program cannot
say raises NotWritable: values that are read, tensors of dims, in-place forms, random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.written import NotWritable, Program, Step, Value, WrittenArray
from tritorch.autograd import grad
from tritorch.core import dtype as dtypes
from tritorch.core.dtype import dtype
from tritorch.core.generator import default_generator
from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor
from tritorch.gpu.pointwise.layout import INT32_MAX, reach
from tritorch.ops.index.indexing import scalars
from tritorch.ops.interpret.written import operand
from tritorch.ops.record.apply import apply
from tritorch.ops.shape.factory import full
from tritorch.triton import names


def write(
    program: Program, function: Callable[..., Any], inputs: Sequence[tuple[str, dtype]],
    slope: bool = False,
) -> list[Value]:  # fmt: skip
    """What a function of 0-d tensors computes, and with `slope` its derivative with respect to the
    first one; NotWritable if that cannot be said."""
    numbers = []
    for name, kind in inputs:
        value = program.add(Step("input", (), kind, place=name))
        numbers.append(_C.wrap(WrittenArray(program, value, kind)))
    first = numbers[0].requires_grad_() if slope else numbers[0]
    drawn = default_generator.get_state()
    with Scope((_C.set_grad_enabled, slope)), scalars.kept():
        out = function(*numbers)
        outputs = [_value(program, out)]
        if slope:
            outputs.append(_slope(program, out, first))
    if not default_generator.get_state().equal(drawn):  # they would be the same for all places
        default_generator.set_state(drawn)
        raise NotWritable("random numbers")
    return outputs


def _value(program: Program, x: Any) -> Value:
    if isinstance(x, Tensor):
        return operand(program, x.detach())
    if type(x) not in (bool, int, float):
        raise NotWritable(f"a result that is a {type(x).__name__}")
    kind = {bool: dtypes.bool_, int: dtypes.int64, float: dtypes.float32}[type(x)]
    return program.add(Step("constant", (x,), kind))


def _slope(program: Program, out: Any, first: Tensor) -> Value:
    found = None
    if isinstance(out, Tensor) and out._requires_grad:
        seed = program.add(Step("constant", (1.0,), out.dtype))
        ones = _C.wrap(WrittenArray(program, seed, out.dtype, out.shape))
        (found,) = grad(out, first, ones, allow_unused=True)
    if found is None:
        return program.add(Step("constant", (0.0,), first.dtype))
    return _value(program, found)


def run(
    program: Program, outputs: Sequence[Value], inputs: dict[str, Any], tensors: Sequence[Any]
) -> list[Any]:
    """Computes outputs by operators, on inputs that broadcast; tensors: what is loaded from."""
    known: dict[int, Any] = {}
    device = next(iter(inputs.values())).device

    def value(x: Any) -> Any:
        return known[x.step] if type(x) is Value else x

    for i in program.needed(outputs):
        step = program.steps[i]
        values = tuple(map(value, step.operands))
        if step.made_by == "input":
            known[i] = inputs[step.place]
        elif step.made_by == "constant":
            known[i] = full((), values[0], dtype=step.dtype, device=device)
        elif step.made_by == "load":
            known[i] = tensors[step.place][values] if values else tensors[step.place]
        elif step.made_by == "convert":
            known[i] = values[0].to(step.dtype)
        else:
            known[i] = apply(step.made_by, values)
    return [known[each.step] for each in outputs]


def loads_by(program: Program, outputs: Sequence[Value], inputs: Sequence[str]) -> bool:
    """Whether some element is loaded at a place that depends on all of some inputs."""
    known: dict[int, frozenset[str]] = {}
    for i in program.needed(outputs):
        step = program.steps[i]
        own = (known[x.step] for x in step.operands if type(x) is Value)
        known[i] = frozenset((step.place,)) if step.made_by == "input" else frozenset().union(*own)
        if step.made_by == "load" and known[i].issuperset(inputs):
            return True
    return False


# ---- source --------------------------------------------------------------------------------------

_NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
_HEAD = '''"""Written by tritorch from a function of a program."""

import triton
import triton.language as tl

from tritorch.kernels.copy import convert
from tritorch.kernels.flex import constant, offset
{imports}

@triton.jit
def {name}({arguments}):
{lines}
    return {results}
'''


def _type(kind: dtype) -> str:
    return f"tl.{names.element_type(kind.name).name}"


def _held(kind: dtype) -> dtype:
    """What a number is held as: narrow floats are float32, rounded to themselves."""
    return dtypes.float32 if kind.name in _NARROW else kind


def _number(x: Any, kind: dtype) -> str:
    if kind.is_floating_point:
        x = float(x)
        return repr(x) if math.isfinite(x) else f'float("{x}")'
    return repr(bool(x) if kind is dtypes.bool_ else int(x))


class _Source:
    """The lines of a program's function, and in which words its steps are named."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: list[str] = []
        self.functions: set[str] = set()
        self.words: dict[int, str] = {}
        self.starts: list[int] = []  # of each tensor's dims among all sizes
        for i in range(len(program.tensors)):
            self.starts.append(sum(x.ndim for x in program.tensors[:i]))

    def said(self, x: Any, kind: dtype) -> str:
        """An operand as a type that is computed in."""
        if type(x) is not Value:
            return f"constant({_number(x, kind)}, {_type(kind)})"
        word, have = self.words[x.step], _held(self.program.steps[x.step].dtype)
        return word if have is kind else f"convert({word}, {_type(kind)})"

    def add(self, i: int, step: Step) -> None:
        """The line of a step, or its word."""
        held = _held(step.dtype)
        rounds = held is not step.dtype
        if step.made_by == "input":
            self.words[i] = step.place
            return
        if step.made_by == "constant":
            self.words[i] = self.said(step.operands[0], held)
            return
        if step.made_by == "load":
            text, rounds = self.load(step, _type(held)), False
        elif step.made_by == "convert":
            text = self.said(step.operands[0], held)
        else:
            function, compute = step.made_by.gpu_name, _held(step.compute or step.dtype)
            self.functions.add(function)
            text = f"{function}({', '.join(self.said(x, compute) for x in step.operands)})"
            if held is not compute:
                text = f"convert({text}, {_type(held)})"
        if rounds:
            text = f"convert(convert({text}, {_type(step.dtype)}), {_type(held)})"
        self.words[i] = f"x{i}"
        self.lines.append(f"x{i} = {text}")

    def load(self, step: Step, kind: str) -> str:
        """An element of a tensor."""
        array, start = self.program.tensors[step.place]._array, self.starts[step.place]
        wide = ", True" if reach(array.shape, array.strides) > INT32_MAX else ""
        places = []
        for i, place in enumerate(step.operands):
            word = (
                self.words[place.step] if type(place) is Value else self.said(place, dtypes.int32)
            )
            dim = start + i
            places.append(f"offset({word}, sizes[{dim}], strides[{dim}]{wide})")
        at = " + ".join(places) or "constant(0, tl.int32)"
        return f"convert(tl.load(pointers[{step.place}] + {at}), {kind})"


def emit(
    name: str, inputs: Sequence[str], program: Program, outputs: Sequence[Value],
    kinds: Sequence[dtype],
) -> str:  # fmt: skip
    """The source of a jit function of inputs that computes outputs, as `kinds`.

    What it loads from it takes as tuples of pointers, all sizes and all strides (`loaded`)."""
    source = _Source(program)
    for i in program.needed(outputs):
        source.add(i, program.steps[i])
    used = ", ".join(sorted(source.functions))
    return _HEAD.format(
        imports=f"from tritorch.kernels.pointwise import {used}\n" if used else "",
        name=name, lines="\n".join(f"    {line}" for line in source.lines),
        results=", ".join(source.said(x, kind) for x, kind in zip(outputs, kinds)),
        arguments=", ".join((*inputs, "pointers", "sizes", "strides")),
    )  # fmt: skip


def loaded(program: Program) -> tuple[tuple[Any, ...], tuple[int, ...], tuple[int, ...]]:
    """The arrays that a program's functions load from, their sizes and strides, for a launch."""
    arrays = [x._array for x in program.tensors]
    sizes = tuple(n for x in arrays for n in x.shape)
    strides = tuple(n for x in arrays for n in x.strides)
    return tuple(arrays), sizes or (0,), strides or (0,)
