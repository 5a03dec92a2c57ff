"""What stands for a name that PyTorch has and tritorch lacks, in a program that says torch.

Written out in the program (`from torch.x import y`, `import torch.x`, `torch.x.y`) such a name is
an `AbsentName` or an `AbsentModule`: an error that names it, as soon as it is used (a class that
derives from it, as soon as an instance is wanted).  So a program runs as far as it goes without it,
whatever it imports at its top.

It is *not there* for a program that asks, so that what falls back does fall back:

- `hasattr(torch, "y")` is False, `getattr(torch, "y", None)` is None, and
  `importlib.util.find_spec("torch.x")` is None;
- an import inside of `try` with a handler for ImportError (ModuleNotFoundError, Exception, or
  everything), or of `contextlib.suppress`, raises ImportError; `torch.y` inside of one for
  AttributeError raises that.  Only the statement's own function is looked at: a handler around a
  whole program would otherwise end it at its first import.

A file of PyTorch of which tritorch has the contents elsewhere (`torch.nn.modules.batchnorm`) can be
imported, and gives them.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import importlib
import linecache
import sys
import types
import typing
from importlib.machinery import ModuleSpec
from typing import Any

from tritorch import _names


class MissingError(NotImplementedError, AttributeError):
    """Something of PyTorch that tritorch does not have yet."""


_BINARY = "add sub mul truediv floordiv mod matmul pow and xor lshift rshift divmod"


class AbsentName:
    """A name that tritorch lacks: an error as soon as it is used."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.__name__ = self.__qualname__ = path.rpartition(".")[2]
        self.__module__ = path.rpartition(".")[0]

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise MissingError(f"tritorch has no {self._path} yet")

    __call__ = __iter__ = __next__ = __bool__ = __len__ = _refuse
    __enter__ = __exit__ = __aenter__ = __aexit__ = __aiter__ = __await__ = _refuse
    __contains__ = __setitem__ = __delitem__ = __reversed__ = _refuse
    __int__ = __float__ = __complex__ = __index__ = __array__ = _refuse
    __neg__ = __pos__ = __abs__ = __invert__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    for _name in _BINARY.split():
        vars()[f"__{_name}__"] = vars()[f"__r{_name}__"] = _refuse
    del _name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()

    def __getitem__(self, key: Any) -> Any:
        """As in an annotation, `Future[int]`."""
        keys = key if isinstance(key, tuple) else (key,)
        return self if all(isinstance(k, (type, AbsentName)) for k in keys) else self._refuse()

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

    __subclasscheck__ = __instancecheck__

    def __repr__(self) -> str:
        return f"<{self._path}, which tritorch does not have yet>"


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
        if not _names.has_name(path, name):
            raise AttributeError(f"module '{self.__name__}' has no attribute {name!r}")
        return lacking(path, name)

    def __repr__(self) -> str:
        return f"<module {self.__name__!r}, which tritorch does not have yet>"


def lacking(path: str, name: str) -> Any:
    """What a module's `__getattr__` gives, or raises, for a name that tritorch lacks."""
    with contextlib.suppress(AttributeError):
        return _names.elsewhere(path, name)
    frame = _program()
    written = frame and _WRITTEN.get(frame.f_code.co_code[frame.f_lasti])
    dotted = f"torch.{path}.{name}".replace("..", ".")
    if written is None or _is_tried(frame, _ERRORS[written]):
        raise MissingError(f"tritorch has no {dotted} yet")
    module = _names.module_of(path, name)
    if module:
        return importlib.import_module(f"torch.{module}")
    return AbsentName(dotted)


def find_module(name: str) -> ModuleSpec | None:
    """The spec of a module of PyTorch that tritorch lacks."""
    path = name.removeprefix("torch.")
    if not _names.is_module(path):
        return None
    if not _names.is_spread(path):
        if _asks("importlib.util", "find_spec"):
            return None
        if _is_tried(_program(), _ERRORS["IMPORT_FROM"]):
            raise ModuleNotFoundError(f"tritorch has no {name} yet", name=name)
    return ModuleSpec(name, _Loader(), is_package=True)  # type: ignore[arg-type]


class _Loader:
    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return AbsentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


# ---- the program's own statement -----------------------------------------------------------------

_HELPERS = ("importlib", "importlib._bootstrap", "importlib._bootstrap_external")
_OURS = (__name__, _names.__name__, "tritorch._as_torch")
_ATTRIBUTE = {"AttributeError", "Exception", "BaseException"}
_ERRORS = {
    "IMPORT_FROM": {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"},
    "LOAD_ATTR": _ATTRIBUTE,
    "LOAD_METHOD": _ATTRIBUTE,  # Python 3.11
}
_WRITTEN = {dis.opmap[name]: name for name in _ERRORS if name in dis.opmap}


def _program(skip: tuple[str, ...] = _OURS + _HELPERS) -> Any:
    """The innermost frame that is neither ours nor the import system's."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in skip:
        frame = frame.f_back
    return frame


def _asks(module: str, function: str) -> bool:
    """Whether this function of the standard library is what asks for a module."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in (*_OURS, *_HELPERS, module):
        if frame.f_globals["__name__"] == module and frame.f_code.co_name == function:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _is_tried(frame: Any, errors: set[str]) -> bool:
    """Whether where a frame is, its function catches one of these errors."""
    return frame is not None and not errors.isdisjoint(
        _caught(frame.f_code.co_filename, frame.f_lineno)
    )


@functools.cache
def _nodes(filename: str) -> list[Any]:
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:  # not a file of Python
        return []
    kinds = (ast.Try, ast.With, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


@functools.cache
def _caught(filename: str, line: int) -> frozenset[str]:
    """The names of the errors that are caught where a line is, in the innermost function there."""
    around = [n for n in _nodes(filename) if n.body[0].lineno <= line <= n.body[-1].end_lineno]
    start = max((n.lineno for n in around if not isinstance(n, (ast.Try, ast.With))), default=0)
    caught: list[Any] = []
    for node in around:
        if node.lineno < start:
            continue
        if isinstance(node, ast.Try):
            caught += [handler.type or ast.Name("BaseException") for handler in node.handlers]
        elif isinstance(node, ast.With):
            calls = [i.context_expr for i in node.items if isinstance(i.context_expr, ast.Call)]
            caught += [arg for c in calls if "suppress" in _names_in(c.func) for arg in c.args]
    return frozenset(name for error in caught for name in _names_in(error))


def _names_in(node: ast.AST) -> set[str]:
    """ImportError of `ImportError`, `builtins.ImportError`, `(ImportError, OSError)`."""
    found = ast.walk(node)
    return {getattr(n, "id", getattr(n, "attr", "")) for n in found}
