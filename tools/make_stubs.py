"""Writes the .pyi files of modules whose names only exist at run time, for type checkers.

    python tools/make_stubs.py [--check]

A name is declared where its code is.  One that stands in a file as a class or a plain function is
imported from there; a published operator gets the signature of the function behind its gate.
Run it when a public name or signature changes; tests/unit/test_typing.py fails until then.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import functools
import importlib
import inspect
import keyword
import pathlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import tritorch
from tritorch import _C, _names
from tritorch.core.deprecation import deprecated
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.operator import lies
from tritorch.ops.record.publishing import with_out

MODULES = """
    tritorch tritorch.nn.functional tritorch.nn.modules tritorch.linalg tritorch.fft
    tritorch.special tritorch.signal.windows tritorch.masked tritorch.sparse tritorch.return_types
""".split()  # noqa: SIM905
PACKAGE = pathlib.Path(tritorch.__file__).resolve().parent
HEAD = '''"""Written by tools/make_stubs.py."""
# ruff: noqa
# fmt: off

import builtins as _b
from collections.abc import Callable as _Callable, Sequence as _Sequence
from typing import Any as _Any

from tritorch.core.device import device as _device
from tritorch.core.dtype import dtype as _dtype
from tritorch.core.generator import Generator as _Generator
from tritorch.core.tensor import Tensor as _Tensor
'''
KNOWN = {
    "Any": "_Any", "Callable": "_Callable", "Sequence": "_Sequence", "Tensor": "_Tensor",
    "dtype": "_dtype", "Dtype": "_dtype", "Device": "_device", "Generator": "_Generator",
    "Ints": "_Sequence[_b.int]",
}  # fmt: skip
WITH_OUT = with_out(len).__code__  # type: ignore[attr-defined]
# Wrappers that take what the function within takes.
THROUGH = (lies("copy")(len).__code__, ends_with("")(len).__code__, deprecated("")(len).__code__)
OUT = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
TYPED_DECORATORS = {"contextmanager", "contextlib.contextmanager", "final", "dataclass"}


# ---- where names stand in files ------------------------------------------------------------------


@functools.cache
def static_names(module: str) -> dict[str, ast.AST]:
    """Classes and functions at the top of a module's file, which type checkers see as they are."""
    file = getattr(sys.modules[module], "__file__", None)
    if not file or not file.endswith(".py"):
        return {}
    found: dict[str, ast.AST] = {}
    for node in ast.parse(pathlib.Path(file).read_text()).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.FunctionDef):
            plain = {ast.unparse(d).partition("(")[0] for d in node.decorator_list}
            if plain <= TYPED_DECORATORS and node.name not in found:
                found[node.name] = node
            elif not plain <= TYPED_DECORATORS:
                found.pop(node.name, None)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                found.pop(getattr(target, "id", ""), None)
    return found


@functools.cache
def homes() -> dict[int, tuple[str, str]]:
    """(module, name) of each class and function that stands in a file, by identity."""
    found: dict[int, tuple[str, str]] = {}
    for module in sorted(name for name in sys.modules if name.startswith("tritorch.")):
        if module in MODULES or module.startswith("tritorch.kernels"):
            continue
        for name in static_names(module):
            value = vars(sys.modules[module]).get(name)
            if isinstance(value, (type, types.FunctionType)):
                found.setdefault(id(value), (module, name))
    return found


# ---- signatures ----------------------------------------------------------------------------------


def plain(function: Any) -> Any:
    """The function behind a gate."""
    return function.__wrapped__ if isinstance(function, _C.Gate) else function


def signature(function: Any) -> inspect.Signature:
    """What a function takes: of a wrapper, what it adds to the function within."""
    code = getattr(function, "__code__", None)
    if code in THROUGH:
        return signature(function.__wrapped__)
    if code is not WITH_OUT:
        return with_numpy_names(inspect.signature(function, follow_wrapped=False))
    return with_keywords(signature(function.__wrapped__), OUT)


def with_keywords(inner: inspect.Signature, *added: inspect.Parameter) -> inspect.Signature:
    """A signature that takes keywords besides."""
    given = [p for p in inner.parameters.values() if p.name not in {a.name for a in added}]
    rest = [p for p in given if p.kind is p.VAR_KEYWORD]
    return inner.replace(parameters=[p for p in given if p not in rest] + [*added] + rest)


def with_numpy_names(inner: inspect.Signature) -> inspect.Signature:
    """Reductions take NumPy's names too: the gates see to that."""
    if not {"dim", "keepdim"} <= set(inner.parameters):
        return inner
    return with_keywords(inner, OUT.replace(name="axis"), OUT.replace(name="keepdims"))


def annotation(text: Any) -> str:
    """An annotation in the stub's words; _Any if it has others."""
    if text is inspect.Signature.empty:
        return "_Any"
    if not isinstance(text, str):
        text = getattr(text, "__name__", "Any")
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return "_Any"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if node.id in KNOWN:
                node.id = KNOWN[node.id]
            elif hasattr(builtins, node.id):
                node.id = f"_b.{node.id}"
            else:
                return "_Any"
        elif isinstance(node, (ast.Attribute, ast.Call)):
            return "_Any"
    return ast.unparse(tree)


def definition(name: str, function: Any, result: str | None = None, first: str = "") -> str:
    """`def name(...) -> ...: ...`"""
    try:
        given = signature(function)
    except (TypeError, ValueError):
        return f"def {name}(*args: _Any, **kwargs: _Any) -> {result or '_Any'}: ..."
    parts = [first] if first else []
    starred = False
    for p in list(given.parameters.values())[1 if first else 0 :]:
        kind = annotation(p.annotation)
        if p.kind is p.VAR_POSITIONAL:
            starred = True
            parts.append(f"*{p.name}: {kind}")
            continue
        if p.kind is p.VAR_KEYWORD:
            parts.append(f"**{p.name}: {kind}")
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            starred = True
            parts.append("*")
        if p.default is None and "None" not in kind and kind != "_Any":
            kind += " | None"
        parts.append(f"{p.name}: {kind}" + (" = ..." if p.default is not p.empty else ""))
        if p.kind is p.POSITIONAL_ONLY:
            parts[-1] = "__" + parts[-1].lstrip("_")
    result = result or annotation(given.return_annotation)
    return f"def {name}({', '.join(parts)}) -> {result}: ..."


# ---- one name ------------------------------------------------------------------------------------


def imported(value: Any, name: str) -> str | None:
    """`from home import name`, if the value stands in a file."""
    home = homes().get(id(value))
    if home is None:
        return None
    if home[1] == name:
        return f"from {home[0]} import {name} as {name}"
    own = f"_as_{name}"  # under another name it would not be exported
    return f"from {home[0]} import {home[1]} as {own}\n{name} = {own}"


def class_stub(name: str, cls: type) -> str:
    """A class that is made at run time."""
    bases: list[str] = []
    around = list(cls.__bases__)
    for base in around:
        if id(base) not in homes() and base.__module__ == cls.__module__:  # made, too
            around += base.__bases__
        elif id(base) in homes():
            bases.append(annotation_of_class(homes()[id(base)]))
        elif base.__module__ == "builtins" and base is not object:
            bases.append(f"_b.{base.__name__}")
    if not bases and type(cls) is not type:  # torch.FloatTensor
        bases.append("_Tensor")
    init = next((vars(k)["__init__"] for k in cls.__mro__[:-1] if "__init__" in vars(k)), None)
    fields = getattr(cls, "_fields", ()) or getattr(cls, "__match_args__", ())
    if isinstance(init, types.FunctionType):
        body = "\n    " + definition("__init__", init, "None", "self")
    elif fields:
        body = "".join(f"\n    {field}: _Any" for field in fields if field.isidentifier())
    else:
        body = " ..."
    inside = f"({', '.join(bases)})" if bases else ""
    return f"class {name}{inside}:{body}"


def declaration(name: str, value: Any) -> str | None:
    """The line of a name; None for what is nobody's business."""
    if isinstance(value, types.ModuleType) and value.__name__ not in sys.modules:
        return f"{name}: _Any"  # an object that is a module, as `torch.classes`
    if isinstance(value, types.ModuleType):
        path = value.__name__
        if not path.startswith("tritorch."):
            return None
        parent, _, leaf = path.rpartition(".")
        if leaf == name:
            return f"from {parent} import {leaf} as {leaf}"
        return f"from {parent} import {leaf} as _as_{name}\n{name} = _as_{name}"
    line = imported(plain(value), name)
    if line:
        return line
    if isinstance(value, type):
        if value.__module__ == "builtins":
            return f"{name} = _b.{value.__name__}"
        if value.__module__ == "tritorch._C":
            return f"from tritorch._C import {value.__name__} as {name}"
        if not value.__module__.startswith("tritorch"):
            return f"{name}: _Any"
        return class_stub(name, value)
    function = plain(value)
    if isinstance(function, (types.FunctionType, functools.partial)):
        return definition(name, function)
    home = homes().get(id(type(value)))
    if home:
        return f"{name}: {KNOWN.get(home[1]) or annotation_of_class(home)}"
    if value is None or isinstance(value, (bool, int, float, str)):
        return f"{name}: {'None' if value is None else '_b.' + type(value).__name__}"
    return f"{name}: _Any"


needed: set[tuple[str, str]] = set()


def annotation_of_class(home: tuple[str, str]) -> str:
    """The stub's own name of a class."""
    needed.add(home)
    return f"_{home[1].lstrip('_')}"


def public_names(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """What a module has, and what it loads when it is asked for."""
    path = module.__name__.removeprefix("tritorch").lstrip(".")
    late = set(_names.offered(path))
    late |= set(getattr(module, "_ELSEWHERE", ())) | set(getattr(module, "_LATE", "").split())
    for name in sorted({*vars(module), *late, *getattr(module, "__all__", ())}):
        if keyword.iskeyword(name) or not name.isidentifier() or f" as {name}\n" in HEAD:
            continue
        if not name.startswith("_") or name in late:
            with contextlib.suppress(AttributeError):
                yield name, getattr(module, name)
    for name in ("__version__", "__config__", "__future__"):
        if hasattr(module, name):
            yield name, getattr(module, name)


def stub(path: str) -> str:
    """The text of a module's stub."""
    module = importlib.import_module(path)
    needed.clear()
    lines = []
    for name, value in public_names(module):
        line = declaration(name, value)
        if line:
            lines.append(line)
    extra = sorted(f"from {home} import {n} as _{n.lstrip('_')}" for home, n in needed)
    starred = getattr(module, "__all__", None)
    if starred is not None:
        lines.append(f"__all__ = {sorted(starred)}")
    return "\n".join([HEAD, *extra, "", *lines, ""])


def place(path: str) -> pathlib.Path:
    """Where a module's stub is."""
    file = sys.modules[path].__file__
    assert file is not None
    where = pathlib.Path(file).resolve().with_suffix(".pyi")
    return where if where.is_relative_to(PACKAGE) else PACKAGE / where.name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if one differs")
    args = parser.parse_args()
    for path in [f"tritorch.{name}" for name in tritorch._LATE.split()] + MODULES:
        importlib.import_module(path)
    list(public_names(tritorch))  # imports what comes late
    for path in MODULES:
        text, where = stub(path), place(path)
        if args.check and (not where.exists() or where.read_text() != text):
            sys.exit(f"{where.name} of {path} is out of date: run tools/make_stubs.py")
        if not args.check:
            where.write_text(text)
            print(f"{path}: {text.count(chr(10))} lines")


if __name__ == "__main__":
    main()
