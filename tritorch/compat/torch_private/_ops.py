"""torch.ops: operators as objects, by namespace."""

from __future__ import annotations

import ctypes
import importlib
import types
from typing import TYPE_CHECKING, Any

from tritorch.core import late_bound

if TYPE_CHECKING:
    from tritorch.ops.record.overloads import OpNamespace


class _Ops(types.ModuleType):
    """`torch.ops.<namespace>`; what programs define with `torch.library` is there too."""

    __file__ = "_ops.py"

    def __init__(self) -> None:
        super().__init__("torch.ops")
        self.loaded_libraries: set[str] = set()

    def __getattr__(self, name: str) -> OpNamespace:
        if name.startswith("__"):
            raise AttributeError(name)
        from tritorch.ops.record.overloads import namespace

        if name == "higher_order":  # operators of functions, which are declared elsewhere
            importlib.import_module("tritorch._higher_order_ops.operators")
        found = namespace(name)
        setattr(self, name, found)
        return found

    def import_module(self, module: str) -> None:
        """Imports a module, which may define operators."""
        importlib.import_module(module)

    def load_library(self, path: str) -> None:
        """Loads a shared library.  Operators that one registers with libtorch need libtorch's C++
        interface, which is not here: such a library does not load, and says so, but for those whose
        operators `tritorch.compat.shims` has."""
        ours = late_bound.served_library(path)
        if ours is not None:
            importlib.import_module(ours)
            self.loaded_libraries.add(path)
            return
        try:
            ctypes.CDLL(path)
        except OSError as error:
            text = str(error)
            if "libtorch" in text or "libc10" in text or "undefined symbol" in text:
                raise OSError(
                    f"{text}. This library was compiled against libtorch, which tritorch does not "
                    "have: operators in C++ must be bound without it, and given to "
                    "torch.library.custom_op."
                ) from None
            raise
        self.loaded_libraries.add(path)


ops = _Ops()


# The modules of PyTorch that have an operator's function under its own name, internal ones too.
_TABLES = {"", "_VF", "_C._VariableFunctions", "_C._nn", "_C._linalg", "_C._special", "_C._fft",
           "_C._sparse"}  # fmt: skip


def operator(path: str, name: str) -> Any:
    """The operator of ATen that PyTorch has as `torch.<path>.<name>`; else AttributeError."""
    from tritorch.core.gates import GATES
    from tritorch.schema import table

    public = GATES.get("tritorch", {}).get(name) if path in _TABLES and path else None
    if public is not None:
        return public
    if path in _TABLES and not name.startswith("__") and name in table.names():
        packet = getattr(ops.aten, name)
        if packet.is_computed:
            return packet
    raise AttributeError(name)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tritorch.ops.record import overloads

    return getattr(overloads, {"_OpNamespace": "OpNamespace"}.get(name, name))
