"""Tensors between processes: the same memory, and nothing left of it."""

import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tritorch
from tests.multiprocessing import children
from tests.patience import PATIENCE
from tests.tiers import first_quick
from tritorch import multiprocessing as mp, nn
from tritorch.core import sharing

ROOT = Path(__file__).parent.parent.parent
SHARED = Path("/dev/shm")


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT)])


def named():
    return {p.name for p in SHARED.glob(f"tritorch-{os.getpid()}-*")}


@pytest.fixture(params=first_quick(["file_descriptor", "file_system"]))
def strategy(request):
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy("file_descriptor")
    gc.collect()
    assert not named()


@pytest.mark.parametrize("method", first_quick(["fork", "spawn", "forkserver"]))
def test_both_sides_see_the_same_memory(strategy, method):
    context = mp.get_context(method)
    there, back = context.SimpleQueue(), context.SimpleQueue()
    module = nn.Linear(2, 2).share_memory()
    child = context.Process(target=children.write, args=(there, back, module))
    child.start()
    x, parameter = tritorch.zeros(10), nn.Parameter(tritorch.zeros(3))
    there.put((x, x[2:5], parameter))
    again, numbers = back.get(), back.get()
    assert again.data_ptr() == x.data_ptr() and numbers.tolist() == [0, 1, 2, 3]
    there.put(None)
    child.join()
    assert child.exitcode == 0
    assert x.tolist() == [9, 0, 5, 5, 5, 0, 0, 0, 0, 0]
    assert parameter.tolist() == [1, 1, 1] and module.weight.tolist() == [[3, 3], [3, 3]]


def test_pool(strategy):
    with mp.Pool(2) as pool:
        assert [x.tolist() for x in pool.map(children.double, [tritorch.ones(2)] * 3)] == [
            [2, 2]
        ] * 3
        pool.close()
        pool.join()


def through_a_queue(value):
    queue = mp.SimpleQueue()
    queue.put(value)
    return queue.get()


def test_what_goes_through_a_queue(strategy):
    for x in [tritorch.empty(0, 3), tritorch.tensor(2.5), tritorch.ones(3, 4).t(),
              tritorch.ones(5).bfloat16(), tritorch.ones(4, 4)[1:, 2:]]:  # fmt: skip
        y = through_a_queue(x)
        assert y.equal(x) and y.stride() == x.stride() and y.is_shared() and x.is_shared()
        assert y.storage_offset() == x.storage_offset()
    leaf = through_a_queue(tritorch.ones(2, requires_grad=True))
    assert leaf.requires_grad and leaf.is_leaf and leaf.grad is None
    storage = tritorch.arange(3).untyped_storage()
    assert through_a_queue(storage) == storage
    typed = through_a_queue(tritorch.arange(3).storage())
    assert typed.dtype is tritorch.int64 and typed.tolist() == [0, 1, 2]
    assert through_a_queue({"a": [tritorch.ones(1)]})["a"][0].item() == 1


def test_views_stay_views():
    x = tritorch.zeros(4)
    a, b = through_a_queue((x, x[1:]))
    b.fill_(2)
    assert a.tolist() == x.tolist() == [0, 2, 2, 2]
    c = through_a_queue(x)  # sent apart: still the same
    c[0] = 7
    assert x[0] == 7


def test_what_cannot_be_sent():
    x = tritorch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        mp.SimpleQueue().put(x * 2)


def test_share_memory_takes_all_tensors_on_the_memory_along():
    base = tritorch.arange(12.0).reshape(3, 4)
    tensors = [base, base[1:], base.t(), base.data, base.detach(), base.view(-1), base[1:].data]
    before = [(t.tolist(), t.stride(), t.storage_offset()) for t in tensors]
    assert not any(t.is_shared() for t in tensors)
    assert tensors[1].share_memory_() is tensors[1]
    assert all(t.is_shared() for t in tensors)
    assert [(t.tolist(), t.stride(), t.storage_offset()) for t in tensors] == before
    tensors[1][0, 0] = -1
    assert base[1, 0] == -1 and tensors[5][4] == -1 and tensors[6][0, 0] == -1
    address = base.data_ptr()
    assert base.share_memory_().data_ptr() == address


def test_share_memory_of_storages_modules_and_gradients():
    x = tritorch.arange(3)
    assert x.untyped_storage().share_memory_().is_shared() and x.is_shared()
    y = tritorch.arange(3)
    assert y.storage().share_memory_().is_shared() and y.is_shared() and y.tolist() == [0, 1, 2]
    assert tritorch.empty(0).share_memory_().is_shared() and not tritorch.empty(0).is_shared()
    assert tritorch.zeros(2, device="cuda").is_shared()
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    module(tritorch.randn(4, 2)).sum().backward()
    optimizer = tritorch.optim.SGD(module.parameters(), lr=0.1)
    before = module[1].bias.detach().clone()
    assert module.share_memory() is module
    for tensor in (*module.parameters(), *module.buffers(), module[0].weight.grad):
        assert tensor.is_shared()
    optimizer.step()
    assert not module[1].bias.equal(before) and module[1].bias.is_shared()
    new = tritorch.UntypedStorage._new_shared(16)
    assert new.is_shared() and new.nbytes() == 16


def test_numpy_keeps_its_own_memory():
    array = np.zeros(3)
    tensor = tritorch.from_numpy(array).share_memory_()
    tensor.fill_(1)
    assert not array.any()


def test_no_search_where_nobody_else_has_the_memory(monkeypatch):
    def refuse(*args):
        raise AssertionError("searched")

    monkeypatch.setattr(sharing, "tensors_within", refuse)
    for make in (
        lambda: tritorch.randn(3, 4), lambda: nn.Parameter(tritorch.randn(3)),
        lambda: nn.Linear(3, 4).weight, lambda: tritorch.randn(3).bfloat16(),
    ):  # fmt: skip
        assert make().share_memory_().is_shared()


def test_a_storage_does_not_keep_itself_alive():
    gc.disable()
    try:
        x = tritorch.zeros(1000).share_memory_()
        segment = sharing.segment_of(x.numpy())
        file = segment.file
        x.untyped_storage().nbytes()
        del segment, x
        with pytest.raises(OSError):
            os.fstat(file)
    finally:
        gc.enable()


def test_plain_pickle_copies():
    x = tritorch.ones(3).share_memory_()
    y = pickle.loads(pickle.dumps(x))
    y.fill_(2)
    assert x.tolist() == [1, 1, 1] and not y.is_shared()


@pytest.mark.parametrize("which", ["file_descriptor", "file_system"])
def test_a_killed_process_leaves_nothing(tmp_path, which):
    """In a program of its own: named memory goes at the latest with the last of the family."""
    script = tmp_path / "program.py"
    script.write_text(
        f"""
import os, signal
from tests.multiprocessing import children
from tritorch import multiprocessing as mp

if __name__ == "__main__":
    mp.set_sharing_strategy({which!r})
    queue = mp.get_context("fork").SimpleQueue()
    child = mp.get_context("fork").Process(target=children.send_and_die, args=(queue, 100_000))
    child.start()
    x = queue.get()
    queue.get()
    child.kill()
    child.join()
    assert x.sum().item() == 100_000
    print(os.getpid(), child.pid)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    path = os.pathsep.join([*sys.path, str(ROOT)])
    done = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": path}, check=False,
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    until = time.monotonic() + PATIENCE
    while any(list(SHARED.glob(f"tritorch-{pid}-*")) for pid in done.stdout.split()):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_strategies():
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    assert mp.get_sharing_strategy() == "file_descriptor"
    with pytest.raises(AssertionError, match="invalid sharing strategy 'x', expected one of"):
        mp.set_sharing_strategy("x")


def test_all_of_multiprocessing_is_there():
    import multiprocessing

    for name in multiprocessing.__all__:
        assert getattr(mp, name) == getattr(multiprocessing, name), name
    assert tritorch.multiprocessing is mp


def test_python_s_own_multiprocessing_shares_too(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        """
import multiprocessing
import tritorch

def fill(x):
    x.fill_(3)

if __name__ == "__main__":
    x = tritorch.zeros(2).share_memory_()
    child = multiprocessing.get_context("spawn").Process(target=fill, args=(x,))
    child.start()
    child.join()
    print(x.tolist())
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stdout == "[3.0, 3.0]\n", done.stderr


def test_too_many_files_is_explained(monkeypatch):
    def full(*args):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", full)
    with pytest.raises(OSError, match="Too many open files.*file_system"), contextlib.nullcontext():
        tritorch.zeros(3).share_memory_()
