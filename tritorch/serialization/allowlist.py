"""What users allow beyond the default (add_safe_globals), and what a checkpoint would need."""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable
from typing import Any

from tritorch.core.naming import torch_name
from tritorch.core.scopes import Scope
from tritorch.serialization import names
from tritorch.serialization.archive import ArchiveReader

_Item = Callable[..., Any] | tuple[Callable[..., Any], str]
_added: set[_Item] = set()


def add_safe_globals(safe_globals: list[_Item]) -> None:
    """Marks functions and classes, or (object, "full.path") pairs, as safe for weights_only."""
    _added.update(safe_globals)


def get_safe_globals() -> list[_Item]:
    """What was added."""
    return list(_added)


def clear_safe_globals() -> None:
    """Takes back all that was added."""
    _added.clear()


class safe_globals(Scope):
    """Within, these are safe for weights_only."""

    def __init__(self, safe_globals: list[_Item]) -> None:
        self.safe_globals = safe_globals

    def changes(self) -> Any:
        given = list(self.safe_globals)
        add = functools.partial(_added.update, given)
        return ((add, None, functools.partial(_added.difference_update, given)),)


def user_allowed() -> dict[str, Any]:
    """What was added, under the names that pickles use."""
    table: dict[str, Any] = {}
    for item in _added:
        if isinstance(item, tuple):
            if len(item) != 2:
                raise ValueError(
                    f"Expected tuple of length 2 (global, str of callable full path), but got "
                    f"tuple of length: {len(item)}"
                )
            if type(item[1]) is not str:
                raise TypeError(
                    f"Expected second item in tuple to be str of callable full path, but got: "
                    f"{type(item[1])}"
                )
            table[item[1]] = item[0]
        else:
            table[f"{item.__module__}.{item.__qualname__}"] = item
            written = names.path_of(item)
            if written is not None:
                table[".".join(written)] = item
    return table


def find_allowed(table: dict[str, Any], path: str) -> Any:
    """What a table of allowed objects has for a name in a pickle; KeyError if nothing."""
    for written in (path, torch_name(path)):
        if written in table:
            return table[written]
    for known, found in table.items():
        # torch.nn.Linear is torch.nn.modules.linear.Linear in PyTorch's files.
        package, _, name = known.rpartition(".")
        if package.startswith("torch.") and path.endswith(f".{name}"):
            if path.startswith(f"{package}."):
                return found
    raise KeyError(path)


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The names in a checkpoint's pickle that weights_only would refuse; nothing is run."""
    if isinstance(f, (str, bytes)) or hasattr(f, "__fspath__"):
        with open(f, "rb") as file:
            return get_unsafe_globals_in_checkpoint(file)
    start = f.tell()
    magic = f.read(4)
    f.seek(start)
    if magic != b"PK\x03\x04":
        raise ValueError("Expected input to be a checkpoint returned by tritorch.save")
    archive = ArchiveReader(f)
    if archive.has("constants.pkl"):
        raise ValueError(
            "Expected input to be a checkpoint returned by tritorch.save but got a torchscript "
            "checkpoint"
        )
    default, user = names.allowed(), user_allowed()
    found = _globals_in(archive.read("data.pkl"))
    return [path for path in found if not is_allowed(path, default, user)]


def is_allowed(path: str, default: dict[str, Any], user: dict[str, Any]) -> bool:
    """Whether a name in a pickle is allowed, by default or by the user."""
    if path in default or torch_name(path) in default:
        return True
    try:
        find_allowed(user, path)
    except KeyError:
        return False
    return True


def _globals_in(data: bytes) -> set[str]:
    """Names of all GLOBAL opcodes."""
    found: set[str] = set()
    file = io.BytesIO(data)
    while True:
        key = file.read(1)
        if key == pickle.STOP:
            return found
        if key == pickle.GLOBAL:
            pair = [file.readline()[:-1].decode("utf-8") for _ in range(2)]
            found.add(".".join(names.python3_name(*pair)))
        elif key in _WIDTHS:
            file.seek(_WIDTHS[key], 1)
        elif key in _LENGTHS and (size := file.read(_LENGTHS[key])):
            file.seek(int.from_bytes(size, "little"), 1)
        else:
            raise pickle.UnpicklingError(
                f"Unsupported operand {key[0]}" if key else "pickle data was truncated"
            )


# Opcodes by what follows them: so many bytes, or a length of so many bytes and then the data.
_WIDTHS = {bytes([code]): 0 for code in b"\x81Rbaesu(t\x85\x86\x87N\x89\x88)]}\x8fQ"} | {
    pickle.BININT: 4, pickle.BININT1: 1, pickle.BININT2: 2, pickle.BINFLOAT: 8, pickle.BINGET: 1,
    pickle.LONG_BINGET: 4, pickle.BINPUT: 1, pickle.LONG_BINPUT: 4, pickle.PROTO: 1,
}  # fmt: skip
_LENGTHS = {pickle.BINUNICODE: 4, pickle.SHORT_BINSTRING: 1, pickle.LONG1: 1}
