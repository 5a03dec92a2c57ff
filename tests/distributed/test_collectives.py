"""Collectives of the gloo backend in real processes, over shared memory and over TCP."""

import pytest

from tests.distributed.processes import Ranks
from tests.tiers import quick


@pytest.mark.parametrize("size", quick([1, 2, 3, 4], 1, 3))
def test_collectives_over_shared_memory(size):
    Ranks("collectives_program.py", size, "exact").succeed()


@pytest.mark.parametrize("size", quick([2, 3, 4], 3))
def test_collectives_over_sockets(size):
    Ranks("collectives_program.py", size, "loose", TRITORCH_GLOO_TRANSPORT="tcp").succeed()


@pytest.mark.parametrize("algorithm", quick(["direct", "halving", "tree", "ring"], "ring"))
def test_each_algorithm_of_all_reduce(algorithm):
    exactness = "direct" if algorithm == "direct" else "loose"
    Ranks(
        "collectives_program.py", 4, exactness, "reductions",
        TRITORCH_GLOO_TRANSPORT="tcp", TRITORCH_GLOO_ALL_REDUCE=algorithm,
    ).succeed()  # fmt: skip
