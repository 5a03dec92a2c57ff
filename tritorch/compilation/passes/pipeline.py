"""What is done to a program's calls before it is made: one small pass after the other, each a
function from calls to calls.  All but the last one keep bits; that one does if it is told to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tritorch.compilation.follow.tape import Form
from tritorch.compilation.fuse.fuser import written_kernels
from tritorch.compilation.passes.concat import joined
from tritorch.compilation.passes.cse import once
from tritorch.compilation.passes.fused_loops import fused
from tritorch.compilation.passes.inter_op import side_by_side
from tritorch.compilation.passes.norms import normed
from tritorch.compilation.plan.lowering import Lowered

if TYPE_CHECKING:
    from tritorch.compilation.plan.plans import Making


@dataclass(frozen=True)
class About:
    """What passes know of a program.  forms: they say of arrays whose sizes are open that they are
    of an unknown kind; given: values from outside; kept: those needed at the end; alone: values
    from outside whose memory no other value shows."""

    forms: Sequence[Form]
    given: Iterable[int]
    kept: set[int]
    alone: Collection[int]
    making: Making


def _written(calls: Sequence[Lowered], of: About) -> Sequence[Lowered]:
    making = of.making
    if not making.fusing:
        return calls
    # CUDA graphs can have no tables of addresses.
    exact, tables = making.fusing == "exact", not making.graphs
    return written_kernels(calls, list(of.forms), of.kept, exact, of.alone, tables)


# In their order, by the names by which they are switched off.
PASSES: dict[str, Callable[[Sequence[Lowered], About], Sequence[Lowered]]] = {
    "once": lambda calls, of: once(calls, of.given, of.kept),
    "joining": lambda calls, of: joined(calls, of.forms, of.kept),
    "norms": lambda calls, of: normed(calls, of.forms, of.kept),
    "chains": lambda calls, of: fused(calls, of.forms, of.kept),
    "beside": lambda calls, of: side_by_side(calls, of.forms),
    "fusing": _written,
}


def improved(
    calls: Sequence[Lowered], forms: Sequence[Form], given: Iterable[int], kept: set[int],
    making: Making, alone: Collection[int] = (),
) -> list[Lowered]:  # fmt: skip
    """The calls of a program, improved by the passes that are not switched off."""
    about = About(forms, given, kept, alone, making)
    for name, run in PASSES.items():
        if name not in making.without:
            calls = run(calls, about)
    return list(calls)
