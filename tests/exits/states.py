"""States in which a worker may die: `python states.py NAME` brings itself into one and ends.

Each state is a function, which runs at each rank of its group. It leaves open what it says, and
then most of them raise ValueError; its decorator says how the process ends.
"""

from __future__ import annotations

import atexit
import dataclasses
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import timedelta

STATES: dict[str, State] = {}
HOUR = 3600.0


@dataclasses.dataclass
class State:
    """The number of its processes, how each ends, and the last words that it prints."""

    run: Callable[..., None]
    ranks: int = 1
    code: int = 1
    says: str = "ValueError: boom"
    variables: dict[str, str] = dataclasses.field(default_factory=dict)


def state(**given):
    def note(run):
        STATES[run.__name__] = State(run, **given)
        return run

    return note


TCP = {"TRITORCH_GLOO_TRANSPORT": "tcp"}
SIMULATED = {"TRITORCH_SIMULATE_CUDA": "1"}
KILLED = -signal.SIGTERM


def boom():
    raise ValueError("boom")


def begun(backend="gloo", timeout=HOUR):
    """The group, and its first collective."""
    import tritorch as torch
    import tritorch.distributed as dist

    dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
    if backend == "gloo":
        dist.barrier()
    return torch, dist


def in_thread(function, daemon):
    """Calls it in a thread, and waits until it is in there."""
    threading.Thread(target=function, daemon=daemon).start()
    time.sleep(0.3)


# -- collectives ---------------------------------------------------------------------------------


@state(ranks=2)
def a_future_is_held():
    torch, dist = begun()
    x = torch.ones(10)
    work = dist.reduce_scatter_tensor(torch.empty(5), x, async_op=True)
    future = work.get_future()
    boom()
    del future


@state(ranks=2, variables=TCP)
def a_future_is_held_over_tcp():
    a_future_is_held()


@state(ranks=2)
def futures_of_all_kinds_are_held():
    torch, dist = begun()
    x, rank = torch.ones(4), dist.get_rank()
    pair = [torch.ones(4), torch.ones(4)]
    works = [
        dist.all_reduce(x, async_op=True),
        dist.broadcast(x, 0, async_op=True),
        dist.reduce(x, 1, async_op=True),
        dist.all_gather(pair, x, async_op=True),
        dist.gather(x, pair if rank == 0 else None, 0, async_op=True),
        dist.scatter(x, pair if rank == 0 else None, 0, async_op=True),
        dist.all_to_all(pair, [x, x], async_op=True),
        dist.barrier(async_op=True),
    ]
    futures = [work.get_future() for work in works]
    boom()
    del futures


def unanswered(call):
    """Rank 0 makes a call that rank 1 never makes; both raise."""
    torch, dist = begun()
    held = []
    if dist.get_rank() == 0:
        work = call(torch, dist)
        held.append((work, work.get_future()))
        time.sleep(0.2)
    else:
        time.sleep(0.5)
    boom()
    del held


@state(ranks=2)
def an_all_reduce_is_unanswered():
    unanswered(lambda torch, dist: dist.all_reduce(torch.ones(4), async_op=True))


@state(ranks=2, variables=TCP)
def an_all_gather_is_unanswered_over_tcp():
    unanswered(
        lambda torch, dist: dist.all_gather([torch.ones(4)] * 2, torch.ones(4), async_op=True)
    )


@state(ranks=2)
def a_barrier_is_unanswered():
    unanswered(lambda torch, dist: dist.barrier(async_op=True))


@state(ranks=2)
def a_receive_is_unanswered():
    unanswered(lambda torch, dist: dist.irecv(torch.ones(4), 1))


@state(ranks=2)
def a_send_has_no_receiver():
    unanswered(lambda torch, dist: dist.isend(torch.ones(50_000_000), 1))


@state(ranks=2, code=0, says="")
def the_program_ends_before_its_works():
    """Without an error; a member that has gone is told to the others, which do not ask."""
    torch, dist = begun()
    if dist.get_rank() == 0:
        work = dist.all_reduce(torch.ones(4), async_op=True)
        future = work.get_future()
        future.then(lambda done: done.value())


@state(ranks=2, code=0, says="all done")
def works_that_can_end_do_so_before_the_program():
    torch, dist = begun()
    x = torch.ones(4)
    work = dist.all_reduce(x, async_op=True)
    work.get_future().add_done_callback(lambda done: print("all done", x.tolist(), flush=True))
    if dist.get_rank() == 1:
        time.sleep(0.5)


@state(ranks=2)
def a_callback_never_returns():
    torch, dist = begun()
    work = dist.all_reduce(torch.ones(4), async_op=True)
    inside = threading.Event()

    def forever(done):
        inside.set()
        threading.Event().wait()

    work.get_future().add_done_callback(forever)
    inside.wait()
    boom()


def a_callback_computes(device):
    torch, dist = begun()
    computes = threading.Event()
    layer = torch.nn.Linear(3, 3, device=device)
    compiled = torch.compile(torch.nn.Sequential(layer, torch.nn.ReLU()))

    def compute(done):
        x = done.value()[0].to(device)[:3]
        while threading.current_thread() is not threading.main_thread():
            x + 1
            torch.zeros(2, device=device)
            compiled(x).sum().backward()
            with torch.no_grad():
                torch.nn.functional.layer_norm(layer(x), (3,))
            computes.set()
        computes.set()

    if dist.get_rank():
        time.sleep(0.3)  # the other's is not over when it is given what follows
    dist.all_reduce(torch.ones(4), async_op=True).get_future().then(compute)
    if not dist.get_rank():
        computes.wait()
        time.sleep(random.random() / 4)
    boom()


@state(ranks=2)
def a_callback_computes_on_the_cpu():
    a_callback_computes("cpu")


@state(ranks=2, variables=SIMULATED)
def a_callback_computes_on_a_gpu():
    a_callback_computes("cuda")


@state(ranks=2)
def a_callback_raises():
    torch, dist = begun()
    dist.all_reduce(torch.ones(4), async_op=True).get_future().then(lambda done: 1 / 0)
    boom()


@state(ranks=2)
def a_callback_holds_the_last_reference():
    torch, dist = begun()
    group = dist.new_group([0, 1])
    work = dist.all_reduce(torch.ones(4), group=group, async_op=True)
    held = [group]
    dist.distributed_c10d._world.pg_map.clear()
    del group
    work.get_future().add_done_callback(lambda done: held.clear())
    boom()


@state(ranks=2)
def many_works_wait():
    torch, dist = begun()
    works = [dist.all_reduce(torch.ones(1_000_000), async_op=True) for _ in range(100)]
    boom()
    del works


@state(ranks=2)
def works_are_forgotten_while_they_run():
    torch, dist = begun()
    for _ in range(50):
        dist.all_reduce(torch.ones(1_000_000), async_op=True)
    boom()


@state(ranks=2)
def a_group_is_forgotten_while_it_runs():
    torch, dist = begun()
    group = dist.new_group([0, 1])
    for _ in range(20):
        work = dist.all_reduce(torch.ones(1_000_000), group=group, async_op=True)
        work.get_future().add_done_callback(lambda done: done.value())
    dist.destroy_process_group(group)
    del group
    boom()


@state(ranks=2)
def objects_are_gathered():
    _, dist = begun()
    rank = dist.get_rank()
    if rank:
        time.sleep(0.5)
        boom()
    in_thread(lambda: dist.all_gather_object([None, None], {"rank": rank}), True)
    boom()


@state(ranks=2)
def a_monitored_barrier_waits():
    _, dist = begun()
    if dist.get_rank() == 0:
        in_thread(dist.monitored_barrier, True)
    boom()


# -- threads --------------------------------------------------------------------------------------


@state(ranks=2)
def a_thread_is_in_a_barrier():
    _, dist = begun()
    if dist.get_rank() == 0:
        in_thread(dist.barrier, False)
    else:
        time.sleep(0.6)
    boom()


@state(ranks=2)
def a_daemon_is_in_a_receive():
    torch, dist = begun()
    in_thread(lambda: dist.recv(torch.ones(3)), True)
    boom()


@state(ranks=2, code=0, says="")
def a_daemon_is_in_a_receive_at_a_good_end():
    torch, dist = begun()
    if dist.get_rank() == 0:
        in_thread(lambda: dist.recv(torch.ones(3)), True)
    else:
        time.sleep(6)  # longer than the other, whose daemon would be told that this member is gone


class Late:
    """A module's attribute that is dropped when threads may run Python no more, and takes long."""

    def __del__(self, sleep=time.sleep):  # this module's globals are gone by then
        sleep(2)


def daemon_comes_back(call):
    """A daemon is in Python that native code has called, until Python has ended."""
    sys.late = Late()
    in_thread(lambda: call(lambda *given: time.sleep(1)), True)


@state(code=0, says="")
def a_daemon_shares_work():
    from tritorch import _C

    daemon_comes_back(lambda wait: _C.share(2, wait))


@state(code=0, says="")
def a_daemon_is_in_a_quiet_call():
    from tritorch import _C

    daemon_comes_back(lambda wait: _C.Quiet(wait)())


@state(code=0, says="")
def a_daemon_is_in_a_module():
    import tritorch as torch

    class Slow(torch.nn.Module):
        forward = staticmethod(lambda wait: wait())

    daemon_comes_back(Slow())


@state(ranks=2)
def a_thread_is_in_a_receive():
    torch, dist = begun()
    in_thread(lambda: dist.recv(torch.ones(3)), False)
    boom()


@state()
def a_thread_waits_at_a_store():
    import tritorch.distributed as dist

    store = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(hours=1))
    in_thread(lambda: store.get("never"), False)
    boom()


@state()
def threads_wait_at_other_stores():
    import tritorch.distributed as dist

    name = tempfile.mkdtemp() + "/store"
    for store in (dist.HashStore(), dist.FileStore(name, 1)):
        store.set_timeout(timedelta(hours=1))
        in_thread(lambda store=store: store.wait(["never"]), False)
    boom()


@state()
def a_thread_waits_for_a_future():
    from tritorch.futures import Future

    in_thread(Future().wait, True)
    boom()


@state(code=0, says="ValueError: boom")
def a_thread_raises():
    begun()
    in_thread(boom, False)


@state()
def threads_are_the_members():
    import tritorch as torch
    import tritorch.distributed as dist
    from tritorch.distributed.world import install_threaded

    install_threaded()
    store = dist.HashStore()

    def member():
        dist.init_process_group("threaded", rank=0, world_size=2, store=store)
        dist.all_reduce(torch.ones(3))

    in_thread(member, True)
    boom()


# -- groups ---------------------------------------------------------------------------------------


@state(ranks=2)
def a_group_is_half_made():
    _, dist = begun()
    if dist.get_rank() == 0:
        in_thread(lambda: dist.new_group([0, 1]), True)
    else:
        time.sleep(0.6)
    boom()


@state(ranks=2)
def a_group_is_half_made_in_a_thread():
    _, dist = begun()
    if dist.get_rank() == 0:
        in_thread(lambda: dist.new_group([0, 1]), False)
    else:
        time.sleep(0.6)
    boom()


@state(says="DistStoreError")
def nobody_else_comes():
    os.environ["WORLD_SIZE"] = "2"
    begun(timeout=1)


@state()
def a_group_is_fake():
    _, dist = begun("fake")
    dist.barrier()
    boom()


@state(ranks=2, code=0, says="")
def the_group_ends_at_exit():
    torch, dist = begun()
    atexit.register(dist.destroy_process_group)
    dist.all_reduce(torch.ones(3), async_op=True).get_future()


@state(ranks=2)
def an_exit_handler_calls_a_collective():
    torch, dist = begun()
    atexit.register(lambda: print(dist.all_reduce(torch.ones(3))))
    boom()


@state(ranks=2, code=0, says="")
def a_finaliser_calls_a_collective():
    """At the very end of the interpreter."""
    torch, dist = begun()
    ones = torch.ones(3)

    class Last:
        def __del__(self, all_reduce=dist.all_reduce, x=ones):
            all_reduce(x, async_op=True).get_future()

    sys.last_object = Last()


# -- training -------------------------------------------------------------------------------------


def ddp(torch):
    from tritorch.nn.parallel import DistributedDataParallel

    layers = [torch.nn.Linear(200, 200) for _ in range(4)]
    return DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.1)


@state(ranks=2)
def a_backward_pass_is_broken_off():
    torch, _ = begun()
    model = ddp(torch)
    model.module[0].weight.register_hook(lambda grad: boom())
    model(torch.ones(3, 200)).sum().backward()


@state(ranks=2, says="Error")
def a_backward_pass_waits_for_another():
    torch, dist = begun()
    model = ddp(torch)
    if dist.get_rank() == 0:
        boom()
    model(torch.ones(3, 200)).sum().backward()


@state()
def a_profile_is_open():
    import tritorch as torch
    from tritorch.profiler import profile

    profile(record_shapes=True, with_stack=True).__enter__()
    torch.ones(3).add(1)
    boom()


@state()
def a_compiled_function_breaks_off():
    import tritorch as torch

    @torch.compile
    def step(x):
        y = x * 2
        if x.sum() > 3:
            boom()
        return y + 1

    for i in range(5):
        step(torch.ones(3) * (i / 3 + 0.1))


# -- loaders --------------------------------------------------------------------------------------


class Stuck:
    """A dataset whose items take for ever from the third on."""

    def __len__(self):
        return 100

    def __getitem__(self, i):
        if i > 2:
            time.sleep(HOUR)
        return i


def loading(**given):
    from tritorch.utils.data import DataLoader

    batches = iter(DataLoader(Stuck(), **given))
    next(batches)
    return batches


@state()
def a_loader_is_open():
    batches = loading(num_workers=2, persistent_workers=True)
    boom()
    del batches


@state()
def a_loader_of_threads_is_open():
    batches = loading(num_workers=2, multiprocessing_context="thread")
    boom()
    del batches


@state(variables=SIMULATED)
def a_loader_that_pins_is_open():
    batches = loading(num_workers=1, pin_memory=True)
    boom()
    del batches


@state(says="exited unexpectedly")
def a_worker_of_a_loader_dies():
    from tritorch.utils.data import DataLoader

    class Deadly(Stuck):
        def __getitem__(self, i):
            os._exit(3)

    next(iter(DataLoader(Deadly(), num_workers=2)))


@state()
def a_thread_is_in_a_loader():
    def wait():
        batches = loading(num_workers=1)
        for _ in range(5):
            next(batches)

    in_thread(wait, True)
    boom()


@state()
def processes_of_a_pool_work():
    import tritorch.multiprocessing as mp

    pool = mp.get_context("fork").Pool(2)
    pool.map_async(time.sleep, [HOUR] * 4)
    time.sleep(0.3)
    boom()


@state()
def a_queue_has_tensors():
    import tritorch as torch
    import tritorch.multiprocessing as mp

    queue = mp.get_context("fork").Queue()
    for _ in range(20):
        queue.put(torch.ones(100_000))
    boom()


# -- the simulated device -------------------------------------------------------------------------


@state(variables=SIMULATED)
def streams_have_work():
    import tritorch as torch

    streams = [torch.cuda.Stream() for _ in range(3)]
    for i in range(9):
        with torch.cuda.stream(streams[i % 3]):
            x = torch.ones(1000, device="cuda") * i
            (x + 1).to("cpu", non_blocking=True)
    boom()


@state(variables=SIMULATED)
def a_graph_is_being_captured():
    import tritorch as torch

    x = torch.ones(10, device="cuda")
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        x.add_(1)
        boom()


@state(variables=SIMULATED, says="IndexError")
def the_device_has_found_a_fault():
    import tritorch as torch

    x = torch.ones(10, device="cuda")
    x[torch.tensor([20], device="cuda")]
    torch.cuda.synchronize()


@state(ranks=2, variables=SIMULATED)
def a_collective_on_a_stream_is_unanswered():
    torch, dist = begun("nccl")
    x = torch.ones(4, device="cuda")
    dist.all_reduce(x)
    torch.cuda.synchronize()
    if dist.get_rank() == 0:
        work = dist.all_reduce(x, async_op=True)
        future = work.get_future()
    boom()
    del future


@state(ranks=2, variables=SIMULATED)
def a_thread_synchronises_with_a_collective():
    torch, dist = begun("nccl")
    x = torch.ones(4, device="cuda")
    dist.all_reduce(x)
    torch.cuda.synchronize()
    if dist.get_rank() == 0:

        def wait():
            dist.all_reduce(x)
            torch.cuda.synchronize()

        in_thread(wait, True)
    boom()


# -- other ends -----------------------------------------------------------------------------------


@state(ranks=2, code=3, says="")
def sys_exit():
    torch, dist = begun()
    work = dist.all_reduce(torch.ones(4), async_op=True)
    work.get_future().add_done_callback(lambda done: done.value())
    sys.exit(3)


@state(ranks=2, code=7, says="")
def os_exit():
    torch, dist = begun()
    work = dist.all_reduce(torch.ones(4), async_op=True)
    work.get_future().add_done_callback(lambda done: time.sleep(HOUR))
    os._exit(7)


@state(ranks=2, code=-signal.SIGINT, says="KeyboardInterrupt")
def an_interrupt_while_it_waits():
    torch, dist = begun()
    if dist.get_rank() == 0:
        work = dist.all_reduce(torch.ones(4), async_op=True)
        future = work.get_future()
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        work.wait()
        del future
    time.sleep(1)
    raise KeyboardInterrupt


@state(ranks=2, code=KILLED, says="")
def terminated_while_it_waits():
    torch, dist = begun()
    if dist.get_rank() == 0:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
        dist.all_reduce(torch.ones(4))
    os.kill(os.getpid(), signal.SIGTERM)


@state(ranks=2, code=-signal.SIGINT, says="KeyboardInterrupt")
def an_interrupt_while_a_group_is_destroyed():
    torch, dist = begun()
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(4), async_op=True)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        dist.destroy_process_group()
    time.sleep(1.5)
    raise KeyboardInterrupt


if __name__ == "__main__":
    STATES[sys.argv[1]].run()
