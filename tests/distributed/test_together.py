"""Batch norm over processes, joins, and an optimizer in parts."""

import pytest

from tests.distributed.processes import Ranks
from tests.tiers import first_quick


@pytest.mark.parametrize("size", first_quick([1, 2, 4], 2))
def test_together(size):
    Ranks("together_program.py", size).succeed()
