"""Nodes of autograd beside PyTorch: their names, the names of what they keep, and its values.

    python tools/compare/nodes.py [--shown 40] [--torch PYTHON]

Evaluates the expressions of tests/nodes/cases.py here and, with --torch, in a process of an
interpreter that has torch; without, compares with what was recorded of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "record"))
from recording import TESTS, answers, parser

THEIRS = """
import json
import torch
from tests.nodes import cases
print(json.dumps({f: dict(cases.run(torch, f)) for f in cases.FAMILIES}))
"""


def recorded(python: str | None) -> dict[str, dict[str, Any]]:
    """What PyTorch says, by family and expression."""
    if python is None:
        return json.loads((TESTS / "nodes/recorded.json").read_text())
    return answers(python, "-c", THEIRS)


def main() -> None:
    """Compares, and prints what differs."""
    known = parser(__doc__, shown=40)
    known.add_argument("--torch", help="an interpreter that has torch")
    options = known.parse_args()
    import tritorch
    from tests.nodes import cases

    names = [0, 0]
    attributes = [0, 0]
    values = [0, 0]
    differ: dict[str, list[str]] = {"name": [], "attribute": [], "value": []}
    for family, expressions in recorded(options.torch).items():
        ours = dict(cases.run(tritorch, family))
        for expression, theirs in expressions.items():
            mine = ours[expression]
            if isinstance(theirs, str):
                continue
            name, other = ([n[:2] for n in x] if isinstance(x, list) else x for x in (theirs, mine))
            names[0] += name == other
            names[1] += 1
            if name != other:
                differ["name"].append(f"{expression}: {other}, torch {name}")
                continue
            for (node, _, kept), (_, _, held) in zip(theirs, mine):
                attributes[0] += sorted(kept) == sorted(held)
                attributes[1] += 1
                if sorted(kept) != sorted(held):
                    lack, more = sorted(set(kept) - set(held)), sorted(set(held) - set(kept))
                    differ["attribute"].append(f"{expression}: {node} lacks {lack}, adds {more}")
                for each in kept.keys() & held.keys():
                    values[0] += kept[each] == held[each]
                    values[1] += 1
                    if kept[each] != held[each]:
                        differ["value"].append(
                            f"{expression}: {node}.{each} is {held[each]}, torch {kept[each]}"
                        )
    for kind, lines in differ.items():
        print(*(f"{kind}: {line}" for line in lines[: options.shown]), sep="\n")
    print(
        f"names of nodes: {names[0]} of {names[1]} expressions; names of what they keep: "
        f"{attributes[0]} of {attributes[1]} nodes; values: {values[0]} of {values[1]}"
    )


if __name__ == "__main__":
    main()
