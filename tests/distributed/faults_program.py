"""One fault in a group: what its argument names.  Prints the error, and how long it took."""

import os
import signal
import sys
import time
from datetime import timedelta

import tritorch as torch
import tritorch.distributed as dist

TIMEOUT = 2.0


def killed(rank, size):
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1000))  # MARK killed


def killed_halfway(rank, size):
    works = [dist.all_reduce(torch.ones(3_000_000), async_op=True) for _ in range(20)]
    if rank == size - 1:
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    for work in works:
        work.wait()
    dist.barrier()


def stopped(rank, size):
    if rank == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_gather([torch.ones(5) for _ in range(size)], torch.ones(5))


def shapes(rank, size):
    dist.all_reduce(torch.ones(5 if rank else 4))


def dtypes(rank, size):
    dist.all_reduce(torch.ones(4, dtype=torch.float32 if rank else torch.int32))


def operations(rank, size):
    if rank == 1:
        dist.all_reduce(torch.ones(5))  # MARK one
    else:
        dist.all_gather([torch.ones(5) for _ in range(size)], torch.ones(5))  # MARK others


def kinds(rank, size):
    dist.all_reduce(torch.ones(5), dist.ReduceOp.MAX if rank else dist.ReduceOp.MIN)


def roots(rank, size):
    dist.broadcast(torch.ones(5), 1 if rank else 0)
    dist.barrier()  # over TCP, who sends does not hear of those who do not receive


def counts(rank, size):
    """One calls a collective more."""
    if rank == 0:
        dist.barrier()
    dist.all_reduce(torch.ones(5))


def absent(rank, size):
    """One never comes: it computes."""
    if rank == 1:
        time.sleep(TIMEOUT + 4)
        return
    dist.all_reduce(torch.ones(5))


def messages(rank, size):
    if rank == 0:
        dist.recv(torch.ones(5), 1)
    else:
        time.sleep(TIMEOUT + 1)


def sizes(rank, size):
    if rank == 0:
        dist.recv(torch.ones(5), 1)
    elif rank == 1:
        dist.send(torch.ones(6), 0)
        time.sleep(1)


def closed(rank, size):
    """The connections of one break."""
    if rank == 1:
        dist.distributed_c10d._get_default_group().abort()
    dist.all_reduce(torch.ones(100))


def monitored(rank, size):
    if rank != 1:
        dist.monitored_barrier(timeout=timedelta(seconds=TIMEOUT))


def main():
    fault = globals()[sys.argv[1]]
    backend = "mpi" if "mpi" in sys.argv else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=120))
    dist.barrier()
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=TIMEOUT))
    start = time.monotonic()
    try:
        fault(dist.get_rank(), dist.get_world_size())
    except RuntimeError as error:
        print(f"{time.monotonic() - start:.1f} s {type(error).__name__}: {error}", flush=True)
        # The group is lost: what comes after says so at once.
        again = time.monotonic()
        if sys.argv[1] not in ("messages", "sizes", "monitored"):
            try:
                dist.all_reduce(torch.ones(1))
                print("a lost group went on")
            except dist.DistBackendError:
                assert time.monotonic() - again < 5
    os._exit(0)


if __name__ == "__main__":
    main()
