"""Communicators of the simulated device: beside gloo, under seeds of the adversary, with faults."""

import re

import pytest

from tests.distributed.nccl_faults_program import TIMEOUT
from tests.distributed.processes import HERE, Ranks
from tests.tiers import first_quick

PROGRAM = (HERE / "nccl_faults_program.py").read_text().splitlines()


def line(mark):
    return next(i for i, text in enumerate(PROGRAM, 1) if f"# MARK {mark}" in text)


@pytest.mark.parametrize(("size", "seed"), first_quick([(1, 0), (2, 3)]))
def test_collectives_equal_gloo(size, seed):
    Ranks("nccl_program.py", size, TRITORCH_SIMULATE_CUDA=f"seed={seed}").succeed()


@pytest.mark.slow
@pytest.mark.parametrize(("size", "seed"), [(2, 1)])
def test_data_parallel_training(size, seed):
    Ranks("nccl_ddp_program.py", size, TRITORCH_SIMULATE_CUDA=f"seed={seed}").succeed()


def told(fault, size, silent=()):
    ranks = Ranks("nccl_faults_program.py", size, fault, TRITORCH_SIMULATE_CUDA="seed=1")
    alive = [i for i in range(size) if i not in silent]
    try:
        printed = {i: ranks.processes[i].communicate(timeout=120)[0] for i in alive}
    finally:
        for process in ranks.processes:
            process.kill()
            process.wait()
    for rank, text in printed.items():
        found = re.match(r"([\d.]+) s (\w+): (.*)", text, re.DOTALL)
        assert found, f"rank {rank} told nothing: {text!r}"
        assert float(found[1]) < TIMEOUT + 5, text
        assert found[2] == "DistBackendError"
        printed[rank] = found[3]
    return printed


@pytest.mark.parametrize("fault", first_quick(["operations", "shapes", "counts"]))
def test_mismatches(fault):
    for text in told(fault, 2).values():
        assert re.search(r"ranks? 0.*: at \w+ #", text) and re.search(r"ranks? (0, )?1: at ", text)
        if fault == "operations":
            place = f"nccl_faults_program.py:{line('one')}"
            assert f"rank 1: at all_reduce #2 (float32[5]), {place}" in text


def test_a_member_that_has_gone_on_from_the_call_that_does_not_fit():
    for text in told("sent", 3).values():
        assert ". #2 was: rank 1: gather #2 (float32[300001], root 0), nccl_faults_pr" in text, text
        assert "; ranks 0, 2: gather #2 (float32[300000], root 0)" in text


def test_a_killed_rank():
    for text in told("killed", 3, silent=[2]).values():
        assert "rank 2: silent" in text and "ranks 0, 1: at all_reduce #2" in text


def test_a_rank_that_never_comes():
    for rank, text in told("absent", 3, silent=[1]).items():
        assert "rank 1: last called" in text and "waits for nothing" in text, (rank, text)
        assert "ranks 0, 2: at all_reduce #2" in text


def test_a_communicator_that_is_not_made():
    for text in told("unmade", 2, silent=[1]).values():
        assert "no communicator, as rank 1 did not come" in text
