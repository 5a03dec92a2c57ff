"""Minimizers: the fewest nodes of a graph for which two ways of running it differ."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_arg
from tritorch.fx.passes.shape_prop import ShapeProp
from tritorch.fx.passes.split_utils import split_by_tags
from tritorch.fx.passes.tools_common import (
    CALLABLE_NODE_OPS,
    FxNetAccFusionsFinder,
    Names,
    NodeList,
    NodeSet,
)

__all__ = [
    "FxNetMinimizerBadModuleError", "FxNetMinimizerResultMismatchError",
    "FxNetMinimizerRunFuncError",
]  # fmt: skip

_LOGGER = logging.getLogger(__name__)


@compatibility(is_backward_compatible=False)
class FxNetMinimizerBadModuleError(Exception):
    """Nodes of which no one module can be made."""


@compatibility(is_backward_compatible=False)
class FxNetMinimizerRunFuncError(Exception):
    """A part that cannot be run."""


@compatibility(is_backward_compatible=False)
class FxNetMinimizerResultMismatchError(Exception):
    """A part whose two results differ."""


_FOUND = (FxNetMinimizerRunFuncError, FxNetMinimizerResultMismatchError)


@dataclasses.dataclass
class _MinimizerSettingBase:
    """How is searched.

    accumulate_error: the second way goes on from its own results.  traverse_method: "sequential"
    (node by node), "binary" (halves), "accumulate" (from the first node on, one more each time),
    "skip" (between nodes that are skipped), "defined" (all at once) or "block" (the last node, and
    the first, of one block).  find_all: the search goes on after the first find.
    return_intermediate, all_outputs: which results are compared."""

    accumulate_error: bool = False
    traverse_method: str = "sequential"
    find_all: bool = False
    return_intermediate: bool = False
    all_outputs: bool = False

    def __str__(self) -> str:
        lines = (f"\t{name}: {value}\n" for name, value in vars(self).items())
        return "FX Minimizer Settings:\n" + "".join(lines)


class _MinimizerBase:
    """A search; a subclass says in `run_a` and `run_b` what the two ways are.

    compare_fn: of two results and their names, a number and whether they are alike.
    module_exporter: gets the inputs, the part and a name where they are not.  exclusion_fn: takes
    nodes out of a list that are not to be looked at."""

    def __init__(
        self, module: GraphModule, sample_input: Any,
        compare_fn: Callable[[Any, Any, Names], tuple[float, bool]],
        settings: _MinimizerSettingBase, module_exporter: Any = None, exclusion_fn: Any = None,
    ) -> None:  # fmt: skip
        if not isinstance(module, GraphModule):
            raise AssertionError(f"Expected GraphModule, got {type(module)}")
        self.module, self.sample_input = module, sample_input
        self.compare_fn, self.settings = compare_fn, settings
        self.module_exporter, self.exclusion_fn = module_exporter, exclusion_fn
        self.a_outputs: dict[str, Any] = {}
        self.b_outputs: dict[str, Any] = {}
        self.results: dict[Any, Any] = {}
        self.reports: list[list[str]] = []
        self.iteration = 0
        self.run_shape_prop()
        nodes = {node for node in module.graph.nodes if node.op in CALLABLE_NODE_OPS}
        self.fusions = FxNetAccFusionsFinder(module, nodes)()
        names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
        if len(names) != len(sample_input):
            raise AssertionError(
                f"Placeholder count ({len(names)}) does not match sample_input count "
                f"({len(sample_input)})"
            )
        self.a_outputs.update(zip(names, sample_input))
        self.b_outputs.update(zip(names, sample_input))

    def run_shape_prop(self) -> None:
        """Notes what values look like."""
        ShapeProp(self.module).propagate(*self.sample_input)

    def run_a(self, mod: GraphModule, inputs: Any, report_idx: int = -1) -> Any:
        """Runs a part the first way."""
        raise RuntimeError("run_a() is not implemented.")

    def run_b(self, mod: GraphModule, inputs: Any, report_idx: int = -1) -> Any:
        """Runs a part the second way."""
        raise RuntimeError("run_b() is not implemented.")

    # ---- one part -------------------------------------------------------------------------------

    def _tag_nodes(self, selected_nodes: NodeSet) -> None:
        """Tags the nodes of a part, those before it and those after."""
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            before = [n.tag for n in node.all_input_nodes if n.op in CALLABLE_NODE_OPS]
            after = bool({"minimize", "main_1"} & set(before))
            node.tag = "minimize" if node in selected_nodes else "main_1" if after else "main_0"

    def _build_submodule(self, nodes: NodeSet) -> tuple[GraphModule, str]:
        """The module split at a part, and the part's name."""
        self._tag_nodes(nodes)
        split = split_by_tags(self.module, ["main_0", "minimize", "main_1"])
        names = [name for name, _ in split.named_children() if "minimize" in name]
        if len(names) != 1:
            what = (
                "Expected only one minimize submodule"
                if names
                else "Minimize submodule was not found"
            )
            raise FxNetMinimizerBadModuleError(f"{what} with nodes {nodes}")
        return split, names[0]

    def _get_submod_inputs(self, main_module: GraphModule, submod_path: str) -> tuple[Any, Any]:
        """The inputs of a part for both ways: results that are kept, or those of a run."""
        part = getattr(main_module, submod_path)
        names = [node.name for node in part.graph.nodes if node.op == "placeholder"]
        if set(names) <= self.a_outputs.keys():
            first = [self.a_outputs[name] for name in names]
            second = [self.b_outputs[name] for name in names]
        else:
            if self.settings.accumulate_error:
                print(f"Can't find previous stored outputs named {names}!")
            seen: list[Any] = []
            handle = part.register_forward_pre_hook(lambda module, given: seen.append(given))
            main_module(*self.sample_input)
            handle.remove()
            first = second = seen[-1]
        return first, (second if self.settings.accumulate_error else first)

    def _store_outputs(self, a_result: Any, b_result: Any, submodule: GraphModule) -> None:
        """Keeps results by the names of their nodes."""
        results = submodule.graph.output_node().args[0]
        if isinstance(results, Node):
            results, a_result, b_result = (results,), (a_result,), (b_result,)
        for place, node in enumerate(results):
            self.a_outputs[node.name] = a_result[place]
            self.b_outputs[node.name] = b_result[place]

    def _run_and_compare(
        self, split_module: GraphModule, submod_name: str, output_names: Names,
        report_idx: int = -1,
    ) -> None:  # fmt: skip
        """Runs a part both ways; raises where that fails, or the results differ."""
        part = getattr(split_module, submod_name)
        a_input, b_input = self._get_submod_inputs(split_module, submod_name)
        if not self.reports:
            self.reports.append([])
            self.iteration = 1
        report = self.reports[report_idx if report_idx >= 0 else self.iteration - 1]
        report.append("Run and compare ...")
        if output_names and not self.settings.all_outputs:
            part.graph.erase_node(part.graph.output_node())
            wanted = [node for node in part.graph.nodes if node.name in output_names]
            part.graph.output(wanted[0] if len(wanted) == 1 else tuple(wanted))
            part.graph.lint()
            part.recompile()
        key = map_arg(part.graph.output_node().args, lambda node: node.name)
        try:
            a_result = self.run_a(part, a_input, report_idx)
            b_result = self.run_b(part, b_input, report_idx)
            self._store_outputs(a_result, b_result, part)
        except Exception as error:
            text = f"Exception raised when running {submod_name}: {error}"
            report.append(text)
            raise FxNetMinimizerRunFuncError(text) from error
        names = [str(each) for each in key] if output_names is None else output_names
        number, alike = self.compare_fn(a_result, b_result, names)
        self.results[key] = number
        report.append(f"Numerical accuracy = {number}")
        if alike:
            return
        report.append(f"Result mismatch for {key}")
        if self.module_exporter:
            name = key[-1] if isinstance(key, tuple) else key
            name = str(name[0]) if isinstance(name, tuple) else name
            self.module_exporter(a_input, part, f"{name}_cpu")
            self.module_exporter(b_input, part, f"{name}_acc")
        raise FxNetMinimizerResultMismatchError(f"Result mismatch for {key}")

    def _tried(self, nodes: NodeSet, names: Names) -> Exception | None:
        """The error of a part; None where both ways agree."""
        try:
            self._run_and_compare(*self._build_submodule(nodes), names)
        except _FOUND as error:
            return error
        return None

    def _begun(self, *lines: str) -> list[str]:
        """The report of a new step."""
        self.iteration += 1
        self.reports.append(list(lines))
        return self.reports[-1]

    def _kept(self, nodes: NodeList, start: int = -1, end: int = -1) -> NodeList:
        """The nodes that are to be looked at."""
        if self.exclusion_fn is not None:
            self.exclusion_fn(nodes, start, end)
        return nodes

    # ---- searches -------------------------------------------------------------------------------

    def _binary_search(self, nodes: NodeList, start: int, end: int) -> NodeSet:
        current = self._kept(nodes[start:end], start, end)
        if not current:
            self.reports.append(["All nodes are excluded by user"])
            return set()
        report = self._begun(
            f"Binary search iteration {self.iteration + 1}",
            f"From node index {start}:{current[0].name} to {end - 1}:{current[-1].name}. Size of "
            f"the interested node list is {len(current)}",
        )
        if self._tried(set(current), [current[-1].name]) is None:
            report.append("No discrepancy found.")
            self.print_report(report)
            return set()
        if len(current) == 1:
            report.append(f"The search is successful with culprit = {set(current)}.")
            self.print_report(report)
            return set(current)
        report.append(
            "Proceed to split and lower the halves of the current sub-module individually."
        )
        self.print_report(report)
        middle = start + len(current) // 2
        found = self._binary_search(nodes, start, middle)
        if not found or self.settings.find_all:
            found |= self._binary_search(nodes, middle, end)
        return found

    def _sequential_traverse(self, nodes: NodeList) -> NodeSet:
        found: NodeSet = set()
        for node in nodes:
            report = self._begun(
                f"Sequential traverse iteration {self.iteration + 1}.", f"Visit node: {node.name}"
            )
            if not self._kept([node]):
                report.append(f"User exclusion : {node.name}")
                self.print_report(report)
                continue
            group = self.fusions.get(node, {node})
            error = self._tried(group, [node.name])
            if error is not None:
                numeric = isinstance(error, FxNetMinimizerResultMismatchError)
                found |= {node} if numeric else group
                kind = "numeric" if numeric else "run"
                report.append(f"Found culprit from {kind} error: {node}")
            self.print_report(report)
            if found and not self.settings.find_all:
                break
        return found

    def _accumulate_traverse(self, nodes: NodeList) -> NodeSet:
        if self.settings.find_all:
            print("'Find All' mode is not supported in accumulate traversal.")
            return set()
        together: NodeSet = set()
        for node in nodes:
            report = self._begun(
                f"Accumulate traverse iteration {self.iteration + 1}.", f"Add node: {node.name}"
            )
            together.add(node)
            error = self._tried(together, [node.name])
            if error is not None:
                report.append(f"Found culprit {node}")
            self.print_report(report)
            if error is not None:
                return {node}
        return set()

    def _defined_traverse(self, nodes: NodeList) -> NodeSet:
        nodes = self._kept(nodes)
        if not nodes:
            self.reports.append(["All nodes are excluded by user"])
            return set()
        report = self._begun(f"Defined graph from {nodes[0].name} to {nodes[-1].name}")
        found = set(nodes) if self._tried(set(nodes), [nodes[-1].name]) is not None else set()
        if found:
            report.append(f"Found culprit {found}")
        self.print_report(report)
        return found

    def _block_edge(self, nodes: NodeList, last: bool) -> int | None:
        """The place of the last node up to which all is well but for it, or of the first from
        which on; found by halves."""

        def fails(place: int) -> bool:
            current = self._kept(nodes[: place + 1] if last else nodes[place:])
            report = self._begun(
                f"Block search iteration {self.iteration + 1}",
                f"Search for {'last' if last else 'first'} node in culprits at {place}",
            )
            error = self._tried(set(current), [current[-1].name]) if current else None
            report.append("Culprits found" if error is not None else "Culprits not found")
            self.print_report(report)
            return error is not None

        low, high = 0, len(nodes) - 1
        if not fails(high if last else low):
            return None
        while low < high:  # nodes up to `high`, or from `low` on, fail
            middle = (low + high + (not last)) // 2
            if fails(middle):
                low, high = (low, middle) if last else (middle, high)
            else:
                low, high = (middle + 1, high) if last else (low, middle - 1)
        return low

    def _block_traverse(self, nodes: NodeList, find_last_node: bool | None) -> NodeSet:
        first, last = 0, len(nodes) - 1
        if find_last_node is None or find_last_node:
            found = self._block_edge(nodes, last=True)
            if found is None:
                return set()
            last = found
        if find_last_node is None or not find_last_node:
            found = self._block_edge(nodes[: last + 1], last=False)
            if found is None:
                return set()
            first = found
        self.reports.append([f"Found minimum block ({nodes[first]},{nodes[last]})"])
        return set(nodes[first : last + 1])

    def _skip_traverse(self, nodes: NodeList, skip_nodes: list[str]) -> NodeSet:
        """Runs the stretches between nodes that are skipped."""
        found: NodeSet = set()
        stretch: NodeList = []
        for node in [*nodes, None]:
            if node is not None and node.name not in skip_nodes:
                stretch.append(node)
                continue
            current = self._kept(list(stretch))
            stretch = []
            if not current:
                continue
            report = self._begun(f" Nodes block {self.iteration + 1}.")
            group = set(current)
            for each in current:
                group |= self.fusions.get(each, set())
            if self._tried(group, []) is not None:
                found |= group
                report.append(f"Found culprit {group}")
            self.print_report(report)
            if found and not self.settings.find_all:
                break
        return found

    # ---- what a program calls -------------------------------------------------------------------

    def _collect_nodes(self, start: str | None, end: str | None) -> NodeList:
        """The nodes from one name to another."""
        found: NodeList = []
        inside = start is None
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            inside = inside or node.name == start
            if inside:
                found.append(node)
            if node.name == end:
                break
        return found

    def run_nodes(self, start: str | None = None, end: str | None = None) -> None:
        """Runs the nodes from one name to another both ways, and prints where they differ."""
        nodes = self._collect_nodes(start, end)
        group = set(nodes)
        for node in nodes:
            group |= self.fusions.get(node, set())
        names = [node.name for node in nodes] if self.settings.return_intermediate else []
        error = self._tried(group, names)
        if error is not None:
            print(error)

    def print_report(self, report: list[str]) -> None:
        """Prints the lines of a step."""
        for place, line in enumerate(report):
            print(f" . {line}" if place else line)

    def print_reports(self) -> None:
        """Prints all steps."""
        for report in self.reports:
            self.print_report(report)

    def minimize(
        self, start: str | None = None, end: str | None = None,
        skip_nodes: list[str] | None = None, find_last_node: bool | None = None,
    ) -> NodeSet:  # fmt: skip
        """The nodes for which the two ways differ, among those from one name to another."""
        print(self.settings)
        print(self.module.graph)
        nodes = self._collect_nodes(start, end)
        method = self.settings.traverse_method
        if method == "skip":
            if skip_nodes is None:
                raise RuntimeError("'skip_nodes' can't be None when 'traverse_method' is 'skip'.")
            return self._skip_traverse(nodes, skip_nodes)
        if method == "block":
            return self._block_traverse(nodes, find_last_node)
        searches: dict[str, Callable[[NodeList], NodeSet]] = {
            "sequential": self._sequential_traverse,
            "binary": lambda each: self._binary_search(each, 0, len(each)),
            "accumulate": self._accumulate_traverse,
            "defined": self._defined_traverse,
        }
        if method not in searches:
            raise RuntimeError(f"Unknown traverse method {method}!")
        return searches[method](nodes)
