"""What goes wrong is told at all ranks, within the timeout and a few seconds, with who is where."""

import re
import time

import pytest

from tests.distributed.faults_program import TIMEOUT
from tests.distributed.processes import HERE, Ranks
from tests.tiers import first_quick
from tools.inject_faults import Fault, inject

# From the end of the timeout on: what the members still say to one another, on a slow machine.
GRACE = 5.0
PROGRAM = (HERE / "faults_program.py").read_text().splitlines()


def line(mark):
    return next(i for i, text in enumerate(PROGRAM, 1) if f"# MARK {mark}" in text)


def told(fault, size, silent=(), **variables):
    """The errors of the ranks that are alive, by rank."""
    ranks = Ranks("faults_program.py", size, fault, **variables)
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
        assert float(found[1]) < TIMEOUT + GRACE, text
        assert "went on" not in text
        printed[rank] = found[3]
    return printed


TRANSPORTS = ["memory", "tcp"]
both = pytest.mark.parametrize("transport", TRANSPORTS)
first = pytest.mark.parametrize("transport", first_quick(TRANSPORTS))


def transport_of(name):
    return {"TRITORCH_GLOO_TRANSPORT": "tcp"} if name == "tcp" else {}


@both
def test_different_operations(transport):
    for text in told("operations", 3, **transport_of(transport)).values():
        assert "Collectives do not match in group 0" in text or "gone, or has failed" in text
        assert f"rank 1: at all_reduce #2 (float32[5]), faults_program.py:{line('one')}" in text
        others = f"ranks 0, 2: at all_gather #2 (float32[5]), faults_program.py:{line('others')}"
        assert others in text


@first
@pytest.mark.parametrize("fault", ["shapes", "dtypes", "kinds", "roots", "counts"])
def test_mismatches(fault, transport):
    texts = told(fault, 2, **transport_of(transport)).values()
    assert any("do not match" in text for text in texts)
    for text in texts:
        assert re.search(r"ranks? 0.*: at ", text) and re.search(r"ranks? (0, )?1: at ", text)


@both
@pytest.mark.parametrize("fault", first_quick(["killed", "killed_halfway"]))
def test_a_killed_rank(fault, transport):
    for rank, text in told(fault, 3, silent=[2], **transport_of(transport)).items():
        assert "rank 2: silent" in text, (rank, text)
        assert "ranks 0, 1: at " in text or fault == "killed_halfway"


@first
def test_a_stopped_rank(transport):
    for text in told("stopped", 3, silent=[0], **transport_of(transport)).values():
        assert "rank 0: silent" in text and "ranks 1, 2: at all_gather #2" in text


@first
def test_a_rank_that_never_comes(transport):
    ranks = Ranks("faults_program.py", 3, "absent", **transport_of(transport))
    printed = ranks.finish(120)
    for rank in (0, 2):
        seconds, text = printed[rank].split(" s ", 1)
        assert TIMEOUT - 0.5 < float(seconds) < TIMEOUT + GRACE
        assert "waits for nothing" in text and "rank 1: last called barrier #1" in text
        assert "ranks 0, 2: at all_reduce #2" in text
    assert any("Timed out" in printed[rank] for rank in (0, 2))


def test_an_aborted_group():
    for text in told("closed", 2).values():
        assert "A rank is gone, or has failed" in text


def test_messages_that_never_come():
    text = Ranks("faults_program.py", 2, "messages").finish(120)[0]
    assert "Timed out waiting for recv from rank 1" in text
    assert float(text.split()[0]) < TIMEOUT + GRACE
    text = Ranks("faults_program.py", 2, "sizes").finish(120)[0]
    assert "sent 24 bytes where 20 are expected" in text or "sends 24 bytes" in text


def test_monitored_barrier_names_who_is_absent():
    printed = Ranks("faults_program.py", 3, "monitored").finish(120)
    assert re.search(r"Rank 1 failed to pass monitoredBarrier in 2000 ms", printed[0])
    assert "Rank 2 successfully reached monitoredBarrier" in printed[2]


def test_ctrl_c_ends_a_collective():
    """Not after the timeout, which may be half an hour."""
    import signal

    ranks = Ranks("interrupted_program.py", 2)
    assert ranks.processes[0].stdout.readline() == "ready\n"
    time.sleep(0.5)
    ranks.processes[0].send_signal(signal.SIGINT)
    start = time.monotonic()
    assert "KeyboardInterrupt" in ranks.processes[0].communicate(timeout=60)[0]
    assert time.monotonic() - start < 30
    ranks.processes[1].kill()
    ranks.finish()


@pytest.mark.slow
def test_some_of_a_thousand_faults():
    """What tools/inject_faults.py does by the thousand: killed, stopped, slow and mismatched ranks,
    in collectives, messages and DDP."""
    done = inject([Fault.drawn(5, i, 1.0, ["gloo"]) for i in range(16)], 4)
    assert len(done) == 16
    assert not [(fault, wrong) for fault, _, wrong in done if wrong]
