"""Graphs in the language of Graphviz, with the methods that pydot's have."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any


def _quoted(text: Any) -> str:
    """A word of the language, in quotes if it has to be."""
    text = str(text)
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*|-?\d+(\.\d+)?", text) or text[:1] == '"':
        return text
    inner = text.replace('"', '\\"')
    return f'"{inner}"'


class Element:
    """A node, an edge or a graph, with attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.obj_dict: dict[str, Any] = {"attributes": attributes}

    def set(self, name: str, value: Any) -> None:
        """Sets an attribute."""
        self.obj_dict["attributes"][name] = value

    def get(self, name: str) -> Any:
        """An attribute; None where it is not set."""
        return self.obj_dict["attributes"].get(name)

    def get_attributes(self) -> dict[str, Any]:
        """All attributes."""
        return self.obj_dict["attributes"]

    def _shown(self) -> str:
        pairs = self.obj_dict["attributes"].items()
        inside = ", ".join(f"{key}={_quoted(value)}" for key, value in pairs)
        return f" [{inside}]" if inside else ""


class Node(Element):
    """A node."""

    def __init__(self, name: str, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._name = name

    def get_name(self) -> str:
        """Its name."""
        return self._name

    def get_label(self) -> Any:
        """What is written in it."""
        return self.get("label")

    def to_string(self) -> str:
        """Its line."""
        return f"{_quoted(self._name)}{self._shown()};"


class Edge(Element):
    """An arrow."""

    def __init__(self, source: str, destination: str, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._ends = source, destination

    def get_source(self) -> str:
        """The node where it begins."""
        return self._ends[0]

    def get_destination(self) -> str:
        """The node where it ends."""
        return self._ends[1]

    def to_string(self) -> str:
        """Its line."""
        return f"{_quoted(self._ends[0])} -> {_quoted(self._ends[1])}{self._shown()};"


class Dot(Element):
    """A graph."""

    keyword = "digraph"

    def __init__(self, graph_name: str = "G", **attributes: Any) -> None:
        super().__init__(**attributes)
        self._name = graph_name
        self._nodes: list[Node] = []
        self._edges: list[Edge] = []
        self._clusters: list[Cluster] = []

    def get_name(self) -> str:
        """Its name."""
        return self._name

    def add_node(self, node: Node) -> None:
        """Takes a node in."""
        self._nodes.append(node)

    def add_edge(self, edge: Edge) -> None:
        """Takes an arrow in."""
        self._edges.append(edge)

    def add_subgraph(self, cluster: Cluster) -> None:
        """Takes a group of nodes in."""
        self._clusters.append(cluster)

    def get_node_list(self) -> list[Node]:
        """Its nodes, but for those in groups."""
        return list(self._nodes)

    def get_node(self, name: str) -> list[Node]:
        """The nodes of a name."""
        return [node for node in self._nodes if node.get_name() == name]

    def get_nodes(self) -> list[Node]:
        """Its nodes."""
        return list(self._nodes)

    def get_edges(self) -> list[Edge]:
        """Its arrows."""
        return list(self._edges)

    get_edge_list = get_edges

    def get_subgraphs(self) -> list[Cluster]:
        """Its groups of nodes."""
        return list(self._clusters)

    def to_string(self) -> str:
        """Its text."""
        pairs = self.obj_dict["attributes"].items()
        lines = [f"{key}={_quoted(value)};" for key, value in pairs]
        inside: list[Any] = [*self._clusters, *self._nodes, *self._edges]
        lines += [each.to_string() for each in inside]
        return "\n".join([f"{self.keyword} {_quoted(self._name)} {{", *lines, "}"]) + "\n"

    __str__ = to_string

    def write_raw(self, path: Any, **options: Any) -> bool:
        """Writes its text to a file."""
        Path(path).write_text(self.to_string(), encoding="utf-8")
        return True

    write_dot = write_raw

    def write(self, path: Any, prog: Any = None, format: str = "raw", **options: Any) -> bool:
        """Writes its text, or with `format="svg"` its picture, to a file."""
        return self.write_svg(path) if format == "svg" else self.write_raw(path)

    def write_svg(self, path: Any, **options: Any) -> bool:
        """Writes its picture to a file."""
        Path(path).write_bytes(self.create_svg())
        return True

    def create_svg(self, **options: Any) -> bytes:
        """Its picture: boxes in rows, each below those from which arrows lead to it."""
        return _drawn(self).encode()

    def create_dot(self, **options: Any) -> bytes:
        """Its text."""
        return self.to_string().encode()


class Cluster(Dot):
    """A group of nodes, in a frame."""

    keyword = "subgraph"

    def __init__(self, graph_name: str = "subG", **attributes: Any) -> None:
        super().__init__(f"cluster_{graph_name}", **attributes)


# ---- pictures ------------------------------------------------------------------------------------

_LINE, _CHAR, _GAP = 16, 7.0, 30


def _rows(graph: Dot, nodes: list[Node]) -> list[list[Node]]:
    """The nodes in rows: each in the first below all from which arrows lead to it."""
    names = {node.get_name(): node for node in nodes}
    level = dict.fromkeys(names, 0)
    for _ in names:  # as often as the longest way is long
        changed = False
        for edge in graph.get_edges():
            source, end = edge.get_source(), edge.get_destination()
            if source in level and end in level and level[end] <= level[source] < len(names):
                level[end] = level[source] + 1
                changed = True
        if not changed:
            break
    rows: dict[int, list[Node]] = {}
    for name, node in names.items():
        rows.setdefault(level[name], []).append(node)
    return [rows[number] for number in sorted(rows)]


def _lines(node: Node) -> list[str]:
    label = str(node.get_label() or node.get_name()).strip("{}")
    parts = re.split(r"\\l|\\n|\n|(?<!\\)\|", label)
    return [re.sub(r"\\([{}|])", r"\1", part) for part in parts if part.strip()]


def _drawn(graph: Dot) -> str:
    nodes = [*graph.get_nodes(), *(n for c in graph.get_subgraphs() for n in c.get_nodes())]
    boxes: dict[str, tuple[float, float, float, float]] = {}
    shapes: list[str] = []
    top = 20.0
    width = 0.0
    for row in _rows(graph, nodes):
        left = 20.0
        height = 0.0
        for node in row:
            lines = _lines(node)
            w = max(map(len, lines), default=1) * _CHAR + 16
            h = len(lines) * _LINE + 12.0
            boxes[node.get_name()] = (left, top, w, h)
            fill = html.escape(str(node.get("fillcolor") or "#CAFFE3").strip('"').lower())
            shapes.append(
                f'<rect x="{left:.0f}" y="{top:.0f}" width="{w:.0f}" height="{h:.0f}" rx="8" '
                f'fill="{_COLORS.get(fill, fill)}" stroke="black"/>'
            )
            shapes += [
                f'<text x="{left + 8:.0f}" y="{top + _LINE * (i + 1):.0f}">'
                f"{html.escape(line)}</text>"
                for i, line in enumerate(lines)
            ]
            left, height = left + w + _GAP, max(height, float(h))
        top, width = top + height + _GAP * 1.5, max(width, left)
    arrows = []
    for edge in graph.get_edges():
        if edge.get_source() in boxes and edge.get_destination() in boxes:
            x, y, w, h = boxes[edge.get_source()]
            u, v, z, _ = boxes[edge.get_destination()]
            arrows.append(
                f'<line x1="{x + w / 2:.0f}" y1="{y + h:.0f}" x2="{u + z / 2:.0f}" y2="{v:.0f}" '
                'stroke="black" marker-end="url(#arrow)"/>'
            )
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{top:.0f}" '
        'font-family="monospace" font-size="12">',
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="10" refY="5" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z"/></marker></defs>',
        *shapes, *arrows, "</svg>\n",
    ])  # fmt: skip


# Graphviz has names for colours that SVG lacks: X11's, with a number for a shade.
_COLORS = {
    "lemonchiffon1": "#fffacd", "yellow2": "#eeee00", "cadetblue1": "#98f5ff",
    "coral": "#ff7f50", "darkolivegreen1": "#caff70", "khaki1": "#fff68f",
    "lavenderblush1": "#fff0f5", "mistyrose1": "#ffe4e1", "mistyrose2": "#eed5d2",
    "peachpuff1": "#ffdab9", "thistle1": "#ffe1ff", "thistle3": "#cdb5cd", "wheat1": "#ffe7ba",
    "chartreuse1": "#7fff00",
}  # fmt: skip
