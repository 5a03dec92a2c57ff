"""The statements of random programs, which `patterns.txt` has by feature.

A section's head is the feature and its weight; a line is a pattern, and what begins with | goes on
with the pattern before it.  A letter names a kind of value, one of `KINDS`:

    V = {M}.sum(1)     a new variable of kind V, computed from any one of kind M
    T ~ {M}.t()        the new variable is a view: it shares what is known of M's memory
    M ^ {R}.expand(..) a view that cannot be written
    {M!}.add_(1)       a variable of kind M that may be written, the same throughout the pattern
    $                  any one floating kind, the same throughout the pattern
    {u}                a number that no other statement has, for names of the pattern's own
    ?w ...             only where w requires a gradient (?g: and gradients are recorded outside,
                       ?n: where NumPy has the dtype)
"""

from __future__ import annotations

import re
from pathlib import Path

# Kind -> size and what it holds; b is the first size of x, which varies between calls.
KINDS = {
    "M": "(b, 4), x's dtype",
    "N": "(b, 4), another floating dtype",
    "W": "(4, 4)",
    "T": "(4, b)",
    "H": "(b, 2)",
    "V": "(b,)",
    "R": "(4,)",
    "F": "(4 * b,)",
    "S": "()",
    "I": "(b, 4) int64",
    "J": "(b,) int64 from 0 to 3",
    "P": "(b,) int64, a permutation",
    "K": "(b, 4) bool",
    "L": "(b,) bool",
}
FLOATING = "MNWTHVRFS"

_HEAD = re.compile(r"\[(.*)\] ([\d.]+)")


def _read(text: str) -> dict[str, tuple[float, list[str]]]:
    """Feature -> its weight, and its patterns."""
    found: dict[str, tuple[float, list[str]]] = {}
    patterns: list[str] = []
    for line in text.splitlines():
        if head := _HEAD.fullmatch(line):
            patterns = []
            found[head[1]] = float(head[2]), patterns
        elif line.startswith("| "):
            patterns[-1] += "\n" + line[2:]
        elif line:
            patterns.append(line)
    return found


PATTERNS = _read(Path(__file__).with_name("patterns.txt").read_text())
