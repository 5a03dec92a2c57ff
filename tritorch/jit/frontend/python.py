"""Functions of Python: their source, the names they see, and the graphs that they become."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import inspect
import textwrap
import types as python_types
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tritorch.jit import internals as internal
from tritorch.jit.frontend import late
from tritorch.jit.frontend.annotations import type_of_object
from tritorch.jit.frontend.emitter import Emitter
from tritorch.jit.frontend.functions import define, signature
from tritorch.jit.frontend.source import (
    FrontendError as FrontendError,
    NotSupportedError as NotSupportedError,
    Source,
    UnsupportedNodeError as UnsupportedNodeError,
)
from tritorch.jit.frontend.sugared import FunctionValue, Sugared
from tritorch.jit.ir.function import CompilationUnit, GraphFunction
from tritorch.jit.ir.types import ScriptClassType
from tritorch.schema.signature import Argument
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import AnyType, Type

UNIT = CompilationUnit()  # of all that programs script


# ---- source --------------------------------------------------------------------------------------

_sources: weakref.WeakKeyDictionary[Any, tuple[Source, ast.FunctionDef]] = (
    weakref.WeakKeyDictionary()
)


def definition_of(function: Any) -> tuple[Source, ast.FunctionDef]:
    """The syntax tree of a function's definition; OSError where its source cannot be had."""
    if function in _sources:
        return _sources[function]
    if function.__name__ == "forward" and internal.is_library(function, "nn"):
        found = _lambda_of(function)
        if found is not None:
            _sources[function] = found
            return found
    try:
        lines, first = inspect.getsourcelines(function)
        filename = inspect.getsourcefile(function)
    except (OSError, TypeError) as error:
        raise OSError(
            f"Can't get source for {function}. TorchScript requires source access in order to "
            "carry out compilation, make sure original .py files are available."
        ) from error
    text = "".join(lines)
    plain = _dedent(text)
    try:
        tree = ast.parse(plain)
    except SyntaxError as error:
        raise RuntimeError(f"Expected a single top-level function: {error}") from error
    node = tree.body[0] if tree.body else None
    if len(tree.body) != 1 or not isinstance(node, ast.FunctionDef):
        name = f"{filename}:{first}"
        raise RuntimeError(f"Expected a single top-level function: {name}")
    indent = len(text.split("\n")[0]) - len(plain.split("\n")[0])
    found = (Source(text, filename, first, indent), node)
    try:
        _sources[function] = found
    except TypeError:
        pass
    return found


@functools.cache
def _parsed_file(path: str) -> tuple[Source, ast.Module]:
    text = Path(path).read_text(encoding="utf-8")
    return Source(text, path), ast.parse(text)


def _lambda_of(function: Any) -> tuple[Source, ast.FunctionDef] | None:
    """The definition of a method that the library declares as a lambda; None of others."""
    code = function.__code__
    if code.co_name != "<lambda>":
        return None
    source, tree = _parsed_file(code.co_filename)
    names = code.co_varnames[: code.co_argcount]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Lambda) or node.lineno != code.co_firstlineno:
            continue
        if tuple(each.arg for each in node.args.args) != names:
            continue
        body = ast.copy_location(ast.Return(node.body), node.body)
        arguments = ast.arguments(
            posonlyargs=[], args=node.args.args, kwonlyargs=[], kw_defaults=[],
            defaults=node.args.defaults,
        )  # fmt: skip
        made = ast.FunctionDef(name="forward", args=arguments, body=[body], decorator_list=[])
        return source, ast.copy_location(made, node)
    return None


def _dedent(text: str) -> str:
    plain = textwrap.dedent(text)
    first = len(text) - len(text.lstrip(" \t"))
    if first and plain.startswith((" ", "\t")):
        # A comment or text further to the left: the first line decides.
        prefix = text[:first]
        lines = [line[first:] if line.startswith(prefix) else line for line in text.split("\n")]
        plain = "\n".join(lines)
    return plain


def default_values(function: Any) -> dict[str, Any]:
    """The defaults of a function's parameters."""
    found = inspect.signature(function, follow_wrapped=False).parameters
    return {n: p.default for n, p in found.items() if p.default is not inspect.Parameter.empty}


# ---- names ---------------------------------------------------------------------------------------


class PythonResolver:
    """The names that a function sees: its closure, its module, and Python's builtins."""

    def __init__(
        self, lookup: Callable[[str], Any], names: Mapping[str, Any] | None = None
    ) -> None:
        """lookup: the object of a name, or MISSING."""
        self.lookup, self.names = lookup, names or {}
        self.function = ""  # the name of the function that it resolves for

    def resolve(self, em: Emitter, name: str, place: Any) -> Sugared | None:
        """The meaning of a name; None of one that is not defined."""

        found = self.object(name)
        return None if found is MISSING else late.to_sugared(em, found, place, name)

    def resolve_dotted(self, em: Emitter, dotted: str, place: Any) -> Sugared | None:
        """None: attributes are looked up one by one."""
        return None

    def object(self, name: str) -> Any:
        """The object of a name; MISSING if there is none."""
        if name in self.names:
            return self.names[name]
        found = self.lookup(name)
        return getattr(builtins, name, MISSING) if found is MISSING else found

    def dotted(self, name: str) -> Any:
        """The object of a dotted name; MISSING if there is none."""
        first, *rest = name.split(".")
        found = self.object(first)
        for each in rest:
            if found is MISSING:
                return MISSING
            found = getattr(found, each, MISSING)
        return found

    def resolve_type(self, name: str) -> Type | None:
        """The type that a dotted name stands for; None if it is none."""
        found = self.dotted(name)
        if found is MISSING or (found is None and name != "None"):
            return None
        return type_of_object(found)

    def resolve_types(self, name: str) -> list[Any] | None:
        """The types of a name that stands for a tuple of classes; None of others."""
        found = self.dotted(name)
        if not isinstance(found, tuple) or not found:
            return None
        kinds = [type_of_object(each) for each in found]
        return None if None in kinds else kinds

    def generic(self, name: str) -> str | None:
        """The name of a generic type that a dotted name stands for; None if it is none."""
        found = self.dotted(name)
        if found is MISSING:
            return None
        for plain, python in (("List", list), ("Dict", dict), ("Tuple", tuple)):
            if found is python:
                return plain
        if getattr(found, "__module__", None) == "typing":
            shown = getattr(found, "_name", None) or str(found).rpartition(".")[2]
            return {"Final": "Final"}.get(shown, shown)
        from tritorch.futures import Future

        if found is Future:
            return "Future"
        if found is internal._Await:
            return "Await"
        return None


MISSING = object()


def closure_lookup(
    function: Any, outer: Callable[[str], Any] | None = None
) -> Callable[[str], Any]:
    """A lookup of the names that a function sees."""

    def lookup(name: str) -> Any:
        code = function.__code__
        if function.__kwdefaults__ and name in function.__kwdefaults__:
            return function.__kwdefaults__[name]
        if name in code.co_freevars:
            cell = function.__closure__[code.co_freevars.index(name)]
            try:
                return cell.cell_contents
            except ValueError:
                pass
        if name in function.__globals__:
            found = function.__globals__[name]
            return found
        if outer is not None:
            return outer(name)
        return MISSING

    return lookup


def frame_lookup(frames_up: int) -> Callable[[str], Any]:
    """A lookup of the names of a calling frame, which annotations of local classes need."""
    frame = inspect.currentframe()
    for _ in range(frames_up + 1):
        frame = None if frame is None else frame.f_back
    if frame is None:
        return lambda name: MISSING
    spaces = (frame.f_locals, frame.f_globals)
    chain: list[Any] = []
    outer = frame.f_back
    while outer is not None and outer.f_globals is frame.f_globals and len(chain) < 3:
        chain.append(outer.f_locals)
        outer = outer.f_back
    everywhere = [*spaces, *chain]

    def lookup(name: str) -> Any:
        for space in everywhere:
            if name in space:
                return space[name]
        return MISSING

    return lookup


# ---- functions -----------------------------------------------------------------------------------

_compiled: weakref.WeakKeyDictionary[Any, tuple[GraphFunction, ...]] = weakref.WeakKeyDictionary()
_overloads: dict[str, list[Any]] = {}
_implemented: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
_pending: list[GraphFunction] = []


def add_overload(function: Any) -> None:
    """Registers a declaration of `torch.jit._overload`."""
    _overloads.setdefault(internal._qualified_name(function), []).append(function)


def method_overloads(function: Any) -> list[Any]:
    """The declarations of `torch.jit._overload_method` for a method."""
    if function is None or not hasattr(function, "__qualname__"):
        return []
    return _method_overloads.get((function.__module__, function.__qualname__), [])


def add_method_overload(function: Any) -> None:
    """Registers a declaration of `torch.jit._overload_method`."""
    key = (function.__module__, function.__qualname__)
    _method_overloads.setdefault(key, []).append(function)


_method_overloads: dict[tuple[str, str], list[Any]] = {}


def modifier(function: Any) -> str:
    """The `FunctionModifiers` of a function: compiled, left in Python or left out."""
    return getattr(function, "_torchscript_modifier", internal.FunctionModifiers.DEFAULT)


class BooleanDispatch(Sugared):
    """One of two functions, by a constant argument."""

    def __init__(self, dispatched: dict[str, Any]) -> None:
        self.dispatched = dispatched

    def call(self, em: Emitter, args: Any, kwargs: Any, place: Any) -> Sugared:
        found = self.dispatched
        index, name = found["index"], found["arg_name"]
        value = kwargs.get(name) or (args[index] if index < len(args) else None)
        chosen = found["default"] if value is None else value.toIValue()
        if not isinstance(chosen, bool):
            from tritorch.jit.frontend.source import fail

            fail(place, "value for boolean dispatch was not constant")
        function = found["if_true"] if chosen else found["if_false"]
        if isinstance(function, GraphFunction):
            return FunctionValue(function).call(em, args, kwargs, place)
        return FunctionValue(*compile_function(function)).call(em, args, kwargs, place)


def compile_function(
    function: Any, lookup: Callable[[str], Any] | None = None
) -> tuple[GraphFunction, ...]:
    """The compiled forms of a function: one, or one for each of its overloads."""
    if function in _compiled:
        return _compiled[function]
    declarations = _overloads.pop(internal._qualified_name(function), None)
    if declarations is None:
        declarations = _implemented.get(function)
    else:
        _implemented[function] = declarations
    if declarations:
        found = tuple(
            _declared(function, declaration, lookup, at)
            for at, declaration in enumerate(declarations)
        )
    else:
        found = (_declared(function, function, lookup),)
    _compiled[function] = found
    return found


def _declared(
    function: Any, declaration: Any, lookup: Callable[[str], Any] | None, number: int | None = None
) -> GraphFunction:
    """A function that is compiled when it is needed, with the signature of a declaration."""
    name = internal._qualified_name(function)
    if number is not None:
        name += f"__{number}"
    made = GraphFunction(UNIT.mangle(torch_name(name)), define=None)
    UNIT.functions[made.qualified_name] = made
    made.python = function

    def fill(compiled: GraphFunction) -> None:
        source, node = definition_of(function)
        _refuse_keyword_defaults(source, node)
        resolver = PythonResolver(closure_lookup(function, lookup))
        if declaration is function:
            declared = signature(node, source, resolver, default_values(function))
        else:
            other_source, other = definition_of(declaration)
            other_resolver = PythonResolver(closure_lookup(declaration, lookup))
            defaults = {**default_values(declaration)}
            declared = signature(other, other_source, other_resolver, defaults)
        define(compiled, node, source, resolver, UNIT, declared)

    made._define = fill
    return made


def _refuse_keyword_defaults(source: Source, node: ast.FunctionDef) -> None:
    if any(each is not None for each in node.args.kw_defaults):
        raise NotSupportedError(
            source.range(node),
            "Compiled functions can't take variable number of arguments or use keyword-only "
            "arguments with defaults",
        )


def torch_name(name: str) -> str:
    """A qualified name under PyTorch's package."""
    return name.replace("__torch__.tritorch.", "__torch__.torch.", 1)


def ignored_signature(function: Any, is_method: bool) -> tuple[list[Argument], Type, bool]:
    """The arguments and the result's type of a function that is not compiled, and if it takes more
    arguments than it names.

    One that is never called may have annotations that are none of TorchScript's.
    """
    source, node = definition_of(function)
    resolver = PythonResolver(closure_lookup(function))
    changed: dict[str, Any] = {"body": [ast.copy_location(ast.Pass(), node)]}
    spec = node.args
    kinds = internal.FunctionModifiers
    if modifier(function) in (kinds.UNUSED, kinds._DROP):
        names = (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)
        annotated = {each.arg: AnyType.get() for each in names}
        if modifier(function) == kinds._DROP:
            changed["returns"] = None
    else:
        annotated = None
    if spec.vararg is not None and annotated is None:
        named = ast.arguments(**{**spec.__dict__, "args": [*spec.args, spec.vararg]})
    else:
        named = spec
    changed["args"] = ast.arguments(**{**named.__dict__, "vararg": None, "kwarg": None})
    plain = ast.copy_location(ast.FunctionDef(**{**node.__dict__, **changed}), node)
    defaults = default_values(function)
    if annotated is not None:
        defaults = {name: value for name, value in defaults.items() if name in annotated}
    found = signature(
        plain, source, resolver, defaults, TensorType.get() if is_method else None, annotated
    )
    arguments = found.arguments[1:] if is_method else found.arguments
    return arguments, found.result or TensorType.get(), spec.vararg is not None


def method_definition(
    kind: ScriptClassType,
    name: str,
    function: Any,
    unit: CompilationUnit,
    lookup: Callable[[str], Any] | None = None,
    names: Mapping[str, Any] | None = None,
    declaration: Any = None,
) -> GraphFunction:
    """A method of a class, compiled when it is needed."""
    made = GraphFunction(f"{kind.qualified_name()}.{name}")
    made.python = function

    def fill(compiled: GraphFunction) -> None:
        source, node = definition_of(function)
        _refuse_keyword_defaults(source, node)
        resolver = PythonResolver(closure_lookup(function, lookup), names)
        declared_by = function if declaration is None else declaration
        other_source, other = definition_of(declared_by)
        declared = signature(
            other, other_source, resolver, default_values(declared_by), kind,
            _state_annotations(kind, other),
        )  # fmt: skip
        define(compiled, node, source, resolver, unit, declared, kind)

    made._define = fill
    return made


def _state_annotations(kind: ScriptClassType, node: ast.FunctionDef) -> dict[str, Any] | None:
    """The type of what `__setstate__` takes, if it says none: the result of `__getstate__`."""
    parameters = node.args.args
    if node.name != "__setstate__" or len(parameters) != 2 or parameters[1].annotation is not None:
        return None
    info = getattr(kind, "python_info", None)
    give = kind.methods.get("__getstate__")
    if give is None and info is not None:
        give = info.compile_method(kind, "__getstate__")
    if give is None:
        return None
    give.ensure_defined()
    return {parameters[1].arg: give.schema._returns[0].type}


def later(function: GraphFunction) -> None:
    """Queue a function, compiled before the outermost call of the compiler returns."""
    _pending.append(function)


def forget(function: Any) -> None:
    """Drops the compiled forms of a function whose compilation failed."""
    for made in _compiled.pop(function, ()):
        UNIT.functions.pop(made.qualified_name, None)
    _pending.clear()


class _Trial:
    """The outcome of a `trial`: the error that ended it, or None."""

    error: Exception | None = None


@contextlib.contextmanager
def trial() -> Iterator[_Trial]:
    """Compiles something that may be no TorchScript: an error ends it, and is kept."""
    global _pending
    outcome, before, _pending = _Trial(), _pending, []
    try:
        yield outcome
        finish()
    except (RuntimeError, FrontendError, OSError, ValueError, TypeError) as error:
        outcome.error = error
    finally:
        _pending = before


def finish() -> None:
    """Compiles what was left for later."""
    while _pending:
        _pending.pop(0).ensure_defined()


def is_python_function(value: Any) -> bool:
    """Tells if a value is a function that Python's source defines."""
    return isinstance(value, python_types.FunctionType)
