"""DistributedDataParallel in real processes."""

import json

import pytest

from tests.distributed.processes import Ranks
from tests.tiers import first_quick


@pytest.mark.parametrize("size", first_quick([1, 2, 4], 2))
def test_data_parallel_training(size):
    Ranks("ddp_program.py", size).succeed()


def test_the_example_gpt_learns_as_in_one_process():
    """tools/compare/ddp.py does so on more processes and on the simulated GPU."""
    printed = Ranks("gpt_program.py", 2, "cpu", 3, 2, "eager", "compiled").succeed()[0]
    lines = [json.loads(line) for line in printed.splitlines()]
    assert [line["way"] for line in lines] == ["eager", "compiled"]
    assert all(line["bitwise"] and line["off"] <= 1e-5 and line["loss"] > 1 for line in lines)
