"""Closures over frames that call a function with values of slots, by the number of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Frame = list[Any]
Step = Callable[[Frame], None]
Function = Callable[..., Any]


def call_step(function: Function, inputs: Sequence[int], outputs: Sequence[int]) -> Step:
    """Calls a function with the values of slots, and keeps what it gives in others."""
    if len(outputs) == 1:
        return _BY_COUNT[min(len(inputs), 5)](function, inputs, outputs[0])
    if not outputs:

        def call(frame: Frame) -> None:
            function(*[frame[i] for i in inputs])

        return call
    if len(outputs) == 2:
        first, second = outputs

        def call_two(frame: Frame) -> None:
            frame[first], frame[second] = function(*[frame[i] for i in inputs])

        return call_two

    def call_many(frame: Frame) -> None:
        for place, value in zip(outputs, function(*[frame[i] for i in inputs]), strict=True):
            frame[place] = value

    return call_many


def _of_none(function: Function, inputs: Sequence[int], output: int) -> Step:
    def step(frame: Frame) -> None:
        frame[output] = function()

    return step


def _of_one(function: Function, inputs: Sequence[int], output: int) -> Step:
    (a,) = inputs

    def step(frame: Frame) -> None:
        frame[output] = function(frame[a])

    return step


def _of_two(function: Function, inputs: Sequence[int], output: int) -> Step:
    a, b = inputs

    def step(frame: Frame) -> None:
        frame[output] = function(frame[a], frame[b])

    return step


def _of_three(function: Function, inputs: Sequence[int], output: int) -> Step:
    a, b, c = inputs

    def step(frame: Frame) -> None:
        frame[output] = function(frame[a], frame[b], frame[c])

    return step


def _of_four(function: Function, inputs: Sequence[int], output: int) -> Step:
    a, b, c, d = inputs

    def step(frame: Frame) -> None:
        frame[output] = function(frame[a], frame[b], frame[c], frame[d])

    return step


def _of_many(function: Function, inputs: Sequence[int], output: int) -> Step:
    def step(frame: Frame) -> None:
        frame[output] = function(*[frame[i] for i in inputs])

    return step


_BY_COUNT = (_of_none, _of_one, _of_two, _of_three, _of_four, _of_many)


def method_step(method: Any, run: Function, inputs: Sequence[int], outputs: Sequence[int]) -> Step:
    """Calls a compiled function; run compiles it when there is no runner yet."""
    if len(outputs) != 1:

        def call(frame: Frame) -> None:
            result = (method.runner or run(method)).raw(*[frame[i] for i in inputs])
            for place, value in zip(outputs, result if len(outputs) > 1 else (), strict=False):
                frame[place] = value

        return call
    (output,) = outputs
    if len(inputs) == 1:
        (a,) = inputs

        def call_one(frame: Frame) -> None:
            frame[output] = (method.runner or run(method)).raw(frame[a])

        return call_one
    if len(inputs) == 2:
        a, b = inputs

        def call_two(frame: Frame) -> None:
            frame[output] = (method.runner or run(method)).raw(frame[a], frame[b])

        return call_two

    def call_many(frame: Frame) -> None:
        frame[output] = (method.runner or run(method)).raw(*[frame[i] for i in inputs])

    return call_many


def move_step(moves: Sequence[tuple[int, int]], cleared: Sequence[int] = ()) -> Step | None:
    """Copies slots to others, all at once, then clears some; None if there is nothing to do."""
    pairs = [(source, target) for source, target in moves if source != target]
    if not pairs:
        return None
    if len(pairs) == 1:
        return _move_one(*pairs[0], cleared)
    if len(pairs) == 2:
        return _move_two(pairs, cleared)
    sources, targets = zip(*pairs)

    def move(frame: Frame) -> None:
        values = [frame[source] for source in sources]
        for place in cleared:
            frame[place] = None
        for target, value in zip(targets, values):
            frame[target] = value

    return move


def _move_one(source: int, target: int, cleared: Sequence[int]) -> Step:
    if source in cleared:

        def take(frame: Frame) -> None:
            frame[target] = frame[source]
            frame[source] = None

        return take

    def copy(frame: Frame) -> None:
        frame[target] = frame[source]

    return copy


def _move_two(pairs: Sequence[tuple[int, int]], cleared: Sequence[int]) -> Step:
    (a, x), (b, y) = pairs
    if cleared:

        def take(frame: Frame) -> None:
            first, second = frame[a], frame[b]
            for place in cleared:
                frame[place] = None
            frame[x], frame[y] = first, second

        return take

    def copy(frame: Frame) -> None:
        frame[x], frame[y] = frame[a], frame[b]

    return copy


def clear_step(places: Sequence[int]) -> Step:
    """Forgets the values of slots."""
    if len(places) == 1:
        (place,) = places

        def clear_one(frame: Frame) -> None:
            frame[place] = None

        return clear_one

    def clear(frame: Frame) -> None:
        for place in places:
            frame[place] = None

    return clear
