"""A job in which a member is missing: prints the error that this one gets.

`missing_program.py CASE`: see `test_missing.py`."""

import os
import signal
import sys
import time
from datetime import timedelta

import tritorch.distributed as dist

TIMEOUT = 2.0


def main(case, rank):
    if case == "init" and rank == 2:
        return
    dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT))
    if case == "dies" and rank == 1:
        os._exit(0)
    if case == "host stops" and rank == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    if case == "host dies" and rank == 0:
        os._exit(0)
    if case.startswith("host"):
        time.sleep(0.5)
    dist.new_group([0, 1, 2])


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(os.environ["RANK"]))
    except dist.DistError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        time.sleep(1.0)  # the store of rank 0 is there for the others
    os._exit(0)
