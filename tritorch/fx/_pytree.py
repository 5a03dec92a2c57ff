"""Nested data taken apart as a spec says, not as its type says: other keys are left out.

Generated code whose inputs are nested calls `tree_flatten_spec`.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from tritorch import return_types
from tritorch.utils._pytree import PyTree, TreeSpec, tree_flatten

FlattenFnSpec = Callable[[PyTree, TreeSpec], list[Any]]
FlattenFnExactMatchSpec = Callable[[PyTree, TreeSpec], bool]
FlattenFuncSpec = FlattenFnSpec
FlattenFuncExactMatchSpec = FlattenFnExactMatchSpec

SUPPORTED_NODES: dict[Any, FlattenFnSpec] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[Any, FlattenFnExactMatchSpec | None] = {}


def register_pytree_flatten_spec(
    cls: Any, flatten_fn_spec: FlattenFnSpec,
    flatten_fn_exact_match_spec: FlattenFnExactMatchSpec | None = None,
) -> None:  # fmt: skip
    """Says how children of a type are found for a spec, and whether a value has no others."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _deregister_pytree_flatten_spec(cls: Any) -> None:
    del SUPPORTED_NODES[cls], SUPPORTED_NODES_EXACT_MATCH[cls]


def tree_flatten_spec(pytree: PyTree, spec: TreeSpec) -> list[Any]:
    """The leaves of nested data that a spec asks for."""
    if spec.is_leaf():
        return [pytree]
    if spec.type in SUPPORTED_NODES:
        children = SUPPORTED_NODES[spec.type](pytree, spec)
        return [
            leaf
            for child, inner in zip(children, spec.children())
            for leaf in tree_flatten_spec(child, inner)
        ]
    leaves, real = tree_flatten(pytree)
    if spec != real:
        raise RuntimeError(
            f"Real spec {real} of object {pytree} is different from expected spec {spec}."
        )
    return leaves


def _by_keys(value: Any, spec: TreeSpec) -> list[Any]:
    return [value[key] for key in spec.context]


def _by_places(value: Any, spec: TreeSpec) -> list[Any]:
    return [value[i] for i in range(spec.num_children)]


def _same_length(value: Any, spec: TreeSpec) -> bool:
    return len(value) == spec.num_children


register_pytree_flatten_spec(dict, _by_keys, _same_length)
for _kind in (list, tuple, namedtuple, *return_types.all_return_types):
    register_pytree_flatten_spec(_kind, _by_places, _same_length)
