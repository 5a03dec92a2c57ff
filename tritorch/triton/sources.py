"""The kernels' source: read as text, so that launches know their parameters without Triton."""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from pathlib import Path
from typing import Any, NamedTuple

SPECIALISED, CONSTANT, UNSPECIALISED = 0, 1, 2  # what of an argument is in a launch key


class Parameters(NamedTuple):
    """Of a kernel: what `_C.Kernel` is made of."""

    names: tuple[str, ...]
    defaults: tuple[tuple[bool, Any] | None, ...]
    kinds: tuple[int, ...]


def folder() -> Path:
    """Where the kernels are."""
    import tritorch.kernels

    return Path(tritorch.kernels.__path__[0])


@functools.cache
def _files() -> dict[str, str]:
    """The file of each family below the folder: families are named alone, not by their room."""
    root = folder()
    paths = (path.relative_to(root) for path in root.rglob("*.py"))
    return {path.stem: path.as_posix() for path in paths if path.stem != "__init__"}


def module(family: str) -> str:
    """The module that defines a family of kernels: "tritorch.kernels.scalar.elementary"."""
    return "tritorch.kernels." + _files()[family].removesuffix(".py").replace("/", ".")


def digest() -> str:
    """A hash of all kernels' source: they call each other across files."""
    found = hashlib.sha256()
    for name in sorted(_files().values()):
        text = (folder() / name).read_bytes()
        found.update(f"{name} {len(text)}\n".encode() + text)
    return found.hexdigest()


def stamps() -> list[tuple[str, int, int]]:
    """Names, sizes and times of the kernel files: they change if a file does, and reading them
    reads no file."""
    root = folder()
    found = [(name, (root / name).stat()) for name in sorted(_files().values())]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in found]


@functools.cache
def _text(family: str) -> str:
    return (folder() / _files()[family]).read_text(encoding="utf-8")


def defines(family: str, name: str) -> bool:
    """Whether a kernel file has a function of this name (imported ones do not count)."""
    return f"\ndef {name}(" in _text(family)


@functools.cache
def _imports(family: str) -> tuple[tuple[str, frozenset[str] | None], ...]:
    """The files that a kernel file imports from, and which names: None for all."""
    pattern = r"^from \.[\w.]*?(\w+) import (\([^)]*\)|[^\n#]*)"
    found = re.findall(pattern, _text(family), re.MULTILINE)
    return tuple(
        (other, None if names.strip() == "*" else frozenset(re.findall(r"\w+", names)))
        for other, names in found
    )


@functools.cache
def definition(family: str, name: str) -> tuple[str, str] | None:
    """The text of a function as a kernel file knows it, and the file that defines it."""
    found = re.search(rf"^def {re.escape(name)}\(.*?(?=\n\n\n|\Z)", _text(family), re.M | re.S)
    if found is not None:
        return family, found[0]
    for other, names in reversed(_imports(family)):
        if names is None or name in names:
            known = definition(other, name)
            if known is not None:
                return known
    return None


def parameters(family: str, name: str) -> Parameters | None:
    """Of a jit function with a plain decorator; None if it has another or is made elsewhere."""
    return _parameters_in(_text(family), name)


def written(source: str) -> tuple[str, Parameters]:
    """A digest of a source that defines one jit function, and the function's parameters."""
    name = re.findall(r"^def (\w+)\(", source, re.MULTILINE)[-1]
    found = _parameters_in(source, name)
    assert found is not None
    return hashlib.sha256(source.encode()).hexdigest()[:40], found


def _parameters_in(text: str, name: str) -> Parameters | None:
    head = rf"^@triton\.jit(?:\([^\n]*\))?\ndef {re.escape(name)}\(.*?\):(?=\s)"
    found = re.search(head, text, re.MULTILINE | re.DOTALL)
    if found is None:
        return None
    function = ast.parse(found[0] + " pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    free: set[str | int] = set()
    decorator = function.decorator_list[0]
    if isinstance(decorator, ast.Call):
        for keyword in decorator.keywords:
            if keyword.arg == "do_not_specialize":
                free = set(ast.literal_eval(keyword.value))
    arguments = function.args.args
    missing = len(arguments) - len(function.args.defaults)
    try:
        given = [(True, ast.literal_eval(value)) for value in function.args.defaults]
    except ValueError:
        return None
    return Parameters(
        tuple(argument.arg for argument in arguments),
        (None,) * missing + tuple(given),
        tuple(
            CONSTANT
            if argument.annotation is not None and "constexpr" in ast.unparse(argument.annotation)
            else UNSPECIALISED
            if argument.arg in free or i in free
            else SPECIALISED
            for i, argument in enumerate(arguments)
        ),
    )


def parameters_of(function: Any) -> Parameters:
    """The same of a jit function itself."""
    signature = list(function.signature.parameters.values())
    return Parameters(
        tuple(each.name for each in signature),
        tuple(None if each.default is each.empty else (True, each.default) for each in signature),
        tuple(
            CONSTANT
            if each.is_constexpr
            else UNSPECIALISED
            if each.do_not_specialize
            else SPECIALISED
            for each in function.params
        ),
    )
