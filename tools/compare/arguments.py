"""Wrong types of tensor arguments, in every published function, beside PyTorch.

    python tools/compare/arguments.py [--shown 40]     where both packages are installed

Each function of tests/core/test_arguments.py is called with something else in place of each of its
tensors.  Counted are the functions of which PyTorch says "must be Tensor" at least once, and those
of them that say the same every time.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "record"))
from recording import TESTS, parser

sys.path.append(str(TESTS))
LEFT_OUT = {"lobpcg", "pin_memory", "share_memory_"}  # they warn, or want other memory


def outcome(function: Any, arguments: list[Any]) -> tuple[str, str]:
    """The kind of error that a call ends in, and the first line of what it says."""
    try:
        function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error).partition("\n")[0].replace("tritorch", "torch")
    return "", ""


def main() -> None:
    """Compares, and prints what differs."""
    options = parser(__doc__, shown=40).parse_args()
    warnings.simplefilter("ignore")
    import torch

    import tritorch
    from tests.core.test_arguments import calls
    from tritorch.core import gates

    places = {id(g): (m, n) for m, group in gates.GATES.items() for n, g in group.items()}
    counts: Counter[str] = Counter()
    differ: dict[str, str] = {}
    asked: set[str] = set()
    kinds: dict[str, set[str]] = defaultdict(set)
    for gate, arguments in calls():
        module, name = places[id(gate)]
        path = f"{module}.{name}".replace("tritorch", "torch")
        try:
            of = torch.Tensor if path.startswith("torch.Tensor.") else importlib.import_module(
                module.replace("tritorch", "torch")
            )  # fmt: skip
            theirs = getattr(of, name)
        except (ImportError, AttributeError):
            continue
        if name in LEFT_OUT:
            continue
        copied = [torch.ones(2, 3) if isinstance(x, tritorch.Tensor) else x for x in arguments]
        copied = [None if isinstance(x, tritorch.dtype) else x for x in copied]
        kind, said = outcome(theirs, copied)
        if kind != "TypeError" or "must be Tensor" not in said:
            continue
        asked.add(path)
        ours = outcome(gate, arguments)
        counts["same" if ours == (kind, said) else "different"] += 1
        if ours != (kind, said):
            kinds[path].add(ours[0])
            differ.setdefault(path, f"{ours[1] or 'no error'!r} where PyTorch says {said!r}")
    for path in list(differ)[: options.shown]:
        print(f"{path}: {differ[path]}")
    no_type_error = sum(found != {"TypeError"} for found in kinds.values())
    print(
        f"{counts['same']} of {counts.total()} calls the same; of {len(asked)} functions "
        f"{len(asked) - len(differ)} in the same words, {len(asked) - no_type_error} by a TypeError"
    )


if __name__ == "__main__":
    main()
