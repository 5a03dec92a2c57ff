"""Nested data as trees: leaves, their paths, maps, and what puts them together again.

Tuples, lists, dicts, named tuples and the collections module's containers are taken apart, and
what is registered; everything else, None too, is a leaf.  `tritorch/_trees` has the functions that
do it; here are the ways to register a type, serialized specs, and former names.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import sys
import types
import warnings
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from tritorch.torch_version import TorchVersion
from tritorch.trees.keys import GetAttrKey, K, KeyEntry, KeyPath, MappingKey, SequenceKey, T
from tritorch.trees.kinds import (
    Py_TPFLAGS_BASETYPE,
    _T_co,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    structseq,
)
from tritorch.trees.nodes import (
    _NODE_REGISTRY_LOCK,
    BUILTIN_TYPES,
    CONSTANT_NODES,
    FOLLOWERS,
    NO_SERIALIZED_TYPE_NAME_FOUND,
    PENDING,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    SUPPORTED_SERIALIZED_TYPES,
    Context,
    DumpableContext,
    FlattenFn,
    FlattenWithKeysFn,
    FromDumpableContextFn,
    NodeDef,
    PyTree,
    ToDumpableContextFn,
    UnflattenFn,
    _defaultdict_deserialize,
    _defaultdict_flatten,
    _defaultdict_flatten_with_keys,
    _defaultdict_serialize,
    _defaultdict_unflatten,
    _deque_flatten,
    _deque_flatten_with_keys,
    _deque_unflatten,
    _deregister_pytree_node,
    _dict_flatten,
    _dict_flatten_with_keys,
    _dict_unflatten,
    _get_node_type,
    _list_flatten,
    _list_flatten_with_keys,
    _list_unflatten,
    _namedtuple_deserialize,
    _namedtuple_flatten,
    _namedtuple_flatten_with_keys,
    _namedtuple_serialize,
    _namedtuple_unflatten,
    _odict_flatten,
    _odict_unflatten,
    _ordereddict_flatten,
    _ordereddict_flatten_with_keys,
    _ordereddict_unflatten,
    _private_register_pytree_node,
    _register_namedtuple,
    _SerializeNodeDef,
    _tuple_flatten,
    _tuple_flatten_with_keys,
    _tuple_unflatten,
    announce,
    log,
)
from tritorch.trees.spec import (
    _LEAF_SPEC,
    ConstantNode,
    LeafSpec,
    TreeSpec,
    _asterisk,
    deprecated,
    treespec_dict,
    treespec_leaf,
    treespec_pprint,
    treespec_tuple,
)
from tritorch.trees.walk import (
    _broadcast_to_and_flatten,
    _generate_key_paths,
    arg_tree_leaves,
    key_get,
    keystr,
    map_only,
    tree_all,
    tree_all_only,
    tree_any,
    tree_any_only,
    tree_flatten,
    tree_flatten_with_path,
    tree_is_leaf,
    tree_iter,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    tree_map_,
    tree_map_only,
    tree_map_only_,
    tree_map_with_path,
    tree_structure,
    tree_unflatten,
)

__all__ = [  # noqa: RUF022 - the order is PyTorch's
    "PyTree", "Context", "FlattenFn", "UnflattenFn", "DumpableContext", "ToDumpableContextFn",
    "FromDumpableContextFn", "PyTreeSpec", "TreeSpec", "LeafSpec", "keystr", "key_get",
    "register_pytree_node", "tree_is_leaf", "tree_flatten", "tree_flatten_with_path",
    "tree_unflatten", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_structure",
    "tree_map", "tree_map_with_path", "tree_map_", "tree_map_only", "tree_map_only_", "tree_all",
    "tree_any", "tree_all_only", "tree_any_only", "treespec_dumps", "treespec_loads",
    "treespec_pprint", "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance",
    "is_structseq", "is_structseq_class", "is_structseq_instance",
]  # fmt: skip

DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1

# optree's trees (`_cxx_pytree.py`): what is registered before anybody imports them waits.
_optree_minimum_version = TorchVersion("0.13.0")
_cxx_pytree_imported = False
_cxx_pytree_pending_imports = PENDING


def __getattr__(name: str) -> Any:
    """The version of optree, and whether it is there: looked up when somebody asks."""
    if name == "_optree_version":
        from importlib import metadata

        try:
            return TorchVersion(metadata.version("optree"))
        except metadata.PackageNotFoundError:
            return TorchVersion("0.0.0a0")
    if name in ("_cxx_pytree_exists", "_cxx_pytree_dynamo_traceable"):
        return __getattr__("_optree_version") >= _optree_minimum_version
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def followed_by(register: Callable[..., None]) -> None:
    """Has another module register what is registered here, from the beginning on."""
    global _cxx_pytree_imported
    with _NODE_REGISTRY_LOCK:
        for args in PENDING:
            register(*args)
        PENDING.clear()
        FOLLOWERS.append(register)
        _cxx_pytree_imported = True


# ---- names for annotations -----------------------------------------------------------------------

PyTreeSpec = TreeSpec
S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")
ToStrFunc = Callable[["TreeSpec", list[str]], str]
MaybeFromStrFunc = Callable[[str], "tuple[Any, Context, str] | None"]
FlattenFunc = FlattenFn
UnflattenFunc = UnflattenFn
FlattenWithKeysFunc = FlattenWithKeysFn
Type2 = tuple[type[T], type[S]]
Type3 = tuple[type[T], type[S], type[U]]
TypeAny = type[Any] | tuple[type[Any], ...] | types.UnionType
Fn = Callable[[T], R]
Fn2 = Callable[[T | S], R]
Fn3 = Callable[[T | S | U], R]
FnAny = Callable[[Any], R]
MapOnlyFn = Callable[[T], Callable[[Any], Any]]


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
    """Has instances of a class taken apart.

    `flatten_fn` gives (children, context), `unflatten_fn(children, context)` the instance again.
    `flatten_with_keys_fn` gives the children in pairs with their keys, for key paths.  Specs with
    the class are serialized under `serialized_type_name`, their contexts by the json module unless
    the two `dumpable` functions say otherwise.
    """
    with _NODE_REGISTRY_LOCK:
        if cls in SUPPORTED_NODES:
            raise ValueError(f"{cls} is already registered as pytree node.")
    _private_register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )
    announce(cls, flatten_fn, unflatten_fn)


def register_dataclass(
    cls: type[Any],
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Has instances of a dataclass taken apart by their fields.

    The children are the fields that `__init__` takes and that are not None.  A class that is no
    dataclass but is made from its attributes in the same way needs `field_names`.
    """
    names = _data_fields(cls, field_names, drop_field_names or [])

    def flatten(obj: Any) -> tuple[list[Any], Context]:
        values = [getattr(obj, name) for name in names]
        given = [name for name, value in zip(names, values) if value is not None]
        missing = [name for name, value in zip(names, values) if value is None]
        return [value for value in values if value is not None], [given, missing]

    def unflatten(values: Iterable[Any], context: Context) -> Any:
        given, missing = context
        return cls(**dict(zip(given, values, strict=True)), **dict.fromkeys(missing))

    def flatten_with_keys(obj: Any) -> tuple[list[Any], Context]:
        values, context = flatten(obj)
        return [(GetAttrKey(k), v) for k, v in zip(context[0], values, strict=True)], context

    _private_register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


def _data_fields(cls: type[Any], names: list[str] | None, dropped: list[str]) -> list[str]:
    """The names of the fields that hold data, after a look at whether they are all."""
    if not dataclasses.is_dataclass(cls):
        if names is None:
            raise ValueError(
                "field_names must be specified with a list of all fields used to "
                f"initialize {cls}, as it is not a dataclass."
            )
        return names
    taken = [field.name for field in dataclasses.fields(cls) if field.init]
    if names is None:
        return taken
    wanted = set(taken) - set(dropped)
    if wanted == set(names):
        return names
    message = "field_names does not include all dataclass fields.\n"
    if missing := wanted - set(names):
        message += (
            f"Missing fields in `field_names`: {missing}. If you want "
            "to include these fields in the pytree, please add them "
            "to `field_names`, otherwise please add them to "
            "`drop_field_names`.\n"
        )
    if unexpected := set(names) - wanted:
        message += (
            f"Unexpected fields in `field_names`: {unexpected}. "
            "Please remove these fields, or add them to `drop_field_names`.\n"
        )
    raise ValueError(message)


def register_constant(cls: type[Any]) -> None:
    """Has instances of a class be nodes without leaves: a spec holds them, and compares them."""
    for method, default in (("__eq__", object.__eq__), ("__hash__", None)):
        if getattr(cls, method) is default:
            raise TypeError(
                f"register_constant(cls) expects `cls` to have a non-default `{method}` "
                "implementation."
            )

    def flatten(x: Any) -> tuple[list[Any], Context]:
        return [], ConstantNode(x)

    with _NODE_REGISTRY_LOCK:
        _private_register_pytree_node(
            cls, flatten, lambda _, context: context.value, flatten_with_keys_fn=flatten
        )
        CONSTANT_NODES.add(cls)


def is_constant_class(cls: Any) -> bool:
    """Whether a class is registered as one of constants."""
    return isinstance(cls, type) and cls in CONSTANT_NODES


def _is_constant_holder(spec: TreeSpec) -> bool:
    """Whether a spec is that of a constant."""
    return isinstance(spec._context, ConstantNode)


def _retrieve_constant(spec: TreeSpec) -> Any:
    """The constant of a spec."""
    if not _is_constant_holder(spec):
        raise AssertionError("spec does not correspond to a registered constant pytree")
    return tree_unflatten([], spec)


def _is_pytreespec_instance(obj: Any) -> bool:
    natively = sys.modules.get(f"{__package__}._cxx_pytree") if FOLLOWERS else None
    return isinstance(obj, TreeSpec) or (
        natively is not None and isinstance(obj, natively.PyTreeSpec)
    )


def _ensure_python_treespec_instance(treespec: Any) -> TreeSpec:
    if isinstance(treespec, TreeSpec):
        return treespec
    if _is_pytreespec_instance(treespec):
        return tree_structure(treespec.unflatten([0] * treespec.num_leaves))
    raise TypeError(
        "Expected `treespec` to be an instance of PyTreeSpec but got item of type "
        f"{type(treespec)}."
    )


# ---- serialized specs ----------------------------------------------------------------------------


class EnumEncoder(json.JSONEncoder):
    """Writes members of enums too."""

    def default(self, obj: object) -> Any:
        """The dict that stands for a member."""
        if isinstance(obj, Enum):
            kind = type(obj)
            name = f"{kind.__module__}:{kind.__qualname__}"
            return {"__enum__": True, "fqn": name, "name": obj.name}
        return super().default(obj)


def enum_object_hook(obj: dict[str, Any]) -> Any:
    """The member of an enum that a dict stands for; else the dict."""
    if "__enum__" not in obj:
        return obj
    module, _, path = obj["fqn"].partition(":")
    kind: Any = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    return kind[obj["name"]]


@dataclasses.dataclass
class _TreeSpecSchema:
    """A spec as it is serialized: the type's name, or None for a leaf."""

    type: str | None
    context: DumpableContext
    children_spec: list[_TreeSpecSchema]


class _ProtocolFn(NamedTuple):
    treespec_to_json: Callable[[TreeSpec], DumpableContext]
    json_to_treespec: Callable[[DumpableContext], TreeSpec]


def _treespec_to_json(treespec: TreeSpec) -> _TreeSpecSchema:
    if treespec.is_leaf():
        return _TreeSpecSchema(None, None, [])
    known = SUPPORTED_SERIALIZED_TYPES.get(treespec.type)
    if known is None:
        raise NotImplementedError(f"Serializing {treespec.type} in pytree is not registered.")
    if known.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"No registered serialization name for {treespec.type} found. "
            "Please update your _register_pytree_node call with a `serialized_type_name` kwarg."
        )
    if known.to_dumpable_context is not None:
        context = known.to_dumpable_context(treespec._context)
    else:
        try:
            context = json.dumps(treespec._context, cls=EnumEncoder)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. "
                "Please make the context json dump-able, or register a "
                "custom serializer using _register_pytree_node."
            ) from error
    children = [_treespec_to_json(child) for child in treespec._children]
    return _TreeSpecSchema(known.serialized_type_name, context, children)


def _json_to_treespec(json_schema: DumpableContext) -> TreeSpec:
    name, written = json_schema["type"], json_schema["context"]
    children = json_schema["children_spec"]
    if name is None and written is None and len(children) == 0:
        return _LEAF_SPEC
    if name not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    kind = SERIALIZED_TYPE_TO_PYTHON_TYPE[name]
    read = SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable_context
    if read is not None:
        context = read(written)
    else:
        try:
            context = json.loads(written, object_hook=enum_object_hook)
        except TypeError as error:
            raise TypeError(
                "Unable to deserialize context. "
                "Please make the context json load-able, or register a "
                "custom serializer using _register_pytree_node.",
            ) from error
    return TreeSpec(kind, context, [_json_to_treespec(child) for child in children])


_SUPPORTED_PROTOCOLS = {1: _ProtocolFn(_treespec_to_json, _json_to_treespec)}


def _protocol(number: Any) -> _ProtocolFn:
    if number not in _SUPPORTED_PROTOCOLS:
        raise ValueError(
            f"Unknown protocol {number}. Available protocols: {list(_SUPPORTED_PROTOCOLS.keys())}",
        )
    return _SUPPORTED_PROTOCOLS[number]


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A spec as JSON."""
    treespec = _ensure_python_treespec_instance(treespec)
    if protocol is None:
        protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL
    schema = _protocol(protocol).treespec_to_json(treespec)
    return json.dumps((protocol, dataclasses.asdict(schema)), cls=EnumEncoder)


@functools.lru_cache
def treespec_loads(serialized: str) -> TreeSpec:
    """The spec that `treespec_dumps` wrote."""
    protocol, schema = json.loads(serialized)
    return _protocol(protocol).json_to_treespec(schema)


# ---- former names --------------------------------------------------------------------------------


@deprecated(
    "`torch.utils._pytree._register_pytree_node` is deprecated. "
    "Please use `torch.utils._pytree.register_pytree_node` instead."
)
def _register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    to_str_fn: Any = None,
    maybe_from_str_fn: Any = None,
    **options: Any,
) -> None:
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warnings.warn(
            "`to_str_fn` and `maybe_from_str_fn` is deprecated. "
            "Please use `to_dumpable_context` and `from_dumpable_context` instead.",
            FutureWarning,
            stacklevel=2,
        )
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


@deprecated(
    "torch.utils._pytree._is_namedtuple_instance is private and will be removed in a future "
    "release. Please use torch.utils._pytree.is_namedtuple_instance instead."
)
def _is_namedtuple_instance(tree: Any) -> bool:
    return is_namedtuple_instance(tree)


@deprecated(
    "torch.utils._pytree._is_leaf is private and will be removed in a future release. "
    "Please use torch.utils._pytree.tree_is_leaf instead."
)
def _is_leaf(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    return tree_is_leaf(tree, is_leaf)


@deprecated("`pytree_to_str` is deprecated. Please use `treespec_dumps` instead.")
def pytree_to_str(treespec: TreeSpec) -> str:
    """A spec as JSON."""
    return treespec_dumps(treespec)


@deprecated("`str_to_pytree` is deprecated. Please use `treespec_loads` instead.")
def str_to_pytree(json: str) -> TreeSpec:
    """The spec that was written as JSON."""
    return treespec_loads(json)
