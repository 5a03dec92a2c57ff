"""Programs in several processes, which meet at a store that the test serves."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from tritorch.distributed import TCPStore

HERE = Path(__file__).parent
LIMIT = 300  # seconds: ends what hangs


class Ranks:
    """Processes that run one program, each with its rank."""

    def __init__(self, program, size, *arguments, **variables):
        self.store = TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=60))
        self.processes = []
        for rank in range(size):
            environment = os.environ | {
                "RANK": str(rank),
                "WORLD_SIZE": str(size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(self.store.port),
                "TORCHELASTIC_USE_AGENT_STORE": "True",
                "PYTHONPATH": str(HERE.parent.parent),
                **variables,
            }
            command = [sys.executable, str(HERE / program), *map(str, arguments)]
            self.processes.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
            )

    def finish(self, limit=LIMIT):
        """What each has printed; all are gone afterwards."""
        try:
            return [process.communicate(timeout=limit)[0] for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()
                process.wait()

    def succeed(self, limit=LIMIT):
        """Finishes, and holds that all ended well."""
        printed = self.finish(limit)
        for rank, (process, text) in enumerate(zip(self.processes, printed, strict=True)):
            assert process.returncode == 0, f"rank {rank} of {len(self.processes)}:\n{text}"
        return printed
