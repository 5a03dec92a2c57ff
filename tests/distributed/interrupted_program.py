"""Rank 0 waits in a collective to which the other does not come."""

import time

import tritorch as torch
import tritorch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 0:
    print("ready", flush=True)
    dist.all_reduce(torch.ones(5))
time.sleep(600)
