"""However a process ends, it ends: within seconds, with its traceback and its exit code.

All states of states.py are brought about side by side, once; each is a test of its own.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

import pytest

from tests.exits.states import STATES
from tests.tiers import first_quick

HERE = Path(__file__).parent
AT_ONCE = 6  # processes
LIMIT = 20.0  # seconds that a state may take on a busy machine, its start included


class Group:
    """The processes of one state."""

    def __init__(self, name):
        self.name, self.state, self.start = name, STATES[name], time.monotonic()
        self.folder = tempfile.TemporaryDirectory()
        self.paths = [Path(self.folder.name) / str(i) for i in range(self.state.ranks)]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.processes = [self._begin(rank, port) for rank in range(self.state.ranks)]
        self.seconds = [None] * self.state.ranks

    def _begin(self, rank, port):
        variables = {
            "RANK": rank, "WORLD_SIZE": self.state.ranks, "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port, "PYTHONPATH": HERE.parent.parent,
        }  # fmt: skip
        environment = os.environ | {key: str(each) for key, each in variables.items()}
        environment.pop("TRITORCH_SIMULATE_CUDA", None)
        with self.paths[rank].open("w") as file:
            return subprocess.Popen(
                [sys.executable, HERE / "states.py", self.name],
                env=environment | self.state.variables, stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT,
            )  # fmt: skip

    def over(self):
        """True if all have ended; one that has not in time is killed."""
        passed = time.monotonic() - self.start
        for i, process in enumerate(self.processes):
            if self.seconds[i] is None and process.poll() is not None:
                self.seconds[i] = passed
        if None in self.seconds and passed < LIMIT:
            return False
        for process in self.processes:
            process.kill()
            process.wait()
        return True

    def printed(self):
        return [path.read_text() for path in self.paths]


@pytest.fixture(scope="module")
def ended(request):
    """The groups of the collected states by name, once all have ended."""
    names = [item.callspec.params["name"] for item in request.session.items
             if item.fspath == request.fspath and hasattr(item, "callspec")]  # fmt: skip
    waiting = deque(sorted(dict.fromkeys(names)))
    running, done = [], {}
    while waiting or running:
        if waiting and sum(each.state.ranks for each in running) < AT_ONCE:
            running.append(Group(waiting.popleft()))
        for group in [each for each in running if each.over()]:
            running.remove(group)
            done[group.name] = group
        time.sleep(0.01)
    return done


@pytest.mark.parametrize("name", first_quick(sorted(STATES), 6))
def test_a_process_ends(ended, name):
    group = ended[name]
    for rank, text in enumerate(group.printed()):
        where = f"{name}, rank {rank}:\n{text}"
        assert group.seconds[rank] is not None, f"still there after {LIMIT} s: {where}"
        assert group.processes[rank].returncode == group.state.code, where
        assert group.state.says in text, where
        assert group.state.says or "Traceback" not in text, where
