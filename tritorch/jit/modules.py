"""Scripted modules: Python objects that show a TorchScript module's attributes and methods."""

from __future__ import annotations

import functools
import inspect
import types as python_types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.jit.calls import ScriptFunction, ScriptMethod
from tritorch.jit.frontend import hooks, modules as frontend, python
from tritorch.jit.internals import FunctionModifiers, is_library
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.ir.types import InterfaceType
from tritorch.jit.run.module_data import ScriptModuleData
from tritorch.jit.run.values import WRAPPERS, to_python, to_script
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter


class _Slots(OrderedDict[str, Any]):
    """Parameters or buffers by name; a change is one of the module's attributes too."""

    def __init__(self, data: ScriptObjectData, names: Any) -> None:
        super().__init__()
        self._data = data
        for name in names:
            OrderedDict.__setitem__(self, name, data.slots[name])

    def __setitem__(self, name: str, value: Any) -> None:
        data = self._data
        if name not in data.type.attributes:
            raise RuntimeError(
                f"Can't add a new parameter after ScriptModule construction. Tried to add '{name}"
            )
        OrderedDict.__setitem__(self, name, value)
        data.slots[name] = value

    def __delitem__(self, name: str) -> None:
        raise RuntimeError(f"Can't delete '{name}' of a ScriptModule")

    def __deepcopy__(self, memo: Any) -> Any:
        import copy

        return OrderedDict((n, copy.deepcopy(v, memo)) for n, v in self.items())

    def __reduce__(self) -> Any:
        return OrderedDict, (list(self.items()),)


class ScriptModule(Module):
    """A module of TorchScript.

    A program's subclass with `@torch.jit.script_method` methods is compiled when it is made.
    """

    def __init__(self) -> None:
        super().__init__()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        methods = {
            name: item
            for name, item in list(vars(cls).items())
            if isinstance(item, ScriptMethodStub)
        }
        inherited: dict[str, ScriptMethodStub] = {}
        for base in reversed(cls.__mro__[1:]):
            inherited |= vars(base).get("_script_stubs", {})
        cls._script_stubs = inherited | methods  # type: ignore[attr-defined]
        for name, stub in methods.items():
            setattr(cls, name, stub.function)
        original = cls.__init__

        @functools.wraps(original)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if type(self) is cls and not issubclass(cls, RecursiveScriptModule):
                _compile_in_place(self)

        if not issubclass(cls, _RecursiveBase):
            cls.__init__ = __init__  # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:
        made = self.__dict__.get("_actual_script_module")
        return super().__getattr__(name) if made is None else getattr(made, name)

    def __setattr__(self, name: str, value: Any) -> None:
        made = self.__dict__.get("_actual_script_module")
        if made is not None and (name in made._c.type.attributes or name in made._c.type.constants):
            setattr(made, name, value)
        else:
            super().__setattr__(name, value)

    def define(self, src: str) -> None:
        """Adds methods by their source, once the object is complete."""
        made = self.__dict__.get("_actual_script_module")
        lookup = python.frame_lookup(1)
        if made is None:
            self.__dict__.setdefault("_script_sources", []).append((src, lookup))
        else:
            _define(made, src, lookup)
            _show_methods(self, ["forward"])


class _RecursiveBase:
    """Marks `RecursiveScriptModule`, whose subclasses are not compiled again."""


class ScriptMethodStub:
    """A method that `torch.jit.script_method` marked, before its class is complete."""

    def __init__(self, function: Any, lookup: Callable[[str], Any]) -> None:
        self.function, self.lookup = function, lookup


def _compile_in_place(module: Any) -> None:
    """Compiles the marked methods of an object of a program's ScriptModule."""
    sources = module.__dict__.pop("_script_sources", ())
    stubs = type(module)._script_stubs
    if stubs or sources:
        made = compile_module(module, share=not sources, methods=list(stubs), stubs=stubs)
    else:
        made = compile_module(module)
    for src, lookup in sources:
        _define(made, src, lookup)
    space, data = module.__dict__, made._c
    for name in (*data.type.attributes, *data.type.methods):
        space.pop(name, None)
    for name in ("_parameters", "_buffers", "_modules", "_c"):
        space[name] = made.__dict__[name]
    space["_actual_script_module"] = made
    data.wrapper = weakref.ref(module)
    _show_methods(module, [*stubs, "forward"])


def _show_methods(module: Any, names: Iterable[str]) -> None:
    """Puts compiled methods on an object whose class has methods of the same names."""
    data = module._c
    for name in names:
        method = data.type.methods.get(name)
        if method is not None:
            module.__dict__[name] = ScriptMethod(method, data)


def _define(module: RecursiveScriptModule, src: str, lookup: Callable[[str], Any]) -> None:
    """Adds methods by their source to a module's type."""
    from tritorch.jit.frontend.text import define_methods

    define_methods(module._c.type, src, lookup)
    _show_methods(module, ["forward"])


class RecursiveScriptModule(ScriptModule, _RecursiveBase):
    """A module that `torch.jit.script`, `trace` or `load` made: it shows the data in `_c`."""

    def __init__(self, data: ScriptObjectData) -> None:
        Module.__init__(self)
        self.__dict__["_c"] = data
        self.__dict__.pop("training", None)
        data.wrapper = weakref.ref(self)
        kinds = data.type.attributes
        parameters = [n for n, a in kinds.items() if a.is_parameter and _is_table(data, n)]
        buffers = [n for n, a in kinds.items() if a.is_buffer and _is_table(data, n)]
        self.__dict__["_parameters"] = _Slots(data, parameters)
        self.__dict__["_buffers"] = _Slots(data, buffers)
        self.__dict__["_modules"] = OrderedDict(
            (name, wrap(data.slots[name]))
            for name in kinds
            if isinstance(data.slots.get(name), ScriptObjectData)
            and data.slots[name].type.is_module_type
        )
        for name, method in data.type.methods.items():
            if hasattr(Module, name):  # it takes the place of Module's own
                self.__dict__[name] = ScriptMethod(method, data)
        if "forward" not in self.__dict__ and _class_of(data) is not None:
            forward = inspect.getattr_static(_class_of(data), "forward", None)
            if python.modifier(forward) == FunctionModifiers.IGNORE:  # left in Python
                self.__dict__["forward"] = python_types.MethodType(forward, self)
        for at, hook in enumerate(data.type.forward_pre_hooks):
            self._forward_pre_hooks[at] = ScriptFunction(hook)
        for at, hook in enumerate(data.type.forward_hooks):
            self._forward_hooks[at] = ScriptFunction(hook)

    # ---- attributes ------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        space = self.__dict__
        data = space.get("_c")
        if data is None:
            raise AttributeError(name)
        modules = space["_modules"]
        if name in modules:
            return modules[name]
        attribute = data.type.attributes.get(name)
        if attribute is not None:
            return to_python(data.slots[name], attribute.type)
        function = data.type.methods.get(name)
        if function is not None:
            return ScriptMethod(function, data)
        if name in data.type.constants:
            return data.type.constants[name]
        if name in data.type.properties:
            return ScriptMethod(data.type.properties[name][0], data)()
        return _python_attribute(self, data, name)

    def __setattr__(self, name: str, value: Any) -> None:
        data = self.__dict__.get("_c")
        if data is None:
            Module.__setattr__(self, name, value)
            return
        if name in self._modules:
            if isinstance(value, ScriptModule):
                data.slots[name] = to_script_field(value, name, data.type.attributes[name].type)
                self._modules[name] = value
                return
            raise RuntimeError(
                f"Cannot re-assign modules in a ScriptModule with non-scripted module, tried to "
                f"replace existing module '{name}': {value}"
            )
        if name in data.type.attributes:
            attribute = data.type.attributes[name]
            if name in self._parameters and not isinstance(value, (Parameter, type(None))):
                if isinstance(value, Tensor):
                    value = Parameter(value, value.requires_grad)
            converted = to_script(value, attribute.type)
            data.set_slot(name, converted)
            return
        if name in data.type.constants:
            raise AttributeError(
                f"Cannot mutate TorchScript constant value: '{name}'. Value: '{value}'"
            )
        if name in data.type.properties and data.type.properties[name][1] is not None:
            ScriptMethod(data.type.properties[name][1], data)(value)
            return
        if isinstance(value, (Module, Parameter)):
            raise RuntimeError(
                f"Cannot add a new {'module' if isinstance(value, Module) else 'parameter'} to a "
                f"ScriptModule: '{name}'"
            )
        self.__dict__[name] = value

    def __dir__(self) -> list[str]:
        data = self.__dict__["_c"]
        names = {*object.__dir__(self), *data.type.attributes, *data.type.methods}
        return sorted(names | set(dir(_class_of(data) or object)))

    # ---- TorchScript -----------------------------------------------------------------------------

    @property
    def original_name(self) -> str:
        """The name of the class that it was made from."""
        return self._c.type.name()

    @property
    def graph(self) -> Any:
        """The graph of forward."""
        return self._c._get_method("forward").graph

    @property
    def inlined_graph(self) -> Any:
        """The graph of forward with all calls in line."""
        return self._c._get_method("forward").inlined_graph

    @property
    def code(self) -> str:
        """The source of forward."""
        return self._c._get_method("forward").code

    @property
    def code_with_constants(self) -> Any:
        """The source of forward, and its constants."""
        return self._c._get_method("forward").code_with_constants

    @property
    def forward_magic_method(self) -> Any:
        """The method that a call runs."""
        return self._c._get_method("forward")

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """The graph that runs with these arguments."""
        return self._c._get_method("forward").graph_for(*args, **kwargs)

    def save(self, f: Any, **kwargs: Any) -> None:
        """Writes an archive."""
        from tritorch.jit.archive.writing import save_module

        save_module(self._c, f, kwargs.get("_extra_files"))

    def save_to_buffer(self, **kwargs: Any) -> bytes:
        """The archive as bytes."""
        import io

        buffer = io.BytesIO()
        self.save(buffer, **kwargs)
        return buffer.getvalue()

    def _save_for_lite_interpreter(self, f: Any, **kwargs: Any) -> None:
        """Writes an archive; it has no bytecode, which only PyTorch's mobile interpreter reads."""
        self.save(f, **kwargs)

    def _save_to_buffer_for_lite_interpreter(self, **kwargs: Any) -> bytes:
        return self.save_to_buffer(**kwargs)

    def define(self, src: str) -> None:
        """Adds methods by their source."""
        _define(self, src, python.frame_lookup(1))

    def get_debug_state(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: there is no executor with plans of its own."""
        return self._c._get_method("forward").get_debug_state()

    def extra_repr(self) -> str:
        """The name of the class that it was made from."""
        return f"original_name={self.original_name}"

    def __len__(self) -> int:
        return self._magic("__len__")

    def __iter__(self) -> Any:
        return self._magic("__iter__")

    def __getitem__(self, index: Any) -> Any:
        return self._magic("__getitem__", index)

    def __contains__(self, key: Any) -> bool:
        return self._magic("__contains__", key)

    def __bool__(self) -> bool:
        return True

    def _magic(self, name: str, *args: Any) -> Any:
        """A special method: a compiled one, else that of the class that it was made from."""
        data = self.__dict__["_c"]
        function = data.type.methods.get(name)
        if function is not None:
            return ScriptMethod(function, data)(*args)
        source = _class_of(data)
        method = None if source is None else getattr(source, name, None)
        if method is None:
            raise NotImplementedError(f"{self.original_name} has no {name}")
        return method(self, *args)

    def _reconstruct(self, cpp_module: ScriptObjectData) -> None:
        """Makes this object show the data of another module."""
        RecursiveScriptModule.__init__(self, cpp_module)

    # ---- copies ----------------------------------------------------------------------------------

    def copy(self) -> RecursiveScriptModule:
        """A module with the same attributes."""
        return wrap(_copied(self._c, lambda value: value, {}))

    def __copy__(self) -> RecursiveScriptModule:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> RecursiveScriptModule:
        import copy

        made = wrap(_copied(self._c, lambda value: copy.deepcopy(value, memo), {}))
        memo[id(self)] = made
        return made

    def __getstate__(self) -> Any:
        raise RuntimeError("ScriptModules cannot be pickled with pickle; use torch.jit.save")

    def __reduce__(self) -> Any:
        return self.__getstate__()


def to_script_field(value: ScriptModule, name: str, kind: Any) -> ScriptObjectData:
    """The data of a module that becomes an attribute; RuntimeError if its type is another."""
    data = value._c
    if isinstance(kind, InterfaceType):
        return to_script(data, kind)
    if data.type is not kind:
        raise RuntimeError(
            f"Expected a value of type '{kind.repr_str()}' for field '{name}', but found "
            f"'{data.type.repr_str()}'"
        )
    return data


def _is_table(data: ScriptObjectData, name: str) -> bool:
    return isinstance(data.slots.get(name), (Tensor, type(None)))


def _class_of(data: ScriptObjectData) -> Any:
    info = getattr(data.type, "python_info", None)
    return None if info is None else type(info.python)


def _python_attribute(module: RecursiveScriptModule, data: ScriptObjectData, name: str) -> Any:
    """An attribute of the Python module that was scripted: a method, a class's value."""
    source = _class_of(data)
    own = vars(getattr(data, "source", None) or object).get(name)
    original = getattr(data, "source", None)
    if name in getattr(original, "__jit_ignored_attributes__", ()):
        return getattr(original, name)
    if isinstance(own, python_types.MethodType):  # a method that was put on the object
        return python_types.MethodType(own.__func__, module)
    if source is not None:
        static = inspect.getattr_static(source, name, None)
        if isinstance(static, (python_types.FunctionType,)):
            how = python.modifier(static)
            kinds = FunctionModifiers

            if how in (kinds.IGNORE, kinds.COPY_TO_SCRIPT_WRAPPER) or name in _COPIED:
                return python_types.MethodType(static, module)
        if isinstance(static, staticmethod):
            return static.__func__
        info = data.type.python_info
        if isinstance(static, property) and is_library(static.fget):
            return static.fget(module)  # type: ignore[misc]
        if name in info.functions:
            return info.functions[name]
        original = getattr(data, "source", None)
        if original is not None and name in info.failed and name in vars(original):
            return vars(original)[name]
    shown = "RecursiveScriptModule"
    raise AttributeError(f"'{shown}' object has no attribute '{name}'")


_COPIED = {"items", "keys", "values", "_get_abs_string_index"}


def _copied(
    data: ScriptObjectData, convert: Callable[[Any], Any], memo: dict[int, Any]
) -> ScriptModuleData:
    if id(data) in memo:
        return memo[id(data)]
    made = ScriptModuleData(data.type, data.unit)
    memo[id(data)] = made
    if getattr(data, "source", None) is not None:
        made.source = data.source  # type: ignore[attr-defined]
    for name, value in data.slots.items():
        if isinstance(value, ScriptObjectData) and value.type.is_module_type:
            made.slots[name] = _copied(value, convert, memo)
        else:
            made.slots[name] = convert(value)
    return made


def wrap(data: ScriptObjectData) -> RecursiveScriptModule:
    """The Python object of a module's data, made once."""
    found = None if data.wrapper is None else data.wrapper()
    if found is not None:
        return found
    made = RecursiveScriptModule(data)
    return made


def compile_module(
    module: Module,
    share: bool = True,
    methods: list[str] | None = None,
    stubs: dict[str, ScriptMethodStub] | None = None,
    names: Callable[[Module], list[str]] = frontend.methods_to_compile,
) -> RecursiveScriptModule:
    """The scripted form of a module.  methods: those to compile, by default what `names` gives."""
    if isinstance(module, RecursiveScriptModule):
        return module
    data = frontend.module_object(module, share)
    if stubs:
        data.type.python_info.lookup = next(iter(stubs.values())).lookup
    _compile_methods(data, module, methods, names, set())
    python.finish()
    return wrap(data)


def _compile_methods(
    data: ScriptObjectData,
    module: Module,
    methods: list[str] | None,
    names: Callable[[Module], list[str]],
    seen: set[int],
) -> None:
    if id(module) in seen:
        return
    seen.add(id(module))
    for name, part in module._modules.items():
        if part is not None and not isinstance(part, RecursiveScriptModule):
            inner = data.slots.get(name)
            if isinstance(inner, ScriptObjectData) and not isinstance(part, ScriptModule):
                _compile_methods(inner, part, None, names, seen)
    kind = data.type
    for name in names(module) if methods is None else methods:
        function = kind.python_info.compile_method(kind, name)
        if function is not None:
            function.ensure_defined()
    hooks.check(kind)


ScriptModule.__module__ = RecursiveScriptModule.__module__ = "torch.jit"
WRAPPERS["module"] = wrap
