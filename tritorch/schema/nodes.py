"""What autograd's nodes of ATen's operators are called, and what they keep: `nodes.txt`.

`tools/record/nodes.py` writes the file; it is read when somebody looks at a node.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple


class NodeOf(NamedTuple):
    """The node of one overload, or of several."""

    name: str
    saved: tuple[str, ...]  # its attributes `_saved_<name>`
    tensors: frozenset[str]  # those of them that are tensors, `_raw_saved_<name>` too


@functools.cache
def table() -> dict[str, NodeOf]:
    """The node of every overload that has a derivative."""
    found: dict[str, NodeOf] = {}
    text = (Path(__file__).parent / "nodes.txt").read_text(encoding="ascii")
    for line in text.splitlines():
        overload, name, *saved = line.split()
        tensors = frozenset(each[:-1] for each in saved if each.endswith("*"))
        found[overload] = NodeOf(name, tuple(each.rstrip("*") for each in saved), tensors)
    return found


@functools.cache
def by_name() -> dict[str, NodeOf]:
    """The same, by the name of the node."""
    return {node.name: node for node in table().values()}
