"""Models with quantized forms of their layers beside the float ones, several of each."""

from __future__ import annotations

import collections
import copy
import operator
from collections.abc import Callable
from typing import Any

import tritorch
from tritorch import Tensor, fx
from tritorch.ao.ns.fx.graph_passes import _maybe_get_fqn
from tritorch.ao.ns.fx.ns_types import NSResultsType, NSSingleResultValuesType
from tritorch.ao.ns.fx.utils import compute_sqnr, get_normalized_nth_input, get_target_type_str
from tritorch.ao.quantization.fx.match_utils import _MatchResult
from tritorch.ao.quantization.qconfig import QConfigAny
from tritorch.ao.quantization.qconfig_mapping import QConfigMapping
from tritorch.ao.quantization.utils import getattr_from_fqn
from tritorch.core.dtype import dtype as DType
from tritorch.fx import Graph, GraphModule
from tritorch.fx.node import Node
from tritorch.nn import Module, functional
from tritorch.utils._pytree import tree_map

SHADOW_NODE_NAME_PREFIX = "shadow"
SHADOW_WRAPPER_NODE_NAME_PREFIX = "shadow_wrapper"

BINARY_FUNCTIONS = {
    tritorch.add,
    Tensor.add,
    operator.add,
    tritorch.mul,
    Tensor.mul,
    operator.mul,
}

_WEIGHT = NSSingleResultValuesType.WEIGHT.value


def _get_attr_name(subgraph_idx: int, subgraph_candidate_idx: int) -> str:
    return f"{SHADOW_NODE_NAME_PREFIX}_{subgraph_idx}_{subgraph_candidate_idx}"


def _get_attr_wrapper_name(subgraph_idx: int, subgraph_candidate_idx: int) -> str:
    return f"{SHADOW_WRAPPER_NODE_NAME_PREFIX}_{subgraph_idx}_{subgraph_candidate_idx}"


class OutputProp(fx.Interpreter):
    """Runs a graph, and leaves each node's tensor in `node.traced_result`."""

    def __init__(self, mod: GraphModule) -> None:
        super().__init__(mod, garbage_collect_values=False)
        self.mod = mod
        self.modules = dict(mod.named_modules())

    def run_node(self, n: Node) -> Any:
        """Runs one node."""
        result = super().run_node(n)
        if isinstance(result, Tensor):
            n.traced_result = result
        return result

    def propagate(self, *args: Any) -> None:
        """Runs the graph on these inputs."""
        self.run(*args)


def _flat(entries: Any) -> list[Node]:
    if isinstance(entries, (list, tuple)):
        return [node for entry in entries for node in _flat(entry)]
    return [entries]


def _in_order(nodes: list[Node]) -> list[Node]:
    """Three nodes in a row, last first."""
    first = next(node for node in nodes if node.args[0] not in nodes)
    middle = next(node for node in nodes if node.args[0] is first)
    last = next(node for node in nodes if node not in (first, middle))
    if last.args[0] is not middle:
        raise AssertionError("Expected last_node.args[0] to be mid_node")
    return [last, middle, first]


def _get_dedup_subgraphs(matches: dict[str, _MatchResult]) -> dict[str, list[Node]]:
    """The nodes of each match once, first to last, in the order in which they run."""
    seen: set[Node] = set()
    subgraphs = {}
    for name, match in reversed(matches.items()):
        matched: Any = match[1]
        nodes = _flat(matched)
        was_seen = not seen.isdisjoint(nodes)
        seen.update(nodes)
        if was_seen:
            continue
        if len(matched) > 2:
            raise ValueError(f"Expected cur_match[1] to have length 2, got {len(matched)}")
        if len(nodes) == 3:
            nodes = _in_order(nodes)
        subgraphs[name] = nodes[::-1]
    return subgraphs


def _get_logger_for_subgraph(
    model: GraphModule,
    first_node: Node,
    last_node: Node,
    subgraph_idx: int,
    subgraph_candidate_idx: int,
    qconfig_str: str,
    logger_cls: Callable[..., Any],
    fqn: str | None,
) -> Module:
    """A logger for the end of a subgraph, which keeps nothing until it is enabled."""
    logger = logger_cls(
        first_node.name,
        last_node.name,
        f"subgraph_{subgraph_idx}_{subgraph_candidate_idx}",
        "model",
        get_target_type_str(last_node, model),
        get_target_type_str(first_node, model),
        NSSingleResultValuesType.NODE_OUTPUT.value,
        0,
        0,
        fqn or "",
        qconfig_str,
    )
    logger.enabled = False
    return logger


def _add_module(model: Any, name: str, module: Any) -> None:
    if hasattr(model, name):
        raise AssertionError(f"Unexpected attribute '{name}' found in {model}")
    setattr(model, name, module)


class _SubgraphInputs:
    """Placeholders for the nodes that the first operation of a subgraph reads."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names: set[str] = set()

    def of(self, arg: Any) -> Any:
        """An argument with placeholders for nodes, each with a name of its own."""
        if isinstance(arg, (list, tuple)):
            return [self.of(each) for each in arg]
        if not isinstance(arg, Node):
            return arg
        count = 0
        while f"{arg.name}_{count}" in self.names:
            count += 1
        self.names.add(f"{arg.name}_{count}")
        return self.graph.placeholder(f"{arg.name}_{count}")


def create_submodule_from_subgraph(model: Module, first_node: Node, last_node: Node) -> GraphModule:
    """A module with a copy of nodes in a row; what the first one reads, become inputs.

    Modules that they call are copied too, as `mod_0`, `mod_1`, ...
    """
    graph = Graph()
    root = Module()
    inputs = _SubgraphInputs(graph)
    node, copied, count = first_node, None, 0
    for _ in range(101):
        kwargs: dict[str, Any] = {}
        if node is first_node:
            args: Any = tuple(inputs.of(arg) for arg in node.args)
            kwargs = {name: inputs.of(arg) for name, arg in node.kwargs.items()}
        else:
            if node.target in BINARY_FUNCTIONS:
                raise AssertionError(f"Unexpected binary function target: {node.target}")
            rest = node.args[1:]
            for arg in rest:
                if not isinstance(arg, (float, int, DType)):
                    raise AssertionError(f"arg of type {type(arg)} not handled yet")
            args = (copied, *rest)
            kwargs = {name: arg for name, arg in node.kwargs.items() if not isinstance(arg, Node)}
        target = node.target
        if node.op == "call_module":
            target = f"mod_{count}"
            count += 1
            setattr(root, target, copy.deepcopy(getattr_from_fqn(model, str(node.target))))
        elif node.op not in ("call_function", "call_method"):
            raise AssertionError(f"{node.op} not supported yet")
        copied = graph.create_node(node.op, target, args, kwargs)
        if node is last_node:
            graph.output(copied)
            return GraphModule(root, graph)
        if len(node.users) != 1:
            raise AssertionError(f"{node} has more than 1 users, not supported yet")
        node = next(iter(node.users))
    raise AssertionError("iteration limit exceeded")


def _call_after(model: GraphModule, where: Any, name: str, args: Any, kwargs: Any = None) -> Node:
    with model.graph.inserting_after(where):
        return model.graph.call_module(name, args=args, kwargs=kwargs or {})


def create_one_transformed_and_logged_copy_of_subgraph(
    mt: GraphModule,
    subgraph_idx: int,
    subgraph_candidate_idx: int,
    first_node: Node,
    last_node: Node,
    fqn: str | None,
    list_of_node_name_to_qconfig: list[dict[str, QConfigAny]],
    example_inputs: Any,
    last_added_shadow_node_list: list[Node | None],
    custom_prepare_fn: Callable[..., Any] | None = None,
    custom_prepare_kwargs: dict[str, Any] | None = None,
) -> None:
    """Adds one candidate of a subgraph: 0 is a logger of the subgraph itself, the others prepared
    copies of it with loggers that compare. `last_added_shadow_node_list` has where to go on."""
    from tritorch.ao.ns._numeric_suite_fx import OutputComparisonLogger, OutputLogger
    from tritorch.ao.quantization.quantize_fx import prepare_fx

    name = _get_attr_name(subgraph_idx, subgraph_candidate_idx)

    def add_logger(qconfig_str: str, logger_cls: Any, where: Node, args: Any) -> None:
        logger = _get_logger_for_subgraph(
            mt,
            first_node,
            last_node,
            subgraph_idx,
            subgraph_candidate_idx,
            qconfig_str,
            logger_cls,
            fqn,
        )
        _add_module(mt, name, logger)
        last_added_shadow_node_list[0] = _call_after(mt, where, name, args)

    if subgraph_candidate_idx == 0:
        add_logger("", OutputLogger, last_node, (last_node,))
        mt.recompile()
        return
    qconfig = list_of_node_name_to_qconfig[subgraph_candidate_idx - 1][first_node.name]
    if qconfig is None:
        return
    arguments: dict[str, Any] = {
        "example_inputs": example_inputs,
        "qconfig_mapping": QConfigMapping().set_global(qconfig),
    }
    for kwarg in ("example_inputs", "prepare_custom_config", "qconfig_mapping"):
        if custom_prepare_fn is not None and kwarg in (custom_prepare_kwargs or {}):
            raise AssertionError(f"cannot specify {kwarg} in custom_prepare_kwargs")
    if custom_prepare_fn is not None:
        arguments |= custom_prepare_kwargs or {}
    part = create_submodule_from_subgraph(mt, first_node, last_node)
    wrapped = (custom_prepare_fn or prepare_fx)(part, **arguments)
    wrapper_name = _get_attr_wrapper_name(subgraph_idx, subgraph_candidate_idx)
    _add_module(mt, wrapper_name, wrapped)

    args: list[Any] = []
    for arg in first_node.args:
        if isinstance(arg, Node):
            args.append(arg)
        elif isinstance(arg, (list, tuple)) and arg and isinstance(arg[0], Node):
            args += [entry for entry in arg if isinstance(entry, Node)]
    kwargs: dict[str, Any] = {}
    for key, arg in first_node.kwargs.items():
        if isinstance(arg, Node):
            kwargs[_input_name(wrapped, len(args) + len(kwargs), key)] = arg
        elif isinstance(arg, (list, tuple)):
            args += arg
    call = _call_after(mt, last_added_shadow_node_list[0], wrapper_name, tuple(args), kwargs)
    add_logger(str(qconfig), OutputComparisonLogger, call, (call, last_node))
    mt.recompile()


def _input_name(module: Any, index: int, name: str) -> str:
    """The name of a graph's input at an index, if it is a graph."""
    graph = getattr(module, "graph", None)
    inputs = [] if graph is None else [n for n in graph.nodes if n.op == "placeholder"]
    return str(inputs[index].target) if index < len(inputs) else name


def create_n_transformed_and_logged_copies_of_subgraph(
    mt: GraphModule,
    subgraph_idx: int,
    match_name: str,
    nodes_in_this_subgraph: list[Any],
    qconfig_mappings: list[QConfigMapping],
    list_of_node_name_to_qconfig: list[dict[str, QConfigAny]],
    custom_prepare_fn: Callable[..., Any] | None = None,
    custom_prepare_kwargs: dict[str, Any] | None = None,
) -> None:
    """Adds a logger and all candidates of a subgraph, if there is a configuration for one at
    least."""
    if any(not isinstance(node, Node) for node in nodes_in_this_subgraph):
        return
    first_node, last_node = nodes_in_this_subgraph[0], nodes_in_this_subgraph[-1]
    source = get_normalized_nth_input(first_node, mt, 0)
    if isinstance(source, (list, tuple)):
        example_inputs: Any = type(source)(each.traced_result for each in source)
    elif hasattr(source, "traced_result"):
        example_inputs = (source.traced_result,)
    else:
        print(f"unable to get example input for node {first_node.format_node()}, skipping")
        return
    if all(qconfigs[first_node.name] is None for qconfigs in list_of_node_name_to_qconfig):
        print(f"unable to find at least one qconfig for node {first_node.format_node()}, skipping")
        return
    fqn = _maybe_get_fqn(first_node, mt)
    last_added: list[Node | None] = [None]
    for candidate in range(len(qconfig_mappings) + 1):
        create_one_transformed_and_logged_copy_of_subgraph(
            mt,
            subgraph_idx,
            candidate,
            first_node,
            last_node,
            fqn,
            list_of_node_name_to_qconfig,
            example_inputs,
            last_added,
            custom_prepare_fn,
            custom_prepare_kwargs,
        )


def _log_and_copy(model: GraphModule, nodes: list[Node], index: int) -> tuple[Node, Node]:
    """Adds a logger of nodes in a row, and copies of the nodes with a logger that compares; returns
    the first and the last copy. They call the same modules."""
    from tritorch.ao.ns._numeric_suite_fx import OutputComparisonLogger, OutputLogger

    first, last = nodes[0], nodes[-1]
    fqn = _maybe_get_fqn(first, model)

    def add_logger(candidate: int, logger_cls: Any, where: Node, args: Any) -> Node:
        logger = _get_logger_for_subgraph(model, first, last, index, candidate, "", logger_cls, fqn)
        name = _get_attr_name(index, candidate)
        _add_module(model, name, logger)
        return _call_after(model, where, name, args)

    where = add_logger(0, OutputLogger, last, (last,))
    copies: list[Node] = []
    for node in nodes:
        args = (copies[-1], *node.args[1:]) if copies else node.args
        with model.graph.inserting_after(where):
            where = model.graph.create_node(node.op, node.target, args, node.kwargs)
        copies.append(where)
    add_logger(1, OutputComparisonLogger, where, (where, last))
    return copies[0], where


def create_add_loggers_graph(
    model: GraphModule,
    subgraphs_dedup: dict[str, list[Node]],
    qconfig_mapping: QConfigMapping,
    node_name_to_qconfig: dict[str, QConfigAny],
) -> None:
    """Adds a second way through the graph, in which subgraphs with a configuration are quantized
    and all others copied, with loggers that compare each step: errors add up."""
    of_node = {node: nodes for nodes in subgraphs_dedup.values() for node in nodes}
    parts: list[list[Node]] = []
    seen: set[Node] = set()
    for node in model.graph.nodes:
        if node.op not in ("placeholder", "get_attr", "output") and node not in seen:
            parts.append(of_node.get(node, [node]))
            seen.update(parts[-1])
    ways: dict[Node, tuple[Node, Node]] = {}
    for index, nodes in enumerate(parts):
        first = nodes[0]
        if first not in of_node or node_name_to_qconfig[first.name] is None:
            ways[first] = _log_and_copy(model, nodes, index)
            continue
        create_n_transformed_and_logged_copies_of_subgraph(
            model, index, first.name, nodes, [qconfig_mapping], [node_name_to_qconfig]
        )
        name = _get_attr_wrapper_name(index, 1)
        calls = [n for n in model.graph.nodes if n.op == "call_module" and n.target == name]
        if not calls:
            raise AssertionError("Expected new_shadow_mod to be non-None")
        ways[first] = (calls[0], calls[0])
    model.recompile()

    def on_second_way(arg: Any) -> Any:
        if not isinstance(arg, Node) or arg.op in ("placeholder", "get_attr"):
            return arg
        return ways[of_node.get(arg, [arg])[0]][1]

    for start, _ in ways.values():
        start.args = tree_map(on_second_way, start.args)
        start.kwargs = tree_map(on_second_way, start.kwargs)
    model.recompile()


def _get_weight_info_from_shadow_wrapper(shadow_wrapper: Any) -> tuple[Any, Any] | None:
    """The function that quantizes the second input, which is a weight, and its other arguments."""
    inputs = [node for node in shadow_wrapper.graph.nodes if node.op == "placeholder"]
    if len(inputs) < 2:
        return None
    weight = inputs[1]
    if len(weight.users) != 1:
        raise AssertionError(f"Expected exactly 1, got {len(weight.users)}")
    node = next(iter(weight.users))
    if node.target not in (tritorch.quantize_per_channel, tritorch.quantize_per_tensor):
        raise AssertionError(f"Expected torch.quantize_per_tensor, but got {node.target}")
    _, scale, zero_point, *rest = node.args
    values = (getattr_from_fqn(shadow_wrapper, each.target) for each in (scale, zero_point))
    return node.target, (*values, *rest)


def extract_weight_comparison(m: GraphModule) -> NSResultsType:
    """Weights of linear functions, and as their first quantized forms have them."""
    weights: dict[str, list[dict[str, Any]]] = {}
    for node in m.graph.nodes:
        if node.op != "call_function" or node.target is not functional.linear:
            continue
        wrapper = next(
            (
                user
                for user in node.args[0].users
                if user.op == "call_module"
                and user.target.startswith(SHADOW_WRAPPER_NODE_NAME_PREFIX)
            ),
            None,
        )
        if wrapper is None:
            continue
        info = _get_weight_info_from_shadow_wrapper(getattr_from_fqn(m, wrapper.target))
        if info is None:
            continue
        weight = getattr_from_fqn(m, node.args[1].target).detach()
        quantize, arguments = info
        quantized = quantize(weight, *arguments)
        kind = get_target_type_str(node, m)
        scopes = getattr(m, "_node_name_to_scope", None)
        comparison = compute_sqnr(weight, quantized)
        number = wrapper.target.split("_")[2]
        for candidate, value in enumerate((weight, quantized)):
            weights[f"subgraph_{number}_{candidate}"] = [
                {
                    "res_type": _WEIGHT,
                    "values": [value],
                    "prev_node_name": node.name,
                    "prev_node_target_type": kind,
                    "ref_node_name": node.name,
                    "ref_node_target_type": kind,
                    "index_within_arg": 0,
                    "index_of_arg": 0,
                    "fqn": None if scopes is None else scopes[node.name][0],
                    "qconfig_str": "",
                    "comparisons": [comparison],
                    "comparison_fn_name": "sqnr",
                }
            ]
    return {"model": {_WEIGHT: weights}}


_GROUPED = [
    "ref_node_name",
    "ref_node_target_type",
    "fqn",
    "values",
    "qconfig_str",
    "comparisons",
    "comparison_fn_name",
]


def group_results_by_subgraph(results: NSResultsType) -> Any:
    """Results by subgraph and candidate: {"subgraph_0": {"0": {...}, "1": {...}}, ...}."""
    grouped: Any = collections.defaultdict(dict)
    for name, entries in next(iter(results["model"].values())).items():
        subgraph, candidate = name.rsplit("_", 1)
        grouped[subgraph][candidate] = {key: entries[0][key] for key in _GROUPED}
    return dict(grouped)


def create_results_comparison(results_grouped: Any) -> Any:
    """Comparisons of the candidates of each subgraph, one by one ("cmp_raw") and on average."""
    compared = {}
    for subgraph, results in results_grouped.items():
        candidates = {}
        for name, result in results.items():
            if name != "0":
                raw = tritorch.stack(result["comparisons"])
                candidates[name] = {
                    "qconfig_str": result["qconfig_str"],
                    "comparison_fn_name": result["comparison_fn_name"],
                    "cmp_raw": raw,
                    "cmp_mean": tritorch.mean(raw),
                }
        where = ("ref_node_name", "ref_node_target_type", "fqn")
        compared[subgraph] = {
            **{key: results["0"][key] for key in where},
            "candidates": candidates,
        }
    return compared


def print_n_shadows_summary(results_comparison: Any) -> None:
    """Prints a table of average comparisons: a row for each subgraph, a column a candidate."""
    try:
        from tabulate import tabulate  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        print(
            "`print_tabular` relies on the library `tabulate`, "
            "which could not be found on this machine. Run `pip "
            "install tabulate` to install the library."
        )
        return
    rows = [
        [
            data["ref_node_name"],
            data["ref_node_target_type"],
            data["fqn"],
            *(candidate["cmp_mean"] for candidate in data["candidates"].values()),
        ]
        for data in results_comparison.values()
    ]
    columns = max((len(row[1]) for row in rows), default=0)
    headers = ["node_name", "node_type", "fqn", *map(str, range(columns))]
    print(tabulate(rows, headers=headers))
