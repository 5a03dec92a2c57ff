"""GraphModule: a module whose forward is generated from a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.fx.graph import Graph, PythonCode
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter

__all__ = ["GraphModule", "reduce_graph_module"]

_numbers = itertools.count()


def _compiled(code: PythonCode, owner: str) -> Callable[..., Any]:
    """The function that generated code defines; its lines are shown in tracebacks."""
    name = f"<eval_with_key>.{next(_numbers)}"
    linecache.cache[name] = (
        len(code.src), None, code.src.splitlines(True), name,
    )  # fmt: skip
    space = dict(code.globals)
    exec(compile(code.src, name, "exec"), space)
    return space["forward"]


def _copied_attribute(source: Any, target: Any, path: str) -> None:
    """Gives a module what another one has under a dotted name."""
    *prefix, field = path.split(".")
    for item in prefix:
        inner = getattr(source, item)
        if inner is source:
            return
        if not hasattr(target, item):
            setattr(target, item, Module())
        source, target = inner, getattr(target, item)
    value = getattr(source, field)
    if isinstance(value, Tensor) and field not in getattr(source, "_parameters", {}):
        target.register_buffer(field, value)
    else:
        setattr(target, field, value)


def _assign(value: Any, target: Any, path: str) -> None:
    *prefix, field = path.split(".")
    for item in prefix:
        if not hasattr(target, item):
            setattr(target, item, Module())
        target = getattr(target, item)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        target.register_buffer(field, value)
    else:
        setattr(target, field, value)


class GraphModule(Module):
    """A module with a graph: changing `graph` and calling `recompile` changes what it computes."""

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        for each in cls.__mro__:  # one class for each instance, whose forward is its own
            if each.__qualname__ == "GraphModule" and each is not cls:
                break
        made = type("GraphModule", (cls,), {"__module__": cls.__module__})
        made.__qualname__ = "GraphModuleImpl"
        return Module.__new__(made)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    _copied_attribute(root, self, str(node.target))
        elif isinstance(root, dict):
            targets = [str(n.target) for n in graph.nodes if n.op in ("get_attr", "call_module")]
            for target in targets:
                if target not in root:
                    raise RuntimeError(
                        f"Node in graph referenced target {target} but that target was not "
                        "provided in ``root``!"
                    )
            for target in sorted(set(targets), key=lambda t: t.count(".")):
                _assign(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        self._tracer_cls = None
        if graph._tracer_cls and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = {}
        self._replace_hooks: list[Any] = []

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

    def recompile(self) -> PythonCode:
        """Generates forward from the graph again."""
        code = self._graph.python_code(root_module="self")
        self._code, self._lineno_map = code.src, code._lineno_map
        cls = type(self)
        cls.forward = _compiled(code, cls.__name__)
        if "_wrapped" not in vars(cls):
            before = vars(cls).get("__call__")
            cls._wrapped = _WrappedCall(cls, before)  # type: ignore[attr-defined]
            cls.__call__ = _call_wrapped  # type: ignore[method-assign]
        return code

    # ---- submodules -----------------------------------------------------------------------------

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

    def delete_all_unused_submodules(self) -> None:
        """Takes out the modules that no node of the graph reaches."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = str(node.target).split(".")
            used |= {".".join(parts[:i]) for i in range(1, len(parts) + 1)}
            if node.op == "call_module":
                inner = self.get_submodule(str(node.target))
                used |= {f"{node.target}.{name}" for name, _ in inner.named_modules() if name}
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ---- text -----------------------------------------------------------------------------------

    def __str__(self) -> str:
        reminder = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__repr__(), self._code, reminder])

    def __repr__(self) -> str:
        return super().__repr__()

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """Its code, and that of the graph modules inside, as classes."""
        text = _readable(self, self._get_name())
        if print_output:
            print(text)
        return text

    def to_folder(self, folder: str | Path, module_name: str = "FxModule") -> None:
        """Writes its code and parameters as a Python package."""
        from tritorch.serialization import save

        path = Path(folder)
        path.mkdir(exist_ok=True)
        package = sys.modules["tritorch"].__name__
        head = "import torch" if package == "torch" else "import tritorch as torch"
        save(self.state_dict(), path / "state_dict.pt")
        lines = []
        for name, child in self.named_children():
            file = path / f"{name}.pt"
            save(child, file)
            lines.append(f"        self.{name} = torch.load(r'{file}', weights_only=False)")
        for kind, named in (("Parameter", self._parameters), ("Buffer", self._buffers)):
            for name, value in named.items():
                if value is None:
                    continue
                shape = f"torch.empty({list(value.shape)}, dtype={_dtype_text(value)})"
                lines.append(
                    f"        self.{name} = torch.nn.Parameter({shape})"
                    if kind == "Parameter"
                    else f"        self.register_buffer('{name}', {shape})"
                )
        body = "\n".join(lines)
        forward = "\n".join("    " + line for line in self.code.strip("\n").split("\n"))
        (path / "module.py").write_text(
            f"{head}\nfrom math import inf, nan\nNoneType = type(None)\n"
            f"from {package} import device\n\nfrom {package}.nn import *\n\n\n"
            f"class {module_name}(torch.nn.Module):\n    def __init__(self):\n"
            f"        super().__init__()\n{body}\n"
            f"        self.load_state_dict(torch.load(r'{path}/state_dict.pt'))\n\n{forward}\n"
        )
        (path / "__init__.py").write_text(f"from .module import *\n\n__all__ = ['{module_name}']\n")

    # ---- copies ---------------------------------------------------------------------------------

    def __deepcopy__(self, memo: Any) -> GraphModule:
        plain = Module()
        plain.__dict__ = {
            k: copy.deepcopy(v, memo)
            for k, v in self.__dict__.items()
            if k not in ("_graph", "_code", "_lineno_map", "_tracer_cls", "meta")
        }
        made = _class_of(self)(plain, copy.deepcopy(self._graph, memo), type(self).__name__)
        for name, module in plain._modules.items():
            if name not in made._modules:
                made.add_module(name, module)
        _same_attributes(plain, made)
        made._tracer_cls = self._tracer_cls
        made.meta = copy.copy(self.meta)
        made.graph._codegen = copy.deepcopy(self._graph._codegen)
        for key in ("_forward_hooks", "_forward_pre_hooks"):
            made.__dict__[key] = copy.copy(self.__dict__.get(key))
        return made

    def __copy__(self) -> GraphModule:
        made = _class_of(self)(self, self.graph, type(self).__name__)
        _same_attributes(self, made)
        return made

    def __reduce__(self) -> Any:
        state = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_replace_hooks")}
        state["_tracer_cls"] = None
        names = {
            name: value
            for name, value in self._graph.python_code("self").globals.items()
            if name not in ("torch", "device", "inf", "nan", "NoneType")
        }
        types = {node.name: node.type for node in self._graph.nodes if node.type is not None}
        return reduce_graph_module, (state, self._code, names, type(self).__name__, types)


def _class_of(module: GraphModule) -> Any:
    """The class that a program knows, behind the one of this instance."""
    return next(c for c in type(module).__mro__ if c.__qualname__ != "GraphModuleImpl")


def _same_attributes(source: Any, target: Any) -> None:
    for name, value in source.__dict__.items():
        if name not in target.__dict__ and name not in ("_graph", "_code", "_lineno_map"):
            target.__dict__[name] = value
    for kind in ("_parameters", "_buffers"):
        for name, value in source.__dict__.get(kind, {}).items():
            target.__dict__[kind].setdefault(name, value)


class _CodeOnly(Module):
    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(body)


def reduce_graph_module(
    body: dict[str, Any], code: str, names: dict[str, Any], class_name: str, types: dict[str, Any]
) -> GraphModule:
    """The module of pickled attributes and code: the code is traced again."""
    from tritorch.fx._symbolic_trace import Tracer

    class KeepModules(Tracer):
        """A tracer for which every module is a leaf."""

        def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
            """Whether a module's call is a node: always."""
            return True

    package = sys.modules["tritorch"]
    space = {"torch": package, "device": package.device, "inf": float("inf"), "nan": float("nan")}
    space |= {"NoneType": type(None), **names}
    exec(compile(code, "<pickled graph>", "exec"), space)
    cls = type("CodeOnlyModule", (_CodeOnly,), {"forward": space["forward"]})
    module = cls({k: v for k, v in body.items() if k not in ("_code", "_lineno_map")})
    graph = KeepModules().trace(module)
    for node in graph.nodes:
        if node.name in types:
            node.type = types[node.name]
    made = GraphModule(module, graph, class_name)
    _same_attributes(module, made)
    for name, child in module._modules.items():
        if name not in made._modules:
            made.add_module(name, child)
    made.training = module.training
    return made


class _WrappedCall:
    """What a call of a graph module goes through: an error in generated code shows its line."""

    def __init__(self, cls: Any, own: Any) -> None:
        self.cls, self.own = cls, own

    def __call__(self, module: GraphModule, *args: Any, **kwargs: Any) -> Any:
        try:
            if self.own is not None:
                return self.own(module, *args, **kwargs)
            return super(self.cls, module).__call__(*args, **kwargs)  # type: ignore[misc]
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            last = frames[-1] if frames else None
            for frame in frames:
                if "eval_with_key" in frame.filename:
                    last = frame
            if last is not None and "eval_with_key" in last.filename and last.lineno:
                lines = linecache.getlines(last.filename)
                text = "".join(lines[max(last.lineno - 3, 0) : last.lineno])
                note = (
                    f"Call using an FX-traced Module, line {last.lineno} of the traced Module's "
                    f"generated forward function:\n{text}    "
                    + "~" * len(lines[last.lineno - 1].strip())
                    + " <--- HERE\n"
                    + "".join(lines[last.lineno : last.lineno + 2])
                )
                if not getattr(error, "_fx_noted", False):
                    print(note, file=sys.stderr)
                    error._fx_noted = True  # type: ignore[attr-defined]
            raise


def _call_wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
    return type(self)._wrapped(self, *args, **kwargs)


def _dtype_text(value: Any) -> str:
    return f"torch.{str(value.dtype).rpartition('.')[2]}"


def _readable(module: Any, name: str) -> str:
    code = module.code.lstrip("\n")
    inner = "\n\n".join(
        _readable(child, f"{child_name}")
        for child_name, child in module.named_children()
        if hasattr(child, "code") and isinstance(child, GraphModule)
    )
    text = f"class {name}(torch.nn.Module):\n"
    text += "\n".join("    " + line if line.strip() else "" for line in code.split("\n"))
    if inner:
        text += "\n".join("    " + line for line in inner.split("\n"))
    return text.rstrip() + "\n"
