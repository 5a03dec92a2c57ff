"""The types that are taken apart, and how; whatever has another type is a leaf."""

from __future__ import annotations

import enum
import importlib
import logging
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

from tritorch.core import late_bound, locks
from tritorch.core.size import Size
from tritorch.core.tensor import Tensor
from tritorch.trees.keys import GetAttrKey, KeyEntry, MappingKey, SequenceKey
from tritorch.trees.kinds import is_namedtuple_class

log = logging.getLogger(__name__)

Context = Any
PyTree = Any
FlattenFn = Callable[[PyTree], tuple[list[Any], Context]]
UnflattenFn = Callable[[Iterable[Any], Context], PyTree]
FlattenWithKeysFn = Callable[[PyTree], tuple[list[tuple[KeyEntry, Any]], Any]]
DumpableContext = Any  # what the json module writes
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]
Keyed = tuple[list[tuple[KeyEntry, Any]], Context]

NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"


class NodeDef(NamedTuple):
    """How a type is taken apart and put together."""

    type: type[Any]
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None


class _SerializeNodeDef(NamedTuple):
    """How a type is written into a serialized spec."""

    typ: type[Any]
    serialized_type_name: str
    to_dumpable_context: ToDumpableContextFn | None
    from_dumpable_context: FromDumpableContextFn | None


_NODE_REGISTRY_LOCK = locks.rlock()
SUPPORTED_NODES: dict[Any, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict[Any, _SerializeNodeDef] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, type[Any]] = {}
CONSTANT_NODES: set[type] = set()
# Types that are leaves, as long as nobody registers them: most leaves need no other look.
PLAIN: set[type] = {bool, int, float, complex, str, bytes, type(None), Tensor}


def _private_register_pytree_node(
    cls: Any,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Has a type taken apart; one that is registered already is warned of, and replaced."""
    if isinstance(cls, type) and issubclass(cls, enum.Enum):
        log.warning(
            "%s is an Enum subclass and is now natively supported by torch.compile as an opaque "
            "value type. Calling register_constant() on Enum subclasses is deprecated and will be "
            "an error in a future release.",
            cls,
        )
    with _NODE_REGISTRY_LOCK:
        if cls in SUPPORTED_NODES:
            warnings.warn(
                f"{cls} is already registered as pytree node. "
                "Overwriting the previous registration.",
                stacklevel=2,
            )
        SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
        PLAIN.discard(cls)
        if (to_dumpable_context is None) ^ (from_dumpable_context is None):
            raise ValueError(
                f"Both to_dumpable_context and from_dumpable_context for {cls} must "
                "be None or registered."
            )
        name = serialized_type_name or NO_SERIALIZED_TYPE_NAME_FOUND
        SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(
            cls, name, to_dumpable_context, from_dumpable_context
        )
        SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


# What registers types with optree too (`utils/_cxx_pytree.py`), and what waits until it is there.
FOLLOWERS: list[Callable[..., None]] = []
PENDING: list[tuple[Any, FlattenFn, UnflattenFn]] = []


def announce(cls: Any, flatten_fn: FlattenFn, unflatten_fn: UnflattenFn) -> None:
    """Tells other modules of trees of a type that was registered."""
    if not FOLLOWERS:
        PENDING.append((cls, flatten_fn, unflatten_fn))
    for follower in FOLLOWERS:
        follower(cls, flatten_fn, unflatten_fn)


def register_structseq(cls: Any) -> None:
    """Has tuples with names that operators return taken apart."""

    def unflatten(values: Iterable[Any], context: Context) -> Any:
        return cls(tuple(values))

    _private_register_pytree_node(
        cls, _tuple_flatten, unflatten, flatten_with_keys_fn=_tuple_flatten_with_keys
    )
    announce(cls, _tuple_flatten, unflatten)


def _deregister_pytree_node(cls: Any) -> None:
    """Makes a type a leaf again."""
    with _NODE_REGISTRY_LOCK:
        del SUPPORTED_NODES[cls]
        serialized = SUPPORTED_SERIALIZED_TYPES.pop(cls)
        del SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized.serialized_type_name]
        CONSTANT_NODES.discard(cls)


def _get_node_type(tree: Any) -> Any:
    """The type under which something is registered: `namedtuple` for all named tuples."""
    cls = type(tree)
    return namedtuple if is_namedtuple_class(cls) else cls


def definition_of(tree: Any) -> NodeDef | None:
    """How something is taken apart; None for a leaf."""
    cls = type(tree)
    if isinstance(tree, tuple) and cls is not tuple and is_namedtuple_class(cls):
        cls = cast(Any, namedtuple)
    return SUPPORTED_NODES.get(cls)


# ---- sequences -----------------------------------------------------------------------------------


def _numbered(values: Iterable[Any]) -> list[tuple[KeyEntry, Any]]:
    return [(SequenceKey(i), value) for i, value in enumerate(values)]


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], Context]:
    return list(d), None


def _tuple_flatten_with_keys(d: tuple[Any, ...]) -> Keyed:
    return _numbered(d), None


def _tuple_unflatten(values: Iterable[Any], context: Context) -> tuple[Any, ...]:
    return tuple(values)


def _list_flatten(d: list[Any]) -> tuple[list[Any], Context]:
    return d, None


def _list_flatten_with_keys(d: list[Any]) -> Keyed:
    return _numbered(d), None


def _list_unflatten(values: Iterable[Any], context: Context) -> list[Any]:
    return list(values)


def _deque_flatten(d: deque[Any]) -> tuple[list[Any], Context]:
    return list(d), d.maxlen


def _deque_flatten_with_keys(d: deque[Any]) -> Keyed:
    return _numbered(d), d.maxlen


def _deque_unflatten(values: Iterable[Any], context: Context) -> deque[Any]:
    return deque(values, maxlen=context)


def _size_unflatten(values: Iterable[Any], context: Context) -> Size:
    return Size(values)


# ---- named tuples --------------------------------------------------------------------------------


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d), type(d)


def _namedtuple_flatten_with_keys(d: Any) -> Keyed:
    names = type(d)._fields
    return [(GetAttrKey(name), value) for name, value in zip(names, d, strict=True)], type(d)


def _namedtuple_unflatten(values: Iterable[Any], context: Context) -> Any:
    return context(*values)


def _namedtuple_serialize(context: Context) -> DumpableContext:
    known = SUPPORTED_SERIALIZED_TYPES.get(context)
    if known is None:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we "
            "didn't register a serializated_type_name. Please register using "
            "`_register_namedtuple`."
        )
    if known.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we "
            "couldn't find a serializated_type_name. Please register using "
            "`_register_namedtuple`."
        )
    return known.serialized_type_name


def _namedtuple_deserialize(dumpable_context: DumpableContext) -> Context:
    if dumpable_context not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {dumpable_context} "
            "because we couldn't find a serializated name."
        )
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[dumpable_context]


def _register_namedtuple(cls: type[Any], *, serialized_type_name: str) -> None:
    """Gives a named tuple the name under which specs of it are serialized."""
    _private_register_pytree_node(
        cls,
        _namedtuple_flatten,
        _namedtuple_unflatten,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=_namedtuple_serialize,
        from_dumpable_context=_namedtuple_deserialize,
        flatten_with_keys_fn=_namedtuple_flatten_with_keys,
    )


# ---- dicts ---------------------------------------------------------------------------------------


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> Keyed:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _ordereddict_flatten(d: OrderedDict[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), list(d)


def _ordereddict_flatten_with_keys(d: OrderedDict[Any, Any]) -> Keyed:
    return _dict_flatten_with_keys(d)


def _ordereddict_unflatten(values: Iterable[Any], context: Context) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(context, values, strict=True))


_odict_flatten = _ordereddict_flatten
_odict_unflatten = _ordereddict_unflatten


def _defaultdict_flatten(d: defaultdict[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_flatten_with_keys(d: defaultdict[Any, Any]) -> Keyed:
    keyed, keys = _dict_flatten_with_keys(d)
    return keyed, [d.default_factory, keys]


def _defaultdict_unflatten(values: Iterable[Any], context: Context) -> defaultdict[Any, Any]:
    default_factory, keys = context
    return defaultdict(default_factory, zip(keys, values, strict=True))


def _defaultdict_serialize(context: Context) -> DumpableContext:
    default_factory, keys = context
    return {
        "default_factory_module": default_factory.__module__,
        "default_factory_name": default_factory.__qualname__,
        "dict_context": keys,
    }


def _defaultdict_deserialize(dumpable_context: DumpableContext) -> Context:
    if not isinstance(dumpable_context, dict):
        raise AssertionError("dumpable_context must be a dict")
    expected = {"default_factory_module", "default_factory_name", "dict_context"}
    if set(dumpable_context) != expected:
        raise AssertionError(
            f"dumpable_context keys must be {expected}, got {set(dumpable_context)}"
        )
    for name in ("default_factory_module", "default_factory_name"):
        if not isinstance(dumpable_context[name], str):
            raise AssertionError(f"{name} must be a string")
    module = importlib.import_module(dumpable_context["default_factory_module"])
    factory = getattr(module, dumpable_context["default_factory_name"])
    return [factory, dumpable_context["dict_context"]]


# ---- what is registered from the start -----------------------------------------------------------


def _register(cls: Any, name: str, flatten: Any, unflatten: Any, keyed: Any, *dump: Any) -> NodeDef:
    to_dumpable, from_dumpable = dump or (None, None)
    _private_register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=name, flatten_with_keys_fn=keyed,
        to_dumpable_context=to_dumpable, from_dumpable_context=from_dumpable,
    )  # fmt: skip
    return SUPPORTED_NODES[cls]


# `walk.py` takes these apart itself.
TUPLE = _register(
    tuple, "builtins.tuple", _tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys
)
LIST = _register(list, "builtins.list", _list_flatten, _list_unflatten, _list_flatten_with_keys)
DICT = _register(dict, "builtins.dict", _dict_flatten, _dict_unflatten, _dict_flatten_with_keys)
_register(
    namedtuple, "collections.namedtuple",
    _namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys,
    _namedtuple_serialize, _namedtuple_deserialize,
)  # fmt: skip
_register(
    OrderedDict, "collections.OrderedDict",
    _ordereddict_flatten, _ordereddict_unflatten, _ordereddict_flatten_with_keys,
)  # fmt: skip
_register(
    defaultdict, "collections.defaultdict",
    _defaultdict_flatten, _defaultdict_unflatten, _defaultdict_flatten_with_keys,
    _defaultdict_serialize, _defaultdict_deserialize,
)  # fmt: skip
_register(deque, "collections.deque", _deque_flatten, _deque_unflatten, _deque_flatten_with_keys)

STANDARD_DICT_TYPES: frozenset[Any] = frozenset({dict, OrderedDict, defaultdict})
BUILTIN_TYPES: frozenset[Any] = frozenset(SUPPORTED_NODES)

_register(Size, "torch.Size", _tuple_flatten, _size_unflatten, _tuple_flatten_with_keys)

for _type in late_bound.waiting_result_types:
    register_structseq(_type)
late_bound.register_result_type = register_structseq
