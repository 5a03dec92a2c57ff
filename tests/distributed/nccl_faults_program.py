"""One fault among GPUs: what its argument names.  Prints the error, and how long it took."""

import os
import signal
import sys
import time
from datetime import timedelta

import tritorch as torch
import tritorch.distributed as dist

TIMEOUT = 2.0
GPU = "cuda"


def killed(rank, size):
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    x = torch.ones(1000, device=GPU)
    dist.all_reduce(x)
    return x


def shapes(rank, size):
    x = torch.ones(5 if rank else 4, device=GPU)
    dist.all_reduce(x)
    return x


def operations(rank, size):
    x = torch.ones(5, device=GPU)
    if rank == 1:
        dist.all_reduce(x)  # MARK one
    else:
        dist.all_gather([torch.ones(5, device=GPU) for _ in range(size)], x)  # MARK others
    return x


def sent(rank, size):
    """Who sends waits for nobody: one has gone on from a gather in which the others wait."""
    x = torch.ones(300_001 if rank == 1 else 300_000, device=GPU)
    dist.gather(x, [torch.ones(300_000, device=GPU) for _ in range(size)] if rank == 0 else None)
    y = torch.ones(1, device=GPU)
    dist.all_reduce(y)
    return y


def counts(rank, size):
    """One calls a collective more."""
    x = torch.ones(5, device=GPU)
    if rank == 0:
        dist.broadcast(x, 0)
    dist.all_reduce(x)
    return x


def absent(rank, size):
    if rank == 1:
        time.sleep(TIMEOUT + 6)
        os._exit(0)
    x = torch.ones(5, device=GPU)
    dist.all_reduce(x)
    return x


def unmade(rank, size):
    if rank == 1:
        time.sleep(TIMEOUT + 6)
        os._exit(0)
    x = torch.ones(5, device=GPU)
    dist.all_reduce(x, group=dist.new_group([0, 1]))
    return x


def main():
    fault = globals()[sys.argv[1]]
    dist.init_process_group("nccl", timeout=timedelta(seconds=60))
    dist.barrier()
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=TIMEOUT))
    rank, size = dist.get_rank(), dist.get_world_size()
    if fault is unmade:
        group = dist.new_group([0, 1], timedelta(seconds=TIMEOUT))
        dist.new_group = lambda ranks: group
    start = time.monotonic()
    try:
        print(fault(rank, size).tolist())
    except RuntimeError as error:
        print(f"{time.monotonic() - start:.1f} s {type(error).__name__}: {error}", flush=True)
        time.sleep(1)  # rank 0 serves the store by which others learn
    os._exit(0)


if __name__ == "__main__":
    main()
