"""How something was put together: a tree of types and contexts, without the leaves."""

from __future__ import annotations

import functools
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tritorch.trees.nodes import (
    BUILTIN_TYPES,
    DICT,
    LIST,
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    TUPLE,
    Context,
    PyTree,
    _get_node_type,
)

T = TypeVar("T")


def deprecated(message: str) -> Callable[[Any], Any]:
    """A decorator of functions whose calls warn."""

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def warning(*args: Any, **kwargs: Any) -> Any:
            warnings.warn(message, FutureWarning, stacklevel=2)
            return function(*args, **kwargs)

        warning.__deprecated__ = function.__deprecated__ = message  # type: ignore[attr-defined]
        return warning

    return decorate


@dataclass(frozen=True, slots=True)
class ConstantNode(Generic[T]):
    """The context of something that is a constant: the thing itself."""

    value: T


class _Fields:
    """What a spec has, while it can be set: `made` turns these into a TreeSpec."""

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")


@dataclass(init=False, frozen=True, eq=False, repr=False)
class TreeSpec(_Fields):
    """How something was put together."""

    __slots__ = ()

    type: Any
    _context: Context
    _children: list[TreeSpec]
    num_nodes: int
    num_leaves: int
    num_children: int

    def __init__(self, type: Any, context: Context, children_specs: list[Any]) -> None:
        if type is None:
            if context is not None:
                raise AssertionError("leaf node should not have a context")
            if len(children_specs) != 0:
                raise AssertionError("leaf node should not have children")
        nodes = 1 + sum(child.num_nodes for child in children_specs)
        leaves = 1 if type is None else sum(child.num_leaves for child in children_specs)
        self.__setstate__([type, context, children_specs, nodes, leaves, len(children_specs)])

    def __getstate__(self) -> list[Any]:
        return [getattr(self, name) for name in self.__dataclass_fields__]

    def __setstate__(self, state: list[Any]) -> None:
        for name, value in zip(self.__dataclass_fields__, state, strict=True):
            object.__setattr__(self, name, value)

    def __repr__(self, indent: int = 0) -> str:
        indent += 2
        children = (",\n" + " " * indent).join(c.__repr__(indent) for c in self._children)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{children}])"

    def __eq__(self, other: Any) -> bool:
        if self is other:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        return bool(
            str(self.type) == str(other.type)
            and self._context == other._context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        context: Any = self._context
        if self.type is defaultdict:
            context = context[0], tuple(context[1])
        elif self.type in STANDARD_DICT_TYPES:
            context = tuple(context)
        elif isinstance(context, ConstantNode):
            context = context.value
        elif self.type is not None and self.type not in BUILTIN_TYPES:
            context = None  # it may have no hash
        return hash((self.type, context, tuple(self._children)))

    @property
    def context(self) -> Context:
        """What the type needs besides its children to be put together again."""
        return self._context

    @property
    @deprecated(
        "`treespec.children_specs` is deprecated. "
        "Use `treespec.child(index)` to access a single child, "
        "or `treespec.children()` to get all children."
    )
    def children_specs(self) -> list[TreeSpec]:
        """The specs of the children."""
        return self._children

    def is_leaf(self) -> bool:
        """Whether this is the spec of a leaf."""
        return self.num_nodes == 1 and self.num_leaves == 1

    def children(self) -> list[TreeSpec]:
        """The specs of the children, in a new list."""
        return self._children.copy()

    def child(self, index: int) -> TreeSpec:
        """The spec of one child."""
        return self._children[index]

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """What a tree has where this spec has its leaves; a ValueError says what does not fit."""
        found: list[PyTree] = []
        _take(self, tree, found)
        return found

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree with these leaves."""
        if not isinstance(leaves, (list, tuple)):
            leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} "
                f"but the spec refers to a pytree that holds {self.num_leaves} "
                f"items ({self}).",
            )
        return leaves[0] if self.type is None else _built(self, leaves, 0)


_LEAFSPEC_MESSAGE = (
    "`isinstance(treespec, LeafSpec)` is deprecated, "
    "use `isinstance(treespec, TreeSpec) and treespec.is_leaf()` instead."
)


class LeafSpec(TreeSpec):
    """The spec of a leaf."""

    __slots__ = ()
    __deprecated__ = _LEAFSPEC_MESSAGE

    def __init__(self) -> None:
        warnings.warn(_LEAFSPEC_MESSAGE, FutureWarning, stacklevel=2)
        self.__setstate__([None, None, [], 1, 1, 0])

    def __repr__(self, indent: int = 0) -> str:
        return "*"


_LEAF_SPEC: LeafSpec = LeafSpec.__new__(LeafSpec)
_LEAF_SPEC.__setstate__([None, None, [], 1, 1, 0])


def made(
    type: Any, context: Context, children: list[TreeSpec], nodes: int, leaves: int
) -> TreeSpec:
    """A TreeSpec of counts that are known."""
    spec: Any = _Fields()
    spec.type = type
    spec._context = context
    spec._children = children
    spec.num_nodes = nodes
    spec.num_leaves = leaves
    spec.num_children = len(children)
    spec.__class__ = TreeSpec
    return spec


def _built(spec: TreeSpec, leaves: Any, start: int) -> PyTree:
    """The tree of a spec of some of the leaves; _built is not called for a leaf."""
    width = spec.num_children
    if spec.num_nodes == width + 1 and spec.num_leaves == width:
        children: Any = leaves[start : start + width]
    else:
        children = []
        for child in spec._children:
            if child.type is None:
                children.append(leaves[start])
                start += 1
            else:
                children.append(_built(child, leaves, start))
                start += child.num_leaves
    definition = SUPPORTED_NODES[spec.type]
    if definition is DICT:
        return dict(zip(spec._context, children, strict=True))
    if definition is LIST:
        return list(children)
    if definition is TUPLE:
        return tuple(children)
    return definition.unflatten_fn(list(children), spec._context)


def _take(spec: TreeSpec, tree: PyTree, found: list[PyTree]) -> None:
    """Appends the subtrees that stand where a spec has its leaves."""
    if spec.type is None:
        found.append(tree)
        return
    for child, subtree in zip(spec._children, _children_as(spec, tree), strict=True):
        if child.type is None:
            found.append(subtree)
        else:
            _take(child, subtree, found)


def _children_as(spec: TreeSpec, node: PyTree) -> Any:
    """A node's children in the order of a spec's, if it is such a node; else a ValueError."""
    cls = _get_node_type(node)
    if spec.type in BUILTIN_TYPES:
        dicts = spec.type in STANDARD_DICT_TYPES and cls in STANDARD_DICT_TYPES
        if not dicts and cls != spec.type:
            raise ValueError(f"Node type mismatch; expected {spec.type!r}, but got {cls!r}.")
        if len(node) != spec.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {spec.num_children}, but got {len(node)}."
            )
        if dicts:
            return _values(node, spec._context[1] if spec.type is defaultdict else spec._context)
        children, context = SUPPORTED_NODES[cls].flatten_fn(node)
        if cls is not deque and context != spec._context:
            raise ValueError(
                f"Node context mismatch for node type {spec.type!r}; "
                f"expected {spec._context!r}, but got {context!r}.",
            )
        return children
    if cls != spec.type:
        raise ValueError(f"Type mismatch; expected {spec.type!r}, but got {cls!r}.")
    children, context = SUPPORTED_NODES[cls].flatten_fn(node)
    if len(children) != spec.num_children:
        raise ValueError(
            f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}."
        )
    if context != spec._context:
        raise ValueError(f"Node context mismatch for custom node type {spec.type!r}.")
    return children


def _values(node: Any, keys: list[Any]) -> list[Any]:
    """A dict's values in the order of these keys, if they are its keys; else a ValueError."""
    if node.keys() != set(keys):
        missing, extra = set(keys) - node.keys(), node.keys() - set(keys)
        said = f"; missing key(s): {missing}" if missing else ""
        said += f"; extra key(s): {extra}" if extra else ""
        raise ValueError(f"Node keys mismatch{said}.")
    return [node[key] for key in keys]


# ---- specs without a tree ------------------------------------------------------------------------


def treespec_leaf() -> LeafSpec:
    """The spec of a leaf."""
    return _LEAF_SPEC


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The spec of a tuple of such children."""
    children = list(iterable)
    if any(not isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec
) -> TreeSpec:
    """The spec of a dict of such children."""
    children = dict(mapping, **kwargs)
    if any(not isinstance(child, TreeSpec) for child in children.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {children!r}.")
    return TreeSpec(dict, list(children), list(children.values()))


class _Asterisk(str):
    """What stands for a leaf in print."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "*"


_asterisk = _Asterisk("*")


def treespec_pprint(treespec: TreeSpec) -> str:
    """The repr of the tree, with * for each leaf."""
    return repr(treespec.unflatten([_asterisk] * treespec.num_leaves))
