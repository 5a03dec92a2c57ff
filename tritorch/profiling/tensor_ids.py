"""Which tensors of a profile are the same, and which memory.

An address is used again after its memory is freed, and a tensor may get other memory.  So memory
gets a number when its address is first met, and a new one after a free (`allocation_id`); tensors
that had memory in common with each other at some time are one tensor (`id`): views, and a tensor
whose memory was replaced.  Memory that no tensor was seen with gets no `id`, nor does none (0).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any


def number_tensors(events: Iterable[Any]) -> None:
    """Numbers what events, in the order in which they began, say of tensors and memory."""
    found = _mentioned(events)
    allocations: dict[tuple[int, Any], int] = {}
    last = 0
    for each in found:
        key = _address(each), each.device
        if key not in allocations:
            last += 1
            allocations[key] = last
        each.allocation_id = allocations[key]
        if _is_free(each):
            del allocations[key]
    tensors = (each for each in found if not hasattr(each, "alloc_size"))
    groups = _joined(each for each in tensors if each.storage_data_ptr)
    for each in found:
        each.id = groups.get(each.allocation_id)


def _mentioned(events: Iterable[Any]) -> list[Any]:
    """Tensors with memory, and memory, in time: what a call has given is seen when it ends.  What
    modules and optimizers say later is the same as at first."""
    found: list[tuple[int, Any]] = []
    told: set[int] = set()
    for event in events:
        fields, begin = event.extra_fields, event.start_time_ns
        if hasattr(fields, "alloc_size"):
            found.append((begin, fields))
        found += [(begin, each) for each in _tensors(getattr(fields, "inputs", ()))]
        given = _tensors(getattr(fields, "result", None))
        found += [(event.end_time_ns, each) for each in given if each.storage_data_ptr]
        for info in (getattr(fields, "module", None), getattr(fields, "optimizer", None)):
            if info is not None and info.self_ptr not in told:
                told.add(info.self_ptr)
                found += [(begin, each) for each in _tensors(info.parameters)]
    found.sort(key=lambda each: each[0])
    return [each for _, each in found]


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif getattr(value, "storage_data_ptr", None) is not None:
        yield value


def _address(mentioned: Any) -> int:
    return int(mentioned.ptr if hasattr(mentioned, "ptr") else mentioned.storage_data_ptr)


def _is_free(mentioned: Any) -> bool:
    return getattr(mentioned, "alloc_size", 0) < 0


def _joined(tensors: Iterable[Any]) -> dict[int, int]:
    """By the number of memory: the number of the tensors that it belongs to."""
    above: dict[int, int] = {}  # a number of the same group that is smaller, or the same

    def first(number: int) -> int:
        while above[number] != number:
            above[number] = above[above[number]]
            number = above[number]
        return number

    of_tensor: dict[int, int] = {}
    for tensor in tensors:
        number = tensor.allocation_id
        above.setdefault(number, number)
        known = of_tensor.setdefault(tensor.impl_ptr, number)
        low, high = sorted((first(known), first(number)))
        above[high] = low
    numbers = itertools.count()
    found: dict[int, int] = {}
    for number in sorted(above):
        group = first(number)
        found[number] = next(numbers) if group == number else found[group]
    return found
