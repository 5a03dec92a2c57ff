"""Which call read, wrote, allocated or freed which tensor, from a tree of events.

A tensor (`TensorKey`) has a version for each write that was seen, the first being 0.  The nodes of
the graph are the outermost calls of operators of PyTorch's table, nodes of backward passes, and
what was allocated or freed outside of both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tritorch.core.device import device as Device
from tritorch.profiler._utils import traverse_dfs
from tritorch.profiling.event_trees import EventType, ProfilerEvent, TensorMetadata
from tritorch.profiling.kinds import RecordScope
from tritorch.schema import table
from tritorch.schema.signature import FunctionSchema
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import (
    AnyType,
    BoolType,
    ComplexType,
    FloatType,
    IntType,
    ListType,
    NoneType,
    NumberType,
    OptionalType,
)


@dataclasses.dataclass(eq=True, unsafe_hash=False, frozen=True)
class Key:
    """Something on a device."""

    device: Device


@dataclasses.dataclass
class _Storage:
    """An address, and which of the allocations there."""

    ptr: int
    allocation_id: int

    def __repr__(self) -> str:
        return f"{hex(self.ptr):>18} ({self.allocation_id})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Storage) and self.allocation_id == other.allocation_id

    def __hash__(self) -> int:
        return hash(self.allocation_id)


@dataclasses.dataclass(eq=True, unsafe_hash=True, frozen=True)
class TensorKey(Key):
    """The memory that a tensor has at a time."""

    id: int
    storage: _Storage

    def __repr__(self) -> str:
        return f"id={self.id}: {self.storage!r:<24} ({self.device})"

    def __lt__(self, other: TensorKey) -> bool:
        return self._as_sortable < other._as_sortable

    @property
    def _as_sortable(self) -> tuple[int, int, str, int]:
        return self.id, self.storage.allocation_id, self.device.type, self.device.index or 0

    @classmethod
    def _make(
        cls, tensor_id: int | None, storage_ptr: int | None, allocation_id: int | None, device: Any
    ) -> TensorKey | None:
        if tensor_id is None or storage_ptr is None or allocation_id is None:
            return None
        return cls(device, tensor_id, _Storage(storage_ptr, allocation_id))

    @classmethod
    def from_allocation(cls, alloc: Any) -> TensorKey | None:
        """The key of memory; None if no tensor was seen with it."""
        return cls._make(alloc.id, alloc.ptr, alloc.allocation_id, alloc.device)

    @classmethod
    def from_tensor(cls, t: TensorMetadata | None) -> TensorKey | None:
        """The key of a call's argument; None of what has no memory."""
        if t is None:
            return None
        return cls._make(t.id, t.storage_data_ptr, t.allocation_id, t.device)


def is_call(event: ProfilerEvent) -> bool:
    """Whether it is of an operator, a node or an annotation."""
    return event.tag == EventType.TorchOp


def is_memory(event: ProfilerEvent) -> bool:
    """Whether memory was allocated or freed."""
    return event.tag == EventType.Allocation


def tensors_of(fields: Any) -> Iterator[TensorMetadata]:
    """The tensors among a call's arguments, in lists too."""
    for value in fields.inputs:
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, TensorMetadata):
                yield each


def get_scopes(event: ProfilerEvent | None) -> tuple[RecordScope, ...]:
    """What an event is of, and what is around it."""
    found = []
    while event is not None:
        if is_call(event):
            found.append(event.extra_fields.scope)
        event = event.parent
    return tuple(found)


def is_of_backward(event: ProfilerEvent) -> bool:
    """Whether it is of a backward pass."""
    return RecordScope.BACKWARD_FUNCTION in get_scopes(event)


_TYPES: tuple[tuple[type, Any], ...] = (
    (TensorType, TensorMetadata), (NoneType, type(None)), (BoolType, bool), (IntType, int),
    (FloatType, float), (ComplexType, complex), (NumberType, (bool, int, float, complex)),
)  # fmt: skip


class SchemaMatcher:
    """The overloads of PyTorch's table that a call may be of, by its arguments."""

    @classmethod
    def inputs_are_mutable(cls, t: Any) -> tuple[bool | None, ...]:
        """Of each argument: whether some overload writes it; None if there is no overload."""
        schemas = cls.match_schemas(t)
        if not schemas:
            return (None,) * len(t.inputs)
        columns = zip(*(schema.arguments for schema in schemas))
        return tuple(any(argument.is_write for argument in column) for column in columns)

    @classmethod
    def match_schemas(cls, t: Any) -> tuple[FunctionSchema, ...]:
        """Those whose arguments are as many, and of the same types."""
        return tuple(
            schema for schema in cls.lookup_schemas(t.name) or ()
            if len(schema.arguments) == len(t.inputs)
            and all(cls._types_match(v, a.type) for v, a in zip(t.inputs, schema.arguments))
        )  # fmt: skip

    @classmethod
    def _types_match(cls, observed: Any, schema_type: Any) -> bool:
        if isinstance(schema_type, OptionalType):
            return observed is None or cls._types_match(observed, schema_type.getElementType())
        if isinstance(schema_type, AnyType):
            return True
        if isinstance(schema_type, ListType):
            element = schema_type.getElementType()
            if isinstance(element, TensorType) or isinstance(observed, list):
                of = isinstance(observed, list)
                return of and all(cls._types_match(each, element) for each in observed)
        for kind, types in _TYPES:
            if isinstance(schema_type, kind):
                return isinstance(observed, types)
        return observed is None  # what profiles do not write down

    @staticmethod
    def lookup_schemas(name: str) -> tuple[FunctionSchema, ...] | None:
        """All overloads of a name; None of what cannot be an operator's."""
        space, found, plain = name.partition("::")
        if not found:
            return None
        return tuple(table.find(plain, each, space) for each in table.overloads(plain, space))


class OpTree:
    """The tree of a profile's events."""

    def __init__(self, result: Any) -> None:
        self._root_nodes = result.experimental_event_tree()
        self._sorted_nodes = tuple(sorted(self.dfs(), key=lambda event: event.start_time_ns))

    def dfs(self, *args: Any, **kwargs: Any) -> Iterator[ProfilerEvent]:
        """All events, each before what is inside of it."""
        yield from traverse_dfs(self._root_nodes, *args, **kwargs)

    @property
    def sorted_nodes(self) -> tuple[ProfilerEvent, ...]:
        """All events as they began."""
        return self._sorted_nodes


class SizeMap:
    """How many bytes tensors have: what was allocated, or else what their sizes and strides say."""

    def __init__(self, op_tree: OpTree) -> None:
        self._values: dict[TensorKey, int] = {}
        allocated: dict[TensorKey, int] = {}
        for event in op_tree.sorted_nodes:
            fields = event.extra_fields
            if is_memory(event):
                if (key := TensorKey.from_allocation(fields)) is not None:
                    allocated.setdefault(key, abs(fields.alloc_size))
            elif is_call(event):
                for tensor in tensors_of(fields):
                    self._update_values(tensor)
            else:
                for tensor in told_by(event):
                    self._update_values(tensor)
        self._values.update(allocated)

    def _update_values(self, t: TensorMetadata) -> None:
        key = TensorKey.from_tensor(t)
        if key is None or t.dtype is None:
            return
        elements = max((n * step for n, step in zip(t.sizes, t.strides)), default=1)
        self._values[key] = max(self._values.get(key, 0), elements * t.dtype.itemsize)

    def __getitem__(self, key: TensorKey) -> int:
        return self._values[key]


def told_by(event: ProfilerEvent) -> Iterator[TensorMetadata]:
    """The tensors that a module or an optimizer says that it has."""
    fields = event.extra_fields
    module, optimizer = getattr(fields, "module", None), getattr(fields, "optimizer", None)
    rows: list[tuple[Any, ...]] = []
    if module is not None:
        rows += [row[1:] for row in module.parameters]
    if optimizer is not None:
        for parameter, gradient, state in optimizer.parameters:
            rows.append((parameter, gradient, *(value for _, value in state)))
    for row in rows:
        yield from (tensor for tensor in row if tensor is not None)


@dataclasses.dataclass
class DataFlowEdge:
    """What a node does with a tensor: input_version is None where it allocates it, mutated where
    it frees it."""

    input_version: int | None = None
    mutated: bool | None = False

    @property
    def is_allocation(self) -> bool:
        """Whether the tensor was not there before."""
        return self.input_version is None

    @property
    def is_deletion(self) -> bool:
        """Whether the tensor is not there afterwards."""
        return self.mutated is None


class DataFlowNode:
    """A call with the tensors that it meets."""

    def __init__(self, event: ProfilerEvent, graph: DataFlowGraph) -> None:
        self._event, self._graph = event, graph
        self._edges = self._determine_edges()
        for key, edge in self._edges.items():
            if edge.mutated and not edge.is_allocation:
                graph.bump(key)

    def _determine_edges(self) -> dict[TensorKey, DataFlowEdge]:
        inside = list(traverse_dfs([self._event]))
        edges: dict[TensorKey, DataFlowEdge] = {}

        def met(key: TensorKey) -> DataFlowEdge:
            return edges.setdefault(key, DataFlowEdge(self._graph.lookup(key)))

        for key, written in _writes(inside).items():
            met(key).mutated = True in written or written == {None}
        changed: list[tuple[TensorKey, bool]] = []
        for event in inside:
            if is_memory(event):
                memory = TensorKey.from_allocation(event.extra_fields)
                if memory is not None:
                    changed.append((memory, event.extra_fields.alloc_size > 0))
        for key, allocated in changed:
            if not allocated:
                met(key).mutated = None
        for key, allocated in changed:
            if allocated:
                met(key).input_version = None
        return dict(sorted(edges.items()))

    @property
    def inputs(self) -> dict[TensorKey, tuple[bool, int]]:
        """What was there before: whether it is written, and its version."""
        return {
            key: (bool(edge.mutated), edge.input_version)
            for key, edge in self._edges.items() if edge.input_version is not None
        }  # fmt: skip

    @property
    def outputs(self) -> dict[TensorKey, int]:
        """What was allocated or written, with its version from then on."""
        return {
            key: 0 if edge.input_version is None else edge.input_version + 1
            for key, edge in self._edges.items()
            if (edge.is_allocation and not edge.is_deletion) or edge.mutated
        }

    @property
    def intermediates(self) -> tuple[TensorKey, ...]:
        """What was allocated and freed."""
        return tuple(
            key for key, edge in self._edges.items() if edge.is_allocation and edge.is_deletion
        )

    @property
    def start_time(self) -> int:
        """When it began."""
        return self._event.start_time_ns


def _writes(events: list[ProfilerEvent]) -> dict[TensorKey, set[bool | None]]:
    """By tensor: whether calls write it, None where that is not known.  A node writes nothing but
    by the operators that it calls."""
    found: dict[TensorKey, set[bool | None]] = {}
    for fields in (event.extra_fields for event in events if is_call(event)):
        is_node = fields.scope == RecordScope.BACKWARD_FUNCTION
        for value, written in zip(fields.inputs, SchemaMatcher.inputs_are_mutable(fields)):
            if is_node and written is None:
                written = False
            for each in value if isinstance(value, list) else (value,):
                if not isinstance(each, TensorMetadata):
                    continue
                if (key := TensorKey.from_tensor(each)) is not None:
                    found.setdefault(key, set()).add(written)
    return found


class DataFlowGraph:
    """All nodes, as they began."""

    def __init__(self, op_tree: OpTree) -> None:
        self._op_tree = op_tree
        self._leaf_events = self._extract_leaf_events(op_tree)
        self._active_version: dict[TensorKey, int | None] = {}
        self._flow_nodes = [DataFlowNode(event, self) for event in self._leaf_events]

    @property
    def flow_nodes(self) -> tuple[DataFlowNode, ...]:
        """The nodes."""
        return tuple(self._flow_nodes)

    @property
    def leaf_events(self) -> tuple[ProfilerEvent, ...]:
        """The events that the nodes are of."""
        return self._leaf_events

    def validate(self) -> None:
        """AssertionError if a version of a tensor has two nodes that make it, or none."""
        made: set[tuple[TensorKey, int]] = set()
        latest: dict[TensorKey, int] = {}
        for node in self._flow_nodes:
            for key, (_, version) in node.inputs.items():
                if latest.setdefault(key, 0) != version:
                    raise AssertionError(f"version mismatch for input: {key}: {version}")
            for item in node.outputs.items():
                if item in made:
                    raise AssertionError(f"duplicate outputs: {node._event.name} {item}")
                made.add(item)
                latest[item[0]] = item[1]

    @staticmethod
    def _extract_leaf_events(op_tree: OpTree) -> tuple[ProfilerEvent, ...]:
        leaves: list[ProfilerEvent] = []

        def inside(event: ProfilerEvent) -> list[ProfilerEvent]:
            fields = event.extra_fields
            if is_memory(event) or (
                is_call(event)
                and (
                    fields.scope == RecordScope.BACKWARD_FUNCTION
                    or SchemaMatcher.match_schemas(fields)
                )
            ):
                leaves.append(event)
                return []
            return event.children

        for _ in op_tree.dfs(children_fn=inside):
            pass
        return tuple(sorted(leaves, key=lambda event: event.start_time_ns))

    def lookup(self, key: TensorKey) -> int:
        """The version that a tensor has by now."""
        version = self._active_version.setdefault(key, 0)
        if version is None:
            raise AssertionError(f"{key} was freed")
        return version

    def bump(self, key: TensorKey) -> None:
        """A tensor was written."""
        self._active_version[key] = self.lookup(key) + 1

    def delete(self, key: TensorKey) -> None:
        """A tensor was freed."""
        self.lookup(key)
        self._active_version[key] = None
