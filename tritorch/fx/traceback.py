"""What nodes know of where they come from: the meta that is current while a graph is made anew."""

from __future__ import annotations

import copy
import enum
import functools
import sys
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tritorch.core.scopes import Scope, scoped, set_back, sets, unchanged
from tritorch.fx._compatibility import compatibility

__all__ = [
    "NodeSource", "NodeSourceAction", "annotate", "annotate_fn", "format_stack",
    "get_current_meta", "get_current_replay_node", "get_graph_provenance_json",
    "has_preserved_node_meta", "preserve_node_meta", "reset_grad_fn_seq_nr", "set_current_meta",
    "set_current_replay_node", "set_grad_fn_seq_nr", "set_stack_trace",
]  # fmt: skip

current_meta: dict[str, Any] = {}
current_replay_node: Any = None
should_preserve_node_meta = False
_should_preserve_node_seq_nr = False
_regional = threading.local()
GRADIENT_ACC_SPECIAL_STACK = "Gradient addition node due to multiple use of tensor around:"
_FX_METADATA_REGISTRY: dict[str, dict[str, Any]] = {}
# (file, function) of functions that stack traces keep.
_STACK_TRACE_ANCHORS: set[tuple[str, str]] = set()


def _register_stack_trace_anchor(fn: Callable[..., Any]) -> None:
    code = getattr(fn, "__code__", None)
    if code is not None:
        _STACK_TRACE_ANCHORS.add((code.co_filename, code.co_name))


def _register_fx_metadata(module_name: str, metadata: dict[str, Any]) -> None:
    _FX_METADATA_REGISTRY[module_name] = metadata


# ---- sources -------------------------------------------------------------------------------------


@compatibility(is_backward_compatible=False)
class NodeSourceAction(enum.Enum):
    """What a pass did that a node exists."""

    CREATE = "create"
    REPLACE = "replace"


class _NodeInfo:
    def __init__(self, name: str, target: str, graph_id: int) -> None:
        self.name, self.target, self.graph_id = name, target, graph_id


@compatibility(is_backward_compatible=False)
class NodeSource:
    """A node from which another one was made, by which pass, and the sources of the first."""

    NodeInfo = _NodeInfo

    def __init__(self, node: Any, pass_name: str = "", action: Any = None) -> None:
        self.pass_name = pass_name
        actions = [] if action is None else action if isinstance(action, list) else [action]
        for each in actions:
            if not isinstance(each, NodeSourceAction):
                raise AssertionError(f"Expected NodeSourceAction, got {type(each)}")
        self.action: list[NodeSourceAction] = actions
        self.node_info = node and _NodeInfo(node.name, str(node.target), id(node.graph))
        self.from_node: list[NodeSource] = (
            copy.deepcopy(node.meta.get("from_node", [])) if node else []
        )

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node_info.name if self.node_info else ""

    @property
    def target(self) -> str:
        """What the node called."""
        return self.node_info.target if self.node_info else ""

    @property
    def graph_id(self) -> int:
        """The identity of its graph."""
        return self.node_info.graph_id if self.node_info else -1

    def _get_action_string(self) -> str:
        return "+".join(action.name.lower() for action in self.action)

    def __repr__(self) -> str:
        return self.print_readable()

    def print_readable(self, indent: int = 0) -> str:
        """A line for it, and indented lines for its sources; ten levels at most."""
        if indent > 9:
            return ""
        line = (
            f"{' ' * indent * 4}(name={self.name}, pass_name={self.pass_name}, "
            f"action={self._get_action_string()}, graph_id={self.graph_id})\n"
        )
        return line + "".join(each.print_readable(indent + 1) for each in self.from_node)

    def to_dict(self) -> dict[str, Any]:
        """Its fields, as JSON has them."""
        return {
            "name": self.name,
            "target": self.target,
            "graph_id": self.graph_id,
            "pass_name": self.pass_name,
            "action": self._get_action_string(),
            "from_node": [each.to_dict() for each in self.from_node],
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.print_readable())

    @classmethod
    def _from_dict(cls, d: dict[str, Any] | None) -> NodeSource | None:
        """The source whose `to_dict` this is."""
        if d is None:
            return None
        if not isinstance(d, dict):
            raise AssertionError(f"Expected a dict, got {type(d)}")
        known = NodeSourceAction.__members__
        words = d.get("action", "").upper().split("+")
        made = cls(None, d.get("pass_name", ""), [known[w] for w in words if w in known])
        if {"name", "target", "graph_id"} <= d.keys():
            made.node_info = _NodeInfo(d["name"], d["target"], d["graph_id"])
        inner = (cls._from_dict(each) for each in d.get("from_node") or [])
        made.from_node = [each for each in inner if each is not None]
        return made


# ---- the current meta ----------------------------------------------------------------------------


@compatibility(is_backward_compatible=False)
@scoped
def preserve_node_meta(enable: bool = True) -> Scope:
    """Inside, new nodes take over the meta that is current."""
    here = sys.modules[__name__]
    meta = (here, "current_meta", current_meta.copy())
    return Scope(meta, (here, "should_preserve_node_meta", enable))


@scoped
def _preserve_node_seq_nr(preserve_seq_nr: bool = True) -> Scope:
    return Scope((sys.modules[__name__], "_should_preserve_node_seq_nr", preserve_seq_nr))


@compatibility(is_backward_compatible=False)
def set_stack_trace(stack: list[str]) -> None:
    """Says where the calls come from whose nodes are made next."""
    if not should_preserve_node_meta:
        return
    if stack:
        current_meta["stack_trace"] = "".join(stack)
    else:
        current_meta.pop("stack_trace", None)


@compatibility(is_backward_compatible=False)
@scoped
def annotate(annotation_dict: dict[str, Any]) -> Scope:
    """Inside, nodes get these entries in `meta["custom"]`."""
    had, before = "custom" in current_meta, copy.copy(current_meta.get("custom", {}))

    def take_back() -> None:
        if had:
            current_meta["custom"] = before
        else:
            current_meta.pop("custom", None)

    def add() -> None:
        current_meta.setdefault("custom", {}).update(annotation_dict)

    return Scope(set_back(take_back), sets(add))


@compatibility(is_backward_compatible=False)
def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[..., Any]:
    """A decorator that calls a function inside of `annotate`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        _register_stack_trace_anchor(function)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return wrapper

    return decorate


@scoped
def _set_autograd_backward(enable: bool = True) -> Scope:
    before = current_meta.get("autograd_backward")

    def take_back() -> None:
        if before is None:
            _reset_autograd_backward()
        else:
            current_meta["autograd_backward"] = before

    return Scope(set_back(take_back), *([sets(_mark_autograd_backward)] if enable else []))


def _mark_autograd_backward() -> None:
    current_meta["autograd_backward"] = True


def _reset_autograd_backward() -> None:
    current_meta.pop("autograd_backward", None)


@compatibility(is_backward_compatible=False)
def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Says which node of autograd's runs."""
    if should_preserve_node_meta:
        current_meta["grad_fn_seq_nr"] = [*current_meta.get("grad_fn_seq_nr", []), seq_nr]
        current_meta["in_grad_fn"] = current_meta.get("in_grad_fn", 0) + 1


@compatibility(is_backward_compatible=False)
def reset_grad_fn_seq_nr() -> None:
    """Says that it is done."""
    if not should_preserve_node_meta:
        return
    level = current_meta.get("in_grad_fn", 0)
    if level <= 0:
        raise AssertionError(f"Expected current_level > 0, got {level}")
    if level == 1:
        del current_meta["in_grad_fn"], current_meta["grad_fn_seq_nr"]
    else:
        current_meta["in_grad_fn"] = level - 1
        current_meta["grad_fn_seq_nr"] = current_meta["grad_fn_seq_nr"][:-1]


@compatibility(is_backward_compatible=False)
def format_stack() -> list[str]:
    """Where the program is, or the call whose meta is current."""
    if should_preserve_node_meta:
        return [current_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@compatibility(is_backward_compatible=False)
def has_preserved_node_meta() -> bool:
    """Whether new nodes take over the current meta."""
    return should_preserve_node_meta


def _is_preserving_node_seq_nr() -> bool:
    return _should_preserve_node_seq_nr


@compatibility(is_backward_compatible=False)
@scoped
def set_current_meta(node: Any, pass_name: str = "") -> Scope:
    """Inside, a node's meta is the current one, and the node the source of new ones."""
    if not (should_preserve_node_meta and node.meta):
        return unchanged
    source = NodeSource(node, pass_name, NodeSourceAction.CREATE)
    return Scope((sys.modules[__name__], "current_meta", {**node.meta, "from_node": [source]}))


@compatibility(is_backward_compatible=False)
def get_current_meta() -> dict[str, Any]:
    """The meta that is current."""
    return current_meta


@compatibility(is_backward_compatible=False)
@scoped
def set_current_replay_node(node: Any) -> Scope:
    """Inside, a node is made once more."""
    return Scope((sys.modules[__name__], "current_replay_node", node))


@compatibility(is_backward_compatible=False)
def get_current_replay_node() -> Any:
    """The node that is made once more."""
    return current_replay_node


@scoped
def _set_regional_inductor_subgraph_name(name: str | None) -> Scope:
    return Scope((_regional, "name", name))


def _get_regional_inductor_subgraph_name() -> str | None:
    return getattr(_regional, "name", None)


# ---- reports -------------------------------------------------------------------------------------


@compatibility(is_backward_compatible=False)
def get_graph_provenance_json(graph: Any) -> dict[str, Any]:
    """The sources of every call of a function."""
    return {
        node.name: [source.to_dict() for source in node.meta.get("from_node", [])]
        for node in graph.nodes
        if node.op == "call_function"
    }


def _get_custom_metadata(gm: Any) -> str:
    """The custom entries of nodes, of inner graphs too, a line each."""

    def entries(module: Any) -> list[Any]:
        found: list[Any] = []
        for node in module.graph.nodes:
            if node.meta.get("custom"):
                found.append((node.op, node.name, node.meta["custom"]))
            inner = getattr(module, node.target, None) if node.op == "get_attr" else None
            if hasattr(inner, "graph"):
                found.append(entries(inner))
        return found

    return "\n".join(map(str, entries(gm)))


def _get_ordered_seq_nr_groups(gm: Any) -> list[list[str]]:
    """The names of calls with the same number of autograd's, in its order."""
    groups: dict[int, list[str]] = defaultdict(list)
    for module in gm if isinstance(gm, list) else [gm]:
        for node in module.graph.nodes:
            if node.op == "call_function" and node.meta.get("seq_nr") is not None:
                groups[node.meta["seq_nr"]].append(node.name)
    return [sorted(groups[number]) for number in sorted(groups)]
