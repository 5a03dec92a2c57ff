"""What stands for a name that PyTorch has and tritorch lacks, in a program that says torch.

Programs and packages name at import much that they never use: a base class, a decorator, an
annotation, the default of an argument, the exception of a handler. So every module and every name
of PyTorch can be imported and asked for, as it can there, and means as little as possible:

- a function or a class is an `AbsentName`, an error that names it as soon as it is called,
  iterated, compared, indexed or entered; a class that derives from it can be defined and has no
  instances;
- a function that decorates another gives one that is an error when it is called;
- what a package calls while it is imported (a decorator's factory, a default's constructor) is
  put off: its result is an `AbsentName` too;
- an operator of ATen that is no public function is one of `torch.ops` (`torch._softmax`);
- an exception is a class of exceptions, which nobody raises;
- an enumeration has PyTorch's members;
- a number, a word or None is what it is in PyTorch, but that nothing is available or supported;
- a function that is asked whether something is there, initialised or at work says that it is not.

A file of PyTorch of which tritorch has the contents elsewhere (`torch.nn.modules.batchnorm`) gives
them.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib
import inspect
import re
import sys
import types
import typing
from importlib.machinery import ModuleSpec
from typing import Any

from tritorch.compat import names
from tritorch.compat.torch_private._ops import operator


class MissingError(NotImplementedError, AttributeError):
    """Something of PyTorch that tritorch does not have yet."""


_BINARY = "add sub mul truediv floordiv mod matmul pow and xor lshift rshift divmod"


class AbsentName:
    """A name that tritorch lacks: an error as soon as it is used."""

    def __init__(self, path: str, is_class: bool = False) -> None:
        self._path, self._is_class = path, is_class
        self.__name__ = self.__qualname__ = path.rpartition(".")[2]
        self.__module__ = path.rpartition(".")[0]

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise MissingError(f"tritorch has no {self._path} yet")

    __iter__ = __next__ = __len__ = _refuse
    __enter__ = __exit__ = __aenter__ = __aexit__ = __aiter__ = __await__ = _refuse
    __contains__ = __setitem__ = __delitem__ = __reversed__ = _refuse
    __int__ = __float__ = __complex__ = __index__ = __array__ = _refuse
    __neg__ = __pos__ = __abs__ = __invert__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    for _name in _BINARY.split():
        vars()[f"__{_name}__"] = vars()[f"__r{_name}__"] = _refuse
    del _name

    def __bool__(self) -> bool:
        """Classes are true; what another name is in PyTorch is not known."""
        return self._is_class or self._refuse()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and not self._is_class:
            if isinstance(args[0], types.FunctionType):
                return _decorated(self, args[0])
            if isinstance(args[0], type):  # a class that is decorated
                return args[0]
        if _is_importing(sys._getframe(1)):
            return AbsentName(self._path)
        return self._refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if _ASKS.fullmatch(name):
            return _no(f"{self._path}.{name}")
        if self._is_class:  # a member, as the default of an argument
            return AbsentName(f"{self._path}.{name}", is_class=True)
        return self._refuse()

    def __getitem__(self, key: Any) -> Any:
        """As in an annotation, `Future[int]`."""
        keys = key if isinstance(key, tuple) else (key,)
        typed = all(isinstance(k, (type, AbsentName)) or _is_typing(k) for k in keys)
        return self if self._is_class or typed else self._refuse()

    def __or__(self, other: Any) -> Any:
        """As in an annotation, `ProcessGroup | None`."""
        return typing.Union[self, other]  # noqa: UP007

    def __ror__(self, other: Any) -> Any:
        return typing.Union[other, self]  # noqa: UP007

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """A class that derives from it can be defined, and has no instances."""
        return (_absent_class(self._path),)

    def __instancecheck__(self, instance: Any) -> bool:
        """Nothing here can be of a type that is not."""
        return False

    def __subclasscheck__(self, cls: type) -> bool:
        return _absent_class(self._path) in getattr(cls, "__mro__", ())

    def __reduce__(self) -> Any:
        path, _, name = self._path.removeprefix("torch.").rpartition(".")
        return lacking, (path, name)

    def __deepcopy__(self, memo: Any) -> AbsentName:
        return self

    def __repr__(self) -> str:
        return f"<{self._path}, which tritorch does not have yet>"


def _is_typing(key: Any) -> bool:
    """Whether a subscript is one of an annotation: `...`, a type variable, `list[int]`, a name."""
    return (
        key is ...
        or key is None
        or isinstance(key, (str, list))
        or (type(key).__module__ in ("typing", "types", "typing_extensions"))
    )


def _decorated(decorator: AbsentName, function: types.FunctionType) -> Any:
    """The function that a decorator leaves which is not there: an error when it is called."""

    @functools.wraps(function)
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise MissingError(
            f"tritorch has no {decorator._path} yet: {function.__qualname__} is decorated by it"
        )

    return refuse


def _is_importing(frame: types.FrameType) -> bool:
    """Whether a statement at the top of a module or a class runs, and not the program's own."""
    top = not frame.f_code.co_flags & inspect.CO_OPTIMIZED
    return top and frame.f_globals.get("__name__") != "__main__"


@functools.cache
def _absent_class(path: str) -> type:
    """The base of classes that derive from a name that tritorch lacks."""

    def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise MissingError(f"tritorch has no {path} yet: {cls.__qualname__} derives from it")

    def accept(cls: type, **keywords: Any) -> None:
        pass

    module, _, name = path.rpartition(".")
    contents = {"__new__": refuse, "__init_subclass__": accept, "__module__": module}
    return type(name, (), contents | {"__class_getitem__": classmethod(lambda cls, key: cls)})


class AbsentModule(types.ModuleType):
    """A module of PyTorch that tritorch lacks; what is in it is absent too."""

    def __getattr__(self, name: str) -> Any:
        path = self.__name__.removeprefix("torch.")
        if name == "__all__":
            return [each for each in names.offered(path) if not each.startswith("_")]
        if not names.has_name(path, name):
            raise AttributeError(f"module '{self.__name__}' has no attribute {name!r}")
        return lacking(path, name)

    def __dir__(self) -> list[str]:
        path = self.__name__.removeprefix("torch.")
        return sorted({*super().__dir__(), *names.offered(path)})

    def __repr__(self) -> str:
        return f"<module {self.__name__!r}, which tritorch does not have yet>"


def lacking(path: str, name: str) -> Any:
    """What a module's `__getattr__` gives for a name that tritorch lacks."""
    for find in (names.elsewhere, operator):
        with contextlib.suppress(AttributeError):
            return find(path, name)
    module = names.module_of(path, name)
    if module:
        return importlib.import_module(f"torch.{module}")
    place = names.home(path, name)
    if place not in _stand_ins:
        _stand_ins[place] = _stand_in(*place, f"torch.{path}.{name}".replace("..", "."))
    return _stand_ins[place]


_ASKS = re.compile(
    r"_?(is|has|can)_\w*(available|supported|initialized|enabled|built|compiling|exporting|"
    r"scripting|tracing|capturing|running|launched)|\w*_(is_)?(available|supported)"
)
_THERE = re.compile(r"\w*(AVAILABLE|SUPPORTED|ENABLED|available|supported)|_?(HAS|has|HAVE)_\w+")


_stand_ins: dict[tuple[str, str], Any] = {}  # by the module where PyTorch has it, and the name


def _stand_in(path: str, name: str, dotted: str) -> Any:
    """What stands for a name that a program has called `dotted`."""
    kind, value = names.kind(path, name)
    if kind == "!":
        return type(name, (Exception,), {"__module__": dotted.rpartition(".")[0]})
    if kind == "*":
        return _enumeration(dotted, value)
    if kind == "#":
        return False if value is True and _THERE.fullmatch(name) else value
    if not kind and _ASKS.fullmatch(name):
        return _no(dotted)
    return AbsentName(dotted, kind == "^")


def _enumeration(path: str, members: dict[str, Any]) -> Any:
    """PyTorch's enumeration: names and numbers mean the same here."""
    module, _, name = path.rpartition(".")
    whole = all(type(value) is int for value in members.values())
    base: Any = enum.IntEnum if whole else enum.Enum
    found = base(name, members, module=module)
    found.__repr__ = lambda self: f"<{name}.{self.name}: {self.value!r}>"
    found.__str__ = lambda self: f"{name}.{self.name}"
    return found


def _no(path: str) -> Any:
    """The function that says that something is not there."""

    def no(*args: Any, **kwargs: Any) -> bool:
        """False: tritorch does not have what this asks for."""
        return False

    no.__module__, _, no.__name__ = path.rpartition(".")
    no.__qualname__ = no.__name__
    return no


def find_module(name: str) -> ModuleSpec | None:
    """The spec of a module of PyTorch that tritorch lacks."""
    if not names.is_module(name.removeprefix("torch.")):
        return None
    return ModuleSpec(name, _Loader(), is_package=True)  # type: ignore[arg-type]


class _Loader:
    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return AbsentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass
