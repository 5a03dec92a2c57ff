"""Memory of a profile by category over time, in PyTorch's terms.

Note [Categories of memory]: `AccumulateGrad`, modules and optimizers tell of gradients, modules and
optimizers of parameters and state.  The rest follows from what calls read and write
(`_data_flow.py`): inputs are what gradients are computed from and what depends on none; parameters
that nobody tells of are read in forward calls and changed by what depends on gradients; activations
depend on inputs; what a backward pass makes besides is its own detail; and what a call frees itself
is temporary.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import json
from collections.abc import Iterator
from typing import Any

from tritorch.core.device import device as Device
from tritorch.profiler._data_flow import (
    DataFlowEdge,
    DataFlowGraph,
    DataFlowNode,
    Key,
    OpTree,
    SchemaMatcher,
    SizeMap,
    TensorKey,
    _Storage as _Storage,
    get_scopes as get_scopes,
    is_call,
    is_memory,
    is_of_backward,
)
from tritorch.profiling.event_trees import ProfilerEvent

__all__ = [
    "Action", "Category", "CategoryDict", "CategoryElement", "DataFlowEdge", "DataFlowGraph",
    "DataFlowNode", "Key", "MemoryProfile", "MemoryProfileTimeline", "OpTree", "SchemaMatcher",
    "SizeMap", "TensorKey", "extract_gradients", "extract_parameters", "get_scopes",
]  # fmt: skip

TensorAndID = tuple[TensorKey, int]
KeyAndID = tuple[Key, int]


class Category(enum.Enum):
    """What memory is for."""

    INPUT = enum.auto()
    TEMPORARY = enum.auto()
    ACTIVATION = enum.auto()
    GRADIENT = enum.auto()
    AUTOGRAD_DETAIL = enum.auto()
    PARAMETER = enum.auto()
    OPTIMIZER_STATE = enum.auto()


_CATEGORY_TO_COLORS = {
    Category.PARAMETER: "darkgreen", Category.OPTIMIZER_STATE: "goldenrod",
    Category.INPUT: "black", Category.TEMPORARY: "mediumpurple", Category.ACTIVATION: "red",
    Category.GRADIENT: "mediumblue", Category.AUTOGRAD_DETAIL: "royalblue", None: "grey",
}  # fmt: skip
_CATEGORY_TO_INDEX = {category: i for i, category in enumerate(_CATEGORY_TO_COLORS)}


class Action(enum.Enum):
    """What happened to memory."""

    PREEXISTING = enum.auto()
    CREATE = enum.auto()
    INCREMENT_VERSION = enum.auto()
    DESTROY = enum.auto()


_ACTION_TO_INDEX = {action: action.value for action in Action}


def _extract_parameters_and_gradients(
    node: ProfilerEvent,
) -> Iterator[tuple[TensorKey | None, TensorKey | None]]:
    """(parameter, gradient) that an event tells of, or None of what it does not."""
    fields = node.extra_fields
    if is_call(node) and node.name == "torch::autograd::AccumulateGrad":
        calls = [each for each in node.children if is_call(each)]
        for each in calls[-1:]:  # what is done with the gradient that arrives
            yield None, TensorKey.from_tensor(each.extra_fields.result)
    elif getattr(fields, "module", None) is not None:
        for _, parameter, gradient in fields.module.parameters:
            yield TensorKey.from_tensor(parameter), TensorKey.from_tensor(gradient)
    elif getattr(fields, "optimizer", None) is not None:
        for parameter, gradient, _ in fields.optimizer.parameters:
            yield TensorKey.from_tensor(parameter), TensorKey.from_tensor(gradient)


def extract_parameters(node: ProfilerEvent) -> Iterator[TensorKey]:
    """The parameters that an event tells of."""
    for parameter, _ in _extract_parameters_and_gradients(node):
        if parameter is not None:
            yield parameter


def extract_gradients(node: ProfilerEvent) -> Iterator[tuple[TensorKey | None, TensorKey]]:
    """The gradients that an event tells of, each with its parameter where it tells that."""
    for parameter, gradient in _extract_parameters_and_gradients(node):
        if gradient is not None:
            yield parameter, gradient


@dataclasses.dataclass
class CategoryElement:
    """What a tensor is for: always, while it has some memory, or in some version."""

    by_id: Category | None = None
    by_key: dict[TensorKey, Category] = dataclasses.field(default_factory=dict)
    by_version: dict[TensorAndID, Category] = dataclasses.field(default_factory=dict)
    _by_id_keyset: set[TensorKey] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class CategoryDict:
    """What tensors are for, by id."""

    _values: collections.defaultdict[int, CategoryElement] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(CategoryElement)
    )

    def set_by_id(self, key: TensorKey, category: Category) -> None:
        """Notes it of the tensor, whatever memory it has."""
        self._values[key.id].by_id = category
        self._values[key.id]._by_id_keyset.add(key)

    def set_by_key(self, key: TensorKey, category: Category) -> None:
        """Notes it of all versions."""
        self._values[key.id].by_key[key] = category

    def set_by_version(self, key: TensorKey, version: int, category: Category) -> None:
        """Notes it of a version."""
        self._values[key.id].by_version[key, version] = category

    def setdefault_by_version(self, key: TensorKey, version: int, category: Category) -> None:
        """Notes it of a version of which nothing is noted."""
        self._values[key.id].by_version.setdefault((key, version), category)

    def get(self, key: Key, version: int) -> Category | None:
        """What it is for; None if that is not known."""
        if not isinstance(key, TensorKey):
            return None
        found = self._values[key.id]
        return found.by_id or found.by_key.get(key) or found.by_version.get((key, version))


class MemoryProfile:
    """What happened to the memory of a profile: Note [Categories of memory]."""

    def __init__(self, result: Any) -> None:
        self._op_tree = OpTree(result)
        self._data_flow_graph = DataFlowGraph(self._op_tree)
        self._size_map = SizeMap(self._op_tree)
        self._categories = CategoryDict()
        self._set_gradients_and_temporaries()
        self._set_parameters_using_python_tracer()
        self._set_inputs()
        self._set_parameters_using_data_flow()
        self._set_activations()
        self._set_optimizer_state()
        self._set_autograd_detail()

    @property
    def timeline(self) -> tuple[tuple[int, Action, KeyAndID, int], ...]:
        """(nanoseconds, what, (which, version), bytes), in time; -1: it was there before."""
        times: dict[tuple[TensorKey, bool], int] = {}
        found: list[tuple[int, Action, KeyAndID, int]] = []
        unknown: set[tuple[int, Device]] = set()
        for event in self._op_tree.sorted_nodes:
            if not is_memory(event):
                continue
            fields = event.extra_fields
            key = TensorKey.from_allocation(fields)
            if key is not None:
                times[key, fields.alloc_size > 0] = event.start_time_ns
                continue
            other: KeyAndID = (Key(fields.device), 0)
            where = fields.ptr, fields.device
            if fields.alloc_size > 0:
                unknown.add(where)
                found.append((event.start_time_ns, Action.CREATE, other, fields.alloc_size))
            else:
                if where not in unknown:
                    found.append((-1, Action.PREEXISTING, other, -fields.alloc_size))
                unknown.discard(where)
                found.append((event.start_time_ns, Action.DESTROY, other, -fields.alloc_size))
        found += [
            (time, action, (key, version), self._size_map[key])
            for time, action, (key, version) in self._changes(times)
        ]
        return tuple(sorted(found, key=lambda each: (each[0], each[1].value)))

    def _changes(
        self, times: dict[tuple[TensorKey, bool], int]
    ) -> Iterator[tuple[int, Action, TensorAndID]]:
        """What happens to tensors; times: of allocations (True) and frees."""
        snapshot = self._category_snapshot()
        last = dict(sorted(snapshot))
        for key, version in snapshot:
            if version == 0 and (key, True) not in times:
                yield -1, Action.PREEXISTING, (key, 0)
        for node in self._data_flow_graph.flow_nodes:
            for key, edge in node._edges.items():
                if edge.input_version is None:
                    yield times[key, True], Action.CREATE, (key, 0)
                elif edge.mutated:
                    yield node.start_time, Action.INCREMENT_VERSION, (key, edge.input_version)
                if edge.is_deletion:
                    yield times[key, False], Action.DESTROY, (key, last[key])

    def _is_gradient(self, key: TensorKey, version: int) -> bool:
        return self._categories.get(key, version) == Category.GRADIENT

    def _category_snapshot(self) -> dict[TensorAndID, Category | None]:
        """Every version of every tensor, with what it is for."""
        found: set[TensorAndID] = set()
        for node in self._data_flow_graph.flow_nodes:
            found.update(_inputs(node), node.outputs.items())
            found.update((key, 0) for key in node.intermediates)
        for element in self._categories._values.values():
            found.update((key, 0) for key in element._by_id_keyset)
        return {each: self._categories.get(*each) for each in sorted(found)}

    def _any_version_depends_on_gradient(self) -> set[int]:
        """The tensors of which some version is computed of gradients or parameters."""
        told = (Category.GRADIENT, Category.PARAMETER)
        found: set[int] = set()
        before = -1
        while before != len(found):  # a loop's next step begins with what the last one made
            before = len(found)
            for node in self._data_flow_graph.flow_nodes:
                ids = {
                    key.id for key, version in _inputs(node)
                    if key.id in found or self._categories.get(key, version) in told
                }  # fmt: skip
                if ids:
                    found |= ids
                    found.update(key.id for key in node.outputs)
        return found

    def _set_gradients_and_temporaries(self) -> None:
        for event in self._op_tree.dfs():
            for _, gradient in extract_gradients(event):
                self._categories.set_by_id(gradient, Category.GRADIENT)
        for node in self._data_flow_graph.flow_nodes:
            for key in node.intermediates:
                self._categories.set_by_key(key, Category.TEMPORARY)

    def _set_parameters_using_python_tracer(self) -> None:
        for event in self._op_tree.dfs():
            for parameter in extract_parameters(event):
                self._categories.set_by_id(parameter, Category.PARAMETER)

    def _set_inputs(self) -> None:
        depending = self._any_version_depends_on_gradient()
        told = (Category.GRADIENT, Category.PARAMETER)
        producing: set[TensorAndID] = set()
        for node in reversed(self._data_flow_graph.flow_nodes):
            met = {*_inputs(node), *node.outputs.items()}
            if met & producing or any(self._categories.get(*each) in told for each in met):
                producing |= met
        for node in self._data_flow_graph.flow_nodes:
            if is_of_backward(node._event):
                producing -= set(node.outputs.items())
        for key, version in producing:
            if key.id not in depending:
                self._categories.setdefault_by_version(key, version, Category.INPUT)

    def _set_parameters_using_data_flow(self) -> None:
        snapshot = self._category_snapshot()
        forward = {each for each, category in snapshot.items() if category == Category.INPUT}
        candidates: set[TensorAndID] = set()
        for node in self._data_flow_graph.flow_nodes:
            inputs, outputs = _inputs(node), set(node.outputs.items())
            if (
                forward & inputs
                and not is_of_backward(node._event)
                and not any(self._is_gradient(*each) for each in inputs | outputs)
            ):
                forward |= outputs
                candidates |= inputs - forward
        used: set[TensorAndID] = set()  # for gradients
        for node in reversed(self._data_flow_graph.flow_nodes):
            outputs = set(node.outputs.items())
            if outputs & used or any(self._is_gradient(*each) for each in outputs):
                used |= _inputs(node)
        ids = {key.id for key, _ in candidates & used} & self._any_version_depends_on_gradient()
        for key, _ in snapshot:
            if key.id in ids:
                self._categories.set_by_id(key, Category.PARAMETER)

    def _set_activations(self) -> None:
        required = {Category.INPUT, Category.ACTIVATION}
        allowed = required | {Category.PARAMETER, Category.TEMPORARY}
        for node in self._data_flow_graph.flow_nodes:
            met = {self._categories.get(*each) for each in _inputs(node)}
            if met & required and met <= allowed and not is_of_backward(node._event):
                for key, version in node.outputs.items():
                    self._categories.setdefault_by_version(key, version, Category.ACTIVATION)

    def _set_optimizer_state(self) -> None:
        for event in self._op_tree.dfs():
            if (told := getattr(event.extra_fields, "optimizer", None)) is None:
                continue
            for _, _, state in told.parameters:
                for _, tensor in state:
                    if (key := TensorKey.from_tensor(tensor)) is not None:
                        self._categories.set_by_id(key, Category.OPTIMIZER_STATE)

    def _set_autograd_detail(self) -> None:
        own = (None, Category.AUTOGRAD_DETAIL)
        for node in self._data_flow_graph.flow_nodes:
            if not is_of_backward(node._event):
                continue
            for key, version in node.outputs.items():
                if version == 0 or self._categories.get(key, version - 1) in own:
                    self._categories.setdefault_by_version(key, version, Category.AUTOGRAD_DETAIL)


def _inputs(node: DataFlowNode) -> set[TensorAndID]:
    return {(key, version) for key, (_, version) in node.inputs.items()}


class MemoryProfileTimeline:
    """The files that show it."""

    def __init__(self, memory_profile: MemoryProfile) -> None:
        self.timeline = memory_profile.timeline
        self.categories = memory_profile._categories

    def _of(self, device_str: str) -> Iterator[tuple[int, Action, Category | None, int]]:
        """(nanoseconds, what, category, change in bytes): a write takes memory from one category
        to another."""
        wanted = Device(device_str)
        for time, action, (key, version), size in self.timeline:
            if key.device != wanted:
                continue
            before = self.categories.get(key, version)
            leaves = action in (Action.DESTROY, Action.INCREMENT_VERSION)
            yield time, action, before, -size if leaves else size
            if action == Action.INCREMENT_VERSION:
                yield time, action, self.categories.get(key, version + 1), size

    def _coalesce_timeline(self, device_str: str) -> tuple[list[int], list[list[int]]]:
        """Microseconds, and bytes from then on: 0, and one number for each category."""
        times: list[int] = []
        sizes: list[list[int]] = []
        first = min((t for t, *_ in self._of(device_str) if t >= 0), default=0) // 1000
        for nanoseconds, _, category, change in self._of(device_str):
            time = first if nanoseconds < 0 else nanoseconds // 1000
            if not times or time != times[-1]:
                times.append(time)
                sizes.append(sizes[-1].copy() if sizes else [0] * (len(_CATEGORY_TO_INDEX) + 1))
            sizes[-1][_CATEGORY_TO_INDEX[category] + 1] += change
        return times, sizes

    def export_memory_timeline(self, path: str, device_str: str) -> None:
        """[times, sizes by category] as JSON."""
        with open(path, "w") as file:
            json.dump(self._coalesce_timeline(device_str), file)

    def export_memory_timeline_raw(self, path: str, device_str: str) -> None:
        """[(nanoseconds, action, bytes, category)] as JSON, with categories' numbers."""
        rows = [
            (time, _ACTION_TO_INDEX[action], change, _CATEGORY_TO_INDEX[category])
            for time, action, category, change in self._of(device_str)
        ]
        with open(path, "w") as file:
            json.dump(rows, file)

    def export_memory_timeline_html(
        self, path: str, device_str: str, figsize: tuple[int, int] = (20, 12),
        title: str | None = None,
    ) -> None:  # fmt: skip
        """A page with the curve, which needs nothing but a browser."""
        times, sizes = self._coalesce_timeline(device_str)
        with open(path, "w", encoding="utf-8") as file:
            file.write(_page(times, sizes, title or f"Memory of {device_str}"))


def _page(times: list[int], sizes: list[list[int]], title: str) -> str:
    """The areas of all categories as one picture of SVG."""
    width, height = 1200, 600
    first, span = (times[0], max(times[-1] - times[0], 1)) if times else (0, 1)
    most = max((sum(row) for row in sizes), default=0) or 1
    shapes, legend = [], []
    below = [0] * len(times)
    for category, colour in _CATEGORY_TO_COLORS.items():
        above = [b + row[_CATEGORY_TO_INDEX[category] + 1] for b, row in zip(below, sizes)]
        edge = list(zip(times, above)) + list(zip(reversed(times), reversed(below)))
        points = " ".join(
            f"{(t - first) / span * width:.1f},{height - n / most * height:.1f}" for t, n in edge
        )
        shapes.append(f'<polygon points="{points}" fill="{colour}" fill-opacity="0.7"/>')
        name = "Unknown" if category is None else category.name
        legend.append(f'<span style="color:{colour}">&#9632; {name}</span>')
        below = above
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{title}</title></head><body>'
        f"<h1>{title}</h1><p>Most: {most / 2**30:.4f} GiB; {span / 1e3:.3f} ms</p>"
        f'<p>{" ".join(legend)}</p><svg width="{width}" height="{height}">{"".join(shapes)}</svg>'
        "</body></html>\n"
    )
