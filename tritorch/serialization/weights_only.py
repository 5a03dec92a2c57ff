"""The unpickler of `load(weights_only=True)`: an interpreter of pickle opcodes that runs no code.

# Note [Why this is safe]
A pickle is a program.  Here it can name only what `names.allowed()` lists (and what the user has
added), and call of that only what `construct` has a maker for, which checks the arguments.
Nothing is looked up by name anywhere else: there is no import, no getattr.

Nor may a small file cost much.  Each opcode takes at most as much memory as a fixed multiple of
its bytes; calls that copy their argument, which one memo entry can repeat, are charged against
a budget in proportion to the pickle (`charge`), and tensors that are computed from others one in
proportion to the storages (`charge_bytes`); dict keys are walked before they are hashed, for
hashing a tuple of tuples of tuples recurses without limit (`construct.check_key`).
"""

from __future__ import annotations

import pickle
import struct
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

from tritorch.core.naming import torch_name
from tritorch.core.tensor import Tensor
from tritorch.serialization import construct, names, rebuild
from tritorch.serialization.allowlist import find_allowed, user_allowed

_COPIES = 4  # of each storage that tensors may be computed from it
_FREE_BYTES = 1 << 20
_BLOCKED_MODULES = ("sys", "os", "posix", "nt")
# Errors of the interpreter itself: the pickle is damaged.
_DAMAGE = (
    IndexError, KeyError, ValueError, TypeError, AttributeError, OverflowError, struct.error,
    AssertionError, RecursionError,
)  # fmt: skip


class Unpickler:
    """Reads one pickle from a file; `size` bounds what its opcodes may ask for."""

    def __init__(
        self,
        file: Any,
        persistent_load: Callable[[Any], Any] | None = None,
        *,
        size: int,
        encoding: str = "utf-8",
    ) -> None:
        self._file = file
        self._persistent_load = persistent_load
        self._encoding = encoding
        self._budget = 4 * size + 4096
        self._storages: dict[int, Any] = {}
        self._bytes = _FREE_BYTES  # that may still be computed
        self._user = user_allowed()
        self.user_ids = {id(value) for value in self._user.values()}
        self.in_user_code = False

    def load(self) -> Any:
        """The object; UnpicklingError for a pickle that is damaged or not allowed."""
        self.memo: dict[int, Any] = {}
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        opcodes = _OPCODES
        read = self._file.read
        try:
            while True:
                key = read(1)
                if not key:
                    raise UnpicklingError("pickle data was truncated")
                if key == b".":
                    return self.stack.pop()
                operation = opcodes.get(key[0])
                if operation is None:
                    raise UnpicklingError(f"Unsupported operand {key[0]}")
                operation(self)
        except _DAMAGE as error:
            if self.in_user_code:
                raise
            raise UnpicklingError(f"corrupt pickle: {type(error).__name__}: {error}") from error

    # ---- parts of opcodes ---------------------------------------------------------------------

    def read(self, size: int) -> bytes:
        """Exactly so many bytes."""
        data = self._file.read(size)
        if len(data) != size:
            raise UnpicklingError("pickle data was truncated")
        return data

    def unsigned(self, size: int) -> int:
        """A little-endian number."""
        return int.from_bytes(self.read(size), "little")

    def line(self) -> str:
        """Text up to a newline."""
        data = self._file.readline()
        if data[-1:] != b"\n":
            raise UnpicklingError("pickle data was truncated")
        return data[:-1].decode("utf-8")

    def pop_mark(self) -> list[Any]:
        """What was pushed since the last MARK."""
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def charge(self, items: Any) -> None:
        """Pays for a copy."""
        self._budget -= len(items)
        if self._budget < 0:
            raise UnpicklingError("the pickle builds far more than its size")

    def charge_bytes(self, size: int) -> None:
        """Pays for elements that no storage holds."""
        self._bytes -= size
        if self._bytes < 0:
            raise UnpicklingError("the pickle computes far more than its storages hold")

    # ---- globals and calls --------------------------------------------------------------------

    def find_global(self, module: str, name: str) -> Any:
        """An allowed object."""
        module, name = names.python3_name(module, name)
        path = f"{module}.{name}"
        if module in _BLOCKED_MODULES:
            raise UnpicklingError(
                f"Trying to load unsupported GLOBAL {path} whose module {module} is blocked."
            )
        if torch_name(path) == names.NESTED_TENSOR:
            return names.nested_tensor()
        default = names.allowed()
        for written in (path, torch_name(path)):
            if written in default:
                return default[written]
        try:
            return find_allowed(self._user, path)
        except KeyError:
            pass
        if names.is_lacking(path):
            raise UnpicklingError(f"the checkpoint needs {path}, which tritorch does not have")
        shown = path.removeprefix("builtins.")
        raise UnpicklingError(
            f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please use "
            f"`tritorch.serialization.add_safe_globals([{shown}])` or the "
            f"`tritorch.serialization.safe_globals([{shown}])` context manager to allowlist this "
            f"global if you trust this class/function."
        )

    def call(self, function: Any, args: Any, *, new: bool = False) -> Any:
        """function(*args), or function.__new__(function, *args), for allowed functions."""
        if type(args) is not tuple:
            raise UnpicklingError(f"arguments must be a tuple, got {type(args)}")
        maker = construct.maker_of(function)
        if maker is not None:
            return maker(self, *args)
        if id(function) in self.user_ids:
            self.in_user_code = True
            out = function.__new__(function, *args) if new else function(*args)
            self.in_user_code = False
            return out
        if new:
            raise UnpicklingError(
                "Can only create new object for nn.Parameter or classes allowlisted via "
                f"`add_safe_globals` but got {construct.show(function)}"
            )
        raise UnpicklingError(
            f"Trying to call reduce for unrecognized function {construct.show(function)}"
        )

    def build(self, instance: Any, state: Any) -> None:
        """Gives an object its state."""
        kind = type(instance)
        if isinstance(state, dict):
            self.charge(state)
        if kind is OrderedDict:
            if type(state) is not dict or not all(type(key) is str for key in state):
                raise UnpicklingError("the state of an OrderedDict must be a dict of strings")
            instance.__dict__.update(state)
        elif id(kind) in self.user_ids:
            self.in_user_code = True
            _build_user(instance, state)
            self.in_user_code = False
        elif kind is Tensor or kind is names.allowed()["torch.nn.parameter.Parameter"]:
            if isinstance(state, tuple) and len(state) in (4, 5):  # before _rebuild_tensor
                view = rebuild._rebuild_tensor(*state[-4:])
                instance._a, instance._shared = view._array, view._shared
            else:
                rebuild.set_state(instance, state)
        else:
            raise UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
                f"`add_safe_globals`, but got {kind}"
            )

    def set_items(self, items: list[Any], opcode: str) -> None:
        """Keys and values into the dict on the stack."""
        target = self.stack[-1]
        if type(target) not in (dict, OrderedDict, Counter):
            raise UnpicklingError(
                f"Can only {opcode} for dict, collections.OrderedDict, collections.Counter, but "
                f"got {type(target)}"
            )
        for at in range(0, len(items), 2):
            construct.check_key(items[at])
            target[items[at]] = items[at + 1]

    def load_persistent(self, pid: Any) -> Any:
        """A storage."""
        if type(pid) is not tuple and type(pid) is not int:
            raise UnpicklingError(f"persistent_load id must be tuple or int, but got {type(pid)}")
        if type(pid) is tuple and pid and pid[0] not in ("storage", b"storage"):
            raise UnpicklingError(
                f"Only persistent_load of storage is allowed, but got {type(pid[0])}"
            )
        if self._persistent_load is None:
            raise UnpicklingError("unsupported persistent id encountered")
        self.in_user_code = True  # map_location and registered packages
        out = self._persistent_load(pid)
        self.in_user_code = False
        untyped = getattr(out, "_untyped_storage", None)
        if untyped is not None and id(untyped) not in self._storages:
            self._storages[id(untyped)] = untyped
            self._bytes += _COPIES * untyped.nbytes()
        return out


def _build_user(instance: Any, state: Any) -> None:
    if hasattr(instance, "__setstate__"):
        instance.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        instance.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(instance, name, value)


# ---- opcodes -------------------------------------------------------------------------------------


def _global(u: Unpickler) -> None:
    u.stack.append(u.find_global(u.line(), u.line()))


def _newobj(u: Unpickler) -> None:
    args = u.stack.pop()
    u.stack.append(u.call(u.stack.pop(), args, new=True))


def _reduce(u: Unpickler) -> None:
    args = u.stack.pop()
    u.stack[-1] = u.call(u.stack[-1], args)


def _build(u: Unpickler) -> None:
    state = u.stack.pop()
    u.build(u.stack[-1], state)


def _require_list(target: Any, what: str) -> list[Any]:
    if type(target) is not list:
        raise UnpicklingError(f"Can only {what} lists, but got {type(target)}")
    return target


def _append(u: Unpickler) -> None:
    item = u.stack.pop()
    _require_list(u.stack[-1], "append to").append(item)


def _appends(u: Unpickler) -> None:
    items = u.pop_mark()
    _require_list(u.stack[-1], "extend").extend(items)


def _setitem(u: Unpickler) -> None:
    value, key = u.stack.pop(), u.stack.pop()
    u.set_items([key, value], "SETITEM")


def _mark(u: Unpickler) -> None:
    u.marks.append(u.stack)
    u.stack = []


def _tuple(u: Unpickler) -> None:
    items = u.pop_mark()
    u.stack.append(tuple(items))


def _tuple_of(count: int) -> Callable[[Unpickler], None]:
    def make(u: Unpickler) -> None:
        if len(u.stack) < count:
            raise UnpicklingError("unexpected MARK found")
        u.stack[-count:] = [tuple(u.stack[-count:])]

    return make


def _unicode(u: Unpickler) -> None:
    u.stack.append(str(u.read(u.unsigned(4)), "utf-8", "surrogatepass"))


def _short_string(u: Unpickler) -> None:
    data = u.read(u.unsigned(1))
    u.stack.append(data if u._encoding == "bytes" else data.decode(u._encoding, "strict"))


def _put(width: int) -> Callable[[Unpickler], None]:
    def put(u: Unpickler) -> None:
        u.memo[u.unsigned(width)] = u.stack[-1]

    return put


def _get(width: int) -> Callable[[Unpickler], None]:
    def get(u: Unpickler) -> None:
        key = u.unsigned(width)
        if key not in u.memo:
            raise UnpicklingError(f"Memo value not found at index {key}")
        u.stack.append(u.memo[key])

    return get


def _protocol(u: Unpickler) -> None:
    protocol = u.unsigned(1)
    if protocol != 2:
        warnings.warn(
            f"Detected pickle protocol {protocol} in the checkpoint, which was not the default "
            f"pickle protocol used by `tritorch.load` (2). The weights_only Unpickler might not "
            f"support all instructions implemented by this protocol, please file an issue for "
            f"adding support if you encounter this.",
            stacklevel=2,
        )


def _push(value: Any) -> Callable[[Unpickler], None]:
    return lambda u: u.stack.append(value)


_OPCODES: dict[int, Callable[[Unpickler], None]] = {
    key[0]: operation
    for key, operation in {
        pickle.GLOBAL: _global,
        pickle.NEWOBJ: _newobj,
        pickle.REDUCE: _reduce,
        pickle.BUILD: _build,
        pickle.APPEND: _append,
        pickle.APPENDS: _appends,
        pickle.SETITEM: _setitem,
        pickle.SETITEMS: lambda u: u.set_items(u.pop_mark(), "SETITEMS"),
        pickle.MARK: _mark,
        pickle.TUPLE: _tuple,
        pickle.TUPLE1: _tuple_of(1),
        pickle.TUPLE2: _tuple_of(2),
        pickle.TUPLE3: _tuple_of(3),
        pickle.NONE: _push(None),
        pickle.NEWFALSE: _push(False),
        pickle.NEWTRUE: _push(True),
        pickle.EMPTY_TUPLE: _push(()),
        pickle.EMPTY_LIST: lambda u: u.stack.append([]),
        pickle.EMPTY_DICT: lambda u: u.stack.append({}),
        pickle.EMPTY_SET: lambda u: u.stack.append(set()),
        pickle.BININT: lambda u: u.stack.append(int.from_bytes(u.read(4), "little", signed=True)),
        pickle.BININT1: lambda u: u.stack.append(u.unsigned(1)),
        pickle.BININT2: lambda u: u.stack.append(u.unsigned(2)),
        pickle.BINFLOAT: lambda u: u.stack.append(struct.unpack(">d", u.read(8))[0]),
        pickle.BINUNICODE: _unicode,
        pickle.SHORT_BINSTRING: _short_string,
        pickle.LONG1: lambda u: u.stack.append(pickle.decode_long(u.read(u.unsigned(1)))),
        pickle.BINPERSID: lambda u: u.stack.append(u.load_persistent(u.stack.pop())),
        pickle.BINPUT: _put(1),
        pickle.LONG_BINPUT: _put(4),
        pickle.BINGET: _get(1),
        pickle.LONG_BINGET: _get(4),
        pickle.PROTO: _protocol,
    }.items()
}  # fmt: skip
