"""What is done to a program's calls before it is made: one small pass after the other, each a
function from calls to calls that give the same bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tritorch._following.lowering import Lowered
from tritorch._following.passes.chains import fused
from tritorch._following.passes.joining import joined
from tritorch._following.passes.layer_norms import layer_normed
from tritorch._following.passes.norms import normed
from tritorch._following.passes.once import once
from tritorch._following.passes.recurrences import recurring
from tritorch._following.tape import Form


def improved(
    calls: Sequence[Lowered], forms: Sequence[Form], given: Iterable[int], kept: set[int]
) -> list[Lowered]:
    """The calls of a program, improved.  given: values from outside; kept: those needed at the end;
    forms say of arrays whose sizes are open that they are of an unknown kind."""
    calls = once(calls, given, kept)
    calls = joined(calls, forms, kept)
    calls = normed(calls, forms, kept)
    calls = layer_normed(recurring(calls, forms), forms)
    return fused(calls, forms, kept)
