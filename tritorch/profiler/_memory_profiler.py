"""Memory of a profile by category over time, in PyTorch's terms: Note [Roles of memory] in
`_roles.py` says how categories are found."""

from __future__ import annotations

import dataclasses
import enum
import json
from functools import cached_property
from typing import Any

from tritorch.autograd._recordings import Recording
from tritorch.core.device import device as Device
from tritorch.profiler._roles import Block, Role, blocks

__all__ = [
    "Action", "Category", "CategoryDict", "Key", "MemoryProfile", "MemoryProfileTimeline",
    "TensorKey",
]  # fmt: skip


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
_OF_ROLE = {
    Role.parameters: Category.PARAMETER, Role.gradients: Category.GRADIENT,
    Role.optimizer: Category.OPTIMIZER_STATE, Role.activations: Category.ACTIVATION,
    Role.inputs: Category.INPUT, Role.temporaries: Category.TEMPORARY, Role.other: None,
}  # fmt: skip


class Action(enum.Enum):
    """What happened to memory."""

    PREEXISTING = enum.auto()
    CREATE = enum.auto()
    INCREMENT_VERSION = enum.auto()
    DESTROY = enum.auto()


_ACTION_TO_INDEX = {action: action.value for action in Action}


@dataclasses.dataclass(eq=True, unsafe_hash=False, frozen=True)
class Key:
    """Something on a device."""

    device: Any


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
    """A piece of memory by its number."""

    id: int
    storage: _Storage

    def __repr__(self) -> str:
        return f"id={self.id}: {self.storage!r:<24} ({self.device})"

    def __lt__(self, other: TensorKey) -> bool:
        return self._as_sortable < other._as_sortable

    @property
    def _as_sortable(self) -> tuple[int, int, str, int]:
        return self.id, self.storage.allocation_id, self.device.type, self.device.index or 0


class CategoryDict:
    """What each piece of memory is for."""

    def __init__(self) -> None:
        self._values: dict[Key, Category | None] = {}

    def set_by_key(self, key: TensorKey, category: Category | None) -> None:
        """Notes it, of all versions."""
        self._values[key] = category

    def get(self, key: Key, version: int) -> Category | None:
        """What it is for; None if that is not known."""
        return self._values.get(key)


def _device_of(block: Block) -> Any:
    return Device("cpu") if block.device < 0 else Device("cuda", block.device)


class MemoryProfile:
    """What happened to the memory of a recording."""

    def __init__(self, result: Recording) -> None:
        self._categories = CategoryDict()
        self._blocks: list[tuple[TensorKey, Block]] = []
        for number, block in enumerate(blocks(result)):
            key = TensorKey(_device_of(block), number, _Storage(block.address, number))
            self._blocks.append((key, block))
            assert block.role is not None
            self._categories.set_by_key(key, _OF_ROLE[block.role])

    @cached_property
    def timeline(self) -> tuple[tuple[int, Action, tuple[Key, int], int], ...]:
        """(nanoseconds, what, (which, version), bytes), in time; -1: it was there before."""
        found: list[tuple[int, Action, tuple[Key, int], int]] = []
        for key, block in self._blocks:
            if block.thread < 0:
                found.append((-1, Action.PREEXISTING, (key, 0), block.size))
            else:
                found.append((block.begin, Action.CREATE, (key, 0), block.size))
            if block.end is not None:
                found.append((block.end, Action.DESTROY, (key, 0), block.size))
        return tuple(sorted(found, key=lambda each: each[0]))


class MemoryProfileTimeline:
    """The files that show it."""

    def __init__(self, memory_profile: MemoryProfile) -> None:
        self.timeline = memory_profile.timeline
        self.categories = memory_profile._categories

    def _of(self, device_str: str) -> list[tuple[int, Action, tuple[Key, int], int]]:
        wanted = Device(device_str)
        return [each for each in self.timeline if each[2][0].device == wanted]

    def _coalesce_timeline(self, device_str: str) -> tuple[list[int], list[list[int]]]:
        """Microseconds, and bytes from then on: 0, and one number for each category."""
        times: list[int] = []
        sizes: list[list[int]] = []
        first = min((t for t, *_ in self._of(device_str) if t >= 0), default=0) // 1000
        for nanoseconds, action, (key, version), size in self._of(device_str):
            time = first if nanoseconds < 0 else nanoseconds // 1000
            if not times or time != times[-1]:
                times.append(time)
                sizes.append(sizes[-1].copy() if sizes else [0] * (len(_CATEGORY_TO_INDEX) + 1))
            place = _CATEGORY_TO_INDEX[self.categories.get(key, version)] + 1
            sizes[-1][place] += -size if action == Action.DESTROY else size
        return times, sizes

    def export_memory_timeline(self, path: str, device_str: str) -> None:
        """[times, sizes by category] as JSON."""
        with open(path, "w") as file:
            json.dump(self._coalesce_timeline(device_str), file)

    def export_memory_timeline_raw(self, path: str, device_str: str) -> None:
        """[(nanoseconds, action, bytes, category)] as JSON, with categories' numbers."""
        rows = [
            (
                time, _ACTION_TO_INDEX[action], -size if action == Action.DESTROY else size,
                _CATEGORY_TO_INDEX[self.categories.get(key, version)],
            )
            for time, action, (key, version), size in self._of(device_str)
        ]  # fmt: skip
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
