"""What the calls of public functions consist of, out of what was measured within them.

# Note [Parts of calls]
PyTorch's operators call each other; a function of ours is one call.  What it consists of is shown
where it was measured, and nowhere else:

- A record that has computed something within a call of another name (`aten::mm` in
  `aten::matmul`) has noted the time.  It began where what was measured before it in the same call
  ended, or with the call.
- A factory's call is `aten::empty` until its memory is there, and from then on the operator that
  its record names (`Maker.filled_by`): `aten::fill_`, `aten::uniform_`.  Where memory was not
  written down, nobody knows when that was.
- A function that one of Python's calls by its name is a builtin for Python, around the operator.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tritorch.core import profiling

_NO_CALLS = (profiling.MEMORY, profiling.ROLE, profiling.LAUNCH, profiling.WAIT)
_EMPTY = "aten::empty"


@dataclass
class _Part:
    """An event that is put in before a place; inside: the places of what belongs to it."""

    before: int
    parent: int
    begin: int
    end: int
    name: str
    kind: int = profiling.OP
    words: list[int] = field(default_factory=list)  # of its arguments; none: they are not known
    inside: list[int] = field(default_factory=list)


def with_parts(
    found: np.ndarray, words: list[int], names: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The events of a thread with the parts of calls among them, and where each event is there.
    words, names: those that the parts need are added."""
    parts = _of_python(found, names)
    parts += _of_records(found, names) + _of_factories(found, words, names)
    if not parts:
        return found, np.arange(len(found))
    numbers = {name: number for number, name in enumerate(names)}
    parts.sort(key=lambda part: part.before)
    before = np.array([part.before for part in parts])
    places = np.arange(len(found)) + np.searchsorted(before, np.arange(len(found)), "right")
    made = np.zeros(len(parts), found.dtype)
    for row, part in zip(made, parts):
        if part.name not in numbers:
            numbers[part.name] = len(names)
            names.append(part.name)
        row["begin"], row["end"], row["sequence"] = part.begin, part.end, -1
        row["name"], row["kind"] = numbers[part.name], part.kind
        row["parent"] = places[part.parent] + 1 if part.parent >= 0 else 0
        if part.words:
            row["shapes"] = len(words) + 1
            words += part.words
    around = found["parent"].astype("i8")
    moved = np.where(around > 0, places[around - 1] + 1, 0)
    for number, part in enumerate(parts):
        moved[part.inside] = part.before + number + 1
    found = found.copy()
    found["parent"] = moved
    return np.insert(found, before, made), places


def _of_python(found: np.ndarray, names: list[str]) -> list[_Part]:
    """A part around each call by its name."""
    called = np.flatnonzero((found["kind"] == profiling.OP) & (found["detail"] > 0))
    return [
        _Part(
            place, int(row["parent"]) - 1, int(row["begin"]), int(row["end"]),
            names[row["detail"] - 1], profiling.BUILTIN, inside=[place],
        )
        for place, row in zip(called.tolist(), found[called])
    ]  # fmt: skip


def _of_records(found: np.ndarray, names: list[str]) -> list[_Part]:
    """A part for each record's call that was noted."""
    ended = (found["kind"] == profiling.RECORD) & (found["parent"] > 0)
    if not ended.any():
        return []
    around = np.unique(found["parent"][ended])
    parts = []
    since: dict[int, int] = {}  # by call: until when it is known what it did
    waiting: dict[int, list[int]] = {}
    for place in np.flatnonzero(np.isin(found["parent"], around)).tolist():
        row = found[place]
        call, kind = int(row["parent"]) - 1, int(row["kind"])
        inside = waiting.setdefault(call, [])
        if kind in _NO_CALLS:
            inside.append(place)
            continue
        if kind == profiling.RECORD:
            first = inside[0] if inside else place
            begin = since.get(call, int(found["begin"][call]))
            name = names[row["name"]]
            parts.append(_Part(first, call, begin, int(row["begin"]), name, inside=inside[:]))
        since[call] = max(int(row["begin"]), int(row["end"]))
        inside.clear()
    return parts


def _of_factories(found: np.ndarray, words: list[int], names: list[str]) -> list[_Part]:
    """Two parts for each call of a factory that has allocated its result."""
    known = profiling.filled_by()
    numbers = [number for number, name in enumerate(names) if name in known]
    calls = (found["kind"] == profiling.OP) & np.isin(found["name"], numbers)
    memory = (found["kind"] == profiling.MEMORY) & (found["parent"] > 0)
    memory[memory] = calls[found["parent"][memory] - 1]
    last: dict[int, int] = {}  # by call: what it has allocated and kept
    for place in np.flatnonzero(memory).tolist():
        call = int(found["parent"][place]) - 1
        if found["sequence"][place] > 0:
            last[call] = place
        elif call in last and found["detail"][last[call]] == found["detail"][place]:
            del last[call]
    parts = []
    for call, place in last.items():
        row, time = found[call], int(found["begin"][place]) + 1  # when it is there
        parts.append(_Part(place, call, int(row["begin"]), time, _EMPTY, inside=[place]))
        name, _, value = known[names[row["name"]]].partition(" ")
        given = _arguments(words, int(row["extra"]), int(row["shapes"]), value)
        parts.append(_Part(place + 1, call, time, int(row["end"]), f"aten::{name}", words=given))
    return parts


def _arguments(words: list[int], result: int, call: int, value: str) -> list[int]:
    """Of what writes a result: it, and a number or, said by its place, an argument of the call."""
    if not result:
        return []
    written = _value(words, result - 1)
    if not value:
        return [1, 0, *written]
    if not value.startswith("$"):
        return [2, 0, *written, 0, 2, int(value)]
    place, count = call, words[call - 1]
    wanted = int(value[1:])
    for number in range(count):
        given = _value(words, place + 1)
        if number == wanted:
            return [2, 0, *written, 0, *given]
        place += 1 + len(given)
    return [1, 0, *written]


def _value(words: list[int], place: int) -> list[int]:
    """The words of a value: Note [Arguments as words] in src/profiling/words.cpp."""
    return words[place : place + _length(words, place)]


def _length(words: list[int], place: int) -> int:
    tag = words[place]
    if tag in _TENSORS:
        return 3 + 2 * words[place + 2] + (4 if tag == 8 else 0)
    if tag == _OTHER_LAYOUT:
        return 4 + words[place + 3]
    if tag == _LIST:
        end = place + 3
        for _ in range(words[place + 2]):
            end += _length(words, end)
        return end - place
    return 2 if tag in _OF_TWO else 1


_TENSORS, _OTHER_LAYOUT, _LIST = (1, 8), 9, 5
_OF_TWO = (2, 3, 4, 7)  # numbers, truths and texts have a word beside their tag
