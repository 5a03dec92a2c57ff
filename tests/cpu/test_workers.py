"""Native threads share the work of chains: to the same bits, and across forks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tritorch as torch
from tritorch.host.chains.chains import Chain, Steps
from tritorch.host.chains.steps import traced
from tritorch.host.pointwise import pointwise

SINGLE = np.dtype(np.float32)
N = 300_001


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def gelu() -> Any:
    steps = Steps()
    value = steps.append(*traced(pointwise.gelu, [SINGLE]), [steps.input(SINGLE, True)])
    return Chain(steps, [value])


def test_threads_change_no_bit() -> None:
    x, chain = np.random.default_rng(0).standard_normal(N, SINGLE), gelu()
    found = []
    for count in (1, 2, 5, 1):
        torch.set_num_threads(count)
        found += [chain(x).tobytes() for _ in range(5)]
    assert len(set(found)) == 1


def threads_of_process() -> int:
    return len(os.listdir("/proc/self/task"))


def test_helpers_are_started_when_they_are_wanted() -> None:
    program = """
import numpy as np
from tests.cpu.test_workers import N, gelu, threads_of_process
from tritorch import _C
chain, x = gelu(), np.ones(N, np.float32)
before = threads_of_process()
for count in (1, 3, 2):
    _C.set_workers(count)  # OpenBLAS has threads of its own
    chain(x), chain(x)
    print(threads_of_process() - before)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "2", "2"] and not done.stderr


def test_a_forked_child_starts_its_own() -> None:
    x, chain = np.random.default_rng(0).standard_normal(N, SINGLE), gelu()
    expected = chain(x).tobytes()
    child = os.fork()
    if not child:
        before, same = threads_of_process(), chain(x).tobytes() == expected
        os._exit(0 if same and threads_of_process() == before + 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert chain(x).tobytes() == expected
