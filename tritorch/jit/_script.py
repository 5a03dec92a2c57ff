"""`torch.jit.script` and what belongs to it: marks of functions, compilation units, archives."""

from __future__ import annotations

import enum
import inspect
import os
import types as python_types
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from tritorch.core.deprecation import deprecated
from tritorch.jit._containers import ScriptDict, ScriptList
from tritorch.jit.calls import ScriptFunction
from tritorch.jit.frontend import definitions, python
from tritorch.jit.frontend.sugared import FunctionValue
from tritorch.jit.internals import FunctionModifiers
from tritorch.jit.ir.function import CompilationUnit as Unit, GraphFunction
from tritorch.jit.modules import (
    RecursiveScriptModule as RecursiveScriptModule,
    ScriptMethodStub,
    ScriptModule,
    compile_module,
    wrap,
)
from tritorch.jit.objects import ScriptObject
from tritorch.nn.modules.module import Module

Function = TypeVar("Function", bound=Callable[..., Any])


def is_enabled() -> bool:
    """Tells if programs are compiled: the variable PYTORCH_JIT=0 leaves them to Python."""
    return os.environ.get("PYTORCH_JIT", "1") != "0"


@deprecated(
    "`torch.jit.script` is deprecated. Please switch to `torch.compile` or `torch.export`.",
    DeprecationWarning,
)
def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """Compiles a function, a module or a class to TorchScript.

    A list or a dict becomes one that keeps the type of its elements.
    """
    if not is_enabled():
        return obj
    if optimize is not None:
        warnings.warn(
            "`optimize` is deprecated and has no effect. Use `with "
            "torch.jit.optimized_execution()` "
            "instead",
            FutureWarning,
            stacklevel=3,
        )
    return _compiled(obj, _rcb or python.frame_lookup(_frames_up + 2))


def _compiled(obj: Any, lookup: Callable[[str], Any]) -> Any:
    if isinstance(obj, (ScriptModule, ScriptFunction, ScriptList, ScriptDict)):
        return obj
    if isinstance(obj, list):
        return ScriptList(obj)
    if isinstance(obj, dict):
        return ScriptDict(obj)
    if isinstance(obj, Module):
        return compile_module(_prepared(obj))
    if hasattr(obj, "__prepare_scriptable__"):
        obj = obj.__prepare_scriptable__()
    if inspect.isclass(obj):
        return _class(obj, lookup)
    defined = definitions.function_of(obj)
    if isinstance(defined, FunctionValue) and len(defined.functions) == 1:
        defined.functions[0].ensure_defined()
        return _as_function(defined.functions[0], obj)
    if isinstance(obj, python_types.FunctionType):
        return _function(obj, lookup)
    if isinstance(obj, python_types.MethodType):
        return _function(obj.__func__, lookup)
    function = getattr(obj, "__wrapped__", None)
    if callable(obj) and isinstance(function, python_types.FunctionType):
        return _function(function, lookup)
    if callable(obj) and type(obj).__name__ == "Gate":
        return obj  # an operator already
    data = _object(obj)
    return data


def _prepared(module: Module, memo: dict[int, Module] | None = None) -> Module:
    """The module with what `__prepare_scriptable__` gives in place of those that have it."""
    memo = {} if memo is None else memo
    if id(module) in memo:
        return memo[id(module)]
    if "_parameters" not in vars(module):
        raise RuntimeError(
            f"'{type(module).__module__}.{type(module).__qualname__}' has not been initialized, "
            "did "
            "you forget to call 'super()'?"
        )
    prepare = getattr(module, "__prepare_scriptable__", None)
    made = module if prepare is None else prepare()
    memo[id(module)] = made
    for name, part in list(made._modules.items()):
        if part is not None and not isinstance(part, ScriptModule):
            new = _prepared(part, memo)
            if new is not part:
                made._modules[name] = new
    return made


def _class(obj: Any, lookup: Callable[[str], Any]) -> Any:
    from tritorch.jit.frontend.classes import class_type, enum_type

    if issubclass(obj, Module):
        raise RuntimeError(
            f"Type '{obj}' cannot be compiled since it inherits from nn.Module, consider passing "
            "an "
            "instance instead"
        )
    if issubclass(obj, enum.Enum):
        enum_type(obj)
        return obj
    if hasattr(obj, "_fields") and issubclass(obj, tuple):
        return obj
    if len(obj.__mro__) > 2:
        raise RuntimeError(
            "TorchScript classes does not support inheritance yet. Please directly inherit from "
            "'object'."
        )
    class_type(obj, lookup=lookup)
    python.finish()
    try:
        obj._jit_script_class = True
    except (AttributeError, TypeError):
        pass
    return obj


def _function(obj: Any, lookup: Callable[[str], Any]) -> Any:
    modifier = python.modifier(obj)
    if modifier == FunctionModifiers.IGNORE:
        return obj
    overloads = python._overloads.get(python.internal._qualified_name(obj))
    if overloads:
        raise RuntimeError(
            f"Function {obj.__name__} cannot be directly compiled because it is overloaded. It "
            "must "
            "be used in a context of a function where its inputs can determine which overload to "
            "call."
        )
    (function,) = python.compile_function(obj, lookup)
    try:
        function.ensure_defined()
        python.finish()
    except BaseException:
        python.forget(obj)
        raise
    return _as_function(function, obj)


def _as_function(function: GraphFunction, obj: Any) -> ScriptFunction:
    made = ScriptFunction(function)
    made.__doc__ = obj.__doc__
    made.__name__, made.__qualname__ = obj.__name__, obj.__qualname__
    made.__module__ = obj.__module__
    made.__wrapped__ = obj  # type: ignore[attr-defined]
    return made


def _object(obj: Any) -> Any:
    """An object of a class: TorchScript's own, whose attributes it shares."""
    from tritorch.jit.frontend.classes import class_type
    from tritorch.jit.run.values import to_script

    kind = class_type(type(obj))
    assert kind is not None
    python.finish()
    return ScriptObject(to_script(obj, kind))


# ---- marks ---------------------------------------------------------------------------------------


def script_method(fn: Any) -> Any:
    """Marks a method of a ScriptModule's class, which is compiled with each object of it."""
    if not is_enabled():
        return fn
    return ScriptMethodStub(fn, python.frame_lookup(2))


def export(fn: Function) -> Function:
    """Marks a method that is compiled though forward does not call it."""
    fn._torchscript_modifier = FunctionModifiers.EXPORT  # type: ignore[attr-defined]
    return fn


def unused(fn: Any) -> Any:
    """Marks a function that is not compiled; a compiled call of it raises."""
    if isinstance(fn, property):
        for part in (fn.fget, fn.fset):
            if part is not None:
                part._torchscript_modifier = FunctionModifiers.UNUSED  # type: ignore[union-attr]
        return fn
    fn._torchscript_modifier = FunctionModifiers.UNUSED
    return fn


def _drop(fn: Function) -> Function:
    """Marks a function that is not compiled, whatever its signature says."""
    fn._torchscript_modifier = FunctionModifiers._DROP  # type: ignore[attr-defined]
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Marks a function that stays in Python when it is called from compiled code.

    drop: it may not even be called.
    """
    if callable(drop):
        drop._torchscript_modifier = FunctionModifiers.IGNORE
        return drop
    if not isinstance(drop, bool):
        raise RuntimeError(
            f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}"
        )
    drop_on_export = kwargs.pop("drop_on_export", None)
    if drop_on_export:
        warnings.warn(
            "ignore(drop_on_export=True) has been deprecated. TorchScript will now drop the "
            "function call on compilation. Use torch.jit.unused now. {}",
            category=FutureWarning,
            stacklevel=2,
        )
        drop = drop_on_export
    elif drop:
        warnings.warn(
            "ignore(True) has been deprecated. TorchScript will now drop the function call on "
            "compilation. Use torch.jit.unused now. {}",
            category=FutureWarning,
            stacklevel=2,
        )

    def decorator(fn: Any) -> Any:
        fn._torchscript_modifier = FunctionModifiers.UNUSED if drop else FunctionModifiers.IGNORE
        return fn

    return decorator


def interface(obj: Any) -> Any:
    """Marks a class that says which methods others must have."""
    if not inspect.isclass(obj):
        raise RuntimeError("interface must be applied to a class")
    obj.__torch_script_interface__ = True  # type: ignore[attr-defined]
    from tritorch.jit.frontend.classes import interface_type

    interface_type(obj)
    return obj


def _overload(func: Function) -> Function:
    """Declares a signature of the function of the same name that follows."""
    python.add_overload(func)
    return func


def _overload_method(func: Function) -> Function:
    """Declares a signature of the method of the same name that follows."""
    python.add_method_overload(func)
    return func


def script_if_tracing(fn: Function) -> Any:
    """Mark a function: a trace that calls it compiles it, so that its branches are kept."""
    import functools

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        from tritorch.jit.trace import is_tracing

        if not is_tracing():
            return fn(*args, **kwargs)
        compiled = script.__wrapped__(wrapper.__original_fn)  # type: ignore[attr-defined]
        return compiled(*args, **kwargs)

    wrapper.__original_fn = fn  # type: ignore[attr-defined]
    wrapper.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return wrapper


_script_if_tracing = script_if_tracing


# ---- archives ------------------------------------------------------------------------------------


def load(
    f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False
) -> RecursiveScriptModule:
    """The module of an archive; nothing of the archive runs as Python."""
    from tritorch.jit.archive.reading import load_object

    return wrap(load_object(f, map_location, _extra_files))


def import_ir_module(unit: Any, filename: Any, map_location: Any = None, *args: Any) -> Any:
    """The data of a module of an archive at a path."""
    from tritorch.jit.archive.reading import load_object

    return load_object(filename, map_location)


def import_ir_module_from_buffer(
    unit: Any, buffer: Any, map_location: Any = None, *args: Any
) -> Any:
    """The data of a module of an archive in memory."""
    import io

    from tritorch.jit.archive.reading import load_object

    return load_object(io.BytesIO(buffer), map_location)


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Writes the archive of a scripted module or function."""
    if not hasattr(m, "save"):
        raise ValueError(
            f"torch.jit.save takes a scripted module or function, got {type(m).__name__}"
        )
    m.save(f, _extra_files=_extra_files)


def export_opnames(m: Any) -> list[str]:
    """The operators that a module's methods call, by name and overload."""
    from tritorch.jit.ir.passes import inlined

    names = set()
    data = [m._c, *(part._c for part in m.modules() if part is not m)]
    for each in data:
        for function in each.type.methods.values():
            graph = inlined(function.graph)
            for node in _all_nodes(graph):
                if node._schema is not None:
                    overload = node._schema.overload_name
                    names.add(node._kind + (f".{overload}" if overload else ""))
    return sorted(names)


def _all_nodes(block: Any) -> Any:
    for node in block.nodes():
        yield node
        for inner in node._blocks:
            yield from _all_nodes(inner)


# ---- units ---------------------------------------------------------------------------------------


class CompilationUnit:
    """The functions of a source, as attributes."""

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        self._unit = Unit()
        if lang is not None:
            self.define(lang, _frames_up=_frames_up + 1)

    def define(self, lang: str, rcb: Any = None, _frames_up: int = 0) -> None:
        """Adds the functions of a source."""
        from tritorch.jit.frontend.text import define_functions

        define_functions(self._unit, lang, rcb or python.frame_lookup(_frames_up + 1))

    def __getattr__(self, name: str) -> ScriptFunction:
        found = self.__dict__["_unit"].functions.get(name)
        if found is None:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return ScriptFunction(found)

    def find_function(self, name: str) -> ScriptFunction | None:
        """A function by its name; None if there is none."""
        found = self._unit.functions.get(name)
        return None if found is None else ScriptFunction(found)

    def get_functions(self) -> list[ScriptFunction]:
        """All functions."""
        return [ScriptFunction(function) for function in self._unit.functions.values()]

    def get_class(self, name: str) -> Any:
        """A class by its name; None if there is none."""
        return self._unit.types.get(name)

    def get_interface(self, name: str) -> Any:
        """An interface by its name; None if there is none."""
        return self._unit.types.get(name)


# ---- passes over whole modules -------------------------------------------------------------------


def run_frozen_optimizations(mod: Any, *args: Any, **kwargs: Any) -> None:
    """Nothing is optimised here: `torch.compile` does that for the operators that run."""


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The frozen module."""
    if not isinstance(mod, RecursiveScriptModule):
        raise RuntimeError(
            "optimize_for_inference expects a ScriptModule as input. Please use torch.jit.script "
            "or "
            "torch.jit.trace to script your 'nn.Module'."
        )
    from tritorch.jit.freezing import freeze_module

    if not hasattr(mod, "training"):
        return mod  # frozen already
    mod.eval()
    return freeze_module(mod, other_methods or [])


class strict_fusion:
    """Inside, what PyTorch could not fuse is an error; nothing is fused here, so nothing is."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass
