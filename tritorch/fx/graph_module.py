"""GraphModule: a module whose forward is generated from a graph."""

from __future__ import annotations

import contextlib
import copy
import linecache
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from tritorch.core.scopes import Scope, scoped
from tritorch.core.tensor import Tensor
from tritorch.fx._codegen import _BoxedCodeGen, _custom_builtins, _override_sym_repr, _PyTreeCodeGen
from tritorch.fx._compatibility import compatibility
from tritorch.fx._naming import package
from tritorch.fx.graph import Graph, PythonCode
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter
from tritorch.serialization import names

__all__ = ["GraphModule", "reduce_graph_module", "reduce_package_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


# ---- code ----------------------------------------------------------------------------------------


class _EvalCacheLoader:
    """Keeps generated code, so that tracebacks and `inspect` show its lines."""

    def __init__(self) -> None:
        self.eval_cache: dict[str, str] = {}
        self.next_id = 0

    def cache(self, src: str, globals: dict[str, Any], co_fields: Any = None) -> str:
        """Keeps code; gives the name of the file that it seems to be in.

        co_fields: where the traced function is, which the name then says."""
        key = f"<eval_with_key>.{self.next_id}"
        self.next_id += 1
        if co_fields and "co_filename" in co_fields:
            if "co_firstlineno" in co_fields and "co_name" in co_fields:
                line = f"{co_fields['co_filename']}:{co_fields['co_firstlineno']}"
                key += f" from {line} in {co_fields['co_name']}"
            else:
                key = co_fields["co_filename"]
        self.eval_cache[key] = src
        space = {**globals, "__file__": key, "__name__": key, "__loader__": self}
        linecache.lazycache(key, space)
        return key

    def get_source(self, module_name: str) -> str | None:
        """The code of a file."""
        return self.eval_cache.get(module_name)


_loader = _EvalCacheLoader()


def _exec_with_source(src: str, globals: dict[str, Any], co_fields: Any = None) -> None:
    key = _loader.cache(src, globals, co_fields)
    exec(compile(src, key, "exec", dont_inherit=True), globals)


def _method_from_src(
    method_name: str, src: str, globals: dict[str, Any], co_fields: Any = None
) -> Callable[..., Any]:
    space = globals.copy()
    _exec_with_source(src, space, co_fields)
    return space.pop(method_name)


def _forward_from_src(
    src: str, globals: dict[str, Any], co_fields: Any = None
) -> Callable[..., Any]:
    return _method_from_src("forward", src, globals, co_fields)


def _import_of(name: str, obj: Any, importer: Any = None) -> str:
    """The line that gives an object a name in a program that reads a pickle.

    importer: which one, in an archive of torch.package."""
    if name in _custom_builtins:
        line = _custom_builtins[name].import_str
        return line if importer is None else _as_pytorch(line)
    if importer is None:
        module, attribute = _place_of(name, obj)
    else:
        module, attribute = names.path_of(obj) or importer.get_name(obj)
    first, *rest = attribute.split(".")
    if not rest:
        return f"from {module} import {first} as {name}"
    return f"import {module}\n{name} = {module}.{attribute}"


def _place_of(name: str, obj: Any) -> tuple[str, str]:
    """The module that has an object, and the name that it has there; PicklingError if none has."""
    module = pickle.whichmodule(obj, getattr(obj, "__qualname__", name))  # type: ignore[attr-defined]
    attribute: str = getattr(obj, "__qualname__", "") or getattr(obj, "__name__", name)
    found: Any = sys.modules.get(module)
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if found is not obj:
        raise pickle.PicklingError(
            f"{obj!r}, which generated code calls {name}, cannot be imported: it is not "
            f"{module}.{attribute}"
        )
    return module, attribute


def _as_pytorch(code: str) -> str:
    """Imports of the package as PyTorch's."""
    return code.replace("tritorch as torch", "torch").replace("tritorch", "torch")


def _format_import_block(globals: dict[str, Any], importer: Any = None) -> str:
    return "\n".join(sorted({_import_of(name, obj, importer) for name, obj in globals.items()}))


@compatibility(is_backward_compatible=True)
def reduce_graph_module(body: dict[str, Any], import_block: str) -> Module:
    """The module of pickled attributes and code: the code is traced again."""
    code = body.get("_code") or body["code"]
    return _deserialize_graph_module(_forward_from_src(import_block + code, {}), body)


@compatibility(is_backward_compatible=True)
def reduce_package_graph_module(
    importer: Any, body: dict[str, Any], generated_module_name: str
) -> Module:
    """The same of a package, which has the code as a module."""
    forward = importer.import_module(generated_module_name).forward
    return _deserialize_graph_module(forward, body)


class _CodeOnlyModule(Module):
    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def _deserialize_graph_module(
    forward: Callable[..., Any], body: dict[str, Any], graph_module_cls: Any = None
) -> Module:
    from tritorch.fx._lazy_graph_module import _make_graph_module
    from tritorch.fx._symbolic_trace import Tracer

    _CodeOnlyModule.forward = forward
    tracer_cls: Any = body.get("_tracer_cls") or Tracer

    class KeepModules(tracer_cls):
        """A tracer for which every module is a leaf."""

        def is_leaf_module(self, _: Any, __: str) -> bool:
            """Whether a module's call is a node: always."""
            return True

    module = _CodeOnlyModule(body)
    graph = KeepModules().trace(module, **body.get("_tracer_extras", {}))
    traces = body.pop("_graphmodule_graph_node_meta_stack_trace", {})
    for node in graph.nodes:
        if traces.get(node.name) is not None:
            node.meta["stack_trace"] = traces[node.name]
    graph._tracer_cls = tracer_cls
    made = _make_graph_module(
        module, graph, class_name=body.get("_graphmodule_cls_name", "GraphModule"),
        graph_module_cls=graph_module_cls,
    )  # fmt: skip
    for name, value in body.items():
        if not hasattr(made, name):
            setattr(made, name, value)
    return made


# ---- attributes ----------------------------------------------------------------------------------


def _copy_attr(from_module: Any, to_module: Any, target: str) -> None:
    """Gives a module what another one has under a dotted name."""
    *prefix, field = target.split(".")
    for item in prefix:
        source, inner = getattr(from_module, item), getattr(to_module, item, None)
        if source is inner:  # a module that is copied already
            return
        if inner is None:
            inner = Module()
            setattr(to_module, item, inner)
        from_module, to_module = source, inner
    _put(getattr(from_module, field), to_module, field)


def _assign_attr(from_obj: Any, to_module: Any, target: str) -> None:
    """Gives a module an attribute under a dotted name."""
    *prefix, field = target.split(".")
    for item in prefix:
        inner = getattr(to_module, item, None)
        if inner is None:
            inner = Module()
            setattr(to_module, item, inner)
        to_module = inner
    _put(from_obj, to_module, field)


def _put(value: Any, module: Any, name: str) -> None:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


def _get_attr(model: Any, attr_name: str) -> Any:
    return _get_attr_via_attr_list(model, attr_name.split("."))


def _del_attr(model: Any, attr_name: str) -> None:
    *prefix, field = attr_name.split(".")
    delattr(_get_attr_via_attr_list(model, prefix), field)


def _get_attr_via_attr_list(model: Any, attr_list: list[str]) -> Any:
    for place, item in enumerate(attr_list):
        if place < len(attr_list) - 1 and getattr(model, item, None) is None:
            raise AssertionError(f"Attribute '{item}' not found in model")
        model = getattr(model, item)
    return model


def _has_attr(model: Any, attr_name: str) -> bool:
    for item in attr_name.split("."):
        if not hasattr(model, item):
            return False
        model = getattr(model, item)
    return True


def _addindent(text: str, spaces: int) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line for line in rest)])


def _print_readable(
    module: Any, module_name: str, print_output: bool = True, **options: Any
) -> str:
    graph = module.graph
    if graph is None or not isinstance(graph, Graph):
        raise AssertionError("print_readable must be used on a module with a graph")
    code = graph.python_code("self", verbose=True, **options).src.lstrip("\n")
    text = _addindent(f"class {module_name}(torch.nn.Module):\n{code}", 4)
    inner = [
        _print_readable(child, name, False, **{**options, "expanded_def": False})
        for name, child in module.named_children()
        if isinstance(child, GraphModule)
    ]
    text += _addindent("\n".join(["", *inner]), 4)
    if print_output:
        print(text)
    return text


# ---- calls ---------------------------------------------------------------------------------------


class _WrappedCall:
    """What a call of a graph module goes through: an error in generated code shows its line."""

    def __init__(self, cls: Any, cls_call: Any) -> None:
        self.cls, self.cls_call = cls, cls_call

    @staticmethod
    def _generate_error_message(frame_summary: traceback.FrameSummary) -> str:
        line, number = frame_summary.line, frame_summary.lineno
        assert line is not None and number is not None
        lines = linecache.getlines(frame_summary.filename)
        return "\n".join([
            traceback.format_exc(),
            f"Call using an FX-traced Module, line {number} of the traced Module's generated "
            "forward function:",
            "".join(lines[number - 2 : number]),
            "~" * len(line) + "~~~ <--- HERE",
            "\n".join(lines[number : number + 2]),
        ])  # fmt: skip

    def __call__(self, obj: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            return super(self.cls, obj).__call__(*args, **kwargs)  # type: ignore[misc]
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            if "eval_with_key" not in last.filename:
                raise
            print(self._generate_error_message(last), file=sys.stderr)
            raise error.with_traceback(None)  # noqa: B904


def _call_wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self._wrapped_call(self, *args, **kwargs)


# Modules whose repr makes them again, as to_folder writes them.
_SAFE_REPRS = (
    "Linear", "Conv1d", "Conv2d", "Conv3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d",
)  # fmt: skip


@compatibility(is_backward_compatible=True)
class GraphModule(Module):
    """A module with a graph: changing `graph` and calling `recompile` changes what it computes."""

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        base = next(c for c in cls.__mro__ if c.__qualname__.split(".")[-1] != "GraphModuleImpl")

        class GraphModuleImpl(base):  # type: ignore[misc, valid-type]
            """The class of one instance, whose forward is its own."""

        return Module.__new__(GraphModuleImpl)

    @compatibility(is_backward_compatible=True)
    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        """root: the module whose attributes the graph reads, or a dict of them by dotted name.
        class_name: what it is called in texts."""
        super().__init__()
        type(self).__name__ = class_name
        targets = [str(n.target) for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            if isinstance(root, _CodeOnlyModule):
                for named in (root.named_children, root.named_buffers, root.named_parameters):
                    for name, _ in named():
                        _copy_attr(root, self, name)
            for target in targets:
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not "
                        "provided in ``root``!"
                    )
            for target in sorted(targets, key=lambda t: t.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        self._tracer_cls = None
        if graph._tracer_cls and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = {}
        self._replace_hooks: list[Any] = []
        self._create_node_hooks: list[Any] = []
        self._erase_node_hooks: list[Any] = []
        self._deepcopy_hooks: list[Any] = []
        self.shape_env: Any = None

    __jit_unused_properties__: ClassVar[list[str]] = ["graph", "_boxed_call"]

    @property
    def _boxed_call(self) -> bool:
        return isinstance(self._graph._codegen, _BoxedCodeGen)

    @property
    def graph(self) -> Graph:
        """What it computes."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The code of its forward."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    @compatibility(is_backward_compatible=True)
    def recompile(self) -> PythonCode:
        """Generates forward from the graph again, and those of graph modules inside."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        code = self._graph.python_code(root_module="self")
        self._code = code.src
        self._lineno_map, self._prologue_start = code._lineno_map, code._prologue_start
        cls = type(self)
        fields = getattr(self._graph, "_co_fields", {})
        cls.forward = _forward_from_src(self._code, code.globals, fields)
        if "_wrapped_call" not in vars(cls):
            own = vars(cls).get("__call__")
            cls._wrapped_call = _WrappedCall(cls, own)  # type: ignore[attr-defined]
        self._recompile_submodules()
        cls.__call__ = _call_wrapped  # type: ignore[method-assign]
        return code

    def _recompile_submodules(self) -> list[tuple[str, PythonCode]]:
        inner = [(n, m) for n, m in self.named_children() if isinstance(m, GraphModule)]
        return [(name, module.recompile()) for name, module in inner]

    # ---- submodules -----------------------------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def add_submodule(self, target: str, m: Module) -> bool:
        """Installs a module under a dotted name; False where something else is there."""
        *prefix, field = target.split(".")
        owner: Module = self
        for item in prefix:
            inner = getattr(owner, item, None)
            if inner is None:
                inner = Module()
                setattr(owner, item, inner)
            if not isinstance(inner, Module):
                return False
            owner = inner
        owner.add_module(field, m)
        return True

    @compatibility(is_backward_compatible=True)
    def delete_submodule(self, target: str) -> bool:
        """Takes a module out; False where there is none."""
        *prefix, field = target.split(".")
        owner: Module = self
        for item in prefix:
            if not isinstance(getattr(owner, item, None), Module):
                return False
            owner = getattr(owner, item)
        if not isinstance(getattr(owner, field, None), Module):
            return False
        delattr(owner, field)
        return True

    @compatibility(is_backward_compatible=True)
    def delete_all_unused_submodules(self) -> None:
        """Takes out the modules that no node of the graph reaches."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = str(node.target).split(".")
            used |= {".".join(parts[:i]) for i in range(1, len(parts) + 1)}
            if node.op == "call_module":
                with contextlib.suppress(AttributeError):
                    inner = self.get_submodule(str(node.target))
                    used |= {f"{node.target}.{name}" for name, _ in inner.named_modules() if name}
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ---- text -----------------------------------------------------------------------------------

    def __str__(self) -> str:
        reminder = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, reminder])

    @compatibility(is_backward_compatible=False)
    def print_readable(
        self, print_output: bool = True, include_stride: bool = False,
        include_device: bool = False, colored: bool = False, *, fast_sympy_print: bool = False,
        expanded_def: bool = False, additional_meta: list[str] | None = None,
    ) -> str:  # fmt: skip
        """Its code, and that of the graph modules inside, as classes.

        include_stride, include_device: of values of which something is known; expanded_def: a line
        for each argument; additional_meta: keys of nodes' `meta` for the comments."""
        with contextlib.ExitStack() as stack:
            if fast_sympy_print:
                stack.enter_context(_override_sym_repr(lambda value: str(value.node.expr)))
            return _print_readable(
                self, self._get_name(), print_output, include_stride=include_stride,
                include_device=include_device, colored=colored, expanded_def=expanded_def,
                additional_meta=additional_meta,
            )  # fmt: skip

    @compatibility(is_backward_compatible=False)
    def to_folder(self, folder: str | Path, module_name: str = "FxModule") -> None:
        """Writes its code and parameters as a Python package."""
        from tritorch import nn
        from tritorch.serialization import save

        path = Path(folder)
        path.mkdir(exist_ok=True)
        save(self.state_dict(), path / "state_dict.pt")
        safe = [getattr(nn, name) for name in _SAFE_REPRS]
        lines, pickled = [], []
        for name, child in self.named_children():
            shown = " ".join(repr(child).split("\n"))
            if type(child) in safe:
                lines.append(f"setattr(self, '{name}', {shown})")
                continue
            file = path / f"{name}.pt"
            save(child, file)
            pickled.append(name)
            lines.append(
                f"setattr(self, '{name}', torch.load(r'{file}', weights_only=False)) # {shown}"
            )
        for name, value in (*self._buffers.items(), *self._parameters.items()):
            if value is None:
                continue
            kind = str(value.dtype).rpartition(".")[2]
            empty = f"torch.empty({list(value.shape)}, dtype=torch.{kind})"
            lines.append(
                f"setattr(self, '{name}', torch.nn.Parameter({empty}))"
                if isinstance(value, Parameter)
                else f"self.register_buffer('{name}', {empty})"
            )
        lines.append(f"self.load_state_dict(torch.load(r'{path}/state_dict.pt'))")
        imports = "\n".join(each.import_str for each in _custom_builtins.values())
        if package().__name__ == "torch":  # a program that says torch
            imports = _as_pytorch(imports)
        body = "\n".join("        " + line for line in lines)
        nested = _addindent(self.code, 4)
        home = package().__name__
        (path / "module.py").write_text(
            f"\n{imports}\n\nfrom {home}.nn import *\nclass {module_name}(torch.nn.Module):\n"
            f"    def __init__(self):\n        super().__init__()\n{body}\n{nested}\n"
        )
        (path / "__init__.py").write_text("from .module import *")
        if pickled:
            warnings.warn(
                "Was not able to save the following children modules as reprs -saved as pickled "
                f"files instead: {pickled}",
                stacklevel=2,
            )

    # ---- copies ---------------------------------------------------------------------------------

    def _deepcopy_init(self) -> Callable[..., None]:
        return GraphModule.__init__

    def __deepcopy__(self, memo: Any) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        plain = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        self._deepcopy_init()(made, plain, plain.__dict__["_graph"])
        for name in (
            "_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
            "_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks",
        ):  # fmt: skip
            if name in self.__dict__:
                setattr(made, name, copy.deepcopy(self.__dict__[name], memo))
        made.meta = copy.deepcopy(getattr(self, "meta", {}), memo)
        for name, value in made.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(made, name, value)
        for hook in self._deepcopy_hooks:
            hook(made)
        return made

    def __copy__(self) -> GraphModule:
        from tritorch.fx._lazy_graph_module import _make_graph_module

        made = _make_graph_module(self, self.graph)
        made.meta = getattr(self, "meta", {})
        return made

    def _code_for_pickling(self) -> PythonCode:
        return self.recompile()

    def __reduce__(self) -> Any:
        code = self._code_for_pickling()
        body = {**self.__dict__, "_code": code.src}
        del body["_graph"]
        return reduce_graph_module, (body, _format_import_block(code.globals))

    def __reduce_package__(self, exporter: Any) -> Any:
        code = self._code_for_pickling()
        body = {**self.__dict__, "_graphmodule_cls_name": type(self).__name__}
        del body["_graph"]
        body["_graphmodule_graph_node_meta_stack_trace"] = {
            node.name: node.meta["stack_trace"]
            for node in self.graph.nodes
            if "stack_trace" in node.meta
        }
        name = f"fx-generated._{exporter.get_unique_id()}"
        imports = _format_import_block(code.globals, exporter.importer)
        exporter.save_source_string(name, imports + code.src)
        return reduce_package_graph_module, (body, name)

    def _replicate_for_data_parallel(self) -> GraphModule:
        made = self.__copy__()
        object.__setattr__(made, "_is_replica", True)
        return made

    # ---- hooks ----------------------------------------------------------------------------------

    @scoped
    def _set_replace_hook(self, f: Callable[..., Any]) -> Scope:
        """Inside, `f(old, new name, user)` is called when a node takes another one's place."""
        return Scope((self, "_replace_hooks", [*self._replace_hooks, f]))


def _hook_methods(kind: str, method: str) -> None:
    """Registering and taking back of one kind of hooks, as methods of GraphModule."""
    name = f"_{kind}_hooks"

    def checked(hook: Any) -> Any:
        if not callable(hook):
            raise AssertionError(f"{kind} hook must be a callable.")
        return hook

    def register(self: GraphModule, f: Callable[..., Any]) -> None:
        getattr(self, name).append(checked(f))

    def unregister(self: GraphModule, f: Callable[..., Any]) -> None:
        getattr(self, name).remove(checked(f))

    setattr(GraphModule, f"_register_{method}_hook", register)
    setattr(GraphModule, f"_unregister_{method}_hook", unregister)


for _kind, _method in {
    "replace": "replace_node", "create_node": "create_node", "erase_node": "erase_node",
    "deepcopy": "deepcopy",
}.items():  # fmt: skip
    _hook_methods(_kind, _method)
