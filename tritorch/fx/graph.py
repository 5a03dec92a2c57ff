"""Graphs: nodes in the order in which they run, and the Python code that runs them."""

from __future__ import annotations

import builtins
import contextlib
import copy
import dataclasses
import keyword
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tritorch.fx.node import Node, get_qualified_name, map_arg, type_text

if TYPE_CHECKING:
    from tritorch.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

_OPERATORS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}",
    "truediv": "{} / {}", "div": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}",
    "lshift": "{} << {}", "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}",
    "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}", "neg": "-{}", "invert": "~{}",
    "pos": "+{}", "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "le": "{} <= {}",
    "gt": "{} > {}", "ge": "{} >= {}",
}  # fmt: skip
_IN_PLACE = {
    "iadd": "+=", "iand": "&=", "ifloordiv": "//=", "ilshift": "<<=", "imod": "%=", "imul": "*=",
    "imatmul": "@=", "ior": "|=", "ipow": "**=", "irshift": ">>=", "isub": "-=", "itruediv": "/=",
    "ixor": "^=", "setitem": "{}[{}] = {}",
}  # fmt: skip
_ILLEGAL = re.compile("[^0-9a-zA-Z_]+")


@dataclasses.dataclass
class PythonCode:
    """A graph as code, and the global names that it reads."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


class _Namespace:
    """Names that are given out once."""

    def __init__(self) -> None:
        self._objects: dict[Any, str] = {}
        self._used: set[str] = set()
        self._counts: dict[str, int] = defaultdict(int)

    def create_name(self, candidate: str, obj: Any) -> str:
        """A name like this one that nothing else has."""
        if obj is not None and obj in self._objects:
            return self._objects[obj]
        candidate = _ILLEGAL.sub("_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        base, number = candidate, None
        match = re.match(r"(.*)_(\d+)$", candidate)
        if match is not None:
            base, number = match[1], int(match[2])
        taken = lambda name: name in self._used or self._is_illegal(name, obj)
        found = candidate
        if taken(candidate):
            number = self._counts[base]
            while taken(found):
                number += 1
                found = f"{base}_{number}"
        self._counts[base] = max(number or 0, self._counts[base])
        self._used.add(found)
        if obj is not None:
            self._objects[obj] = found
        return found

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Gives a name that an object has already."""
        self._objects.setdefault(obj, name)

    def rename(self, obj: Any, name: str) -> None:
        """Gives an object another name."""
        self._objects[obj] = name
        self._used.add(name)

    def _is_illegal(self, name: str, obj: Any) -> bool:
        if keyword.iskeyword(name):
            return True
        if name in vars(builtins):
            return vars(builtins)[name] is not obj
        return name in _CUSTOM and _CUSTOM[name] is not obj


def _package() -> Any:
    return sys.modules["tritorch"]


_CUSTOM: dict[str, Any] = {"inf": math.inf, "nan": math.nan, "NoneType": type(None)}
_CUSTOM |= dict.fromkeys(("torch", "device", "fx_pytree", "pytree"))


class CodeGen:
    """Writes a graph as a function."""

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The head of the function."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any) -> str:
        """Its last line."""
        return f"return {_written(output_args, lambda value: None)}"

    def process_inputs(self, *args: Any) -> Any:
        """The values of placeholders for the function's arguments."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What the function gives, for the value of the output node."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """More names that its code reads."""
        return []

    def _gen_python_code(self, nodes: Iterable[Node], root_module: str) -> PythonCode:
        nodes = list(nodes)
        space = _Namespace()
        found: dict[str, Any] = {}
        for name, value in {**_CUSTOM, "torch": _package(), "device": _package().device}.items():
            if value is not None:
                found[name] = value
        for name, value in self.additional_globals():
            found[name] = value

        def global_name(value: Any) -> str:
            """How the code names an object."""
            full = get_qualified_name(value) if not isinstance(value, type) else type_text(value)
            if "." not in full and getattr(builtins, full, None) is value:
                return full
            if full.startswith("torch."):
                with contextlib.suppress(AttributeError):
                    each: Any = _package()
                    for part in full.split(".")[1:]:
                        each = getattr(each, part)
                    if each is value:
                        return full
            name = full.replace(".", "_")
            while name in found and found[name] is not value:
                name = space.create_name(name, value)
            found[name] = value
            return name

        last_uses: dict[Node, Node] = {}
        dead_after: dict[Node, list[Node]] = defaultdict(list)
        for node in reversed(nodes):
            for used in node._input_nodes:
                if used not in last_uses:
                    last_uses[used] = node
                    dead_after[node].append(used)
        free_vars: list[str] = []
        body: list[str] = []
        lines: dict[int, int | None] = {}
        returned = [""]

        def write(node: Node) -> str:
            text = lambda value: _written(value, global_name)
            kind = f" : {_annotation(node.type, global_name)}" if node.type is not None else ""
            if node.op == "placeholder":
                default = f" = {text(node.args[0])}" if node.args else ""
                shown = f" : {_annotation(node.type, global_name)}" if node.type else ""
                free_vars.append(f"{node.target}{shown}{default}")
                raw = str(node.target).replace("*", "")
                return "" if raw == repr(node) else f"{node!r} = {raw}\n"
            if node.op == "call_method":
                owner, *rest = node.args
                target = f"{text(owner)}.{node.target}"
                return f"{node!r}{kind} = {target}({_call(rest, node.kwargs, text)})"
            if node.op == "call_function":
                module = getattr(node.target, "__module__", "")
                name = getattr(node.target, "__name__", "")
                if module == "_operator" and name in _OPERATORS and not node.kwargs:
                    values = map(text, node.args)
                    return f"{node!r}{kind} = {_OPERATORS[name].format(*values)}"
                if module == "_operator" and name in _IN_PLACE and not node.kwargs:
                    if name == "setitem":
                        line = _IN_PLACE[name].format(*map(text, node.args))
                        return f"{line};  {node!r} = None" if node.users else line
                    left, right = map(text, node.args)
                    return f"{left} {_IN_PLACE[name]} {right};  {node!r}{kind} = {left}"
                plain = node.target is getattr and len(node.args) == 2
                if plain and isinstance(node.args[1], str) and node.args[1].isidentifier():
                    if isinstance(node.args[0], Node):
                        return f"{node!r}{kind} = {node.args[0]!r}.{node.args[1]}"
                callee = global_name(node.target)
                return f"{node!r}{kind} = {callee}({_call(node.args, node.kwargs, text)})"
            if node.op == "call_module":
                target = _attributes(root_module, str(node.target))
                return f"{node!r}{kind} = {target}({_call(node.args, node.kwargs, text)})"
            if node.op == "get_attr":
                return f"{node!r}{kind} = {_attributes(root_module, str(node.target))}"
            if node.type is not None:
                returned[0] = f" -> {_annotation(node.type, global_name)}"
            inside = node.args[0]
            if type(self).generate_output is CodeGen.generate_output:
                return f"return {text(inside)}\n"
            return self.generate_output(inside) + "\n"

        for place, node in enumerate(nodes):
            line = write(node)
            if line:
                if node.op not in ("placeholder", "output"):
                    dead = [repr(n) for n in dead_after.get(node, ())]
                    unused = [] if node.users or "=" not in line else [repr(node)]
                    names = [*dead, *unused]
                    line += f";  {' = '.join([*names, 'None'])}" if names else ""
                    line += "\n"
                lines[len(body)] = place
                body.append(line)
        if not body:
            body.append("pass\n")
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        head = self.gen_fn_def(free_vars, returned[0])
        code = "\n".join("    " + line for line in "".join(body).split("\n"))
        return PythonCode(f"\n\n\n{head}\n{code}", found, lines)


def _attributes(root: str, target: str) -> str:
    """An attribute of an attribute; numbers and the like by getattr."""
    text = root
    for part in target.split("."):
        legal = part.isidentifier() and not keyword.iskeyword(part)
        text = f"{text}.{part}" if legal else f'getattr({text}, "{part}")'
    return text


def _call(args: Any, kwargs: Any, text: Callable[[Any], str]) -> str:
    return ", ".join([*map(text, args), *(f"{k} = {text(v)}" for k, v in kwargs.items())])


def _annotation(kind: Any, name: Callable[[Any], Any]) -> str:
    if isinstance(kind, type) and not getattr(kind, "__args__", None):
        return str(name(kind))
    return type_text(kind)


def _written(value: Any, name: Callable[[Any], Any]) -> str:
    """A value as generated code writes it."""
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            inside = ", ".join(_written(each, name) for each in value)
            return f"{name(type(value)) or type(value).__name__}({inside})"
        inside = ", ".join(_written(each, name) for each in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, list):
        return f"[{', '.join(_written(each, name) for each in value)}]"
    if isinstance(value, dict):
        pairs = (f"{_written(k, name)}: {_written(v, name)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, slice):
        parts = (_written(each, name) for each in (value.start, value.stop, value.step))
        return f"slice({', '.join(parts)})"
    if isinstance(value, Node):
        return repr(value)
    package = _package()
    if isinstance(value, (package.dtype, package.layout, package.memory_format)):
        return f"torch.{str(value).rpartition('.')[2]}"
    if isinstance(value, package.device):
        return f"device(type='{value.type}'" + (
            f", index={value.index})" if value.index is not None else ")"
        )
    if callable(value) and not isinstance(value, (str, int, float)):
        return str(name(value) or repr(value))
    if hasattr(type(value), "value") and hasattr(type(value), "__members__"):  # an Enum
        return f"{name(type(value))}.{value.name}"
    return repr(value)


class _node_list:
    """The nodes of a graph, in order; they may be changed on the way."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            after = getattr(node, self.direction)
            if not node._erased:
                yield node
            node = getattr(node, self.direction) if not node._erased else after

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class Graph:
    """A program as a list of nodes: inputs, calls, an output."""

    def __init__(
        self, owning_module: GraphModule | None = None, tracer_cls: Any = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._output_node: Node | None = None

    @property
    def owning_module(self) -> Any:
        """The GraphModule whose graph it is."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: Any) -> None:
        self._owning_module = module

    @property
    def nodes(self) -> _node_list:
        """All nodes."""
        return _node_list(self)

    def output_node(self) -> Node:
        """The node of the result."""
        return next(node for node in reversed(self.nodes) if node.op == "output")

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, which call a function."""
        if op == "call_function" and target is None:
            raise AssertionError(f"target is required for op='{op}'")
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    # ---- making nodes ---------------------------------------------------------------------------

    def create_node(
        self, op: str, target: Any, args: Any = None, kwargs: Any = None, name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A node where nodes are put."""
        args, kwargs = args or (), kwargs or {}
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        candidate = name if name is not None else self._target_to_str(target)
        name = self._graph_namespace.create_name(candidate, None)
        node = Node(self, name, op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        return node

    def _target_to_str(self, target: Any) -> str:
        if callable(target):
            name = target.__name__
        else:
            name = str(target)
            if name.startswith("__") and name.endswith("__"):
                name = name[2:-2]
        return _snake_case(name.lstrip("*"))

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An input of the function."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """An attribute of the module."""
        owner = self.owning_module
        if owner is not None and not _has_attribute(owner, qualified_name):
            import warnings

            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning "
                "GraphModule! Call GraphModule.add_submodule to add the necessary submodule, "
                "GraphModule.add_parameter to add the necessary Parameter, or "
                "nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a submodule."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: Any = None, kwargs: Any = None,
        type_expr: Any = None, name: str | None = None,
    ) -> Node:  # fmt: skip
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """The result of the function."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A copy of another graph's node, its arguments' nodes replaced."""
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, dict(kwargs), node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False
    ) -> Any:
        """Copies another graph's nodes here; gives its result's value."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    # ---- places ---------------------------------------------------------------------------------

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Inside of `with`, and from now on, nodes are put before one (None: at the beginning)."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Inside of `with`, and from now on, nodes are put after one (None: at the end)."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def erase_node(self, to_erase: Node) -> None:
        """Takes out a node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            import warnings

            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._set_arguments((), {})

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Takes out nodes whose results nobody uses; gives whether there were any."""
        self.lint()
        impure = is_impure_node or (lambda node: node.is_impure())
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
                changed = True
        return changed

    # ---- text -----------------------------------------------------------------------------------

    def set_codegen(self, codegen: CodeGen) -> None:
        """Says how it is written as code."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer: Callable[[Any], Any]) -> Any:
        """Registers what changes the lines of generated code; gives a context that undoes it."""
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)
        codegen = self._codegen

        @contextlib.contextmanager
        def undo() -> Iterator[None]:
            try:
                yield
            finally:
                codegen._body_transformer = before

        return undo()

    def process_inputs(self, *args: Any) -> Any:
        """The values of placeholders for the function's arguments."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What the function gives, for the value of the output node."""
        return self._codegen.process_outputs(out)

    def python_code(self, root_module: str, **options: Any) -> PythonCode:
        """The graph as a function; root_module: what its code calls the module."""
        space = _Namespace()

        def named(node: Node) -> str:
            return space.create_name(node.name, node)

        nodes = list(self.nodes)
        before = [node._repr_fn for node in nodes]
        for node in nodes:
            node._repr_fn = named
        try:
            return self._codegen._gen_python_code(nodes, root_module)
        finally:
            for node, function in zip(nodes, before):
                node._repr_fn = function

    def __str__(self) -> str:
        names: list[str] = []
        returned = [""]
        lines = [node.format_node(None, returned) for node in self.nodes]
        body = "".join(f"\n    {line}" for line in lines if line)
        return f"graph({', '.join(names)}){returned[0]}:{body}"

    def print_tabular(self) -> None:
        """Prints a table of its nodes."""
        rows = [[n.op, n.name, str(n.target), str(n.args), str(n.kwargs)] for n in self.nodes]
        header = ["opcode", "name", "target", "args", "kwargs"]
        widths = [max(len(row[i]) for row in (header, *rows)) for i in range(5)]
        line = lambda row: "  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip()
        print("\n".join([line(header), "  ".join("-" * w for w in widths), *map(line, rows)]))

    # ---- soundness ------------------------------------------------------------------------------

    def lint(self) -> None:
        """Raises where the graph is no program: wrong owners, uses before definitions, targets
        that the module does not have."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph")
            for used in node._input_nodes:
                if used.graph is not self:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' does not belong to this Graph, but "
                        "was used as an argument! If you are copying nodes from another graph, "
                        "make sure to use ``arg_transform`` on node_copy() to remap values"
                    )
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! "
                        f"Please check that Nodes in the graph are topologically ordered\n{self}"
                    )
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
            if self.owning_module is None or node.op not in ("get_attr", "call_module"):
                continue
            if not _has_attribute(self.owning_module, str(node.target)):
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute of "
                    f"{self.owning_module.__class__.__name__}"
                )

    def __deepcopy__(self, memo: Any = None) -> Graph:
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls)
        memo[id(self)] = made
        nodes: dict[Node, Node] = {}
        result = made.graph_copy(self, nodes, return_output_node=True)
        made._codegen = copy.deepcopy(self._codegen)
        if result is not None:
            value, old = result
            new = made.output(value, old.type)
            new.meta = copy.copy(old.meta)
        return made


class _InsertPoint:
    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self.graph._insert = self.before


def _has_attribute(module: Any, target: str) -> bool:
    each = module
    for part in target.split("."):
        if not hasattr(each, part):
            return False
        each = getattr(each, part)
    return True


def _snake_case(text: str) -> str:
    out = ""
    for i, c in enumerate(text):
        if i and c.isupper() and text[i - 1].isalnum() and not text[i - 1].isupper():
            out += "_"
        out += c.lower()
    return out
