"""Members who do not come to a meeting are named, with their ranks, to all who wait."""

import os
import socket
import subprocess
import sys
from datetime import timedelta

import pytest

from tests.distributed.missing_program import TIMEOUT
from tests.distributed.processes import HERE
from tests.tiers import quick
from tritorch.distributed import DistStoreError, HashStore, TCPStore
from tritorch.distributed.stores import _FAILED, gathered

CASES = {
    "init": (
        (0, 1),
        f"DistStoreError: rank 2 of 3 did not come to init_process_group within {TIMEOUT:.0f} s",
    ),
    "dies": (
        (0, 2),
        f"DistStoreError: new_group (group '1'): rank 1 of 3 did not come within {TIMEOUT:.0f} s",
    ),
    "host stops": ((1, 2), "served by rank 0, whose process is gone, stopped or out of reach"),
    "host dies": ((1, 2), "served by rank 0, whose process is gone, stopped or out of reach"),
}


@pytest.mark.parametrize("case", quick(CASES, "init", "dies", "host dies"))
def test_the_missing_are_named(case):
    alive, said = CASES[case]
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    shared = os.environ | {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "3",
        "PYTHONPATH": str(HERE.parent.parent),
    }  # fmt: skip
    command = [sys.executable, str(HERE / "missing_program.py"), case]
    ranks = [
        subprocess.Popen(
            command, env=shared | {"RANK": str(rank)}, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for rank in range(3)
    ]  # fmt: skip
    try:
        printed = {rank: ranks[rank].communicate(timeout=60)[0] for rank in alive}
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    for text in printed.values():
        assert said in text, printed


def test_gathered_names_ranks_of_the_world():
    store = HashStore()
    store.set_timeout(timedelta(seconds=0.1))
    store.set("at0", "a")
    with pytest.raises(DistStoreError, match=r"a test: ranks 5, 7 of 3 did not come within 0 s"):
        gathered(store, "at", [3, 5, 7], "a test")
    store.set("at1", "b")
    store.set("at2", "c")
    assert gathered(store, "at", [3, 5, 7], "a test") == [b"a", b"b", b"c"]


def test_an_error_that_another_member_has_just_written_is_raised():
    class Late(HashStore):
        def multi_get(self, keys):
            self.set(keys[1], _FAILED + b"a test: rank 5 is missing")
            raise DistStoreError("wait timeout")

    store = Late()
    store.set("at0", "a")
    with pytest.raises(DistStoreError, match="^a test: rank 5 is missing$"):
        gathered(store, "at", [3, 5], "a test")


def test_a_store_counts_those_who_came():
    with pytest.raises(DistStoreError, match="1 of 2 processes came"):
        TCPStore("127.0.0.1", 0, 2, True, timeout=timedelta(seconds=0.1))
