"""What going through nested data costs, beside PyTorch's own Python in the same process.

    python bench/trees.py [--rounds 15] [--json PATH]

A state dict of 150 tensors, an optimizer's state, the arguments of a call, a batch of examples:
both libraries take each case in turn, rounds interleaved; medians.  PyTorch is measured when this
interpreter has it, from its `torch.utils._pytree`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import statistics
import timeit
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

SECONDS = 0.02  # a round of one case takes at least so long
Example = namedtuple("Example", "image label")


def trees(library: str) -> dict[str, Any]:
    """Nested data of a library's tensors, by name."""
    x = importlib.import_module(library).ones(2)
    layer = {"attention": {"qkv": {"weight": x, "bias": x}, "out": {"weight": x, "bias": x}},
             "mlp": [(x, x), (x, x)], "norms": {"first": x, "second": x}, "scale": 1.0}  # fmt: skip
    return {
        "nested state of 12 layers": {"layers": [layer] * 12, "head": {"weight": x}, "step": 3},
        "state dict, 150 tensors": OrderedDict((f"layer.{i}", x) for i in range(150)),
        "optimizer state": {i: {"step": x, "exp_avg": x, "exp_avg_sq": x} for i in range(50)},
        "arguments of a call": ((x, x, None), {"scale": 2.0, "mask": x}),
        "batch of named tuples": [Example(x, i) for i in range(32)],
        "one tensor": x,
    }


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "tree_map": lambda pytree, tree: pytree.tree_map(_same, tree),
    "tree_map_only": lambda pytree, tree: pytree.tree_map_only(int, _same, tree),
    "tree_map of two": lambda pytree, tree: pytree.tree_map(_first, tree, tree),
    "tree_flatten": lambda pytree, tree: pytree.tree_flatten(tree),
    "flatten, unflatten": lambda pytree, tree: pytree.tree_unflatten(*pytree.tree_flatten(tree)),
    "tree_leaves": lambda pytree, tree: pytree.tree_leaves(tree),
    "tree_leaves, is_leaf": lambda pytree, tree: pytree.tree_leaves(tree, _is_none),
    "tree_leaves_with_path": lambda pytree, tree: pytree.tree_leaves_with_path(tree),
}


def _same(x: Any) -> Any:
    return x


def _first(x: Any, y: Any) -> Any:
    return x


def _is_none(x: Any) -> bool:
    return x is None


def timer(library: str, call: str, name: str) -> Callable[[], float]:
    """A function that takes one round: microseconds a call."""
    pytree = importlib.import_module(f"{library}.utils._pytree")
    function, tree = CALLS[call], trees(library)[name]
    clock = timeit.Timer(lambda: function(pytree, tree))
    number, taken = clock.autorange()
    number = max(int(number * SECONDS / taken), 1)
    return lambda: clock.timeit(number) / number * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json")
    options = parser.parse_args()
    libraries = ["tritorch", *(["torch"] if importlib.util.find_spec("torch") else [])]
    report: dict[str, dict[str, float]] = {}
    print(f"{'us a call':48}" + "".join(f"{library:>10}" for library in libraries) + "   ratio")
    for name in trees("tritorch"):
        for call in CALLS:
            timers = {library: timer(library, call, name) for library in libraries}
            rounds = [{key: take() for key, take in timers.items()} for _ in range(options.rounds)]
            row = {key: statistics.median(each[key] for each in rounds) for key in timers}
            if "torch" in row:
                row["ratio"] = statistics.median(e["tritorch"] / e["torch"] for e in rounds)
            report[f"{call}: {name}"] = row
            print(f"{call + ': ' + name:48}" + "".join(f"{value:10.2f}" for value in row.values()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
