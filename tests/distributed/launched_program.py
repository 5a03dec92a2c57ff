"""What launched tests run: the first argument says what a worker does."""

import json
import os
import signal
import sys
import threading
import time

import tritorch as torch
import tritorch.distributed as dist


def told():
    names = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    return {name: int(os.environ[name]) for name in names}


def main():
    what = sys.argv[1]
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.tensor([float(rank)])
    dist.all_reduce(x)
    assert x.item() == size * (size - 1) / 2
    again = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    line = json.dumps({**told(), "again": again, "arguments": sys.argv[2:]})
    os.write(1, f"{line}\n".encode())  # whole, whoever else prints
    if what == "raise" and rank == size - 1:
        raise ValueError("broken at the last rank")
    if what == "follow":  # all others fail too, because of this
        if rank == 1:
            raise KeyError("the first error")
        dist.all_reduce(x)
        dist.all_reduce(x)
    if what == "hang":  # the error of each is told; a thread of each goes on
        threading.Thread(target=time.sleep, args=(300,)).start()
        raise ValueError("broken at all ranks")
    if what == "once" and rank == 0 and again == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "terminated" and rank == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    if what in ("terminated", "sleep"):
        time.sleep(300)
    if what == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(1, b"ready\n")
        time.sleep(300)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
