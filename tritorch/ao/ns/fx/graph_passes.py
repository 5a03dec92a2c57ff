"""Loggers in graphs, and one graph's operations beside those of another that they correspond to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tritorch
from tritorch.ao.ns.fx.mappings import get_node_type_to_io_type_map
from tritorch.ao.ns.fx.ns_types import NSNodeTargetType, NSSingleResultValuesType, NSSubgraph
from tritorch.ao.ns.fx.utils import (
    NodeInputOrOutputType,
    get_arg_indices_of_inputs_to_log,
    get_node_first_input_and_output_type,
    get_node_input_qparams,
    get_normalized_nth_input,
    get_number_of_non_param_args,
    get_target_type_str,
    op_type_supports_shadowing,
    return_first_non_observer_node,
)
from tritorch.ao.quantization.fx.utils import get_new_attr_name_with_prefix
from tritorch.ao.quantization.observer import _is_activation_post_process
from tritorch.ao.quantization.utils import getattr_from_fqn
from tritorch.core.dtype import dtype as DType
from tritorch.fx import GraphModule
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node, map_arg
from tritorch.nn import Identity

_INPUT = NSSingleResultValuesType.NODE_INPUT.value
_OUTPUT = NSSingleResultValuesType.NODE_OUTPUT.value


def _maybe_get_fqn(node: Node, gm: GraphModule) -> str | None:
    """The path of the module whose code a node, or what it observes, is from; None if unknown."""
    scopes = getattr(gm, "_node_name_to_scope", None)
    if scopes is None:
        return None
    if node.op == "call_module":
        if _is_activation_post_process(getattr_from_fqn(gm, str(node.target))):
            node = get_normalized_nth_input(node, gm, 0)
    return scopes[node.name][0]


def _insert_logger_after_node(
    node: Node,
    gm: GraphModule,
    logger_cls: Callable[..., Any],
    logger_node_name_suffix: str,
    ref_node_name: str,
    model_name: str,
    ref_name: str,
    ref_node_target_type: str,
    results_type: str,
    index_within_arg: int,
    index_of_arg: int,
    fqn: str | None,
) -> Node:
    """A call of a new logger on a node."""
    name = get_new_attr_name_with_prefix(node.name + logger_node_name_suffix)(gm)
    logger = logger_cls(
        ref_node_name,
        node.name,
        model_name,
        ref_name,
        get_target_type_str(node, gm),
        ref_node_target_type,
        results_type,
        index_within_arg,
        index_of_arg,
        fqn,
    )
    setattr(gm, name, logger)
    return node.graph.create_node("call_module", name, (node,), {})


def add_loggers_to_model(
    gm: GraphModule,
    node_to_instrument_inputs_to_ref_node_name: dict[Node, tuple[str, str]],
    node_to_instrument_outputs_to_ref_node_name: dict[Node, tuple[str, str]],
    logger_cls: Callable[..., Any],
    model_name: str,
) -> GraphModule:
    """The model with loggers of inputs and outputs of these nodes, which are called by the names
    and types that the tables have."""
    logged_inputs = node_to_instrument_inputs_to_ref_node_name
    logged_outputs = node_to_instrument_outputs_to_ref_node_name
    graph = Graph()
    copied: dict[str, Any] = {}

    def load_arg(arg: Any) -> Any:
        return map_arg(arg, lambda node: copied[node.name])

    def log(
        source: Node, node: Node, where: tuple[str, str], kind: str, within: int, index: int
    ) -> Node:
        return _insert_logger_after_node(
            source,
            gm,
            logger_cls,
            "_ns_logger_",
            node.name,
            model_name,
            *where,
            kind,
            index_within_arg=within,
            index_of_arg=index,
            fqn=_maybe_get_fqn(node, gm),
        )

    for node in gm.graph.nodes:
        if node.op == "output":
            graph.output(load_arg(get_normalized_nth_input(node, gm, 0)))
            continue
        if node in logged_inputs:
            for index in get_arg_indices_of_inputs_to_log(node):
                arg = get_normalized_nth_input(node, gm, index)
                if type(arg) is Node:
                    source = copied[arg.name]
                    copied[arg.name] = log(source, node, logged_inputs[node], _INPUT, 0, index)
                elif isinstance(arg, list):
                    for within, entry in enumerate(arg):
                        source = copied[entry.name]
                        copied[source.name] = log(
                            source, node, logged_inputs[node], _INPUT, within, index
                        )
        copied[node.name] = graph.node_copy(node, load_arg)
        if node in logged_outputs:
            source = copied[node.name]
            copied[node.name] = log(source, node, logged_outputs[node], _OUTPUT, 0, 0)
    return GraphModule(gm, graph)


def _converted(
    sources: Node | list[Node],
    node_a: Node,
    node_c: Node,
    gm_a: GraphModule,
    gm_b: GraphModule,
    graph: Graph,
    prefix: str,
    logger_cls: Callable[..., Any],
    types: dict[str, set[NSNodeTargetType]],
) -> Node | list[Node]:
    """The inputs of a node in the type that a node of the other graph takes."""
    kind = NodeInputOrOutputType
    wanted, _ = get_node_first_input_and_output_type(node_a, gm_a, logger_cls, types)
    given, _ = get_node_first_input_and_output_type(node_c, gm_b, logger_cls, types)
    qparams = None
    if (wanted, given) == (kind.INT8, kind.FP32):
        qparams = get_node_input_qparams(node_a, gm_a, types)
    is_float = wanted == kind.FP32 and given in (kind.INT8, kind.FP16, kind.FP32_OR_INT8)
    known = is_float or (wanted == given and wanted != kind.UNKNOWN)
    if not known and (wanted, given) not in ((kind.INT8, kind.FP32), (kind.FP16, kind.FP32)):
        raise AssertionError(
            f"dtype cast from {given} {node_c.format_node()} to "
            f"{wanted} {node_a.format_node()} needs to be implemented"
        )

    def attribute(name: str, value: Any) -> Node:
        unused = get_new_attr_name_with_prefix(f"{node_a.name}_input_{name}_")(gm_b)
        setattr(gm_b, unused, value)
        return graph.create_node("get_attr", unused, (), {}, unused)

    def convert(source: Node) -> Node:
        name = get_new_attr_name_with_prefix(prefix)(gm_b)
        if is_float:
            return graph.create_node("call_function", tritorch.dequantize, (source,), {}, name)
        if qparams is not None:
            scale, zero_point = attribute("scale", qparams[0]), attribute("zero_point", qparams[1])
            args = (source, scale, zero_point, tritorch.quint8)
            return graph.create_node("call_function", tritorch.quantize_per_tensor, args, {}, name)
        if wanted == kind.FP16 and given == kind.FP32:
            return graph.create_node("call_method", "to", (source, tritorch.float16), {}, name)
        if wanted != given:
            raise AssertionError("Expected dtype_cast_mod_cls to be not None")
        setattr(gm_b, name, Identity())
        return graph.create_node("call_module", name, (source,), {}, name)

    if isinstance(sources, Node):
        return convert(sources)
    if not isinstance(sources, list):
        raise AssertionError(f"type f{type(sources)} is not handled")
    return [convert(source) for source in sources]


def _copy_node_from_a_to_c(
    node_a: Node, gm_a: GraphModule, gm_b: GraphModule, graph_c: Graph
) -> Node:
    """A node's attribute, or its conversion, in the other graph."""
    name = f"{node_a.name}_shadow_copy_"
    if node_a.op == "get_attr":
        value = getattr_from_fqn(gm_a, str(node_a.target))
        unused = get_new_attr_name_with_prefix(name)(gm_b)
        setattr(gm_b, unused, value.detach() if tritorch.is_tensor(value) else value)
        return graph_c.create_node("get_attr", unused, (), {}, unused)
    if node_a.op == "call_method":
        if node_a.target not in ("dequantize", "to"):
            raise AssertionError(f"target {node_a.target} is not implemented")
        source = get_normalized_nth_input(node_a, gm_a, 0)
        args: tuple[Any, ...] = (_copy_node_from_a_to_c(source, gm_a, gm_b, graph_c),)
        if node_a.target == "to":
            args += (get_normalized_nth_input(node_a, gm_a, 1),)
        unused = get_new_attr_name_with_prefix(name)(gm_b)
        return graph_c.create_node(node_a.op, node_a.target, args, {}, unused)
    raise AssertionError(
        f"handling of node {node_a.format_node()} with op {node_a.op} is not implemented"
    )


def _nodes_of(subgraph: NSSubgraph, gm: GraphModule) -> list[Node]:
    """The nodes of a subgraph, first to last."""
    nodes = [subgraph.end_node]
    while nodes[-1] != subgraph.start_node:
        nodes.append(get_normalized_nth_input(nodes[-1], gm, 0))
    return nodes[::-1]


def _arguments(node: Node, gm: GraphModule) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A node's arguments, by keyword if the names of its parameters are known."""
    try:
        normalized = node.normalized_arguments(gm, normalize_to_only_use_kwargs=True)
    except RuntimeError:  # overloads that only types of arguments tell apart
        normalized = None
    args, kwargs = (node.args, node.kwargs) if normalized is None else normalized
    return tuple(args), dict(kwargs)


def _can_insert_copy_of_subgraph_a(
    subgraph_a: NSSubgraph, gm_a: GraphModule, num_non_param_args_node_a: int
) -> bool:
    """True if all arguments of a subgraph's nodes can be copied but for the first ones, which are
    inputs."""

    def can_copy(arg: Any) -> bool:
        if isinstance(arg, Node):
            source = return_first_non_observer_node(arg, gm_a)
            if source.op == "call_method":
                return source.target in ("dequantize", "to")
            return source.op == "get_attr"
        return not isinstance(arg, (list, tuple)) or all(isinstance(each, Node) for each in arg)

    for index, node in enumerate(_nodes_of(subgraph_a, gm_a)):
        args, kwargs = _arguments(node, gm_a)
        inputs = num_non_param_args_node_a if index == 0 else 1
        inputs = 2 if inputs == 2 else 1
        if not all(map(can_copy, [*args, *kwargs.values()][inputs:])):
            return False
    return True


def _insert_copy_of_subgraph_a_after_input_node_c(
    input_node_c: Node | list[Node],
    input_node_c_2: Node | list[Node] | None,
    subgraph_a: NSSubgraph,
    gm_a: GraphModule,
    gm_b: GraphModule,
    node_name_prefix: str,
) -> Node:
    """A copy of a subgraph that reads these inputs; returns its last node."""
    last: Any = input_node_c
    second = input_node_c_2
    for node in _nodes_of(subgraph_a, gm_a):
        last = _insert_copy_of_node_a_after_input_node_c(
            last, second, node, gm_a, gm_b, node_name_prefix
        )
        second = None
    return last


def _insert_copy_of_node_a_after_input_node_c(
    input_node_c: Node | list[Node],
    input_node_c_2: Node | list[Node] | None,
    node_a: Node,
    gm_a: GraphModule,
    gm_b: GraphModule,
    node_name_prefix: str,
) -> Node:
    """A copy of a node that reads these inputs first; its other arguments are copied too, without
    their observers."""
    graph_c = input_node_c.graph if isinstance(input_node_c, Node) else input_node_c[0].graph
    inputs = [input_node_c] if input_node_c_2 is None else [input_node_c, input_node_c_2]

    def copy_of(position: int, arg: Any) -> Any:
        if position < len(inputs):
            return inputs[position]
        if isinstance(arg, Node):
            source = return_first_non_observer_node(arg, gm_a)
            return _copy_node_from_a_to_c(source, gm_a, gm_b, graph_c)
        if isinstance(arg, (list, tuple)):
            if any(isinstance(each, Node) for each in arg):
                raise AssertionError("handling of Node inside list is not implemented")
        elif not isinstance(arg, (int, float, DType)):
            raise AssertionError(f"handling for kwarg of type {type(arg)} is not implemented")
        return arg

    args, kwargs = _arguments(node_a, gm_a)
    new_args = tuple(copy_of(index, arg) for index, arg in enumerate(args))
    new_kwargs = {
        name: copy_of(len(args) + index, arg) for index, (name, arg) in enumerate(kwargs.items())
    }
    name = get_new_attr_name_with_prefix(node_name_prefix)(gm_b)
    target = node_a.target
    if node_a.op == "call_module":
        setattr(gm_b, name, getattr_from_fqn(gm_a, str(target)))
        target = name
    elif node_a.op not in ("call_function", "call_method"):
        raise AssertionError(f"Unexpected op: {node_a.op}")
    return graph_c.create_node(node_a.op, target, new_args, new_kwargs, name)


class _Shadowing:
    """Makes the graph of one model with another's operations beside its own."""

    def __init__(
        self,
        names: tuple[str, str],
        models: tuple[GraphModule, GraphModule],
        logger_cls: Callable[..., Any],
        should_log_inputs: bool,
        types: dict[str, set[NSNodeTargetType]],
    ) -> None:
        self.names = dict(zip("ab", names))
        self.gm_a, self.gm_b = models
        self.logger_cls = logger_cls
        self.should_log_inputs = should_log_inputs
        self.types = types
        self.graph = Graph()
        self.copied: dict[str, Any] = {}

    def run(self, pairs: dict[str, tuple[NSSubgraph, NSSubgraph]]) -> GraphModule:
        """The model with the shadows of these pairs."""
        starts, ends = {}, {}
        for name, (a, b) in pairs.items():
            starts[b.start_node] = (name, a, b)
            ends[b.end_node] = (name, a, b)
        for node in self.gm_b.graph.nodes:
            if node.op == "output":
                self.graph.output(self._load(node.args[0]))
                continue
            match = starts.get(node) or ends.get(node)
            problem = None
            if match is not None:
                problem = self._problem(match[1], node)
                if problem is not None:
                    kind_b = get_target_type_str(node, self.gm_b)
                    kind_a = get_target_type_str(match[1].start_node, self.gm_a)
                    print(
                        f"skipping shadow loggers for node_b: {kind_b}, start_node_a: {kind_a}, "
                        f"{problem}"
                    )
            if match is None or problem is not None:
                self.copied[node.name] = self.graph.node_copy(node, self._load)
            else:
                self._shadow(node, match, node in starts, node in ends)
        return GraphModule(self.gm_b, self.graph)

    def _load(self, arg: Any) -> Any:
        return map_arg(arg, lambda node: self.copied[node.name])

    def _problem(self, a: NSSubgraph, node_b: Node) -> str | None:
        """Why a subgraph cannot stand beside a node."""
        start, kind = a.start_node, NodeInputOrOutputType
        if not (op_type_supports_shadowing(start) and op_type_supports_shadowing(node_b)):
            return "unsupported"
        of_a = get_node_first_input_and_output_type(start, self.gm_a, self.logger_cls, self.types)
        of_b = get_node_first_input_and_output_type(node_b, self.gm_b, self.logger_cls, self.types)
        if kind.UNKNOWN in (*of_a, *of_b):
            return "unknown dtype cast"
        if (of_a[0], of_b[0]) == (kind.INT8, kind.FP32):
            if not get_node_input_qparams(start, self.gm_a, self.types):
                return "unknown input qparams"
        count = get_number_of_non_param_args(start, self.gm_a)
        if not _can_insert_copy_of_subgraph_a(a, self.gm_a, count):
            return "unhandled logic in subgraph copy"
        return None

    def _log(
        self, source: Node, which: str, node_name: str, match: Any, kind: str, within: int = 0
    ) -> Node:
        """A logger of one model's node."""
        name, *subgraphs = match
        base = subgraphs["ab".index(which)].base_op_node
        model = self.gm_a if which == "a" else self.gm_b
        return _insert_logger_after_node(
            source,
            self.gm_b,
            self.logger_cls,
            f"_ns_logger_{which}_{'inp_' if kind == _INPUT else ''}",
            node_name,
            self.names[which],
            name,
            get_target_type_str(base, model),
            kind,
            index_within_arg=within,
            index_of_arg=0,
            fqn=_maybe_get_fqn(base, model),
        )

    def _shadow(self, node: Node, match: Any, is_start: bool, is_end: bool) -> None:
        """Copies a node of the second model; the first model's subgraph reads what its start
        reads."""
        if is_start and self.should_log_inputs:
            inputs = get_normalized_nth_input(node, self.gm_b, 0)
            if not isinstance(inputs, (Node, list)):
                raise AssertionError(f"type {type(inputs)} is not handled yet")
            entries = [inputs] if isinstance(inputs, Node) else inputs
            sources = [self.copied[entry.name] for entry in entries]
            for within, source in enumerate(sources):
                logger = self._log(source, "b", node.name, match, _INPUT, within)
                self.copied[source.name] = logger
        node_c = self.copied[node.name] = self.graph.node_copy(node, self._load)
        if is_start:
            self._shadow_start(node, node_c, match)
        if is_end:
            source = self.copied[node.name]
            self.copied[node.name] = self._log(source, "b", node.name, match, _OUTPUT)

    def _shadow_start(self, node: Node, node_c: Node, match: Any) -> None:
        a = match[1]
        sources = get_normalized_nth_input(node_c, self.gm_b, 0)
        if isinstance(sources, list):
            sources = list(sources)
        if self.should_log_inputs:  # what the loggers read
            if isinstance(sources, list):
                sources = [get_normalized_nth_input(each, self.gm_b, 0) for each in sources]
        inputs: Any = _converted(
            sources,
            a.start_node,
            node_c,
            self.gm_a,
            self.gm_b,
            self.graph,
            f"{node.name}_dtype_cast_",
            self.logger_cls,
            self.types,
        )
        if self.should_log_inputs:
            if isinstance(inputs, Node):
                inputs = self._log(inputs, "a", "", match, _INPUT)
            else:
                inputs = [
                    self._log(each, "a", "", match, _INPUT, within)
                    for within, each in enumerate(inputs)
                ]
        second = None
        if get_number_of_non_param_args(a.start_node, self.gm_a) == 2:
            second = get_normalized_nth_input(node_c, self.gm_b, 1)
        shadow = _insert_copy_of_subgraph_a_after_input_node_c(
            inputs, second, a, self.gm_a, self.gm_b, f"{node_c.name}_shadow_copy_"
        )
        if self.should_log_inputs:  # the loggers were made before the node that reads them
            first = shadow
            while (source := get_normalized_nth_input(first, self.gm_b, 0)) != inputs:
                first = source
            for logger in [inputs] if isinstance(inputs, Node) else inputs:
                getattr(self.gm_b, logger.name).ref_node_name = first.name
        self.copied[shadow.name] = self._log(shadow, "a", shadow.name, match, _OUTPUT)


def create_a_shadows_b(
    name_a: str,
    gm_a: GraphModule,
    name_b: str,
    gm_b: GraphModule,
    matched_subgraph_pairs: dict[str, tuple[NSSubgraph, NSSubgraph]],
    logger_cls: Callable[..., Any],
    should_log_inputs: bool,
    node_type_to_io_type_map: dict[str, set[NSNodeTargetType]] | None = None,
) -> GraphModule:
    """The second model, in which each operation of the first that has a counterpart computes on the
    counterpart's inputs too, converted to its type; loggers keep both results.

    So errors of operations before do not count. Pairs for which that is not possible are printed.
    """
    types = node_type_to_io_type_map or get_node_type_to_io_type_map()
    models, names = (gm_a, gm_b), (name_a, name_b)
    shadowing = _Shadowing(names, models, logger_cls, should_log_inputs, types)
    return shadowing.run(matched_subgraph_pairs)
