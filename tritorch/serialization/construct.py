"""What a restricted pickle may call: each function with a maker that checks its arguments.

A maker gets the unpickler, to pay for what it copies, and the arguments.
"""

from __future__ import annotations

from codecs import encode
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from tritorch.core.device import device as Device
from tritorch.core.size import Size
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import Tensor
from tritorch.core.typed_storage import TypedStorage
from tritorch.serialization import names, rebuild

if TYPE_CHECKING:
    from tritorch.serialization.weights_only import Unpickler

_KEY_NODES, _KEY_DEPTH = 10_000, 50
_ENCODINGS = ("latin1", "latin-1", "iso-8859-1", "utf-8", "utf8", "ascii")


def show(value: Any) -> str:
    """For messages; the repr of an arbitrary object may be endless."""
    if isinstance(value, type) or (type(value).__module__ == "builtins" and callable(value)):
        return repr(value)
    return f"of type {type(value)}"


def check_key(key: Any) -> None:
    """Refuses keys that take long, or a deep stack, to hash, and those made to collide."""
    if type(key) is str:
        return
    nodes, level = 0, [key]
    for _ in range(_KEY_DEPTH):
        nodes += len(level)
        if nodes > _KEY_NODES:
            break
        for item in level:
            if type(item) is complex or (type(item) is int and item.bit_length() > 64):
                raise UnpicklingError("a dict key or an item of a set is an extreme number")
        tuples = [item for item in level if isinstance(item, tuple)]
        if not tuples:
            return
        if sum(map(len, tuples)) > _KEY_NODES:
            break
        level = [item for part in tuples for item in part]
    raise UnpicklingError("a dict key or an item of a set is a tuple that is nested too deeply")


def _make_ordered_dict(unpickler: Unpickler, items: Any = ()) -> Any:
    if type(items) not in (list, tuple, dict):
        raise UnpicklingError(f"OrderedDict of {type(items)}")
    unpickler.charge(items)
    pairs = list(items.items() if type(items) is dict else items)
    for pair in pairs:
        if type(pair) not in (list, tuple) or len(pair) != 2:
            raise UnpicklingError("OrderedDict of what are not pairs")
        check_key(pair[0])
    return OrderedDict(pairs)


def _make_counter(unpickler: Unpickler, counts: Any = None) -> Any:
    if counts is None:
        return Counter()
    if type(counts) is not dict:
        raise UnpicklingError(f"Counter of {type(counts)}")
    unpickler.charge(counts)
    return Counter(counts)


def _make_set(unpickler: Unpickler, items: Any = ()) -> Any:
    if type(items) not in (list, tuple):
        raise UnpicklingError(f"set of {type(items)}")
    unpickler.charge(items)
    for item in items:
        check_key(item)
    return set(items)


def _make_bytes(
    unpickler: Unpickler, text: Any, encoding: Any = "utf-8", errors: Any = "strict"
) -> bytes:
    if type(text) is not str or encoding not in _ENCODINGS:
        raise UnpicklingError("only text can be encoded, as latin1 or utf-8")
    unpickler.charge(text)
    return encode(text, encoding, errors if type(errors) is str else "strict")


def _make_bytearray(unpickler: Unpickler, value: Any = b"", encoding: Any = "latin1") -> Any:
    if type(value) is bytes:
        unpickler.charge(value)
        return bytearray(value)
    return bytearray(_make_bytes(unpickler, value, encoding))


def _make_complex(unpickler: Unpickler, real: Any = 0.0, imag: Any = 0.0) -> Any:
    if type(real) not in (int, float) or type(imag) not in (int, float):
        raise UnpicklingError("complex of what are not numbers")
    return complex(real, imag)


def _make_size(unpickler: Unpickler, sizes: Any = ()) -> Any:
    if type(sizes) not in (list, tuple) or not all(type(size) is int for size in sizes):
        raise UnpicklingError("Size of what are not ints")
    unpickler.charge(sizes)
    return Size(sizes)


def _make_device(unpickler: Unpickler, kind: Any, index: Any = None) -> Any:
    if type(kind) is not str or not (index is None or type(index) is int):
        raise UnpicklingError("device of what are not a str and an int")
    return Device(kind, index)


def _make_layout(unpickler: Unpickler, name: Any) -> Any:
    return rebuild._get_layout(name)


def _make_from_type(unpickler: Unpickler, function: Any, kind: Any, args: Any, state: Any) -> Any:
    if not any(function is known for known in rebuild.FUNCTIONS):
        raise UnpicklingError(f"Trying to call reduce for unrecognized function {show(function)}")
    out = unpickler.call(function, args)
    if isinstance(state, dict):
        unpickler.charge(state)
    user = id(kind) in unpickler.user_ids
    jagged = out.is_nested and kind is names.nested_tensor()
    if not user and not jagged and kind is not Tensor and kind is not _parameter():
        raise UnpicklingError(f"tensor subclass {show(kind)} was not allowlisted")
    unpickler.in_user_code = user
    out = rebuild.finish_from_type(out, kind, state)
    unpickler.in_user_code = False
    return out


def _make_tensor(unpickler: Unpickler, *args: Any) -> Any:
    if args:
        raise UnpicklingError("Tensor: checkpoints make tensors from storages only")
    return Tensor()


def _make_storage(unpickler: Unpickler, *args: Any) -> Any:
    raise UnpicklingError("storages in checkpoints come from the file, not from calls")


def _make_parameter(unpickler: Unpickler, data: Any = None, requires_grad: Any = True) -> Any:
    return rebuild._rebuild_parameter(Tensor() if data is None else data, requires_grad)


def _parameter() -> Any:
    return names.allowed()["torch.nn.parameter.Parameter"]


def _rebuilder(function: Any) -> Any:
    def make(unpickler: Unpickler, *args: Any) -> Any:
        if function is rebuild._rebuild_parameter_with_state and isinstance(args[-1], dict):
            unpickler.charge(args[-1])
        if function in rebuild.COMPUTING:
            return function(*args, charge=unpickler.charge_bytes)
        return function(*args)

    return make


_MAKERS: dict[int, Callable[..., Any]] = {
    id(OrderedDict): _make_ordered_dict,
    id(Counter): _make_counter,
    id(set): _make_set,
    id(encode): _make_bytes,
    id(bytearray): _make_bytearray,
    id(complex): _make_complex,
    id(Size): _make_size,
    id(Device): _make_device,
    id(Tensor): _make_tensor,
    id(TypedStorage): _make_storage,
    id(UntypedStorage): _make_storage,
    id(rebuild._get_layout): _make_layout,
    id(rebuild._rebuild_from_type_v2): _make_from_type,
    **{id(function): _rebuilder(function) for function in rebuild.FUNCTIONS},
}


def maker_of(function: Any) -> Callable[..., Any] | None:
    """What checks the arguments of an allowed function and calls it; None for other objects."""
    return _make_parameter if function is _parameter() else _MAKERS.get(id(function))
