"""Functions that go through trees: leaves, specs, maps, key paths.

Note [Plain leaves]: the leaves of most trees are tensors, numbers, texts and None.  Types that
nobody registered are in a set (`nodes.PLAIN`), so a container of such leaves is recognised by one
pass over its types in C, and a leaf of such a type without a call.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tritorch.trees.keys import KeyPath
from tritorch.trees.nodes import DICT, LIST, PLAIN, SUPPORTED_NODES, TUPLE, PyTree, definition_of
from tritorch.trees.spec import _LEAF_SPEC, TreeSpec, _children_as, made

IsLeaf = Callable[[PyTree], bool] | None


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a tree is one leaf."""
    if is_leaf is not None and is_leaf(tree):
        return True
    return definition_of(tree) is None


# ---- taken apart ---------------------------------------------------------------------------------


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, and what puts them together again."""
    leaves: list[Any] = []
    if is_leaf is None:
        return leaves, _flatten(tree, leaves)
    return leaves, _flatten_until(tree, leaves, is_leaf)


def _flatten(tree: PyTree, leaves: list[Any]) -> TreeSpec:
    definition = SUPPORTED_NODES.get(type(tree))
    context = None
    if definition is DICT:
        children, context = tree.values(), [*tree]
    elif definition is TUPLE or definition is LIST:
        children = tree
    else:
        definition = definition_of(tree)
        if definition is None:
            leaves.append(tree)
            return _LEAF_SPEC
        children, context = definition.flatten_fn(tree)
        if not isinstance(children, (list, tuple)):
            children = list(children)
    plain = PLAIN  # Note [Plain leaves]
    if plain.issuperset(map(type, children)):
        leaves += children
        width = len(children)
        return made(definition.type, context, [_LEAF_SPEC] * width, width + 1, width)
    first, nodes, specs = len(leaves), 1, []
    for child in children:
        if type(child) in plain:
            leaves.append(child)
            specs.append(_LEAF_SPEC)
            nodes += 1
        else:
            spec: Any = _flatten(child, leaves)
            specs.append(spec)
            nodes += spec.num_nodes
    return made(definition.type, context, specs, nodes, len(leaves) - first)  # type: ignore[arg-type]


def _flatten_until(tree: PyTree, leaves: list[Any], is_leaf: Callable[[Any], bool]) -> TreeSpec:
    definition = None if is_leaf(tree) else definition_of(tree)
    if definition is None:
        leaves.append(tree)
        return _LEAF_SPEC
    children, context = definition.flatten_fn(tree)
    specs = [_flatten_until(child, leaves, is_leaf) for child in children]
    return TreeSpec(definition.type, context, specs)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves."""
    leaves: list[Any] = []
    if is_leaf is None:
        _collect(tree, leaves)
    else:
        _collect_until(tree, leaves, is_leaf)
    return leaves


def _collect(tree: PyTree, leaves: list[Any]) -> None:
    definition = SUPPORTED_NODES.get(type(tree))
    if definition is DICT:
        children = tree.values()
    elif definition is TUPLE or definition is LIST:
        children = tree
    else:
        definition = definition_of(tree)
        if definition is None:
            leaves.append(tree)
            return
        children = definition.flatten_fn(tree)[0]
        if not isinstance(children, (list, tuple)):
            children = list(children)
    plain = PLAIN
    if plain.issuperset(map(type, children)):
        leaves += children
        return
    for child in children:
        if type(child) in plain:
            leaves.append(child)
        else:
            _collect(child, leaves)


def _collect_until(tree: PyTree, leaves: list[Any], is_leaf: Callable[[Any], bool]) -> None:
    definition = None if is_leaf(tree) else definition_of(tree)
    if definition is None:
        leaves.append(tree)
        return
    for child in definition.flatten_fn(tree)[0]:
        _collect_until(child, leaves, is_leaf)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves, one by one."""
    definition = None if is_leaf is not None and is_leaf(tree) else definition_of(tree)
    if definition is None:
        yield tree
        return
    children = definition.flatten_fn(tree)[0]
    if is_leaf is None and isinstance(children, list) and PLAIN.issuperset(map(type, children)):
        yield from children
        return
    for child in children:
        yield from tree_iter(child, is_leaf)


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of a call's arguments."""
    leaves: list[Any] = []
    for tree in (*args, *kwargs.values()):
        _collect(tree, leaves)
    return leaves


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """What puts a tree's leaves together again."""
    return tree_flatten(tree, is_leaf)[1]


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of a spec with these leaves; the two may be given in either order."""
    if not isinstance(treespec, TreeSpec):
        if not isinstance(leaves, TreeSpec):
            raise TypeError(
                f"Expected `treespec` to be an instance of "
                f"PyTreeSpec but got item of type {type(treespec)}."
            )
        leaves, treespec = treespec, leaves
    return treespec.unflatten(leaves)


# ---- mapped --------------------------------------------------------------------------------------


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """The tree of what a function gives for each leaf.

    >>> tree_map(lambda x: x + 1, {"x": 7, "y": (42, 64)})
    {'x': 8, 'y': (43, 65)}

    Of further trees it is given what stands where the first tree has a leaf:

    >>> tree_map(lambda x, y: [x] + y, [5, 6], [[7, 9], [1, 2]])
    [[5, 7, 9], [6, 1, 2]]
    """
    if not rests and is_leaf is None:
        return _mapped(func, tree)
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]))


def _mapped(func: Callable[[Any], Any], tree: PyTree) -> PyTree:
    # The children are copied first: the function may change the container that it is called for.
    definition = SUPPORTED_NODES.get(type(tree))
    plain = PLAIN
    if definition is DICT:
        return {
            key: func(child) if type(child) in plain else _mapped(func, child)
            for key, child in [*tree.items()]
        }
    if definition is TUPLE or definition is LIST:
        children = [
            func(child) if type(child) in plain else _mapped(func, child) for child in [*tree]
        ]
        return tuple(children) if definition is TUPLE else children
    definition = definition_of(tree)
    if definition is None:
        return func(tree)
    children, context = definition.flatten_fn(tree)
    values = [func(x) if type(x) in plain else _mapped(func, x) for x in [*children]]
    return definition.unflatten_fn(values, context)


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Calls a function for each leaf, as `tree_map` does, and gives the tree back as it is."""
    if rests:
        leaves, spec = tree_flatten(tree, is_leaf)
        called = map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests])
    else:
        called = map(func, tree_leaves(tree, is_leaf))
    deque(called, maxlen=0)
    return tree


def _predicate(chosen: Any) -> Callable[[Any], bool]:
    """What tells the leaves that are meant by types or by a function."""
    if isinstance(chosen, (type, tuple, types.UnionType)):
        return lambda x: isinstance(x, chosen)
    if callable(chosen):
        return chosen
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Any]:
    """A decorator: the function is called for what is of a type (or types, or for which a
    predicate holds), all else is given back as it is."""
    chosen = _predicate(type_or_types_or_pred)

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(func)
        def only(x: Any) -> Any:
            return func(x) if chosen(x) else x

        return only

    return decorate


def _only(chosen: Any, func: Callable[[Any], Any]) -> Callable[[Any], Any]:
    if isinstance(chosen, (type, tuple, types.UnionType)):
        return lambda x: func(x) if isinstance(x, chosen) else x
    holds = _predicate(chosen)
    return lambda x: func(x) if holds(x) else x


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """`tree_map` for the leaves of a type, of types, or for which a predicate holds."""
    return tree_map(_only(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """`tree_map_` for the leaves of a type, of types, or for which a predicate holds."""
    return tree_map_(_only(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a predicate holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a predicate holds for any leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether a predicate holds for all leaves of these types."""
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether a predicate holds for any leaf of these types."""
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, type_or_types))


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """A prefix of a tree (one value for a whole branch), leaf by leaf; None if it does not fit."""
    values: list[Any] = []
    try:
        if is_leaf is None:
            _spread(tree, treespec, values)
        else:
            _spread_until(tree, treespec.unflatten([0] * treespec.num_leaves), values, is_leaf)
    except ValueError:
        return None
    return values


def _spread(tree: PyTree, spec: TreeSpec, values: list[Any]) -> None:
    definition = definition_of(tree)
    if definition is None:
        values += [tree] * spec.num_leaves
    elif spec.type is None:
        raise ValueError
    else:
        alike = definition is TUPLE and spec.type is tuple and len(tree) == spec.num_children
        children = tree if alike else _children_as(spec, tree)
        for child, subspec in zip(children, spec._children, strict=True):
            if type(child) not in PLAIN:
                _spread(child, subspec, values)
            elif subspec.type is None:
                values.append(child)
            else:
                values += [child] * subspec.num_leaves


def _spread_until(
    tree: PyTree, full: PyTree, values: list[Any], is_leaf: Callable[[Any], bool]
) -> None:
    definition = None if is_leaf(tree) else definition_of(tree)
    if definition is None:
        values += [tree] * len(tree_leaves(full, is_leaf))
        return
    branch = definition_of(full)
    if branch is None:
        raise ValueError
    children, context = branch.flatten_fn(full)
    spec = TreeSpec(branch.type, context, [_LEAF_SPEC] * len(children))
    for child, subtree in zip(_children_as(spec, tree), children, strict=True):
        _spread_until(child, subtree, values, is_leaf)


# ---- key paths -----------------------------------------------------------------------------------


def tree_flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves, each with its key path, and what puts them together again."""
    spec = tree_structure(tree, is_leaf)
    return tree_leaves_with_path(tree, is_leaf), spec


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves, each with its key path."""
    found: list[tuple[KeyPath, Any]] = []
    _collect_paths((), tree, is_leaf, found)
    return found


def _collect_paths(
    path: KeyPath, tree: PyTree, is_leaf: IsLeaf, found: list[tuple[KeyPath, Any]]
) -> None:
    definition = None if is_leaf and is_leaf(tree) else definition_of(tree)
    if definition is None:
        found.append((path, tree))
        return
    if not definition.flatten_with_keys_fn:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {definition.type}. "
            "Please pass a flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, child in definition.flatten_with_keys_fn(tree)[0]:
        if type(child) in PLAIN and is_leaf is None:
            found.append(((*path, key), child))
        else:
            _collect_paths((*path, key), child, is_leaf, found)


def _generate_key_paths(
    key_path: KeyPath, tree: PyTree, is_leaf: IsLeaf = None
) -> Iterator[tuple[KeyPath, Any]]:
    found: list[tuple[KeyPath, Any]] = []
    _collect_paths(key_path, tree, is_leaf, found)
    return iter(found)


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """`tree_map` of a function that is also given, first, each leaf's key path."""
    keyed, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [*zip(*keyed, strict=True), *[spec.flatten_up_to(rest) for rest in rests]]
    return spec.unflatten(func(*row) for row in zip(*columns, strict=True))


def keystr(kp: KeyPath) -> str:
    """A key path as it would be written after the tree's name."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What is at a key path."""
    for key in kp:
        obj = key.get(obj)
    return obj
