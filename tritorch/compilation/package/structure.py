"""Structures of arguments and results as JSON: tuples, lists and dicts of leaves."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from tritorch import return_types
from tritorch.compilation.plan.coding import PackageError
from tritorch.utils._pytree import TreeSpec, tree_structure

_KINDS = {"tuple": tuple, "list": list, "dict": dict, "ordered": OrderedDict}
_DEEPEST = 64
_LEAF = tree_structure(0)


def written_structure(spec: TreeSpec) -> Any:
    """A structure for JSON: None for a leaf."""
    if spec.is_leaf():
        return None
    children = [written_structure(child) for child in spec.children()]
    if _returned(spec.type.__name__) is spec.type:
        return ["returned", spec.type.__name__, children]
    name = next((name for name, kind in _KINDS.items() if spec.type is kind), None)
    if name is None:
        raise PackageError(
            f"a package takes and gives tuples, lists and dicts, no {spec.type.__qualname__}"
        )
    keys = list(spec.context) if name in ("dict", "ordered") else None
    if keys is not None and not all(type(key) in (str, int, bool) for key in keys):
        raise PackageError(f"a package's dicts have texts and integers for keys, not {keys!r}")
    return [name, keys, children]


def _returned(name: Any) -> Any:
    """The named tuple of several tensors that functions return: `max`, `topk`; None for other
    names."""
    found = vars(return_types).get(name) if isinstance(name, str) else None
    return found if isinstance(found, type) and issubclass(found, tuple) else None


def read_structure(x: Any, depth: int = 0) -> TreeSpec:
    """The structure."""
    if x is None:
        return _LEAF
    if depth > _DEEPEST or not isinstance(x, list) or len(x) != 3 or not isinstance(x[2], list):
        raise PackageError("the structure of arguments or results is none")
    name, keys, children = x
    if name == "returned" and _returned(keys) is not None:
        inner = [read_structure(child, depth + 1) for child in children]
        return TreeSpec(_returned(keys), None, inner)
    if name not in _KINDS:
        raise PackageError(f"there is no structure {str(name)[:40]!r}")
    if name in ("dict", "ordered"):
        if not isinstance(keys, list) or len(keys) != len(children):
            raise PackageError("a dict has not as many keys as items")
        if not all(type(key) in (str, int, bool) for key in keys) or len(set(keys)) != len(keys):
            raise PackageError("a dict's keys are none")
    return TreeSpec(_KINDS[name], keys, [read_structure(child, depth + 1) for child in children])
