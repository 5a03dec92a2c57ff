"""What needs no second process: one process alone, fake members, threads as members."""

import os
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

import tritorch as torch
import tritorch.distributed as dist
from tritorch.distributed import world
from tritorch.distributed.where import Ring


@pytest.fixture
def alone():
    dist.init_process_group()
    yield
    dist.destroy_process_group()


def test_one_process_needs_nothing(alone):
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "undefined")
    assert dist.get_backend_config() == "cpu:gloo,cuda:gloo"
    x = torch.arange(3.0)
    dist.all_reduce(x)
    outs = [torch.empty(3)]
    dist.all_gather(outs, x)
    assert outs[0].tolist() == [0, 1, 2]
    dist.barrier()
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group()


def test_refusals(alone):
    x = torch.ones(2)
    with pytest.raises(TypeError, match="Expected parameter `tensor` of type torch.Tensor"):
        dist.all_reduce([x])
    with pytest.raises(ValueError, match="all_reduce does not support"):
        dist.all_reduce(torch.ones(2, dtype=torch.complex64), dist.ReduceOp.MAX)
    with pytest.raises(ValueError, match="different dtypes"):
        dist.all_gather([torch.ones(2, dtype=torch.int32)], x)
    with pytest.raises(RuntimeError, match="Cannot use ReduceOp.BAND with tritorch.float32"):
        dist.all_reduce(x, dist.ReduceOp.BAND)
    with pytest.raises(ValueError, match="Must specify global_rank or group_rank"):
        dist.broadcast(x)
    with pytest.raises(ValueError, match="Can't specify both"):
        dist.broadcast(x, src=0, group_src=0)
    with pytest.raises(ValueError, match="must be specified on destination"):
        dist.gather(x)
    with pytest.raises(ValueError, match="should not be the same as the rank"):
        dist.send(x, 0)
    with pytest.raises(ValueError, match="Split sizes doesn't match"):
        dist.all_to_all_single(x, x, [1], [2])
    with pytest.raises(TypeError, match="datetime.timedelta"):
        dist.new_group(timeout=5)
    with pytest.raises(ValueError, match="Rank 3 is out of range"):
        dist.new_group([3])
    with pytest.raises(RuntimeError, match="doesn't have UCC built in"):
        dist.new_group(backend="ucc")


def test_profiles_show_collectives_and_messages(alone):
    """Each is an asynchronous event with its shapes; a coalesced call is one."""
    x, pairs = torch.ones(2, 3), torch.ones(4, dtype=torch.complex64)
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        dist.all_reduce(x)
        work = dist.broadcast(pairs, 0, async_op=True)
        work.wait()
        dist.all_gather_coalesced(
            [[torch.empty(5), torch.empty(1)]], [torch.ones(5), torch.ones(1)]
        )
        dist.barrier()
    found = {
        event.name: event for event in profile.function_events if event.name.startswith("gloo:")
    }
    assert {name: event.input_shapes for name, event in found.items()} == {
        "gloo:all_reduce": [[2, 3]], "gloo:broadcast": [[4, 2]],
        "gloo:all_gather": [[5], [1]], "gloo:barrier": [],
    }  # fmt: skip
    assert all(event.is_async and event.cpu_time >= 0 for event in found.values())
    assert all(event.cpu_parent is None and not event.cpu_children for event in found.values())


def test_without_a_group():
    for call in (dist.get_rank, dist.get_world_size, dist.get_backend, dist.barrier):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
    assert dist.is_available() and not dist.is_initialized()
    with pytest.raises(AssertionError, match="Process group cannot be None"):
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("variables", "missing"),
    [({"RANK": "0"}, "WORLD_SIZE"), ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR")],
)
def test_missing_variables(monkeypatch, variables, missing):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"environment variable {missing} expected, but not set"):
        dist.init_process_group("gloo")


def test_urls(tmp_path):
    store, rank, size = next(dist.rendezvous(f"file://{tmp_path}/f?rank=1&world_size=2"))
    assert isinstance(store, dist.FileStore) and (rank, size) == (1, 2)
    with pytest.raises(ValueError, match="port number missing"):
        next(dist.rendezvous("tcp://localhost", 0, 1))
    with pytest.raises(RuntimeError, match="No rendezvous handler for quantum://"):
        dist.rendezvous("quantum://x", 0, 1)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/g", rank=0, world_size=1)
    dist.destroy_process_group()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.destroy_process_group()


def test_fake():
    dist.init_process_group("fake", rank=1, world_size=4)
    x = torch.arange(3.0)
    dist.all_reduce(x)
    outs = [torch.zeros(3) for _ in range(4)]
    dist.all_gather(outs, x)
    assert dist.get_world_size() == 4 and outs[3].equal(x)
    assert dist.new_group([0, 1]).size() == 2
    dist.destroy_process_group()


def in_threads(body, size):
    """Runs body(rank) in threads that are the members of a world."""
    store, errors = dist.HashStore(), []

    def run(rank):
        try:
            dist.init_process_group(
                "threaded", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=5)
            )
            body(rank)
            dist.destroy_process_group()
        except BaseException as error:
            errors.append(error)

    world.install_threaded()
    try:
        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    finally:
        world.uninstall_threaded()
    return errors


def test_threads_are_members():
    size = 4

    def body(rank):
        x = torch.full((5,), rank + 1.0)
        dist.all_reduce(x)
        assert x.tolist() == [10.0] * 5
        outs = [torch.empty(1) for _ in range(size)]
        dist.all_gather(outs, torch.tensor([float(rank)]))
        assert [out.item() for out in outs] == [0, 1, 2, 3]
        out = torch.empty(2)
        dist.reduce_scatter(out, [torch.full((2,), float(r)) for r in range(size)])
        assert out.tolist() == [4.0 * rank] * 2
        y = torch.full((2,), float(rank))
        dist.broadcast(y, 2)
        assert y.tolist() == [2, 2]
        table = torch.arange(4.0) + 10 * rank
        got = torch.empty(4)
        dist.all_to_all_single(got, table)
        assert got.tolist() == [10.0 * r + rank for r in range(size)]
        dist.reduce(y, 1, dist.ReduceOp.AVG)
        assert y.tolist() == [2.0, 2.0]
        pairs = dist.new_group([0, 2])
        if rank in (0, 2):
            z = torch.ones(1)
            dist.all_reduce(z, group=pairs)
            assert z.item() == 2
        everyone = [None] * size
        dist.all_gather_object(everyone, rank)
        assert everyone == [0, 1, 2, 3]
        if rank == 0:
            dist.send(torch.arange(3.0), 3)
        if rank == 3:
            got = torch.empty(3)
            assert dist.recv(got) == 0 and got.tolist() == [0, 1, 2]
        dist.barrier()

    errors = in_threads(body, size)
    assert not errors, errors


def test_threads_that_do_not_match():
    def body(rank):
        dist.all_reduce(torch.ones(2)) if rank else dist.barrier()

    errors = in_threads(body, 2)
    assert len(errors) == 2 and all("do not match" in str(error) for error in errors)


def test_a_backend_of_a_program():
    class Doubling(dist.ProcessGroup):
        def allreduce(self, tensors, opts=None):
            tensors[0].mul_(2)
            from tritorch.distributed.work import DoneWork

            return DoneWork(tensors)

        def getBackendName(self):
            return "doubling"

    def create(store, rank, size, timeout):
        return Doubling(rank, size)

    dist.distributed_c10d.Backend.register_backend("doubling", create, devices=["cpu"])
    dist.init_process_group("doubling", store=dist.HashStore(), rank=0, world_size=3)
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [2, 2] and dist.get_world_size() == 3
    dist.destroy_process_group()


def test_operations_are_values():
    import pickle

    op = dist.ReduceOp
    assert op(op.SUM) == op.SUM and hash(op(op.MAX)) == hash(op.MAX) and op(op.MIN) != op.MAX
    assert pickle.loads(pickle.dumps(op.PREMUL_SUM(2.5))).factor == 2.5
    with pytest.raises(TypeError, match="only PREMUL_SUM"):
        op.SUM(2)
    with pytest.warns(FutureWarning, match="reduce_op"):
        assert dist.reduce_op.SUM is op.SUM


def test_importing_it_starts_nothing():
    code = (
        "import threading, tritorch.distributed as d; "
        "print(threading.active_count(), d.is_initialized())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1", "False"]


def test_levels(monkeypatch):
    before = dist.get_debug_level()
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "detail")
    dist.set_debug_level_from_env()
    assert dist.get_debug_level() is dist.DebugLevel.DETAIL
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "loud")
    with pytest.raises(RuntimeError, match="must be one of"):
        dist.set_debug_level_from_env()
    dist.set_debug_level(before)
    assert "LOCAL_RANK" in os.environ or dist.distributed_c10d.get_node_local_rank(7) == 7


def test_plain_tensors_are_not_copied_in_programs_that_say_torch():
    code = (
        "import tritorch; tritorch.as_torch()\n"
        "import torch, torch.distributed\n"
        "from tritorch.distributed.backends.staging import Staged\n"
        "x = torch.ones(4)\n"
        "print(Staged().write(x)[0] == x.data_ptr())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "True\n"


def test_a_timeout_tells_what_others_had_called_there():
    """A sender is done with a gather whose parts do not fit, and has gone on."""
    ring = Ring("0", 0, 3, None)

    def place(rank, shape, *more):
        recent = [
            (0, "send (float32[5])", "a.py:1"),
            (3, f"gather #3 (float32[{shape}])", "a.py:7"),
            *more,
        ]
        said = {"rank": rank, "last": "", "at": recent[-1][0], "waits": True, "kind": ""}
        return said | {"recent": recent}

    later = 4, "all_reduce #4 (float32[1])", "a.py:9"
    ring.failed = {0: place(0, 300), 1: place(1, 299, later), 2: place(2, 300, later)}
    assert ring.difference() == (
        ". #3 was: rank 1: gather #3 (float32[299]), a.py:7; "
        "ranks 0, 2: gather #3 (float32[300]), a.py:7"
    )
    ring.failed[0] = place(0, 300, later) | {"at": 3}  # its device is behind
    assert ring.difference().startswith(". #3 was: rank 1: gather #3 (float32[299])")
    ring.failed[1] = place(1, 300, later)  # all called the same: somebody is late
    assert ring.difference() == ""
