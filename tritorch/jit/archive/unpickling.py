"""The unpickler of archives: that of weights, and objects of the archive's own classes."""

from __future__ import annotations

from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from tritorch.core.device import device as Device
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.ir.types import NamedTupleType, ScriptClassType, ScriptEnumType
from tritorch.jit.run.executor import runner
from tritorch.jit.run.module_data import ScriptModuleData
from tritorch.jit.run.values import to_script
from tritorch.ops.quantized.packed import ScriptObject
from tritorch.serialization.weights_only import Unpickler

if TYPE_CHECKING:
    from tritorch.jit.archive.reading import Archive


class _Made:
    """A function of `torch.jit._pickle` that a pickle may call."""

    def __init__(self, name: str) -> None:
        self.name = name


_LISTS = {
    "build_intlist": int, "build_doublelist": float, "build_boollist": bool,
    "build_tensorlist": object,
}  # fmt: skip
_FUNCTIONS = {name: _Made(name) for name in (*_LISTS, "restore_type_tag", "build_tensor_from_id")}
_MODULES = ("torch.jit._pickle", "__main__")


class _Native:
    """A class of `torch.classes`, by its path."""

    def __init__(self, path: str) -> None:
        self.path = path


def native_classes() -> Any:
    """The classes of `torch.classes` that tritorch has, by their paths."""
    import tritorch.ops.quantized  # noqa: F401
    from tritorch.ops.quantized.packed import KINDS

    return KINDS


class ScriptUnpickler(Unpickler):
    """Reads the pickles of one archive."""

    archive: Archive

    def find_global(self, module: str, name: str) -> Any:
        if module in _MODULES and name in _FUNCTIONS:
            return _FUNCTIONS[name]
        if module == "__torch__" or module.startswith("__torch__."):
            path = f"{module}.{name}"
            if path.startswith("__torch__.torch.classes."):
                if path in native_classes():
                    return _Native(path)
                raise UnpicklingError(
                    f"the archive needs the class {path.removeprefix('__torch__.')}, which "
                    "tritorch does not have"
                )
            found = self.archive.find(path)
            if not isinstance(found, (ScriptClassType, ScriptEnumType, NamedTupleType)):
                raise UnpicklingError(f"the archive has no class {path}")
            return found
        if (module, name) == ("torch", "device"):
            return Device
        return super().find_global(module, name)

    def call(self, function: Any, args: Any, *, new: bool = False) -> Any:
        if isinstance(function, _Made):
            return self._made(function.name, args)
        if isinstance(function, _Native):
            made = ScriptObject.__new__(ScriptObject)
            made._awaited = function.path
            return made
        if isinstance(function, ScriptClassType):
            self.charge(function.attributes)
            kind = ScriptModuleData if function.is_module_type else ScriptObjectData
            return kind(function, self.archive.unit)
        if isinstance(function, ScriptEnumType):
            if type(args) is not tuple or len(args) != 1:
                raise UnpicklingError("an enumeration is called with its value")
            return function.python(args[0])
        if isinstance(function, NamedTupleType):
            if type(args) is not tuple or len(args) != len(function.fields):
                raise UnpicklingError("a named tuple is called with all of its parts")
            return function.python(*args)
        if function is Device:
            if type(args) is not tuple or not all(isinstance(a, (str, int)) for a in args):
                raise UnpicklingError("a device is made of a name and a number")
            return Device(*args)
        return super().call(function, args, new=new)

    def _made(self, name: str, args: Any) -> Any:
        if type(args) is not tuple or not args:
            raise UnpicklingError(f"{name} needs arguments")
        if name == "restore_type_tag":
            return args[0]
        if name == "build_tensor_from_id":
            tables = self.archive.constants
            if type(args[0]) is not int or not 0 <= args[0] < len(tables):
                raise UnpicklingError("a reference to a constant that is not there")
            return tables[args[0]]
        if type(args[0]) is not list:
            raise UnpicklingError(f"{name} takes a list")
        self.charge(args[0])
        wanted = _LISTS[name]
        if wanted is not object and not all(type(item) is wanted for item in args[0]):
            raise UnpicklingError(f"{name} takes a list of {wanted.__name__}")
        return list(args[0])

    def build(self, instance: Any, state: Any) -> None:
        if isinstance(instance, ScriptObject):
            self._build_native(instance, state)
            return
        if not isinstance(instance, ScriptObjectData):
            super().build(instance, state)
            return
        kind = instance.type
        restore = kind.methods.get("__setstate__")
        if restore is not None:
            restore.ensure_defined()
            argument = restore.schema._arguments[1]
            runner(restore)(instance, to_script(state, argument.type))
            self._require_all(instance)
            return
        if type(state) is not dict:
            raise UnpicklingError(f"the state of {kind.qualified_name()} must be a dict")
        self.charge(state)
        for name, value in state.items():
            attribute = kind.attributes.get(name)
            if attribute is None:
                continue  # of a newer class
            instance.slots[name] = self._fitting(name, value, attribute.type)
        self._require_all(instance)

    def _build_native(self, instance: ScriptObject, state: Any) -> None:
        name = instance.__dict__.pop("_awaited", None)
        if name is None:
            raise UnpicklingError("a native object's state is set once, when it is read")
        try:
            instance.__setstate__((state, name))
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError,
                ValueError) as error:  # fmt: skip
            raise UnpicklingError(f"the state of {name} does not fit: {error}") from None

    def _fitting(self, name: str, value: Any, kind: Any) -> Any:
        try:
            return to_script(value, kind)
        except (RuntimeError, TypeError) as error:
            raise UnpicklingError(
                f"attribute {name} has a value of another type: {error}"
            ) from None

    def _require_all(self, instance: ScriptObjectData) -> None:
        from tritorch.schema import types

        for name, attribute in instance.type.attributes.items():
            if name in instance.slots:
                continue
            if types.NoneType.get().isSubtypeOf(attribute.type):
                instance.slots[name] = None
                continue
            raise UnpicklingError(
                f"the archive has no value for {instance.type.qualified_name()}.{name}"
            )
