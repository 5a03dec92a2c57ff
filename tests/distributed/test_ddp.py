"""DistributedDataParallel in real processes."""

import pytest

from tests.distributed.processes import Ranks


@pytest.mark.parametrize("size", [1, 2, 4])
def test_data_parallel_training(size):
    Ranks("ddp_program.py", size).succeed()
