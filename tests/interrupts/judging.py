"""Interrupts programs, and says what they leave behind."""

from __future__ import annotations

import functools
import gc
import os
import pickle
import random
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.interrupts import points, state
from tests.interrupts.programs import PROGRAMS
from tritorch import _C


@dataclass
class Verdict:
    """The outcome of interrupting a program."""

    program: str
    places: int = 0  # at which it can be interrupted
    interrupts: int = 0
    failures: list[tuple[Any, str]] = field(default_factory=list)  # where, and what was wrong


def _named(error: BaseException) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    return f"{text} (in {place.filename}:{place.lineno})"


def _wrong(run: Callable[[], Any], expected: Any) -> str | None:
    """The fault of a run after an interrupt, or None."""
    try:
        result = run()
    except Exception as error:
        return "later runs raise " + _named(error)
    return None if result == expected else "later runs give other numbers"


def _chosen(places: int, most: int | None, seed: int) -> Iterable[int]:
    if most is None or places <= most:
        return range(places)
    return sorted(random.Random(seed).sample(range(places), most))


def _forked(work: Callable[[], Any]) -> Any:
    """The result of work in a forked child, so that what it leaves is gone with it."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(theirs, "wb") as file:
                pickle.dump(work(), file)
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else (0, None, "the process died")


def _interrupted(
    run: Callable[[], Any], call: Callable[[Callable[[], Any]], Any], expected: Any, before: Any,
    snapshot: Callable[[], Any],
) -> tuple[bool, str]:  # fmt: skip
    """True if an interrupt came through, and the faults afterwards."""
    wrong = []
    interrupted = True
    try:
        interrupted, result = call(run)
        if not interrupted and result != expected:
            wrong.append("the interrupt was swallowed, and the numbers are others")
    except Exception as error:
        wrong.append("it raised " + _named(error))
    wrong += state.differences(before, snapshot())
    for _ in range(2):
        later = _wrong(run, expected)
        if later and later not in wrong:
            wrong.append(later)
    return interrupted, "; ".join(wrong)


def _judged(
    verdict: Verdict, places: Iterable[Any], snapshot: Callable[[], Any],
    one: Callable[[Any, Any], tuple[bool, str]],
) -> None:  # fmt: skip
    """Judges places in children: a new one after each failure."""
    remaining = list(places)

    def until_failure() -> tuple[int, int, str | None]:
        interrupts, before = 0, snapshot()
        for i, place in enumerate(remaining):
            interrupted, wrong = one(place, before)
            interrupts += interrupted
            if wrong:
                return i, interrupts, wrong
        return len(remaining), interrupts, None

    while remaining:
        # (a forked child cannot use CUDA if its parent did)
        i, interrupts, wrong = until_failure() if _C.driver_loaded() else _forked(until_failure)
        verdict.interrupts += interrupts or 0
        if wrong is not None:
            verdict.failures.append((remaining[i], wrong))
        remaining = remaining[i + 1 :]


def judge(name: str, most: int | None = None, cold: bool = False, seed: int = 0) -> Verdict:
    """Interrupts a program at each place, or at as many; cold: in its first run, made anew."""
    build = PROGRAMS[name]
    run = build()
    expected = run()
    snapshot = state.steady((lambda: build()()) if cold else run)
    if run() != expected:
        raise AssertionError(f"{name} does not repeat itself")
    gc.collect()
    places = points.count(build() if cold else run)
    verdict = Verdict(name + (" (cold)" if cold else ""), places)

    def one(place: int, before: Any) -> tuple[bool, str]:
        return _interrupted(
            build() if cold else run,
            functools.partial(points.interrupt, place=place), expected, before, snapshot,
        )  # fmt: skip

    _judged(verdict, _chosen(places, most, seed), snapshot, one)
    return verdict


def judge_timed(name: str, times: int, seed: int = 0) -> Verdict:
    """Interrupts a program by a timer, at random times."""
    run = PROGRAMS[name]()
    expected = run()
    snapshot = state.steady(run)
    began = time.perf_counter()
    run()
    lasts = time.perf_counter() - began
    verdict = Verdict(f"{name} (timed)")
    drawn = random.Random(seed)

    def one(seconds: float, before: Any) -> tuple[bool, str]:
        return _interrupted(
            run, functools.partial(points.interrupt_in, seconds=seconds), expected, before, snapshot
        )

    _judged(verdict, [drawn.uniform(1e-6, lasts) for _ in range(times)], snapshot, one)
    return verdict
