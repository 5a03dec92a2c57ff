"""Counts of segments that have no plan."""

from __future__ import annotations

import collections

from tritorch.compilation.tools import showing

unfit_reasons: collections.Counter[str] = collections.Counter()


def unfit(why: str) -> None:
    """A segment is computed by its calls, each time."""
    unfit_reasons[why] += 1
    showing.unplanned(why)
