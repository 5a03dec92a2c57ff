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
import dataclasses
import functools
import importlib
import inspect
import keyword
import operator
import pathlib
import re
import sys
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any

import stub_forms
from stub_forms import Form, Parameter

import tritorch
from tritorch import _C
from tritorch.compat import names as _names, stub_package
from tritorch.core import arguments
from tritorch.core.deprecation import deprecated
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.operator import lies
from tritorch.ops.record.publishing import with_out

MODULES = """
    tritorch tritorch.nn.functional tritorch.nn.modules tritorch.linalg tritorch.fft
    tritorch.special tritorch.signal.windows tritorch.masked tritorch.sparse tritorch.return_types
""".split()  # noqa: SIM905
# Modules that make some of their names: a stub has those alone, and the module imports them by a
# star where type checkers look.
PARTLY = """
    tritorch.cuda tritorch.cuda.sparse tritorch.nn.modules.loss
    tritorch.backends.cudnn tritorch.backends.miopen tritorch.backends.mkldnn
    tritorch.backends.opt_einsum tritorch.backends.quantized tritorch.utils.deterministic
""".split()  # noqa: SIM905
PACKAGE = pathlib.Path(tritorch.__file__).resolve().parent
METHODS = f"{sys.modules[vars(tritorch.Tensor)['device'].fget.__module__].__name__}_methods"
ALIASES = "_Device _Dtype _Int _Number _Index".split()  # noqa: SIM905
TYPES = "Tensor device dtype layout memory_format Generator Size SymInt".split()  # noqa: SIM905
KNOWN = {
    "Any": "_Any", "Callable": "_Callable", "Sequence": "_Sequence", "Tensor": "_Tensor",
    "dtype": "_Dtype", "Dtype": "_Dtype", "Device": "_Device", "Generator": "_Generator",
    "layout": "_layout", "memory_format": "_memory_format", "Number": "_Number", "Size": "_Size",
    "Ints": "_Sequence[_Int]", "int": "_Int", "NoReturn": "_NoReturn",
    "Literal": "_Literal",
}  # fmt: skip
GIVEN = {"_Dtype": "_dtype", "_Device": "_device", "_Int": "_b.int"}  # of results
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
    for module in PARTLY:
        for name, value in vars(sys.modules[module]).items():
            if isinstance(value, type) and not name.startswith("_") and value.__name__ == name:
                found.setdefault(id(value), (module, name))
    return found


def head(path: str) -> str:
    """What every stub begins with: the types in its signatures."""
    lines = [
        '"""Written by tools/make_stubs.py."""\n', "# ruff: noqa", "# fmt: off",
        '# mypy: disable-error-code="overload-overlap,override,misc,assignment"', "",
        "import builtins as _b",
        "from collections.abc import Callable as _Callable, Sequence as _Sequence",
        "from types import EllipsisType as _EllipsisType" if path == METHODS else "",
        "from typing import (Any as _Any, Literal as _Literal, NoReturn as _NoReturn, "
        "Self as _Self, SupportsIndex as _SupportsIndex, overload as _overload)", "",
        "import numpy as _numpy", "",
    ]  # fmt: skip
    for name in TYPES:
        lines.append(f"from {homes()[id(getattr(tritorch, name))][0]} import {name} as _{name}")
    if path == METHODS:
        lines += [
            "_Number = _b.int | _b.float | _b.complex | _b.bool",
            "_Int = _b.int | _SymInt",
            "_Dtype = _dtype | _b.type[_b.float] | _b.type[_b.int] | _b.type[_b.complex]",
            "_Device = _device | _b.str | _b.int",
            "_Index = (None | _SupportsIndex | _SymInt | _b.slice | _EllipsisType | _Tensor\n"
            "          | _numpy.ndarray[_Any, _Any] | _b.list[_Any] | _b.range)",
        ]
    else:
        lines.append(f"from {METHODS} import {', '.join(f'{a} as {a}' for a in ALIASES)}")
    if path != "tritorch.return_types":
        lines.append("from tritorch import return_types as _return_types")
    return "\n".join([*filter(None, lines), ""])


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


def annotation(text: Any, is_result: bool = False, scope: Any = None) -> str:
    """An annotation in the stub's words; _Any if it has others.  scope: the function, whose module
    has the classes that it names."""
    if text is inspect.Signature.empty:
        return "_Any"
    if not isinstance(text, str):
        if text is None:
            return "None"
        text = getattr(text, "__name__", "Any")
    try:
        text = text.replace("np.ndarray[Any, Any]", "NDARRAY").replace("layouts.", "")
        text = re.sub(r"\b[a-z_]+\.(?=[A-Z])", "", text)  # `nodes.Node`: by the class's own name
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return "_Any"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if node.id == "NDARRAY":
                node.id = "_numpy.ndarray[_Any, _Any]"
            elif node.id in KNOWN:
                node.id = KNOWN[node.id]
                node.id = GIVEN.get(node.id, node.id) if is_result else node.id
            elif hasattr(builtins, node.id):
                node.id = f"_b.{node.id}"
            elif (known := class_in(scope, node.id)) is not None:
                node.id = known
            else:
                return "_Any"
        elif isinstance(node, (ast.Attribute, ast.Call)):
            return "_Any"
    return ast.unparse(tree)


def class_in(scope: Any, name: str) -> str | None:
    """The stub's own name of a class that a function's module, or one that it imports, has."""
    if scope is None:
        return None
    world = scope.__globals__
    places = [world, *(vars(m) for m in world.values() if isinstance(m, types.ModuleType))]
    for place in places:
        home = homes().get(id(place.get(name)))
        if home is not None and isinstance(place[name], type):
            return annotation_of_class(home)
    return None


def typed(
    given: inspect.Signature, operator: str, skip: int, by_schema: bool = False
) -> list[Parameter]:
    """The parameters of a function with the types that are written down, or that its operator's
    schemas say of arguments by these names."""
    said = stub_forms.by_name(operator)
    found = []
    for p in list(given.parameters.values())[skip:]:
        if skip and p.name == "out":  # of a function that is a method too
            continue
        kind, default = annotation(p.annotation), None
        types = (kind,)
        if kind == "_Any" or by_schema:
            by_default = stub_forms.by_default(p.name, None if p.default is p.empty else p.default)
            name = stub_forms.SCHEMA_NAMES.get(p.name, p.name)
            types = said.get(name) or (by_default if kind == "_Any" else types)
        if p.name == "out":
            types = ("_Tensor", "None") if kind == "_Any" else types
        if p.default is not p.empty:
            default = stub_forms.literal(p.default)
            own = f"_b.{type(p.default).__name__}"
            if type(p.default) in (str, bool) and own not in types and types != ("_Any",):
                types += (own,)
            if p.default is None and "None" not in " ".join(types) and types != ("_Any",):
                types += ("None",)
        name = f"__{p.name.lstrip('_')}" if p.kind is p.POSITIONAL_ONLY else p.name
        found.append(Parameter(name, types, default, p.kind))
    return found


def written(function: Any, skip: int) -> list[Form]:
    """The forms of a function whose file has overloads of it."""
    plainest = inspect.unwrap(function)
    forms = []
    for each in typing.get_overloads(plainest) if isinstance(plainest, types.FunctionType) else ():
        given = inspect.signature(each)
        result = annotation(given.return_annotation, True)
        forms.append(Form(tuple(typed(given, "", skip)), "_Self" if "Self" in result else result))
    return forms


def forms_of(function: Any, value: Any = None, result: str | None = None) -> list[Form]:
    """How a function is called.  value: its gate, if it is published."""
    gate = value if isinstance(value, _C.Gate) else None
    is_method = gate is not None and gate.__qualname__.startswith("Tensor.")
    name = arguments._shown(gate.shown or gate) if gate is not None else ""
    skip = int(is_method)
    if found := written(function, skip):
        return found
    try:
        given = signature(function)
    except (TypeError, ValueError):
        loose = (
            ("args", inspect.Parameter.VAR_POSITIONAL),
            ("kwargs", inspect.Parameter.VAR_KEYWORD),
        )
        return [Form(tuple(Parameter(n, ("_Any",), None, k) for n, k in loose), result or "_Any")]
    if flags := getattr(inspect.unwrap(function), "adding_flags", ()):
        return stub_forms.by_flags(tuple(typed(given, name, skip)), flags)
    if gate is not None:
        is_functional = gate.__module__.endswith(".functional")
        found = stub_forms.overloads(name, given, tuples(), is_method, is_functional)
        results = {form.result for form in found}
        if len(found) == 1 or len(results) > 1:
            return found
        if found and not stub_forms.within(found, list(given.parameters.values())[skip:]):
            return found
        if found:  # one definition says the same, and what is optional by itself
            return [Form(tuple(typed(given, name, skip, True)), results.pop())]
    scope = inspect.unwrap(function)
    scope = scope if isinstance(scope, types.FunctionType) else None
    result = result or annotation(given.return_annotation, True, scope)
    own = gate is not None and name.rpartition("_")[2] == gate.__name__.rpartition("_")[2]
    if result == "_Any" and own and not name.startswith("_"):
        result = stub_forms.common_result(name, tuples(), is_method) or result
    forms = [Form(tuple(typed(given, name, skip)), result)]
    if own and not gate.__module__.endswith(".functional"):  # gates take ATen's keywords, too
        whole = inspect.signature(lambda self: None) if is_method else inspect.Signature()
        others = stub_forms.overloads(name, whole, tuples(), is_method)
        known = set(given.parameters)
        forms += [
            form
            for form in others
            if form.result == result and {p.name for p in form.parameters} - known
        ]
    return stub_forms.merged(forms)


@functools.cache
def tuples() -> dict[str, str]:
    """The named tuples by the operators that give them."""
    module = importlib.import_module("tritorch.return_types")
    return {
        name: f"_return_types.{name}"
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, tuple)
    }


def definitions(name: str, forms: Sequence[Form], first: str = "", indent: str = "") -> str:
    """`def name(...) -> ...: ...`, with the overloads where there are several forms."""
    lines = []
    for form in forms:
        text = str(form)
        if first:
            text = f"({first}{', ' if form.parameters else ''}{text[1:]}"
        lines += [f"{indent}@_overload"] * (len(forms) > 1) + [f"{indent}def {name}{text}: ..."]
    return "\n".join(lines)


def definition(name: str, function: Any, result: str | None = None, first: str = "") -> str:
    """The definition of a function that is no gate."""
    found = [
        dataclasses.replace(f, parameters=f.parameters[1:] if first else f.parameters)
        for f in forms_of(function, None, result)
    ]
    return definitions(name, found, first)


# ---- one name ------------------------------------------------------------------------------------


def imported(value: Any, name: str) -> str | None:
    """`from home import name`, if the value stands in a file."""
    home = homes().get(id(value))
    if home is None or home[0] == writing[0]:
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
    if issubclass(cls, tuple) and "n_sequence_fields" in vars(cls):
        return named_tuple(name, cls)
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
    if isinstance(value, _C.Gate):
        return definitions(name, forms_of(plain(value), value))
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
        known = KNOWN.get(home[1], "")
        return f"{name}: {GIVEN.get(known, known) or annotation_of_class(home)}"
    if value is None or isinstance(value, (bool, int, float, str)):
        return f"{name}: {'None' if value is None else '_b.' + type(value).__name__}"
    return f"{name}: _Any"


needed: set[tuple[str, str]] = set()
writing = [""]  # the module whose stub it is


def annotation_of_class(home: tuple[str, str]) -> str:
    """The stub's own name of a class."""
    needed.add(home)
    return f"_{home[1].lstrip('_')}"


def imports_of_classes() -> str:
    """The imports of the classes that `needed` has."""
    return "\n".join(sorted(f"from {home} import {n} as _{n.lstrip('_')}" for home, n in needed))


def public_names(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """What a module has, and what it loads when it is asked for."""
    path = module.__name__.removeprefix("tritorch").lstrip(".")
    late = set(_names.offered(path))
    late |= set(getattr(module, "_ELSEWHERE", ())) | set(getattr(module, "_LATE", "").split())
    for name in sorted({*vars(module), *late, *getattr(module, "__all__", ())}):
        if (
            name == "TYPE_CHECKING"
            or keyword.iskeyword(name)
            or not name.isidentifier()
            or f" as {name}\n" in head("")
        ):
            continue
        if not name.startswith("_") or name in late:
            with contextlib.suppress(AttributeError):
                yield name, getattr(module, name)
    operators = (n for n in _names._entries(path) if n.startswith("_") and n not in vars(module))
    for name in ("__version__", "__config__", "__future__", "_C", *(operators if not path else ())):
        if hasattr(module, name) and name not in late:
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
    starred = getattr(module, "__all__", None)
    if starred is not None:
        lines.append(f"__all__ = {sorted(starred)}")
    return "\n".join([head(path), imports_of_classes(), "", *lines, ""])


# ---- the class Tensor ----------------------------------------------------------------------------


def methods_stub() -> str:
    """The base of Tensor that type checkers see: what operators attach to it."""
    own = class_members(tritorch.Tensor)
    needed.clear()
    lines: list[str] = []
    for name, value in sorted(vars(tritorch.Tensor).items()):
        if name in own or name in (
            "__module__",
            "__doc__",
            "__dict__",
            "__weakref__",
            "__annotations__",
        ):
            continue
        if isinstance(value, property):
            lines.append(attribute(name, value))
        elif isinstance(value, (staticmethod, classmethod)):
            lines += [
                f"@{type(value).__name__}",
                loose(name, "cls, " * isinstance(value, classmethod)),
            ]
        elif isinstance(value, _C.Gate):
            lines.append(definitions(name, method_forms(name, value), "self"))
        elif isinstance(value, types.FunctionType):
            lines.append(definition(name, value, None, "self"))
        elif not callable(value):
            lines.append(f"{name}: _b.{type(value).__name__}")
        else:
            lines.append(loose(name, "self, "))
    text = "\n".join(lines).replace("\n", "\n    ")
    return f"{head(METHODS)}\n{imports_of_classes()}\n\nclass TensorMethods:\n    {text}\n"


def class_members(cls: type) -> set[str]:
    """What stands in a class's body, in its file."""
    module, name = homes()[id(cls)]
    body = static_names(module)[name].body  # type: ignore[attr-defined]
    found = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {n.id for t in targets if t for n in ast.walk(t) if isinstance(n, ast.Name)}
    return found


def loose(name: str, first: str) -> str:
    """A function of which nothing is known."""
    return f"def {name}({first}*args: _Any, **kwargs: _Any) -> _Any: ..."


def attribute(name: str, value: property) -> str:
    """A property; one that can be set is as an attribute to type checkers."""
    given = getattr(value.fget, "__wrapped__", value.fget)
    kind = annotation(
        getattr(given, "__annotations__", {}).get("return", inspect.Signature.empty), True, given
    )
    if value.fset is not None:
        return f"{name}: {kind}"
    return f"@property\ndef {name}(self) -> {kind}: ..."


def method_forms(name: str, gate: Any) -> list[Form]:
    """How a method is called, and what Python's operators take."""
    special = name.startswith("__") and name.endswith("__")
    forms = forms_of(plain(gate), gate)
    if not special:
        return forms
    words = name.strip("_")
    if words in ("getitem", "setitem", "delitem"):
        key = Parameter("key", ("_Index", "_b.tuple[_Index, ...]"))
        value = (Parameter("value", ("_Tensor", "_Number")),) if words == "setitem" else ()
        return [Form((key, *value), "_Tensor" if words == "getitem" else "None")]
    base = words[1:] if words[0] in "ir" and hasattr(operator, f"__{words[1:]}__") else words
    count = len(inspect.signature(getattr(operator, f"__{base}__", len)).parameters)
    is_operator = hasattr(operator, f"__{base}__") and base not in ("index", "contains")
    if base in ("div", "divmod"):
        is_operator, count = True, 2
    if not is_operator:
        return forms
    if count == 1:
        return [Form((), "_Tensor")]
    result = "_Self" if words[0] == "i" and base != words else "_Tensor"
    result = "_b.tuple[_Tensor, _Tensor]" if base == "divmod" else result
    other = Form((Parameter("other", ("_Tensor", "_Number")),), result)
    if words in ("eq", "ne"):  # also with None, as every object
        return [other, Form((Parameter("other", ("_b.object",)),), "_b.bool")]
    return [other]


def named_tuple(name: str, cls: Any) -> str:
    """A named tuple that an operator gives."""
    fields = [f for f in vars(cls) if not f.startswith("_") and isinstance(vars(cls)[f], property)]
    said = {}
    for schema in stub_forms.schemas(name.removesuffix("_out")):
        said.update({r.name: stub_forms.result_kind(r) for r in schema.returns})
    kinds = [said.get(field, "_Any") for field in fields]
    body = "".join(f"\n    @property\n    def {f}(self) -> {k}: ..." for f, k in zip(fields, kinds))
    return f"class {name}(_b.tuple[{', '.join(kinds)}]):{body}"


def partial_stub(path: str) -> str:
    """The text of the stub of what a module makes."""
    module = importlib.import_module(path)
    _, below = path.split(".", 1)
    needed.clear()
    stands = stub_package.exported(below, without_stubs=True)
    lines = {
        name: declaration(name, value)
        for name, value in public_names(module)
        if name not in stands and _names.has_name(below, name)
    }
    for name, value in settings(module):
        lines[name] = f"{name}: {'_Any' if value is None else f'_b.{type(value).__name__}'}"
    declared = [line for line in lines.values() if line]
    names = f"__all__ = {sorted(name for name, line in lines.items() if line)}"
    return "\n".join([head(path), imports_of_classes(), "", *declared, names, ""])


def settings(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """The attributes of a module that its class has: `torch.backends.cudnn.benchmark`."""
    for base in type(module).__mro__:
        if base is types.ModuleType:
            break
        for name, value in vars(base).items():
            if hasattr(value, "__set__") and not name.startswith("_"):
                yield name, getattr(module, name)


def place(path: str) -> pathlib.Path:
    """Where a module's stub is."""
    if path in PARTLY:
        file = pathlib.Path(sys.modules[path].__file__ or "").resolve()
        return file.with_name(f"{file.stem.replace('__init__', '')}_made.pyi")
    if path == METHODS:
        return place(path.removesuffix("_methods")).with_stem(path.rpartition(".")[2])
    file = sys.modules[path].__file__
    assert file is not None
    where = pathlib.Path(file).resolve().with_suffix(".pyi")
    return where if where.is_relative_to(PACKAGE) else PACKAGE / where.name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if one differs")
    args = parser.parse_args()
    for path in [f"tritorch.{name}" for name in tritorch._LATE.split()] + MODULES + PARTLY:
        importlib.import_module(path)
    list(public_names(tritorch))  # imports what comes late
    writers = {METHODS: lambda path: methods_stub(), **dict.fromkeys(PARTLY, partial_stub)}
    for path in [*MODULES, *writers]:
        writing[0] = path
        text, where = writers.get(path, stub)(path), place(path)
        if args.check and (not where.exists() or where.read_text() != text):
            sys.exit(f"{where.name} of {path} is out of date: run tools/make_stubs.py")
        if not args.check:
            where.write_text(text)
            print(f"{path}: {text.count(chr(10))} lines")


if __name__ == "__main__":
    main()
