"""Graphs written as functions of Python."""

from __future__ import annotations

import builtins
import dataclasses
import enum
import functools
import inspect
import keyword
import math
import os
import pprint
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tritorch.arrays.symbolic import SymBool, SymFloat, SymInt
from tritorch.core import naming
from tritorch.core.scopes import Scope, scoped
from tritorch.core.tensor import Tensor
from tritorch.fx import _pytree as fx_pytree
from tritorch.fx._compatibility import compatibility
from tritorch.fx._naming import is_ours, package, qualified_name
from tritorch.fx.node import Node, _type_repr, described_value
from tritorch.fx.tensor_type import TensorType
from tritorch.ops.record.overloads import OpOverload
from tritorch.utils import _pytree as pytree

if TYPE_CHECKING:
    from tritorch.fx.graph_module import GraphModule

TransformCodeFunc = Callable[[list[str]], list[str]]

magic_methods = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}",
    "ge": "{} >= {}", "pos": "+{}", "neg": "-{}", "invert": "~{}", "getitem": "{}[{}]",
}  # fmt: skip
reflectable_magic_methods = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}",
    "truediv": "{} / {}", "div": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}",
    "lshift": "{} << {}", "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}",
    "xor": "{} ^ {}", "matmul": "{} @ {}",
}  # fmt: skip
magic_methods |= reflectable_magic_methods
inplace_methods = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}",
    "imod": "{} %= {}", "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}",
    "ipow": "{} **= {}", "irshift": "{} >>= {}", "isub": "{} -= {}", "itruediv": "{} /= {}",
    "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip

# ---- names ---------------------------------------------------------------------------------------


class _CustomBuiltin(NamedTuple):
    """What code may name without an import of its own."""

    import_str: str
    obj: Any


_custom_builtins: dict[str, _CustomBuiltin] = {}
_illegal_names: dict[str, Any] = {word: object() for word in keyword.kwlist}
_illegal_names.update(vars(builtins))


def _register_custom_builtin(name: str, import_str: str, obj: Any) -> None:
    _custom_builtins[name] = _CustomBuiltin(import_str, obj)
    _illegal_names[name] = obj


_register_custom_builtin("inf", "from math import inf", math.inf)
_register_custom_builtin("nan", "from math import nan", math.nan)
_register_custom_builtin("NoneType", "NoneType = type(None)", type(None))
# The package under either name: pickles are read by programs that say `import torch` and others.
_register_custom_builtin("torch", "import tritorch as torch", package())
_register_custom_builtin("device", "from tritorch import device", package().device)
_register_custom_builtin("fx_pytree", "import tritorch.fx._pytree as fx_pytree", fx_pytree)
_register_custom_builtin("pytree", "import tritorch.utils._pytree as pytree", pytree)


def _is_magic(x: str) -> bool:
    return x.startswith("__") and x.endswith("__")


@functools.lru_cache(maxsize=4096)
def _snake_case(s: str) -> str:
    """convBlock as conv_block."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", s).lower()


@functools.lru_cache(maxsize=4096)
def _parted(candidate: str) -> tuple[str, str, str | None]:
    """A name that Python takes, without the number at its end, and the number."""
    match = re.match(r"^([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?$", candidate)
    if match is None:
        candidate = re.sub("[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        match = re.match(r"^([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?$", candidate)
        assert match is not None
    return candidate, match[1], match[2]


class _Namespace:
    """Names that are given out once."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any) -> str:
        """A name like this one that nothing else has; the one it has of an object that has one."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        candidate, base, digits = _parted(candidate)
        used = self._used_names
        if digits is None or candidate in used:
            number = self._base_count.get(base, 0)
            if _illegal_names.get(candidate, obj) is not obj:
                number += 1
                candidate = f"{base}_{number}"
        else:
            number = int(digits)
        while candidate in used:
            number += 1
            candidate = f"{base}_{number}"
        used.add(candidate)
        self._base_count[base] = number
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Gives an object a name that was created."""
        if self._obj_to_name.setdefault(obj, name) is not name:
            raise AssertionError("obj is already associated")

    def _rename_object(self, obj: Any, name: str) -> None:
        if obj not in self._obj_to_name:
            raise AssertionError(f"Object {obj} is not in _obj_to_name")
        self._obj_to_name[obj] = name
        self._used_names.add(name)


@compatibility(is_backward_compatible=True)
@dataclasses.dataclass
class PythonCode:
    """A graph as code, and the global names that it reads."""

    src: str
    globals: dict[str, Any]
    # The place of a node in the graph for each line after the head.
    _lineno_map: dict[int, int | None] | None
    _prologue_start: int = 0


def _format_target(base: str, target: str) -> str:
    """An attribute of an attribute; numbers and the like by getattr."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


# ---- stack traces --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _ParsedStackTrace:
    """The innermost line of a stack trace."""

    file: str
    lineno: str
    name: str
    code: str

    def get_summary_str(self) -> str:
        """The line as a comment has it."""
        return f"File: {self.file}:{self.lineno} in {self.name}, code: {self.code}"


def _parse_stack_trace(
    stack_trace: str | None, filter_fn: Callable[[str, str, str], bool] | None = None
) -> _ParsedStackTrace | None:
    if stack_trace is None:
        return None
    lines = stack_trace.strip().split("\n")
    for place in range(len(lines) - 2, -1, -1):
        found = re.match(r'^File "(.+)", line (\d+), in (.+)$', lines[place].strip())
        if found is None:
            continue
        code = lines[place + 1].strip()
        if filter_fn is None or filter_fn(found[1], found[3], code):
            return _ParsedStackTrace(found[1], found[2], found[3], code)
    return None


# ---- colours -------------------------------------------------------------------------------------

_color_codes = {
    "yellow": "\033[33m", "cyan": "\033[36m", "green": "\033[32m", "red": "\033[31m",
    "blue": "\033[34m", "dim": "\033[2m", "dim_blue": "\033[2m\033[34m",
    "dim_green": "\033[2m\033[32m",
}  # fmt: skip


def _make_color_fn(code: str) -> Callable[[str], str]:
    return lambda text: f"{code}{text}\033[0m"


def _identity(x: str) -> str:
    return x


_color_fns = {name: _make_color_fn(code) for name, code in _color_codes.items()}
_counter_regexp = re.compile(r"# COUNTER: (\d+)")
# What `typing.List[int]` is called in code, whose `__origin__` is list.
_origin_type_map = {
    list: typing.List, dict: typing.Dict, set: typing.Set, frozenset: typing.FrozenSet,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
}  # fmt: skip


class _Writer:
    """Writes the nodes of one graph as lines; Note [Lines of code] in `CodeGen`."""

    def __init__(
        self, codegen: CodeGen, nodes: Any, root_module: str, namespace: _Namespace,
        options: dict[str, Any],
    ) -> None:  # fmt: skip
        self.codegen, self.root, self.space = codegen, root_module, namespace
        self.globals: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}
        self.free_vars: list[str] = []
        self.body: list[str] = []
        self.returned = ""
        self.verbose = options.get("verbose", False)
        shown = lambda name: os.environ.get(f"FX_GRAPH_SHOW_{name}", "0") == "1"
        self.include_stride = options.get("include_stride") or shown("STRIDE")
        self.include_device = options.get("include_device") or shown("DEVICE")
        self.include_meta = shown("META")
        self.expanded = options.get("expanded_def", False)
        self.additional_meta = options.get("additional_meta") or ()
        colors = _color_fns if options.get("colored") else {}
        self.color = lambda name: colors.get(name, _identity)
        self.last_summary: str | None = None
        self.dead_after: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for node in reversed(nodes):
            for used in node._input_nodes:
                if used not in seen:
                    seen.add(used)
                    self.dead_after.setdefault(node, []).append(used)
        for name, (_, obj) in _custom_builtins.items():
            self.add_global(name, obj)

    # ---- names and values -----------------------------------------------------------------------

    def add_global(self, hint: str, obj: Any) -> str:
        """How the code names an object, which it adds to the globals if it has to."""
        if obj is not package().device and is_ours(obj):
            return qualified_name(obj)
        name = self.space.create_name(hint, obj)
        if name in self.globals:
            if self.globals[name] != obj:
                raise AssertionError(f"Global name {name} already assigned to different object")
            return name
        self.globals[name] = obj
        return name

    def type_repr(self, kind: Any) -> str:
        """A type, as an annotation."""
        if isinstance(kind, tuple) and not kind:
            return "()"
        text = _type_repr(kind)
        if isinstance(kind, types.UnionType) and "|" in text:
            return "|".join(map(self.type_repr, typing.get_args(kind)))
        origin = getattr(kind, "__origin__", None)
        if origin is None:
            return self.add_global(text, kind)
        if isinstance(kind, typing._GenericAlias):  # type: ignore[attr-defined]
            origin = _origin_type_map.get(origin, origin)
        name = self.add_global(_type_repr(origin), origin)
        inside = kind.dims if isinstance(kind, TensorType) else typing.get_args(kind)
        return f"{name}[{','.join(map(self.type_repr, inside))}]" if inside else name

    def value(self, arg: Any) -> str:
        """An argument."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            name = self.add_global(qualified_name(type(arg)), type(arg))
            return f"{name}({', '.join(map(self.value, arg))}{',' if len(arg) == 1 else ''})"
        if isinstance(arg, OpOverload):
            return self.add_global(qualified_name(arg), arg)
        if isinstance(arg, enum.Enum):
            return f"{self.add_global(type(arg).__name__, type(arg))}.{arg.name}"
        if isinstance(arg, Tensor):
            kind = str(arg.dtype).rpartition(".")[2]
            return f"torch.Tensor(size={list(arg.shape)}, dtype={kind})"
        if isinstance(arg, tuple):
            inside = ", ".join(map(self.value, arg))
            return f"({inside},)" if len(arg) == 1 else f"({inside})"
        if isinstance(arg, list):
            return f"[{', '.join(map(self.value, arg))}]"
        if isinstance(arg, dict):
            pairs = (f"{self.value(key)}: {self.value(value)}" for key, value in arg.items())
            return f"{{{', '.join(pairs)}}}"
        if isinstance(arg, slice):
            return f"slice({', '.join(map(self.value, (arg.start, arg.stop, arg.step)))})"
        if naming.is_ours(type(arg).__module__) and not isinstance(arg, type):
            return self.color("blue")(repr(arg).replace("tritorch.", "torch."))
        return self.color("blue")(repr(arg))

    def arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        """The inside of a call's parentheses."""
        named = (f"{key} = {self.value(value)}" for key, value in kwargs.items())
        return ", ".join([*map(self.value, args), *named])

    # ---- nodes ----------------------------------------------------------------------------------

    def describe(self, value: Any) -> str | None:
        """What verbose code says of a value, as an annotation that is a string."""
        from tritorch.fx.passes.shape_prop import TensorMetadata
        from tritorch.utils._dtype_abbrs import dtype_abbrs

        shape = lambda sizes: f"[{', '.join(map(str, sizes))}]"
        if isinstance(value, Tensor) and str(value.layout).rpartition(".")[2] not in (
            "sparse_csc", "sparse_csr",
        ):  # fmt: skip
            stride = shape(value.stride()) if self.include_stride else ""
            device = str(value.device) if self.include_device else ""
            core = (
                f"{self.color('red')(dtype_abbrs[value.dtype])}"
                f"{self.color('blue')(shape(value.shape))}"
                f"{self.color('dim_blue')(stride)}{self.color('dim_green')(device)}"
            )
            plain = type(value) is Tensor or type(value).__name__ == "FakeTensor"
            return f': "{core}"' if plain else f': "{type(value).__name__}({core})"'
        if isinstance(value, (SymInt, SymFloat, SymBool)):
            return f': "Sym({CodeGen._sym_repr(value)})"'
        if isinstance(value, TensorMetadata):
            return f': "{dtype_abbrs[value.dtype]}{shape(value.shape)}"'
        return None

    def summary(self, node: Node) -> None:
        """A comment that says where a node comes from, unless it is the one before."""
        if node.op in ("placeholder", "output"):
            return
        parts = [f"{key}: {node.meta[key]}" for key in self.additional_meta if key in node.meta]
        extra = f"# {', '.join(parts)} " if parts else ""
        custom = node.meta.get("custom", {})
        shortened = {
            key: f"{str(value)[:40]}..." if len(str(value)) > 40 else value
            for key, value in custom.items()
        }
        annotation = f" Annotation: {shortened}" if custom else ""
        recompute, ac_graph = node.meta.get("recompute"), node.meta.get("ac_graph_id")
        notes = f" ac_graph_id: {ac_graph}" if ac_graph is not None else ""
        if recompute is not None:
            notes += f" - {recompute.name}" if notes else f" recompute: {recompute.name}"
        trace = _parse_stack_trace(node.stack_trace) if node.stack_trace else None
        where = trace.get_summary_str() if trace else "No stacktrace found for following nodes"
        text = self.color("dim")(f"{extra}#{annotation}{notes} {where}")
        line = f"\n{text}\n"
        if line != self.last_summary:
            self.last_summary = line
            self.body.append(line)

    def write(self, node: Node) -> None:
        """The line of a node, without its end."""
        note = "" if node.type is None else f" : {self.type_repr(node.type)}"
        comment = ""
        if self.verbose:
            note = self.describe(described_value(node.meta)) or note
        desc = node.meta.get("desc") if self.expanded else None
        if desc is not None and node.op == "placeholder":
            comment = f"  # {desc}"
        if self.include_meta and node.meta:
            shown = (
                f"{key}: {pprint.pformat(str(value), width=80, compact=True)}\n"
                for key, value in node.meta.items()
            )
            self.body += ['"""\n', *shown, '"""\n']
        if node.op == "output":
            if node.type is not None:
                self.returned = f" -> {self.type_repr(node.type)}"
            self.body.append(
                _with_options(
                    self.codegen.generate_output, node.args[0], descs=desc, repr_fn=self.value
                )
            )
        elif node.op == "placeholder":
            default = f" = {self.value(node.args[0])}" if node.args else ""
            self.free_vars.append(f"{node.target}{note}{default}{comment}")
            raw = str(node.target).replace("*", "")
            if raw != repr(node):
                self.body.append(f"{node!r} = {raw}\n")
        else:
            self.body.append(self.call(node, note))

    def call(self, node: Node, note: str) -> str:
        """The line of a node that computes something."""
        left = f"{node!r}{note} = "
        if node.op == "get_attr":
            return left + _format_target(self.root, str(node.target))
        if node.op == "call_module":
            target = _format_target(self.root, str(node.target))
            return f"{left}{target}({self.arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            target = _format_target(self.value(node.args[0]), str(node.target))
            return f"{left}{target}({self.arguments(node.args[1:], node.kwargs)})"
        if node.op != "call_function":
            raise NotImplementedError(f"node: {node.op} {node.target}")
        function: Any = node.target
        if getattr(function, "__module__", "") == "_operator":
            name = function.__name__
            if name in magic_methods:
                return left + magic_methods[name].format(*map(self.value, node.args))
            if name in inplace_methods:
                line = inplace_methods[name].format(*map(self.value, node.args))
                return f"{line};  {left}{self.value(node.args[0])}"
        name = self.add_global(qualified_name(function), function)
        plain = name == "getattr" and len(node.args) == 2 and isinstance(node.args[1], str)
        if plain and node.args[1].isidentifier():
            return left + _format_target(self.value(node.args[0]), node.args[1])
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(name)
        return f"{left}{name}({self.arguments(node.args, node.kwargs)})"

    def end(self, node: Node) -> None:
        """The end of a line: what nobody reads after it is let go."""
        if node.op == "placeholder":
            return
        dead = [] if node.op == "output" else list(self.dead_after.get(node, ()))
        if not node.users and node.op != "output":
            dead.append(node)
        text = " = ".join([*map(repr, dead), "None"])
        self.body.append(f";  {self.color('dim')(text)}\n" if dead else "\n")


def _with_options(method: Any, *args: Any, **options: Any) -> Any:
    """A call with those of the options that a method, which a subclass may have, takes."""
    known = inspect.signature(method).parameters
    return method(*args, **{key: value for key, value in options.items() if key in known})


@compatibility(is_backward_compatible=False)
class CodeGen:
    """Writes a graph as a function; a subclass may change its head, its end and its arguments.

    Note [Lines of code]: before a node's lines stands a comment with its place, so that after
    `on_generate_code` has changed the lines it is known which node each is of; it is taken out."""

    _sym_repr: Callable[[Any], str] = lambda x: repr(x)

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name: str = "forward"

    def _format_multiline_args(self, args: Sequence[str]) -> str:
        lines = []
        for arg in args:
            value, mark, comment = arg.partition("#")
            lines.append(
                f"    {value.rstrip()},  # {comment.lstrip()}\n" if mark else f"    {arg},\n"
            )
        return "".join(lines)

    def _format_multiline_container(
        self, items: Sequence[Any], descs: Sequence[str] | None = None, prefix: str = "",
        repr_fn: Callable[[Any], str] = repr,
    ) -> str:  # fmt: skip
        left, right = ("(", ")") if isinstance(items, tuple) else ("[", "]")
        ends = [f"  # {desc}" for desc in descs] if descs is not None else [""] * len(items)
        lines = (f"    {repr_fn(item)},{end}\n" for item, end in zip(items, ends))
        return f"{prefix}{left}\n{''.join(lines)}{right}"

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The head of the function."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        inside = (
            f"\n{self._format_multiline_args(free_vars)}" if expanded_def else ", ".join(free_vars)
        )
        return f"def {self._func_name}({inside}){maybe_return_annotation}:"

    def generate_output(
        self, output_args: Any, *, descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] = repr,
    ) -> str:  # fmt: skip
        """Its last line."""
        if descs is not None and isinstance(output_args, (list, tuple)):
            return self._format_multiline_container(output_args, descs, "return ", repr_fn)
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """The values of placeholders for the function's arguments."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What the function gives, for the value of the output node."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """More names that its code reads, with their values."""
        return []

    def _gen_python_code(
        self, nodes: Any, root_module: str, namespace: _Namespace, **options: Any
    ) -> PythonCode:
        writer = _Writer(self, nodes, root_module, namespace, options)
        for place, node in enumerate(nodes):
            if writer.verbose:
                writer.summary(node)
            writer.body.append(f"# COUNTER: {place}\n")
            writer.write(node)
            writer.end(node)
        body = writer.body or ["pass\n"]
        wraps = ""
        if writer.wrapped:
            from tritorch.fx._symbolic_trace import wrap

            wrap_name = writer.add_global("wrap", wrap)
            wraps = "\n".join(f'{wrap_name}("{name}")' for name in writer.wrapped)
        if self._body_transformer:
            body = self._body_transformer(body)
        for name, value in self.additional_globals():
            writer.add_global(name, value)
        head = _with_options(
            self.gen_fn_def, writer.free_vars, writer.returned, expanded_def=writer.expanded
        )
        lines: list[str] = []
        places: dict[int, int | None] = {}
        length, current = head.count("\n") + 1, None
        for line in "".join(body).split("\n"):
            counter = _counter_regexp.search(line)
            if counter is not None:
                current = int(counter[1])
            else:
                places[len(lines) + length] = current
                lines.append(line)
        text = "\n".join(lines).lstrip("\n")
        text = "\n".join("    " + line for line in text.split("\n"))
        start = wraps.count("\n") + 4
        return PythonCode(f"\n{wraps}\n\n{head}\n{text}", writer.globals, places, start)


class _PyTreeInfo(NamedTuple):
    """The arguments of a function whose inputs are nested, and the nesting."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class _BoxedCodeGen(CodeGen):
    """A function of one list, which it empties, so that inputs are let go after their last use."""

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The head of the function."""
        text = f"def {self._func_name}(self, args_list){maybe_return_annotation}:"
        names = [v.split(":")[0].split("=")[0].strip() for v in free_vars if v != "self"]
        if names:
            taken = "".join(f"\n    {name} = next(args_iter)" for name in names)
            text += f"\n    args_iter = iter(args_list){taken}\n    args_list.clear()"
        return text


class _PyTreeCodeGen(CodeGen):
    """A function of nested data, which it takes apart, and puts its results together again."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info: _PyTreeInfo = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        """The leaves of the arguments."""
        return pytree.arg_tree_leaves(*inputs)

    def process_outputs(self, out: Any) -> Any:
        """The results put together."""
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return out
        leaves = out if isinstance(out, (list, tuple)) else [out]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def _format_annotations(self, free_vars: list[str], expanded_def: bool) -> str:
        noted = [x for x in free_vars if ":" in x]
        if not noted:
            return ""
        if expanded_def:
            return "\n    " + "\n    ".join(noted)
        return "\n    " + "".join(f"{x}; " for x in noted) + "\n"

    def gen_var_bindings(self, fn_args: list[str], free_vars: list[str], expanded_def: bool) -> str:
        """The lines that take the arguments apart."""
        spec = self.pytree_info.in_spec
        given = f"[{', '.join(fn_args)}]"
        named = (
            spec.type is tuple
            and spec.num_children == 2
            and spec.child(0).type is tuple
            and spec.child(1).type is dict
        )
        if named:  # positional arguments, and those by name
            count = spec.child(0).num_children
            names = self.pytree_info.orig_args
            pairs = (f"'{k}':{v}" for k, v in zip(spec.child(1).context, names[count:]))
            given = f"([{', '.join(names[:count])}], {{{', '.join(pairs)}}})"
        plain = [x.split(":")[0].split("#")[0] for x in free_vars]
        return (
            f"{self._format_annotations(free_vars, expanded_def)}\n    {', '.join(plain)}, = "
            f"fx_pytree.tree_flatten_spec({given}, self._in_spec)"
        )

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The head of the function."""
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
        names = self.pytree_info.orig_args
        if names and names[0] == "self":
            free_vars.insert(0, "self")
        text = super().gen_fn_def(names[:], maybe_return_annotation, expanded_def=expanded_def)
        if free_vars:
            text += self.gen_var_bindings(names, free_vars, expanded_def)
        return text

    def generate_output(
        self, output_args: Any, *, descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] = repr,
    ) -> str:  # fmt: skip
        """Its last line."""
        if not self.pytree_info or self.pytree_info.out_spec is None:
            return super().generate_output(output_args, descs=descs, repr_fn=repr_fn)
        prefix = "return pytree.tree_unflatten("
        if descs is not None and isinstance(output_args, (list, tuple)):
            inside = self._format_multiline_container(output_args, descs, prefix, repr_fn)
            return f"{inside}, self._out_spec)"
        return f"{prefix}{repr_fn(output_args)}, self._out_spec)"


class _ExportCodeGen(_PyTreeCodeGen):
    """A function whose inputs and outputs two other graphs put in order."""

    def __init__(
        self, pytree_info: _PyTreeInfo, in_shuffle_graph: GraphModule,
        out_shuffle_graph: GraphModule, tree_leaf_names: list[str], root: Any,
    ) -> None:  # fmt: skip
        super().__init__(pytree_info)
        self.in_shuffle_graph = in_shuffle_graph
        self.out_shuffle_graph = out_shuffle_graph
        self.tree_leaf_names = tree_leaf_names
        self.root = root

    def process_inputs(self, *inputs: Any) -> Any:
        """The leaves of the arguments, in order."""
        leaves = super().process_inputs(*inputs)
        self.flat_args = leaves if self.root is None else (self.root, *leaves)
        return self.in_shuffle_graph(*self.flat_args)

    def process_outputs(self, out: Any) -> Any:
        """The results put together, in order."""
        leaves = self.out_shuffle_graph(*self.flat_args, *out)
        del self.flat_args
        return super().process_outputs(leaves)

    def gen_var_bindings(self, fn_args: list[str], free_vars: list[str], expanded_def: bool) -> str:
        """The lines that take the arguments apart."""
        plain = [x.split(":")[0].split("#")[0] for x in free_vars]
        given = ", ".join(fn_args if self.root is None else ["self", *fn_args])
        leaves = ", ".join(self.tree_leaf_names)
        return (
            f"\n    {leaves}, = pytree.tree_leaves(({given},))"
            f"\n    {', '.join(plain)}, = self._in_shuffle_graph({leaves})"
        )

    def generate_output(self, output_args: Any, *args: Any, **kwargs: Any) -> str:
        """Its last line."""
        given = ", ".join([*self.tree_leaf_names, *map(str, output_args)])
        return f"return pytree.tree_unflatten(self._out_shuffle_graph({given}), self._out_spec)"


@scoped
def _override_sym_repr(override: Callable[[Any], str]) -> Scope:
    return Scope((CodeGen, "_sym_repr", override))
