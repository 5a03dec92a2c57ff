"""Nested tuples, lists and dicts, flattened and put together again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves, and what `unflatten` needs."""
    if isinstance(tree, dict):
        parts = [flatten(tree[key]) for key in tree]
        spec: Any = ("dict", list(tree), [s for _, s in parts], type(tree))
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        parts = [flatten(item) for item in tree]
        spec = ("named", type(tree), [s for _, s in parts])
    elif isinstance(tree, (list, tuple)):
        parts = [flatten(item) for item in tree]
        spec = ("sequence", type(tree), [s for _, s in parts])
    else:
        return [tree], None
    return [leaf for leaves, _ in parts for leaf in leaves], spec


def unflatten(leaves: list[Any], spec: Any) -> Any:
    """The nest that `flatten` took apart."""
    out, rest = _take(list(leaves), spec)
    assert not rest
    return out


def _take(leaves: list[Any], spec: Any) -> tuple[Any, list[Any]]:
    if spec is None:
        return leaves[0], leaves[1:]
    items = []
    for child in spec[2]:
        item, leaves = _take(leaves, child)
        items.append(item)
    if spec[0] == "dict":
        return spec[3](zip(spec[1], items)), leaves
    return (spec[1](*items) if spec[0] == "named" else spec[1](items)), leaves


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """The nest with a function applied to each leaf."""
    leaves, spec = flatten(tree)
    return unflatten([function(leaf) for leaf in leaves], spec)


def broadcast_to(prefix: Any, tree: Any) -> list[Any]:
    """A prefix of a nest (one value for a whole branch), leaf by leaf."""
    if isinstance(tree, (list, tuple, dict)):
        children = list(tree.values()) if isinstance(tree, dict) else list(tree)
        if isinstance(prefix, dict):
            prefixes = [prefix[key] for key in tree]
        elif isinstance(prefix, (list, tuple)):
            if len(prefix) != len(children):
                raise ValueError(f"the structure {prefix} does not fit {len(children)} items")
            prefixes = list(prefix)
        else:
            prefixes = [prefix] * len(children)
        return [leaf for p, c in zip(prefixes, children) for leaf in broadcast_to(p, c)]
    return [prefix]
