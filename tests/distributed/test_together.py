"""Batch norm over processes, joins, and an optimizer in parts."""

import pytest

from tests.distributed.processes import Ranks


@pytest.mark.parametrize("size", [1, 2, 4])
def test_together(size):
    Ranks("together_program.py", size).succeed()
