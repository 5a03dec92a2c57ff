"""Nested tuples, lists and dicts, flattened and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

NESTS = (tuple, list, dict)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves, and what `unflatten` needs."""
    if type(tree) is tuple:  # of leaves, as a rule: the arguments of a call
        for item in tree:
            if isinstance(item, NESTS):
                break
        else:
            return list(tree), ("sequence", tuple, (None,) * len(tree))
    leaves: list[Any] = []
    return leaves, _spec(tree, leaves)


def _spec(tree: Any, leaves: list[Any]) -> Any:
    """How a nest is put together, its leaves appended to a list; None for a leaf."""
    if not isinstance(tree, NESTS):
        leaves.append(tree)
        return None
    if isinstance(tree, dict):
        specs = tuple(_spec(item, leaves) for item in tree.values())
        return "dict", type(tree), specs, list(tree)
    specs = tuple(_spec(item, leaves) for item in tree)
    return "named" if hasattr(tree, "_fields") else "sequence", type(tree), specs


def unflatten(leaves: list[Any], spec: Any) -> Any:
    """The nest that `flatten` took apart."""
    if spec is not None and spec[1] is tuple and not any(spec[2]):
        return tuple(leaves)
    return _built(spec, iter(leaves))


def _built(spec: Any, leaves: Iterator[Any]) -> Any:
    if spec is None:
        return next(leaves)
    kind, make, specs = spec[:3]
    items = [_built(each, leaves) for each in specs]
    if kind == "dict":
        return make(zip(spec[3], items))
    return make(*items) if kind == "named" else make(items)


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """The nest with a function applied to each leaf."""
    leaves, spec = flatten(tree)
    return unflatten([function(leaf) for leaf in leaves], spec)


def broadcast_to(prefix: Any, tree: Any) -> list[Any]:
    """A prefix of a nest (one value for a whole branch), leaf by leaf."""
    if not isinstance(prefix, NESTS):
        return [prefix] * len(flatten(tree)[0])
    if not isinstance(tree, NESTS):
        return [prefix]
    children = list(tree.values()) if isinstance(tree, dict) else list(tree)
    if isinstance(prefix, dict):
        prefixes = [prefix[key] for key in tree]
    elif len(prefix) != len(children):
        raise ValueError(f"the structure {prefix} does not fit {len(children)} items")
    else:
        prefixes = list(prefix)
    return [leaf for p, c in zip(prefixes, children) for leaf in broadcast_to(p, c)]
