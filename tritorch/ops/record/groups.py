"""Groups of a record's arguments: its gradient, the dtypes it refuses, rules about its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tritorch.ops.record.operator import Operator


class Gradient(NamedTuple):
    """The gradient of an operator, and what is kept for it.

    by: the function of the first input's gradient, or a tuple with one for each input: Note
    [Gradients name what they need] in `record/operator.py`.  joint: one function for all inputs in
    place of them; where it returns NotImplemented, gradients go through the composed definition.
    node: what its node is called, where its schema does not say it: Note [Names of nodes] in
    `record/nodes.py`.
    outputs: for several outputs, a mask of those that gradients flow through.
    unread: of a fused operator, the inputs whose values no gradient depends on.
    lends: inputs, or `out`, that are kept for the gradient but may be written: Note [Lent tensors].
    keeps: inputs that PyTorch keeps for the gradient, which this one does not need: whoever writes
    them before the backward pass gets the error that he would get there.
    """

    by: Any = None
    joint: Callable[..., Any] | None = None
    node: str = ""
    outputs: int = 1
    unread: str = ""
    lends: str = ""
    keeps: str = ""


class Without(NamedTuple):
    """The dtypes of which PyTorch has no kernel, and its error.

    dtypes: their names, or categories of them ("bool", "int", "half", "complex"; of a pointwise
    record "chalf", complex32, too).  kernel: what the error calls the kernel, where that is not the
    record's name.  typed: how many of the first inputs decide.
    Of a pointwise record: says: what PyTorch says (a RuntimeError, or an exception of its own,
    before anything else) of the category that it refuses: the first of `dtypes`.  shuns: the
    category that no operand may have, which the function refuses."""

    dtypes: str = ""
    kernel: str = ""
    typed: int = 1
    says: str | NotImplementedError = ""
    shuns: str = ""


class Rules(NamedTuple):
    """Facts about a call that need no data, where the record's kind does not say them.

    infer: the results for MetaArrays in place of arrays (`record/infer.py`).
    axes: what becomes of the axes of its inputs: Note [Axes] in `record/axes.py`.
    batch: the rule by which it runs on a batch of inputs at once (`interpret/batching.py`).
    cost: its floating point operations, for its results (a list), inputs and params as described
    (`record/cost.py`).  picks: of its first input it reads no more than goes into its result.
    identity: of a reduction, the number that changes nothing among those that are reduced; "lowest"
    or "highest": the dtype's.  averages: the record of the sum of which this is the mean."""

    infer: Callable[..., Any] | None = None
    axes: str | Callable[..., str | None] | None = None
    batch: str = ""
    cost: Callable[..., Any] | None = None
    picks: bool = False
    identity: Any = None
    averages: Operator | None = None


class Operands(NamedTuple):
    """Differences between the operands of a pointwise record.

    masks: how many of the first are bools, whatever is computed in.  beside: how many of the last
    are numbers that do not promote.  apart: inputs that are no operands where they are numbers: in
    PyTorch they do not take part in where the result lies, as do other numbers."""

    masks: int = 0
    beside: int = 0
    apart: str = ""
