"""What memory was for, over time, from what a profile wrote.

Note [Roles of memory]: parameters, gradients and optimizers' state are marked where they are used:
by optimizers' steps, and where gradients arrive (`core.profiling.mark`); modules that were called
tell of their parameters, too.  The rest follows from when memory came and went.  What a loader
allocates is input; what a forward call allocates and a backward pass begins with is an activation;
what goes before any backward pass, or is allocated in one, is temporary; and what nobody freed and
no backward pass met is other.
"""

from __future__ import annotations

import enum
from bisect import bisect_right, insort
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritorch.core import profiling
from tritorch.profiling.recordings import Recording


class Role(enum.IntEnum):
    """What memory is for."""

    parameters = 0
    gradients = 1
    optimizer = 2
    activations = 3
    inputs = 4
    temporaries = 5
    other = 6


_MARKED = {
    profiling.PARAMETER: Role.parameters,
    profiling.GRADIENT: Role.gradients,
    profiling.OPTIMIZER_STATE: Role.optimizer,
}


@dataclass
class Block:
    """A piece of memory, from when it was allocated until it was freed (None: it was not).  device:
    -1 is the host.  thread, place: of the event; -1: it was there before."""

    address: int
    size: int
    device: int
    begin: int
    end: int | None
    thread: int
    place: int
    role: Role | None = None


def blocks(recording: Recording) -> list[Block]:
    """All memory that a recording knows of, each with its role, as it was allocated."""
    found, marks = _allocations(recording)
    _mark(found, marks)
    _mark_modules(recording, found)
    _derive(recording, found)
    return found


def _allocations(recording: Recording) -> tuple[list[Block], list[tuple[int, int, int]]]:
    """Blocks, and marks as (time, address, role)."""
    rows, marks = [], []
    for number, thread in enumerate(recording.threads):
        events = thread.events
        for place in np.flatnonzero(events["kind"] == profiling.MEMORY).tolist():
            event = events[place]
            rows.append(
                (
                    int(event["begin"]), int(event["sequence"]), int(event["detail"]),
                    int(event["extra"]) - 1, number, place,
                )
            )  # fmt: skip
        for place in np.flatnonzero(events["kind"] == profiling.ROLE).tolist():
            event = events[place]
            marks.append((int(event["begin"]), int(event["detail"]), int(event["sequence"])))
    rows.sort()
    found: list[Block] = []
    live: dict[tuple[int, int], Block] = {}
    for begin, size, address, device, index, place in rows:
        if size >= 0:
            live[device, address] = Block(address, size, device, begin, None, index, place)
            found.append(live[device, address])
        elif (block := live.pop((device, address), None)) is not None:
            block.end = begin
    return found, sorted(marks)


def _mark(found: list[Block], marks: list[tuple[int, int, int]]) -> None:
    """Each mark goes to the block that had its address then."""
    changes: list[tuple[int, int, Any]] = [(block.begin, 0, block) for block in found]
    changes += [(block.end, 1, block) for block in found if block.end is not None]
    changes += [(time, 2, (address, role)) for time, address, role in marks]
    changes.sort(key=lambda change: change[:2])
    addresses: list[int] = []
    at: dict[int, Block] = {}
    for _, kind, what in changes:
        if kind == 0:
            if what.address not in at:
                insort(addresses, what.address)
            at[what.address] = what
        elif kind == 1:
            place = what.address
            if at.get(place) is what:
                del at[place], addresses[bisect_right(addresses, place) - 1]
        else:
            address, role = what
            if (before := bisect_right(addresses, address)) == 0:
                continue
            marked = at[addresses[before - 1]]
            if address < marked.address + max(marked.size, 1) and marked.role is None:
                marked.role = _MARKED[role]


def _mark_modules(recording: Recording, found: list[Block]) -> None:
    """Parameters of modules that were called, and their gradients; also what was there before."""
    live = {(block.device >= 0, block.address): block for block in found if block.end is None}
    seen: set[int] = set()
    for module in recording.modules.values():
        for parameter in module.parameters(recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            for tensor, role in ((parameter, Role.parameters), (parameter.grad, Role.gradients)):
                if tensor is None or not tensor.numel() or tensor.device.type not in _DEVICES:
                    continue
                storage = tensor.untyped_storage()
                on_device = tensor.device.type == "cuda"
                key = on_device, storage.data_ptr()
                if key not in live:
                    device = (tensor.device.index or 0) if on_device else -1
                    size = storage.nbytes()
                    live[key] = Block(key[1], size, device, recording.begin, None, -1, -1)
                    found.append(live[key])
                live[key].role = live[key].role or role


_DEVICES = ("cpu", "cuda")


def _derive(recording: Recording, found: list[Block]) -> None:
    """Roles of what is not marked."""
    nodes, contexts = [], []
    for thread in recording.threads:
        events = thread.events
        names = recording.names_of(events)
        kinds, parents = events["kind"].tolist(), events["parent"].tolist()
        context = [""] * len(kinds)
        for place, (kind, parent) in enumerate(zip(kinds, parents)):
            context[place] = context[parent - 1] if parent else ""
            if kind == profiling.NODE:
                context[place] = "backward"
            elif kind == profiling.ANNOTATION and names[place].startswith("enumerate(DataLoader)"):
                context[place] = "loader"
            elif kind == profiling.ANNOTATION and names[place].startswith("Optimizer."):
                context[place] = "optimizer"
        contexts.append(context)
        nodes.append(events["begin"][events["kind"] == profiling.NODE])
    starts = np.sort(np.concatenate(nodes)) if nodes else np.zeros(0, "i8")
    for block in found:
        if block.role is None:
            around = contexts[block.thread][block.place] if block.thread >= 0 else ""
            block.role = _role(block, around, starts)


def _role(block: Block, context: str, starts: np.ndarray) -> Role:
    if context == "loader":
        return Role.inputs
    if context in ("backward", "optimizer"):
        return Role.other if block.end is None else Role.temporaries
    met = int(np.searchsorted(starts, block.begin))
    if met < len(starts) and (block.end is None or starts[met] < block.end):
        return Role.other if block.end is None else Role.activations
    return Role.other if block.end is None else Role.temporaries


def steps(found: list[Block], device: int) -> tuple[np.ndarray, np.ndarray]:
    """Times at which something changed, and bytes by role from then on, as (time, role)."""
    changes = [(block.begin, block.size, block.role) for block in found if block.device == device]
    changes += [
        (block.end, -block.size, block.role)
        for block in found if block.device == device and block.end is not None
    ]  # fmt: skip
    changes.sort(key=lambda change: change[0])
    times = np.array([time for time, _, _ in changes], np.int64)
    deltas = np.zeros((len(changes), len(Role)), np.int64)
    for i, (_, size, role) in enumerate(changes):
        assert role is not None
        deltas[i, role] = size
    return times, np.cumsum(deltas, axis=0)
