"""What is done to a program's calls before it is made: one small pass after the other, each a
function from calls to calls.  All but the last one keep bits; that one does if it is told to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tritorch._following.fusing.fuser import written_kernels
from tritorch._following.lowering import Lowered
from tritorch._following.passes.chains import fused
from tritorch._following.passes.joining import joined
from tritorch._following.passes.layer_norms import layer_normed
from tritorch._following.passes.norms import normed
from tritorch._following.passes.once import once
from tritorch._following.passes.recurrences import recurring
from tritorch._following.tape import Form


def improved(
    calls: Sequence[Lowered], forms: Sequence[Form], given: Iterable[int], kept: set[int],
    fusing: str, alone: Collection[int] = (), tables: bool = False,
) -> list[Lowered]:  # fmt: skip
    """The calls of a program, improved.  given: values from outside; kept: those needed at the end;
    fusing: how kernels are written for several calls (`Making.fusing`); forms say of arrays whose
    sizes are open that they are of an unknown kind; alone: values from outside whose memory no
    other value shows; tables: whether kernels may find their arrays by tables of addresses, which
    CUDA graphs cannot."""
    calls = once(calls, given, kept)
    calls = joined(calls, forms, kept)
    calls = normed(calls, forms, kept)
    calls = layer_normed(recurring(calls, forms), forms)
    calls = fused(calls, forms, kept)
    if not fusing:
        return calls
    return written_kernels(calls, list(forms), kept, fusing == "exact", alone, tables)
