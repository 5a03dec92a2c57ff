"""Nodes of the recorded graph, their hooks, and how leaves appear among them."""

from __future__ import annotations

import abc
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.core.device import device
from tritorch.core.dtype import dtype
from tritorch.core.naming import as_native
from tritorch.core.tensor import Tensor


class RemovableHandle:
    """What a registration returns: `remove()` undoes it."""

    next_id = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        """extra_dict: a dict, or a list of dicts, that the key leaves too."""
        extra = (extra_dict,) if isinstance(extra_dict, dict) else extra_dict or ()
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.extra_dict_ref = tuple(map(weakref.ref, extra))
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    def remove(self) -> None:
        """Removes the hook; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None and self.id in hooks:
                del hooks[self.id]

    def __getstate__(self) -> Any:
        return self.hooks_dict_ref(), self.id, tuple(each() for each in self.extra_dict_ref)

    def __setstate__(self, state: Any) -> None:
        hooks, self.id = state[:2]
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        extra = state[2] if len(state) > 2 and state[2] else ()
        self.extra_dict_ref = tuple(map(weakref.ref, extra))
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


RemovableHandle.__module__ = "tritorch.utils.hooks"


class HookDict(OrderedDict[int, Any]):
    """Hooks in the order of their registration; handles refer to it weakly."""

    def add(self, hook: Any) -> RemovableHandle:
        """Registers a hook."""
        handle = RemovableHandle(self)
        self[handle.id] = hook
        return handle


class NodeHooks:
    """What is attached to a node besides its operator."""

    __slots__ = ("metadata", "packed", "post", "pre", "retained", "sequence", "tensor", "trace")

    def __init__(self) -> None:
        self.tensor: dict[int, HookDict] = {}  # by output
        self.pre = HookDict()
        self.post = HookDict()
        self.retained: dict[int, Any] = {}  # by output: a weak reference to its tensor
        self.metadata: dict[Any, Any] = {}
        self.trace: list[str] | None = None
        self.packed: Any = None  # the output, or outputs, as a pack hook made them
        self.sequence: int | None = None  # what a program has set


class InputMetadata(NamedTuple):
    """What a node knows of one of the gradients that it gets (`_input_metadata`)."""

    shape: list[int]
    dtype: dtype
    device: device
    is_nested_tensor: bool = False
    is_cpp_nested_tensor: bool = False


InputMetadata.__module__ = "tritorch._C._autograd"
as_native(InputMetadata, "torch._C._autograd._InputMetadata", final=False)


# What is ours of a node, and no name of PyTorch's.
_OWN = frozenset((*vars(_C.NodeBase), "_settled", "_full_name", "_kept", "_kept_tensors",
                  "edges_of", "_hooks")) - frozenset(vars(object))  # fmt: skip


class Node(_C.NodeBase):
    """One recorded call of an operator.

    Who looks at one by `grad_fn` or `next_functions` sees `shown(node)`: Note [Names of nodes] in
    ops/record/nodes.py."""

    __slots__ = ("__weakref__",)

    _settled = True  # False in the classes that records make
    _full_name = ""
    _kept: tuple[str, ...] = ()  # the names of what it keeps, in PyTorch
    _kept_tensors: frozenset[str] = frozenset()

    def name(self) -> str:
        """The class's name, "AddBackward0"."""
        kind = type(shown(self))
        return kind._full_name or kind.__name__

    def __repr__(self) -> str:
        return f"<{type(shown(self)).__name__} object at {id(self):#x}>"

    def __dir__(self) -> list[str]:
        kind = type(shown(self))
        raw = [f"_raw_saved_{name}" for name in kind._kept_tensors]
        shown_names = (n for n in super().__dir__() if n not in _OWN)
        return sorted({*shown_names, *(f"_saved_{name}" for name in kind._kept), *raw})

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """For each input: its node and which of that node's outputs it is."""
        outputs = self._node_outputs or (0,) * len(self._node_edges)
        found = tuple((_as_node(edge), nr) for edge, nr in zip(self._node_edges, outputs))
        order = getattr(self._node_op, "order", None)
        return found if order is None else order.edges(self, found)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for whoever wants to note something."""
        return self._hooks().metadata

    @property
    def requires_grad(self) -> bool:
        """Always: nothing else is recorded."""
        return True

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        several = bool(self._node_n_outputs)
        shapes, kinds = (
            (self._node_shape, self._node_dtype)
            if several
            else ((self._node_shape,), (self._node_dtype,))
        )
        stream = self._node_stream
        where = arrays.CPU if stream is None else arrays.cuda_device(stream[0])
        return tuple(
            InputMetadata(list(shape), arrays.dtype_of_kind(kind), where)
            for shape, kind in zip(shapes or (), kinds or ())
            if shape is not None
        )

    def edges_of(self, nr: int) -> list[tuple[Any, int]]:
        """The edges that a gradient of one output may go along, with outputs of their nodes."""
        return list(zip(self._node_edges, self._node_outputs or (0,) * len(self._node_edges)))

    def _hooks(self) -> NodeHooks:
        if self._node_hooks is None:
            self._node_hooks = NodeHooks()
        return self._node_hooks

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """`fn(grad_inputs, grad_outputs)` after this node ran; may return other grad_inputs."""
        return self._hooks().post.add(fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """`fn(grad_outputs)` before this node runs; may return others."""
        return self._hooks().pre.add(fn)

    def _register_hook_dict(self, tensor: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError("_register_hook_dict expected a variable")
        hooks = getattr(tensor, "_backward_hooks", None)
        if hooks:
            mine = self._hooks().tensor.setdefault(tensor.output_nr, HookDict())
            mine.update(hooks)

    def _sequence_nr(self) -> int:
        return (
            self._node_sequence
            if self._node_hooks is None
            else self._node_hooks.sequence or self._node_sequence
        )

    def _set_sequence_nr(self, number: int) -> None:
        # What the engine goes by stays: an edge leads to an older node.
        if not isinstance(number, int):
            raise TypeError("an integer is required")
        self._hooks().sequence = number

    def __call__(self, *grads: Any) -> Any:
        wanted = self._node_n_outputs or 1
        if len(grads) != wanted:
            raise TypeError(f"expected {wanted} arguments, got {len(grads)} instead")
        if self._node_freed:
            raise RuntimeError(FREED)
        g = grads[0] if not self._node_n_outputs else tuple(grads)
        results = tuple(self._node_op.backward(self, g))
        return results[0] if len(results) == 1 else results

    def __getattr__(self, name: str) -> Any:
        # _saved_self, _saved_other, _saved_result, _saved_dim...; _raw_saved_self...
        for prefix in ("_saved_", "_raw_saved_"):
            if name.startswith(prefix):
                kind, which = type(shown(self)), name[len(prefix) :]
                if which in (kind._kept if prefix == "_saved_" else kind._kept_tensors):
                    return self._node_op.read(self, which, prefix == "_raw_saved_")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


def shown(node: Any) -> Any:
    """A node as programs see it: of the class that PyTorch's has."""
    if node is not None and not node._settled:
        node._node_op.settle(node)
    return node


FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


class AccumulateGrad:
    """How a leaf appears in `next_functions`: it adds to `variable.grad`."""

    __slots__ = ("__weakref__", "variable")
    __module__ = "builtins"

    next_functions = ()
    requires_grad = True

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable

    def name(self) -> str:
        """PyTorch's name for it."""
        return "torch::autograd::AccumulateGrad"

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for whoever wants to note something."""
        return leaf_hooks(self.variable).metadata

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        leaf = self.variable
        return (InputMetadata(list(leaf.shape), leaf.dtype, leaf.device),)

    def _sequence_nr(self) -> int:
        return 2**64 - 1  # as early as can be

    def _set_sequence_nr(self, number: int) -> None:
        if not isinstance(number, int):
            raise TypeError("an integer is required")

    def _register_hook_dict(self, tensor: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError("_register_hook_dict expected a variable")

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """`fn(grad_inputs, grad_outputs)` after the gradient was accumulated."""
        return leaf_hooks(self.variable).post.add(fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """`fn(grad_outputs)` before the gradient is accumulated."""
        return leaf_hooks(self.variable).pre.add(fn)


# By the id of the leaf, which its value keeps alive.
_accumulators: weakref.WeakValueDictionary[int, AccumulateGrad] = weakref.WeakValueDictionary()


def accumulator(leaf: Tensor) -> AccumulateGrad:
    """The node of a leaf; the same as long as somebody holds it."""
    node = _accumulators.get(id(leaf))
    if node is None:
        _accumulators[id(leaf)] = node = AccumulateGrad(leaf)
    return node


class _GraphNodes(abc.ABCMeta):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (Node, AccumulateGrad))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, (Node, AccumulateGrad))


class GraphNode(metaclass=_GraphNodes):
    """What every node of the graph is an instance of, those of leaves too."""

    @abc.abstractmethod
    def _sequence_nr(self) -> int:
        raise NotImplementedError

    @abc.abstractmethod
    def _register_hook_dict(self, tensor: Any) -> None:
        raise NotImplementedError

    @abc.abstractmethod
    def name(self) -> str:
        """The class's name, "AddBackward0"."""
        raise NotImplementedError

    @property
    @abc.abstractmethod
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """For each input: its node and which of that node's outputs it is."""
        raise NotImplementedError

    @property
    @abc.abstractmethod
    def metadata(self) -> dict[Any, Any]:
        """A dict for whoever wants to note something."""
        raise NotImplementedError

    @property
    @abc.abstractmethod
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        raise NotImplementedError

    @abc.abstractmethod
    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """`fn(grad_inputs, grad_outputs)` after this node ran; may return other grad_inputs."""
        raise NotImplementedError

    @abc.abstractmethod
    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """`fn(grad_outputs)` before this node runs; may return others."""
        raise NotImplementedError


GraphNode.__name__ = GraphNode.__qualname__ = "Node"
GraphNode.__module__ = "tritorch.autograd.graph"


class LeafHooks:
    """The hooks of a leaf."""

    __slots__ = ("accumulated", "metadata", "packed", "post", "pre", "tensor")

    def __init__(self) -> None:
        self.tensor = HookDict()
        self.pre = HookDict()
        self.post = HookDict()
        self.accumulated = HookDict()
        self.metadata: dict[Any, Any] = {}


def leaf_hooks(tensor: Tensor) -> LeafHooks:
    """The hooks of a leaf, made at first use."""
    if tensor._hooks is None:
        tensor._hooks = LeafHooks()
    return tensor._hooks


def _as_node(edge: Any) -> Any:
    return accumulator(edge) if isinstance(edge, Tensor) else shown(edge)


def gradient_edge(tensor: Tensor) -> Any:
    """The edge that gradients of a tensor arrive by: its node, or itself for a leaf; or None."""
    node = tensor._node
    if node is not None:
        return node
    return tensor if tensor._leaf else None
