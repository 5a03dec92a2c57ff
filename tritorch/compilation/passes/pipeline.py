"""The pass pipeline: small passes over a program's calls, one after the other, each a function from
calls to calls.  All but the last one keep bits; that one does if it is told to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tritorch.compilation.follow.tape import Form
from tritorch.compilation.fuse.fuser import written_kernels
from tritorch.compilation.passes.concat import concat_gradients
from tritorch.compilation.passes.cse import eliminate_common_calls
from tritorch.compilation.passes.fused_loops import fuse_loops
from tritorch.compilation.passes.inter_op import parallel_calls
from tritorch.compilation.passes.norms import fuse_norms
from tritorch.compilation.plan.lowering import Lowered

if TYPE_CHECKING:
    from tritorch.compilation.plan.plans import Making


@dataclass(frozen=True)
class Context:
    """The program that passes are run on. forms: arrays with dynamic sizes are of an unknown kind
    there; inputs: values from outside; kept: those needed at the end; alone: values from outside
    whose memory no other value shows."""

    forms: Sequence[Form]
    inputs: Iterable[int]
    kept: set[int]
    alone: Collection[int]
    making: Making


def _write_kernels(calls: Sequence[Lowered], context: Context) -> Sequence[Lowered]:
    making = context.making
    if not making.fusing:
        return calls
    # CUDA graphs can have no tables of addresses.
    exact, tables = making.fusing == "exact", not making.graphs
    return written_kernels(calls, list(context.forms), context.kept, exact, context.alone, tables)


# In their order, by the names by which they are switched off.
PASSES: dict[str, Callable[[Sequence[Lowered], Context], Sequence[Lowered]]] = {
    "cse": lambda calls, context: eliminate_common_calls(calls, context.inputs, context.kept),
    "concat": lambda calls, context: concat_gradients(calls, context.forms, context.kept),
    "norms": lambda calls, context: fuse_norms(calls, context.forms, context.kept),
    "fused_loops": lambda calls, context: fuse_loops(calls, context.forms, context.kept),
    "inter_op": lambda calls, context: parallel_calls(calls, context.forms),
    "fusion": _write_kernels,
}


def run_passes(
    calls: Sequence[Lowered], forms: Sequence[Form], inputs: Iterable[int], kept: set[int],
    making: Making, alone: Collection[int] = (),
) -> list[Lowered]:  # fmt: skip
    """The calls of a program, optimised by the passes that are not switched off."""
    context = Context(forms, inputs, kept, alone, making)
    for name, run in PASSES.items():
        if name not in making.without:
            calls = run(calls, context)
    return list(calls)
