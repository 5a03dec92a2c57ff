"""Native code that stops halfway keeps no reference."""

import gc
import sys

import pytest

import tritorch as torch
from tritorch import _C
from tritorch.ops.nn import pooling

ATTEMPTS = 40


def test_a_kernel_that_is_refused_keeps_nothing():
    def compile(*launch):
        raise LookupError

    default, name = object(), "a_parameter_of_" + compile.__name__

    def counts():
        return [sys.getrefcount(each) for each in (compile, default, name)]

    before = counts()
    for defaults, kinds in [(((True, default),), (7,)), ((), (0,)), (((True,),), (0,))]:
        for _ in range(ATTEMPTS):
            with pytest.raises((ValueError, IndexError)):
                _C.Kernel(compile, (name,), defaults, kinds)
    assert counts() == before


def test_a_node_without_memory_keeps_nothing():
    """Each allocation of a call of the engine fails in turn; an operator that notes its inputs."""
    memory = pytest.importorskip("_testcapi")
    x = torch.ones(1, 1, 4, 4, requires_grad=True)
    params = ((2, 2), (2, 2), (0, 0), False, True, None)
    array = x.detach().numpy()[:, :, :2, :2].copy()
    gc.collect()
    gc.freeze()  # so that a collection below looks at nothing that other tests have made

    def fails(at):
        memory.set_nomemory(at, at + 1)
        try:
            pooling._avg_pool.finish_with(array, params, x)
        except MemoryError:
            return True
        finally:
            memory.remove_mem_hooks()
        return False

    def kept(at):
        """The number of memory blocks that the attempts keep; None where no allocation fails."""
        gc.collect()  # the interpreter keeps small tuples for later, until now
        before = sys.getallocatedblocks()
        others = []
        for _ in range(ATTEMPTS):
            # So that each tuple of a call is an allocation.
            others.append([(None,) * size for size in range(1, 8) for _ in range(8)])
            if not fails(at):
                return None
        others.clear()
        gc.collect()
        return sys.getallocatedblocks() - before

    for at in range(20):
        kept(at)  # what is made once and kept
    found = [kept(at) for at in range(20)]
    assert sum(each is not None for each in found) > 3
    assert max(each or 0 for each in found) < ATTEMPTS // 2, found
