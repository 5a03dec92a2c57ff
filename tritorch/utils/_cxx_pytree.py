"""Nested data as trees of the package optree: `utils._pytree` by a native walk.

optree is optional: without it importing this module fails.  What is registered with
`utils._pytree.register_pytree_node` is known here too, in optree's namespace "torch"; dicts keep
the order of their keys, and None is a leaf.  Key paths are `utils._pytree`'s alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from tritorch.core.naming import qualified
from tritorch.trees.spec import deprecated
from tritorch.trees.walk import IsLeaf
from tritorch.utils import _pytree
from tritorch.utils._pytree import (  # noqa: F401 - its names are here too
    Context,
    DumpableContext,
    FlattenFn,
    FlattenFunc,
    FlattenWithKeysFn,
    FlattenWithKeysFunc,
    Fn,
    Fn2,
    Fn3,
    FnAny,
    FromDumpableContextFn,
    KeyPath,
    MapOnlyFn,
    PyTree,
    R,
    S,
    T,
    ToDumpableContextFn,
    Type2,
    Type3,
    TypeAny,
    U,
    UnflattenFn,
    UnflattenFunc,
    _asterisk,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    map_only,
)

if not _pytree._cxx_pytree_exists:
    raise ImportError(
        f"{qualified('utils._cxx_pytree')} depends on `optree>={_pytree._optree_minimum_version}`, "
        f"which is not installed. {qualified('utils._pytree')} has the same functions."
    )

import optree
from optree import PyTreeSpec

__all__ = _pytree.__all__

TreeSpec = PyTreeSpec
OpTreeUnflattenFn = Callable[[Context, Iterable[Any]], PyTree]
_WAY: dict[str, Any] = {"none_is_leaf": True, "namespace": "torch"}


_ORDERED = optree.dict_insertion_ordered(True, namespace="torch")
_ORDERED.__enter__()  # for good: it ends with the object


# ---- registering ---------------------------------------------------------------------------------


def register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Has instances of a class taken apart, here and by `utils._pytree`."""
    if flatten_with_keys_fn is not None:
        _no_keys()
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn)
    _pytree._private_register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
    )


def _private_register_pytree_node(
    cls: type[Any], flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, **options: Any
) -> None:
    """Has instances of a class taken apart here alone; optree knows structseqs by itself."""
    if not optree.is_structseq_class(cls):
        optree.register_pytree_node(
            cls, flatten_fn, lambda context, values: unflatten_fn(values, context),
            namespace="torch",
        )  # fmt: skip


@deprecated(
    "`torch.utils._cxx_pytree._register_pytree_node` is deprecated. "
    "Please use `torch.utils._cxx_pytree.register_pytree_node` instead."
)
def _register_pytree_node(
    cls: type[Any], flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, **options: Any
) -> None:
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn)


# ---- trees ---------------------------------------------------------------------------------------


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether something is a leaf."""
    return optree.tree_is_leaf(tree, is_leaf=is_leaf, **_WAY)


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeSpec]:
    """The leaves, and what puts as many together again."""
    return optree.tree_flatten(tree, is_leaf=is_leaf, **_WAY)


def tree_unflatten(leaves: Iterable[Any], treespec: PyTreeSpec) -> PyTree:
    """The tree of a spec with these leaves."""
    return optree.tree_unflatten(_require_spec(treespec), leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterable[Any]:
    """The leaves, one after the other."""
    return optree.tree_iter(tree, is_leaf=is_leaf, **_WAY)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves."""
    return optree.tree_leaves(tree, is_leaf=is_leaf, **_WAY)


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> PyTreeSpec:
    """The spec of a tree."""
    return optree.tree_structure(tree, is_leaf=is_leaf, **_WAY)


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """The tree whose leaves are `func(leaf, ...)`, leaves of further trees being further ones."""
    return optree.tree_map(func, tree, *rests, is_leaf=is_leaf, **_WAY)


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Calls `func` of the leaves; gives the tree itself."""
    return optree.tree_map_(func, tree, *rests, is_leaf=is_leaf, **_WAY)


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree,
    is_leaf: IsLeaf = None,
) -> PyTree:  # fmt: skip
    """`tree_map` of the leaves of some types; others stay."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree,
    is_leaf: IsLeaf = None,
) -> PyTree:  # fmt: skip
    """`tree_map_` of the leaves of some types."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether something is true of all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf=is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether something is true of a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf=is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether something is true of all leaves of some types."""
    leaves = tree_iter(tree, is_leaf=is_leaf)
    return all(pred(leaf) for leaf in leaves if isinstance(leaf, type_or_types))


def tree_any_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether something is true of a leaf of some types."""
    leaves = tree_iter(tree, is_leaf=is_leaf)
    return any(pred(leaf) for leaf in leaves if isinstance(leaf, type_or_types))


def broadcast_prefix(prefix_tree: PyTree, full_tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree, each as often as the part in its place of a larger tree has leaves."""
    found: list[Any] = []

    def add(leaf: Any, part: PyTree) -> None:
        found.extend([leaf] * tree_structure(part, is_leaf=is_leaf).num_leaves)

    tree_map_(add, prefix_tree, full_tree, is_leaf=is_leaf)
    return found


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: PyTreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    spec = _require_spec(treespec)
    try:
        return broadcast_prefix(tree, tree_unflatten([0] * spec.num_leaves, spec), is_leaf=is_leaf)
    except ValueError:
        return None


# ---- specs ---------------------------------------------------------------------------------------


def _is_pytreespec_instance(obj: Any, /) -> bool:
    return isinstance(obj, (PyTreeSpec, _pytree.PyTreeSpec))


def _require_spec(treespec: Any) -> Any:
    if not _is_pytreespec_instance(treespec):
        raise TypeError(
            "Expected `treespec` to be an instance of PyTreeSpec but got item of type "
            f"{type(treespec)}."
        )
    return treespec


def treespec_leaf() -> PyTreeSpec:
    """The spec of a leaf."""
    return optree.treespec_leaf(**_WAY)


def treespec_tuple(iterable: Iterable[PyTreeSpec] = (), /) -> PyTreeSpec:
    """The spec of a tuple of these."""
    return optree.treespec_tuple(iterable, **_WAY)


def treespec_dict(mapping: Any = (), /, **kwargs: PyTreeSpec) -> PyTreeSpec:
    """The spec of a dict of these."""
    return optree.treespec_dict(mapping, **(kwargs | _WAY))


def treespec_dumps(treespec: PyTreeSpec, protocol: int | None = None) -> str:
    """A spec as JSON, which `utils._pytree` reads too."""
    spec = _require_spec(treespec)
    tree = tree_unflatten([0] * spec.num_leaves, spec)
    return _pytree.treespec_dumps(_pytree.tree_structure(tree), protocol=protocol)


@functools.lru_cache
def treespec_loads(serialized: str) -> PyTreeSpec:
    """The spec that `treespec_dumps` wrote."""
    spec = _pytree.treespec_loads(serialized)
    return tree_structure(_pytree.tree_unflatten([0] * spec.num_leaves, spec))


def treespec_pprint(treespec: PyTreeSpec) -> str:
    """The tree of a spec with `*` for its leaves."""
    return repr(tree_unflatten([_asterisk] * treespec.num_leaves, treespec))


class LeafSpecMeta(type(PyTreeSpec)):  # type: ignore[misc]
    """Makes specs of leaves instances of `LeafSpec`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return _is_pytreespec_instance(instance) and instance.is_leaf()

    @deprecated(
        "`isinstance(treespec, LeafSpec)` is deprecated, "
        "use `isinstance(treespec, TreeSpec)` and `treespec.is_leaf()` instead."
    )
    def __call__(cls) -> Any:
        return treespec_leaf()


class LeafSpec(metaclass=LeafSpecMeta):
    """What a leaf's spec is an instance of (former name)."""


# ---- key paths -----------------------------------------------------------------------------------


def _no_keys() -> NoReturn:
    raise NotImplementedError("KeyPaths are not yet supported in cxx_pytree.")


def tree_flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> NoReturn:
    """Refused: `utils._pytree` has key paths."""
    _no_keys()


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> NoReturn:
    """Refused: `utils._pytree` has key paths."""
    _no_keys()


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> NoReturn:
    """Refused: `utils._pytree` has key paths."""
    _no_keys()


def keystr(kp: KeyPath) -> NoReturn:
    """Refused: `utils._pytree` has key paths."""
    _no_keys()


def key_get(obj: Any, kp: KeyPath) -> NoReturn:
    """Refused: `utils._pytree` has key paths."""
    _no_keys()


_pytree.followed_by(_private_register_pytree_node)
