"""FxGraphDrawer: graphs drawn, as text for Graphviz and as SVG, without a package for it."""

from __future__ import annotations

import hashlib
from typing import Any

from tritorch.fx._compatibility import compatibility
from tritorch.fx._naming import pytorch_name, qualified_name
from tritorch.fx.graph import _parse_stack_trace
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, _format_arg
from tritorch.fx.operator_schemas import normalize_function
from tritorch.fx.passes import _dot
from tritorch.fx.passes.shape_prop import TensorMetadata
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter

__all__ = ["FxGraphDrawer"]

_COLOR_MAP = {
    "placeholder": '"AliceBlue"', "call_module": "LemonChiffon1", "get_param": "Yellow2",
    "get_attr": "LightGrey", "output": "PowderBlue",
}  # fmt: skip
# A function or method has one of these, by its name.
_HASH_COLOR_MAP = [
    "CadetBlue1", "Coral", "DarkOliveGreen1", "DarkSeaGreen1", "GhostWhite", "Khaki1",
    "LavenderBlush1", "LightSkyBlue", "MistyRose1", "MistyRose2", "PaleTurquoise2", "PeachPuff1",
    "Salmon", "Thistle1", "Thistle3", "Wheat1",
]  # fmt: skip
_STYLE = {"style": '"filled,rounded"', "fontcolor": "#000000"}


def _braces(text: str) -> str:
    return text.replace("{", r"\{").replace("}", r"\}")


@compatibility(is_backward_compatible=False)
class FxGraphDrawer:
    """Draws a graph module, and those that it calls.

        FxGraphDrawer(gm, "model").get_dot_graph().write_svg("model.svg")

    ignore_getattr: without nodes that read attributes.  ignore_parameters_and_buffers: without
    boxes for those of modules.  skip_node_names_in_args: arguments that are nodes are not written
    out.  parse_stack_trace: with the program's lines.  dot_graph_shape: of boxes.  normalize_args:
    arguments by name."""

    def __init__(
        self, graph_module: GraphModule, name: str, ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False, skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False, dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:  # fmt: skip
        self._name = name
        self.dot_graph_shape = dot_graph_shape if dot_graph_shape is not None else "record"
        self.normalize_args = normalize_args
        options = (
            ignore_getattr, ignore_parameters_and_buffers, skip_node_names_in_args,
            parse_stack_trace,
        )  # fmt: skip
        self._dot_graphs = {name: self._to_dot(graph_module, name, *options)}
        for node in graph_module.graph.nodes:
            inner = self._get_leaf_node(graph_module, node) if node.op == "call_module" else None
            if isinstance(inner, GraphModule):
                full = f"{name}_{node.target}"
                self._dot_graphs[full] = self._to_dot(inner, full, *options)

    def get_dot_graph(self, submod_name: str | None = None) -> _dot.Dot:
        """The drawing of the module, or of one that it calls."""
        if submod_name is None:
            return self.get_main_dot_graph()
        return self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self) -> _dot.Dot:
        """The drawing of the module."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> _dot.Dot:
        """The drawing of a module that it calls."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, _dot.Dot]:
        """All drawings, by name."""
        return self._dot_graphs

    # ---- boxes ----------------------------------------------------------------------------------

    def _get_node_style(self, node: Node) -> dict[str, str]:
        color = _COLOR_MAP.get(node.op)
        if color is None:
            name = node._pretty_print_target(node.target)
            digest = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
            color = _HASH_COLOR_MAP[int(digest[:8], 16) % len(_HASH_COLOR_MAP)]
        return {"shape": self.dot_graph_shape, "fillcolor": color, **_STYLE}

    def _get_leaf_node(self, module: Any, node: Node) -> Any:
        for part in str(node.target).split("."):
            if not hasattr(module, part):
                raise RuntimeError(f"{module} does not have attribute {part}!")
            module = getattr(module, part)
        return module

    def _typename(self, target: Any) -> str:
        if isinstance(target, Module):
            return _braces(pytorch_name(type(target)))
        return _braces(target if isinstance(target, str) else qualified_name(target))

    def _shorten_file_name(self, full_file_name: str, truncate_to_last_n: int = 2) -> str:
        parts = full_file_name.split("/")
        if len(parts) < truncate_to_last_n:
            return full_file_name
        return "/".join(parts[-truncate_to_last_n:])

    def _arguments(self, values: Any, skip_nodes: bool) -> str:
        """Arguments as a field of a box."""
        if isinstance(values, dict):
            begin, end = r"|kwargs={\l", ",\\n}\\l"
            texts = [f"{key}: {_format_arg(value, 8)}" for key, value in values.items()]
        else:
            begin, end = r"|args=(\l", ",\\n)\\l"
            texts = [_format_arg(value, 8) for value in values]
        if skip_nodes:
            texts = [text for text in texts if "%" not in text]
        if not texts:
            return ""
        found = begin + ",\\n".join(texts) + end
        if len(texts) == 1:
            found = found.replace("\\l", "").replace("\\n", "")
        return _braces(found)

    def _get_node_label(
        self, module: Any, node: Node, skip_node_names_in_args: bool, parse_stack_trace: bool
    ) -> str:
        label = f"{{name=%{node.name}|op_code={node.op}\n"
        if node.op == "call_module":
            leaf = self._get_leaf_node(module, node)
            constants = getattr(leaf, "__constants__", ())
            fields = "\\n".join(f"{name}: {getattr(leaf, name)}" for name in constants)
            label += f"\\n{self._typename(leaf)}\\n|{fields}\\n"
        else:
            args, kwargs = self._shown_arguments(node)
            label += f"|target={self._typename(node.target)}\\n"
            label += self._arguments(args, skip_node_names_in_args) if args else ""
            label += self._arguments(kwargs, skip_node_names_in_args) if kwargs else ""
            label += f"|num_users={len(node.users)}\\n"
        label += self._tensor_meta_to_label(node.meta.get("tensor_meta"))
        buffer = node.meta.get("buf_meta")
        if buffer is not None:
            label += f"|buf={buffer.name}\\n|n_origin={buffer.n_origin}\\n"
        trace = _parse_stack_trace(node.stack_trace) if parse_stack_trace else None
        if trace is not None:
            where = f"{self._shorten_file_name(trace.file)}:{trace.lineno}"
            label += f"|file={where} {trace.code}\\n"
        return label + "}"

    def _shown_arguments(self, node: Node) -> tuple[Any, Any]:
        if self.normalize_args and node.op == "call_function":
            try:
                found = normalize_function(
                    node.target, node.args, node.kwargs, normalize_to_only_use_kwargs=True
                )
            except (RuntimeError, TypeError):  # ambiguous, or arguments that do not fit
                found = None
            if found is not None:
                return found
        return node.args, node.kwargs

    def _tensor_meta_to_label(self, tm: Any) -> str:
        if tm is None:
            return ""
        if isinstance(tm, TensorMetadata):
            return self._stringify_tensor_meta(tm)
        if isinstance(tm, dict):
            tm = list(tm.values())
        if isinstance(tm, (list, tuple)):
            return "".join(map(self._tensor_meta_to_label, tm))
        raise RuntimeError(f"Unsupported tensor meta type {type(tm)}")

    def _stringify_tensor_meta(self, tm: TensorMetadata) -> str:
        fields = {
            "dtype": tm.dtype, "shape": tuple(tm.shape), "requires_grad": tm.requires_grad,
            "stride": tm.stride,
        }  # fmt: skip
        if tm.is_quantized:
            names = {"scale": "q_scale", "zero_point": "q_zero_point"}
            if "axis" in tm.qparams:
                names = {key: name.replace("q_", "q_per_channel_") for key, name in names.items()}
                names["axis"] = "q_per_channel_axis"
            fields |= {name: tm.qparams[key] for key, name in names.items()}
            fields["qscheme"] = tm.qparams["qscheme"]
        return "".join(f"|{name}={value}\\n" for name, value in fields.items())

    def _get_tensor_label(self, t: Any) -> str:
        return f"{t.dtype}{list(t.shape)}\\n"

    # ---- graphs ---------------------------------------------------------------------------------

    def _to_dot(
        self, graph_module: GraphModule, name: str, ignore_getattr: bool,
        ignore_parameters_and_buffers: bool, skip_node_names_in_args: bool,
        parse_stack_trace: bool,
    ) -> _dot.Dot:  # fmt: skip
        drawing = _dot.Dot(name, rankdir="TB")
        clusters: dict[str, _dot.Cluster] = {}
        shown = [n for n in graph_module.graph.nodes if not (ignore_getattr and n.op == "get_attr")]
        for node in shown:
            label = self._get_node_label(
                graph_module, node, skip_node_names_in_args, parse_stack_trace
            )
            box = _dot.Node(node.name, label=label, **self._get_node_style(node))
            buffer = node.meta.get("buf_meta")
            if buffer is not None and buffer.n_origin > 1:
                frame = clusters.setdefault(
                    buffer.name, _dot.Cluster(buffer.name, label=buffer.name)
                )
                frame.add_node(box)
            else:
                drawing.add_node(box)
            leaf = self._get_leaf_node(graph_module, node) if node.op == "call_module" else None
            plain = leaf is not None and not isinstance(leaf, GraphModule)
            if plain and not ignore_parameters_and_buffers:
                self._add_tensors(drawing, node, leaf)
        for frame in clusters.values():
            frame.set("color", "royalblue")
            frame.set("penwidth", "2")
            drawing.add_subgraph(frame)
        for node in shown:
            for user in node.users:
                drawing.add_edge(_dot.Edge(node.name, user.name))
        return drawing

    def _add_tensors(self, drawing: _dot.Dot, node: Node, leaf: Any) -> None:
        """Boxes for a module's parameters and buffers."""
        style = {"fillcolor": "Salmon", "shape": self.dot_graph_shape, **_STYLE}
        for name, tensor in (*leaf.named_parameters(), *leaf.named_buffers()):
            full = f"{node.name}.{name}"
            kind = "parameter" if isinstance(tensor, Parameter) else "buffer"
            label = f"{{{full}|op_code=get_{kind}\\l{self._get_tensor_label(tensor)}}}"
            drawing.add_node(_dot.Node(full, label=label, **style))
            drawing.add_edge(_dot.Edge(full, node.name))
