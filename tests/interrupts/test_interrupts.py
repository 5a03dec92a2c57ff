"""A Ctrl-C leaves nothing set, wherever it arrives, and later runs give the same numbers.

Each program is interrupted at some of the places where CPython looks for signals; all of them, and
random times, are `make judge-interrupts`."""

from __future__ import annotations

import pytest

from tests.interrupts.judging import judge
from tests.interrupts.programs import PROGRAMS
from tests.tiers import quick


@pytest.mark.parametrize("name", quick(PROGRAMS, "eager_training", "compiled_training"))
def test_nothing_is_left_set(name):
    verdict = judge(name, most=16, seed=len(name))
    assert verdict.interrupts > 6
    assert not verdict.failures, verdict.failures[:3]


@pytest.mark.parametrize(
    "name", quick([name for name in PROGRAMS if name.startswith("compiled")], "compiled_training")
)
def test_a_first_run_can_be_interrupted(name):
    verdict = judge(name, most=3, cold=True, seed=1)
    assert verdict.interrupts
    assert not verdict.failures, verdict.failures[:3]
