"""Interrupts programs, and says what they leave behind."""

from __future__ import annotations

import gc
import random
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.interrupts import points, state
from tests.interrupts.programs import PROGRAMS


@dataclass
class Verdict:
    """What came of interrupting a program."""

    program: str
    places: int = 0  # at which it can be interrupted
    interrupts: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)  # where, and what was wrong


def _wrong(run: Callable[[], Any], expected: Any) -> str | None:
    """What is wrong with a run after an interrupt."""
    try:
        result = run()
    except Exception as error:
        return "later runs raise: " + "".join(
            traceback.format_exception_only(type(error), error)
        ).strip()
    return None if result == expected else "later runs give other numbers"


def _chosen(places: int, most: int | None, seed: int) -> Iterable[int]:
    if most is None or places <= most:
        return range(places)
    return sorted(random.Random(seed).sample(range(places), most))


def judge(name: str, most: int | None = None, cold: bool = False, seed: int = 0) -> Verdict:
    """Interrupts a program at each place, or at as many; cold: in its first run, made anew."""
    build = PROGRAMS[name]
    run = build()
    expected = run()
    snapshot = state.steady(run)
    if run() != expected:
        raise AssertionError(f"{name} does not repeat itself")
    gc.collect()
    if cold:
        places = points.count(build())
    else:
        places = points.count(run)
    verdict = Verdict(name + (" (cold)" if cold else ""), places)
    before = snapshot()
    for place in _chosen(places, most, seed):
        if cold:
            run = build()
        interrupted, result = points.interrupt(run, place)
        verdict.interrupts += interrupted
        after = snapshot()
        wrong = state.differences(before, after)
        if not interrupted and result != expected:
            wrong.append("the interrupt was swallowed, and the numbers are others")
        for _ in range(2):
            later = _wrong(run, expected)
            if later and later not in wrong:
                wrong.append(later)
        if wrong:
            verdict.failures.append((place, "; ".join(wrong)))
            before = snapshot()
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
    for time_of in range(times):
        before = snapshot()
        interrupted, result = points.interrupt_in(run, drawn.uniform(1e-6, lasts))
        verdict.interrupts += interrupted
        wrong = state.differences(before, snapshot())
        if not interrupted and result != expected:
            wrong.append("the interrupt was swallowed, and the numbers are others")
        later = _wrong(run, expected)
        if later:
            wrong.append(later)
        if wrong:
            verdict.failures.append((time_of, "; ".join(wrong)))
    return verdict
