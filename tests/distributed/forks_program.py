"""Members that fork while their groups are in use; the groups go on, also when children end."""

import os
import time

import tritorch as torch
import tritorch.distributed as dist

dist.init_process_group("gloo")
x = torch.ones(1000)
dist.all_reduce(x, async_op=True).wait()  # the group's own thread runs now
if dist.get_rank() == 0:
    dist.send(x, 1)
else:
    dist.recv(x, 0)
pending = dist.all_reduce(x, async_op=True) if dist.get_rank() == 0 else None
children = []
for how in ("leaves", "collects", "calls"):
    child = os.fork()
    if child == 0:
        try:
            if how == "calls":
                dist.all_reduce(torch.ones(1))
                os._exit(1)  # a child is no member
            if how == "collects":
                dist.destroy_process_group()
        except dist.DistBackendError as error:
            os._exit("the group was ended" not in str(error))
        os._exit(0)
    children.append(child)
deadline = time.monotonic() + 60
for child in children:
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0, status
            break
        assert time.monotonic() < deadline
        time.sleep(0.01)
if pending is None:
    dist.all_reduce(x)
else:
    pending.wait()
assert x.eq(4).all()
x = torch.ones(300_000)
dist.all_reduce(x)
assert x.eq(2).all()
dist.barrier()
dist.destroy_process_group()
