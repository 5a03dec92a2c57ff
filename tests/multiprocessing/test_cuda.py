"""Tensors, storages and events of the GPU in several processes."""

import gc
import sys

import pytest

import tritorch
from tests.multiprocessing import children
from tests.multiprocessing.test_sharing import ROOT
from tests.tiers import first_quick
from tritorch import _C, multiprocessing as mp
from tritorch.core import lending

pytestmark = pytest.mark.device


@pytest.fixture(params=first_quick(["expandable", "plain"]))
def child(request, monkeypatch):
    """A connection to a process that borrows; memory is lent as pieces, or as plain segments."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT)])
    gc.collect()
    tritorch.cuda.ipc_collect()
    tritorch.cuda.empty_cache()
    tritorch.cuda.memory._set_allocator_settings(
        f"expandable_segments:{request.param == 'expandable'}"
    )
    pool = tritorch.cuda.MemPool()
    context = mp.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=children.borrow, args=(there,))
    process.start()
    there.close()
    with tritorch.cuda.use_mem_pool(pool):
        probe = tritorch.ones(3, device="cuda")
        chunk = _C.ipc_place(0, probe.data_ptr())[2]
        assert (chunk > 0) == (request.param == "expandable")
        yield lambda *asked: (here.send(asked), here.recv())[1]
    here.send(None)
    process.join()
    tritorch.cuda.memory._set_allocator_settings("expandable_segments:True")
    assert process.exitcode == 0
    tritorch.cuda.ipc_collect()
    assert not lending._lender.lent  # what the child still had came back at its end


def test_borrowed_memory(child):
    x = tritorch.ones(6_000_000, device="cuda")
    whole, part = x[5:], x[1_000_000:]
    parameter = tritorch.nn.Parameter(tritorch.zeros(2, device="cuda"))
    assert child("take", (whole, part, parameter)) == (5_999_995 + 5_000_000, "Parameter")
    assert child("send on", None).startswith("Attempted to send CUDA tensor received from another")
    address, size = x.data_ptr(), x.numel()
    del x, whole, part
    tritorch.cuda.ipc_collect()
    others = [tritorch.empty(size, device="cuda") for _ in range(3)]
    assert address not in [other.data_ptr() for other in others]  # it is lent
    assert child("drop", None) is None
    tritorch.cuda.ipc_collect()
    assert tritorch.empty(size, device="cuda").data_ptr() == address
    with pytest.raises(RuntimeError, match="another process"):
        child("take", (child("lend", None),) * 3)
    assert child("drop", None) is None


def test_what_a_child_lends(child):
    x = child("lend", None)
    assert x.device == tritorch.device("cuda", 0) and x.tolist() == [0, 1, 2, 3, 4]
    x.add_(1)
    assert x.sum().item() == 15


def test_words_and_events(child):
    storage = tritorch.arange(4, device="cuda", dtype=tritorch.uint8).untyped_storage()
    words = storage._share_cuda_()
    assert words[0] == 0 and words[2] == 4 and isinstance(words[1], bytes)
    assert child("words", words) == [0, 1, 2, 3]
    declined = storage._share_cuda_()
    assert len(lending._lender.lent) == 2
    tritorch.UntypedStorage._release_ipc_counter_cuda(*declined[4:6], device=0)
    tritorch.cuda.ipc_collect()
    assert len(lending._lender.lent) == 1
    event = tritorch.cuda.Event(interprocess=True)
    event.record()
    assert len(event.ipc_handle()) == 64
    assert child("event", (event, event.ipc_handle())) is True


def test_events_that_are_not_shared():
    with pytest.raises(RuntimeError, match="interprocess=True"):
        tritorch.cuda.Event().ipc_handle()
    with pytest.raises(RuntimeError, match="64 bytes"):
        tritorch.cuda.Event.from_ipc_handle("cuda:0", b"short")


def test_what_comes_back_is_the_same_memory():
    queue = mp.SimpleQueue()
    x = tritorch.zeros(4, device="cuda")
    queue.put((x, x[1:], tritorch.empty(0, device="cuda")))
    a, b, empty = queue.get()
    b.fill_(2)
    assert a.tolist() == x.tolist() == [0, 2, 2, 2] and empty.is_cuda and empty.shape == (0,)
    tritorch.cuda.ipc_collect()
    assert not lending._lender.lent
