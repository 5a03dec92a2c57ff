"""So that tests here can import the table beside them."""

import sys
from pathlib import Path

import pytest

import tritorch.distributed as dist
from tritorch import _C

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def alone():
    """The group of this process alone, in which collectives can be called."""
    dist.init_process_group("gloo")
    yield
    dist.destroy_process_group()


@pytest.fixture
def without_plans():
    """Every call comes to its record: for tests that look at what records are called with."""
    by = _C.withhold_plans(1)
    yield
    _C.withhold_plans(by)
