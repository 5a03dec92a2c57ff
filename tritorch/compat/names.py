"""The names of PyTorch, as tools/record/names.py wrote them down.

They tell what tritorch lacks yet from what nobody has; `tritorch.fft` says which.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import os
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from typing import Any, NamedTuple

from tritorch.core.naming import torch_name

Lacking = Callable[[str, str], Any]  # of a module's path below torch, and a name


class Entry(NamedTuple):
    """What is known of a name: tools/record/names.py says how it is written."""

    mark: str  # "~": not offered, "+": defined here and known by a package around
    home: str  # where the object lives: below torch, after ">" elsewhere; "@" for a module
    original: str  # its name, or its path, there


@functools.cache
def _lines() -> dict[str, str]:
    """What the file says of each module, by its path below torch."""
    with open(os.path.join(os.path.dirname(__file__), "names.txt"), encoding="ascii") as file:
        lines = [line.partition(":") for line in file.read().splitlines()[1:]]
    return {path: names for path, _, names in lines}


@functools.cache
def _listed() -> dict[str, str]:
    path = os.path.join(os.path.dirname(__file__), "public_names.txt")
    with open(path, encoding="ascii") as file:
        return dict(line.split(":", 1) for line in file.read().splitlines())


def listed(path: str) -> list[str] | None:
    """A module's `__all__` in PyTorch's order, as tools/record/public_names.py wrote it down."""
    names = _listed().get(path)
    return None if names is None else names.split()


KINDS = ("^", "!", "#", "*")  # of a module's own names: classes, exceptions, values, enumerations


def _sections(path: str) -> Iterator[tuple[str, list[str]]]:
    """The parts of a module's line, each with what stands before its names."""
    for number, section in enumerate(_lines().get(path, "").split(";")):
        words = section.split()
        yield words.pop(0) if number else "", words


@functools.cache
def _kinds(path: str) -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {}
    for section, words in _sections(path):
        for word in words if section in KINDS else ():
            name, _, value = word.partition("=")
            if section == "*":
                members = (member.partition(":") for member in value.split(","))
                found[name] = section, {n: ast.literal_eval(v) for n, _, v in members}
            else:
                found[name] = section, ast.literal_eval(value) if value else None
    return found


def kind(path: str, name: str) -> tuple[str, Any]:
    """What a module's own name is, one of KINDS or "", and its value where it is a plain one."""
    return _kinds(path).get(name, ("", None))


def home(path: str, name: str) -> tuple[str, str]:
    """The module of PyTorch where an object lives that is known by this name here, and its name."""
    seen = {(path, name)}
    while (entry := _entries(path).get(name)) and entry.home and entry.home[0] not in "@>":
        place = entry.home.strip("."), entry.original
        if place in seen:
            break
        seen.add(place)
        path, name = place
    return path, name


@functools.cache
def _entries(path: str) -> dict[str, Entry]:
    found = {}
    for home, words in _sections(path):
        if home in KINDS:
            continue
        if home in ("@", ">@"):
            modules = zip(words[::2], words[1::2], strict=True)
            found.update({name: Entry("~", home, where.strip(".")) for name, where in modules})
            continue
        for word in words:
            mark = word[0] if word[0] in "~+" else ""
            name, _, original = word[len(mark) :].partition("=")
            found[name] = Entry(mark, home, original or name)
    return found


def is_module(path: str) -> bool:
    """Whether PyTorch has the module of this path below torch."""
    return path in _lines()


@functools.cache
def _packages() -> frozenset[str]:
    return frozenset(path.rpartition(".")[0] for path in _lines())


def is_package(path: str) -> bool:
    """Whether PyTorch has modules below the one of this path."""
    return path in _packages()


def has_name(path: str, name: str) -> bool:
    """Whether PyTorch's module has this name."""
    return name in _entries(path) or is_module(f"{path}.{name}".lstrip("."))


def offered(path: str) -> list[str]:
    """The names that a module of PyTorch is there for, without what it merely uses."""
    return [name for name, entry in _entries(path).items() if entry.mark != "~"]


@functools.cache
def defined_in(prefix: str) -> dict[str, str]:
    """The modules, of those whose path begins so, that define names which a package around has."""
    return {
        name: path
        for path in _lines()
        if path.startswith(prefix)
        for name, entry in _entries(path).items()
        if entry.mark == "+"
    }


_DEFINED = re.compile(r"(?<!\S)\+([^\s=]+)(?:=(\S+))?")  # names marked "+", and what they are there


@functools.cache
def _definitions() -> dict[tuple[str, str], list[str]]:
    """By a package and a name that it has: the modules of PyTorch that define it."""
    found: dict[tuple[str, str], list[str]] = {}
    for path, line in _lines().items():
        for number, section in enumerate(line.split(";")) if "+" in line else ():
            words = _DEFINED.findall(section)
            home = section.split(None, 1)[0].strip(".") if words and number else ""
            for name, original in words:
                found.setdefault((home, original or name), []).append(path)
    return found


def defining(path: str, name: str) -> str | None:
    """The module of PyTorch that defines what a module there has; None if none does."""
    entry = _entries(path).get(name)
    if entry is None or entry.mark == "~" or entry.home[:1] in ("@", ">"):
        return None
    if entry.mark == "+":
        return path
    return next(iter(_definitions().get((path, name), ())), None if entry.home else path)


def defined_elsewhere(path: str) -> Iterator[tuple[str, Any]]:
    """What a module of PyTorch defines and a package of tritorch around it has already."""
    for name, entry in _entries(path).items():
        around = sys.modules.get(f"tritorch.{entry.home.strip('.')}".rstrip("."))
        if entry.mark == "+" and around is not None and entry.original in vars(around):
            yield name, vars(around)[entry.original]


@functools.cache
def _around(module: str) -> tuple[str, list[tuple[str, str]]]:
    """What a module of ours is called in PyTorch; it and those around it, by path and by name."""
    path = below = module.partition(".")[2]
    found = []
    while path:
        found.append((path, f"tritorch.{path}"))
        path = path.rpartition(".")[0]
    return torch_name(module) if is_module(below) else module, [*found, ("", "tritorch")]


def home_of(value: Any, module: str) -> str:
    """The module of PyTorch that defines what this one of ours does; ours, where none does."""
    name = getattr(value, "__name__", "")
    known, places = _around(module)
    for path, around in places if name else ():
        if around in sys.modules and vars(sys.modules[around]).get(name) is value:
            home = defining(path, name)
            if home is not None:
                return f"torch.{home}" if home else "torch"
        if name[0] == "_":  # what is private is known where it is
            break
    return known


def private_home(name: str, paths: list[str]) -> str | None:
    """The first of these modules of PyTorch that defines a private name; None if none does."""
    homes = (defining(path, name) for path in paths)
    return next((home for home in homes if home is not None), None)


def module_of(path: str, name: str) -> str:
    """The path of the module of PyTorch that a name stands for; "" if it is no module."""
    if is_module(f"{path}.{name}".lstrip(".")):
        return f"{path}.{name}".lstrip(".")
    entry = _entries(path).get(name)
    return entry.original if entry is not None and entry.home == "@" else ""


def elsewhere(path: str, name: str) -> Any:
    """What a module of PyTorch has and tritorch keeps in another file; else AttributeError.

    PyTorch's torch.nn.modules.batchnorm.BatchNorm1d is torch.nn.BatchNorm1d too; its _BatchNorm is
    then where tritorch's BatchNorm1d is.  What is not PyTorch's (`torch.hub.urlopen`) is imported
    from where it is.
    """
    seen = set()
    while (path, name) not in seen:  # two modules may each say that the other has it
        seen.add((path, name))
        _, home, original = _entries(path).get(name) or ("", "", "")
        with contextlib.suppress(ImportError):
            if home == ">@":
                return importlib.import_module(original)
            if home == "@":
                return importlib.import_module(f"tritorch.{original}".rstrip("."))
            if home.startswith(">"):
                return getattr(importlib.import_module(home[1:]), original)
        if not home and original:
            return _beside(path, name)
        if not home or home[0] in "@>":
            break
        path, name = home.strip("."), original
        with contextlib.suppress(AttributeError):
            return _present(path, name)
    raise AttributeError(name)


def _beside(path: str, name: str) -> Any:
    """What is where tritorch has other contents of this module of PyTorch; else AttributeError."""
    for module in _homes(path):
        if name in vars(sys.modules[module]):
            return getattr(sys.modules[module], name)
    raise AttributeError(name)


@functools.cache
def _homes(path: str) -> list[str]:
    """The modules of tritorch that have what this one of PyTorch has."""
    found = []
    for entry in _entries(path).values():
        if entry.mark == "+":
            with contextlib.suppress(AttributeError):
                found.append(_present(entry.home.strip("."), entry.original).__module__)
    return [module for module in dict.fromkeys(found) if module in sys.modules]


def _present(path: str, name: str) -> Any:
    """What tritorch has in the module of this path itself; else AttributeError."""
    try:
        module = importlib.import_module(f"tritorch.{path}".rstrip("."))
    except ImportError:
        raise AttributeError(name) from None
    if name in vars(module):
        return vars(module)[name]
    late: Any = vars(module).get("__getattr__")
    late = getattr(late, "own", late)
    if late is None:
        raise AttributeError(name)
    return late(name)


def refuse(path: str, name: str) -> Any:
    """An operator that is no public function; of all else, that PyTorch has the name and tritorch
    lacks it."""
    from tritorch.compat.torch_private._ops import operator

    with contextlib.suppress(AttributeError):
        return operator(path, name)
    module, dotted = (f"{top}.{path}".rstrip(".") for top in ("tritorch", "torch"))
    raise AttributeError(
        f"module '{module}' has no attribute {name!r}: PyTorch has {dotted}.{name}, tritorch does "
        "not yet"
    )


def adopt(module: types.ModuleType, lacking: Lacking = refuse) -> None:
    """A module of tritorch, and those below it, answer by `lacking` for what PyTorch has."""
    prefix = f"{torch_name(module.__name__)}."
    for name, found in list(sys.modules.items()):
        below = torch_name(name).startswith(prefix) and isinstance(found, types.ModuleType)
        if found is module or below:
            adopt_one(found, lacking)


def _known(module: types.ModuleType, lacking: Lacking, name: str) -> Any:
    """What `lacking` says of a name that PyTorch's module has; else AttributeError."""
    path = torch_name(module.__name__).removeprefix("torch").removeprefix(".")
    if name.startswith("__") or not has_name(path, name):
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    return lacking(path, name)


def adopt_one(module: types.ModuleType, lacking: Lacking) -> None:
    """A module of tritorch answers by `lacking` for what PyTorch has."""
    adopted: Any = getattr(type(module), "_adopted", None)
    if adopted is not None:  # it is asked first: a module of settings
        adopted(module, functools.partial(_known, module, lacking))
        return
    own: Any = module.__dict__.get("__getattr__")
    if hasattr(own, "lacking"):
        own.lacking = lacking
        return
    path = torch_name(module.__name__).removeprefix("torch").removeprefix(".")

    def nothing(name: str) -> Any:
        raise AttributeError(f"module '{module.__name__}' has no attribute {name!r}")

    def lookup(name: str) -> Any:
        # The error stays out of the frame's variables: it holds the frame, and that its callers
        # with all that they hold, so a cycle of the two would keep tensors until it is collected.
        try:
            found = (own or nothing)(name)
        except AttributeError:
            special = name.startswith("__") and name.endswith("__")
            if special or not has_name(path, name):
                raise
        else:
            if isinstance(found, types.ModuleType):  # imported when it is first asked for
                adopt(found, lookup.lacking)  # type: ignore[attr-defined]
            return found
        return lookup.lacking(path, name)  # type: ignore[attr-defined]

    lookup.lacking, lookup.own = lacking, own  # type: ignore[attr-defined]
    module.__dict__["__getattr__"] = lookup


# ---- modules of re-exports -----------------------------------------------------------------------

# Note [Former paths]: modules of PyTorch that only import from others, as the former paths of
# quantization.  They need no files: the table says what they have, and where that lives.

_OURS = "tritorch."
# What is below these paths.  `quantization` itself has a file.
_FORMER = ("quantization.", "nn.intrinsic.", "nn.qat.", "nn.quantizable.", "nn.quantized.")


def is_former(path: str) -> bool:
    """Tells if a module of this path below tritorch is one of re-exports."""
    below = f"{path}.".startswith(_FORMER) and path != "quantization"
    return below and is_module(path)


# The present modules of names, where that is not the same path below `ao`.
_HOMES = {"quantization.fx.quantization_patterns": "ao.quantization.fx.quantize_handler"}


def _found(path: str, name: str) -> Any:
    """The object behind a name of a module of re-exports; None for names that tritorch lacks."""
    with contextlib.suppress(ImportError, AttributeError):
        return getattr(importlib.import_module(f"tritorch.{_HOMES.get(path, f'ao.{path}')}"), name)
    with contextlib.suppress(AttributeError):
        return elsewhere(path, name)
    return None


class _Face(types.ModuleType):
    """A module whose names are other modules'; each is looked up when it is first asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__dict__["_path"] = name.removeprefix(_OURS)  # its name may become torch's
        self.__dict__["_lacking"] = None

    def _adopted(self, lacking: Callable[[str], Any]) -> None:
        """Says from now on what stands for names that tritorch lacks."""
        self.__dict__["_lacking"] = lacking

    def __getattr__(self, name: str) -> Any:
        path = self.__dict__["_path"]
        found: Any = None
        if name == "__all__":
            found = [each for each in offered(path) if not each.startswith("_")]
        elif is_former(f"{path}.{name}"):
            found = _found(path, name)  # a function, perhaps, in a file of its name
            if found is None or isinstance(found, types.ModuleType):
                return importlib.import_module(f"{_OURS}{path}.{name}")
        elif not name.startswith("__"):
            found = _found(path, name)
            if found is None and self._lacking is not None:
                return self._lacking(name)
        if found is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *offered(self.__dict__["_path"])})


class _Loader:
    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _Face(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class _Finder:
    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(_OURS) or not is_former(name.removeprefix(_OURS)):
            return None
        return ModuleSpec(name, _Loader(), is_package=True)  # type: ignore[arg-type]


def install() -> None:
    """From now on these modules can be imported."""
    sys.meta_path.append(_Finder)
