"""GraphTransformObserver: which nodes a pass makes and takes out, and which it makes of which."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node
from tritorch.fx.passes.graph_drawer import FxGraphDrawer
from tritorch.fx.traceback import NodeSource, NodeSourceAction

__all__ = ["GraphTransformObserver"]


@compatibility(is_backward_compatible=False)
class GraphTransformObserver:
    """Watches a graph module while a pass runs inside of `with`.

    log_url: a folder, into which the graph is drawn before and after, where it changed."""

    __pass_count = 0

    def __init__(
        self, gm: GraphModule, passname: str, subsystem: str | None = None,
        log_url: str | None = None,
    ) -> None:  # fmt: skip
        self.gm, self.passname, self.subsystem, self.log_url = gm, passname, subsystem, log_url
        self.active = True
        self.erased_nodes: set[str] = set()
        self.created_nodes: set[str] = set()
        self.name_to_node: dict[str, Node] = {}
        self.copied_gms: list[GraphModule] = []
        self._node_creation_hook = self.get_node_creation_hook()
        self._node_erase_hook = self.get_node_erase_hook()
        self._node_replace_hook = self.get_node_replace_hook()
        self._deepcopy_hook = self.get_deepcopy_hook()
        if self.log_url is not None:
            GraphTransformObserver.__pass_count += 1
            self.input_dot_graph = self._drawn()

    def _drawn(self) -> Any:
        drawer = FxGraphDrawer(
            self.gm, self.passname, ignore_getattr=True, ignore_parameters_and_buffers=True
        )
        return drawer.get_dot_graph()

    @classmethod
    def get_current_pass_count(cls) -> int:
        """How many passes were drawn."""
        return cls.__pass_count

    def apply_gm_pass(self, pass_fn: Callable[[GraphModule], Any]) -> Any:
        """Runs a pass over the module, watched."""
        with self:
            return pass_fn(self.gm)

    def apply_graph_pass(self, pass_fn: Callable[[Graph], Any]) -> Any:
        """Runs a pass over the graph, watched."""
        with self:
            return pass_fn(self.gm.graph)

    def _hooks(self) -> dict[str, Any]:
        return {
            "create_node": self._node_creation_hook,
            "erase_node": self._node_erase_hook,
            "replace_node": self._node_replace_hook,
            "deepcopy": self._deepcopy_hook,
        }

    def __enter__(self) -> GraphTransformObserver:
        for kind, hook in self._hooks().items():
            getattr(self.gm, f"_register_{kind}_hook")(hook)
        for kept in (self.erased_nodes, self.created_nodes, self.name_to_node, self.copied_gms):
            kept.clear()
        self.name_to_node.update({node.name: node for node in self.gm.graph.nodes})
        return self

    def __exit__(self, *exception: object) -> None:
        for module in (*self.copied_gms, self.gm):
            for kind, hook in self._hooks().items():
                getattr(module, f"_unregister_{kind}_hook")(hook)
        if self.log_url is None or not (self.created_nodes or self.erased_nodes):
            return
        self._write(self.input_dot_graph, self.erased_nodes, "input")
        self._write(self._drawn(), self.created_nodes, "output")

    def _write(self, drawing: Any, changed: set[str], which: str) -> None:
        """Writes a drawing, in which nodes that changed are yellow."""
        for box in drawing.get_node_list():
            color = "yellow" if box.get_name() in changed else "grey"
            box.obj_dict["attributes"]["fillcolor"] = color
        count = GraphTransformObserver.__pass_count
        name = f"pass_{count}_{self.passname}_{which}_graph.dot"
        drawing.write(os.path.join(str(self.log_url), name))

    # ---- hooks ----------------------------------------------------------------------------------

    def get_node_creation_hook(self) -> Callable[[Node], None]:
        """What is called with each node that is made."""

        def on_node_creation(node: Node) -> None:
            self.created_nodes.add(node.name)
            self.name_to_node[node.name] = node
            source = NodeSource(None, self.passname, NodeSourceAction.CREATE)
            node.meta.setdefault("from_node", []).append(source)

        return on_node_creation

    def get_node_erase_hook(self) -> Callable[[Node], None]:
        """What is called with each node that is taken out."""

        def on_node_erase(node: Node) -> None:
            self.erased_nodes.add(node.name)
            self.name_to_node.pop(node.name, None)

        return on_node_erase

    def get_node_replace_hook(self) -> Callable[..., None]:
        """What is called when a node takes another one's place."""

        def on_node_replace(old: Node, new: str, user: Node) -> None:
            node = self.name_to_node.get(new)
            if node is None:
                return
            sources = node.meta.get("from_node", [])
            if old.name in {source.name for source in sources}:
                return
            action = [NodeSourceAction.REPLACE]
            if node.name in self.created_nodes:
                action.append(NodeSourceAction.CREATE)
            made_here = lambda s: (
                s.pass_name == self.passname and s.action == [NodeSourceAction.CREATE]
            )
            kept = [source for source in sources if not made_here(source)]
            node.meta["from_node"] = [*kept, NodeSource(old, self.passname, action)]

        return on_node_replace

    def get_deepcopy_hook(self) -> Callable[[GraphModule], None]:
        """What is called with each copy of the module."""

        def on_deepcopy(gm: GraphModule) -> None:
            self.copied_gms.append(gm)

        return on_deepcopy
