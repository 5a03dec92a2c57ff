"""Collectives as records, in each process: eager, compiled, with gradients, beside such as are
called at once.  Calls are counted: a compiled function makes those of the plain one, in order."""

import os
import sys

import tritorch as torch
import tritorch.distributed as dist
from tritorch.distributed import _functional_collectives as funcol
from tritorch.distributed.process_group import ProcessGroup

calls = []
begin = ProcessGroup._run


def counted(self, method, *rest):
    calls.append(method)
    return begin(self, method, *rest)


ProcessGroup._run = counted


def made(function, *args):
    """What a function gives, and the collectives that it calls."""
    calls.clear()
    return function(*args), list(calls)


def step(x, w):
    y = funcol.all_reduce(x @ w, "sum", WORLD)
    z = funcol.all_gather_single(torch.relu(y), 1, WORLD)
    return funcol.reduce_scatter_single(z * z, "avg", 1, WORLD) + 1


def gradient_of(function, x, w):
    out = function(x, w)
    return out, torch.autograd.grad(out.sum(), w)[0], type(out.grad_fn).__name__


def compiled_as_eager(w):
    fast = torch.compile(step, fullgraph=True)
    for run in range(6):
        x = torch.randn(3, 4)
        (a, g, _), wanted = made(gradient_of, step, x, w)
        (b, h, node), found = made(gradient_of, fast, x, w)
        assert a.equal(b) and g.equal(h) and found == wanted, (run, found, wanted)
    assert len(wanted) == 6 and node == "CompiledFunctionBackward"
    assert len(fast._follower.segments) == 1  # nothing was computed before the end


def other_sizes(w):
    fast = torch.compile(step, fullgraph=True)
    for n in (3, 5, 7, 8):
        x = torch.randn(n, 4)
        assert fast(x, w).equal(step(x, w)), n


def unused_and_equal(w):
    """None is dropped, and two that are called alike are two."""

    def three(x):
        a = funcol.all_reduce(x, "sum", WORLD)
        b = funcol.all_reduce(x, "sum", WORLD)
        funcol.broadcast(x, 0, WORLD)
        return a + b

    fast = torch.compile(three, fullgraph=True)
    for run in range(5):
        x = torch.randn(3, 4)
        (a, wanted), (b, found) = made(three, x), made(fast, x)
        assert a.equal(b) and found == wanted and len(found) == 3, run


def at_once(w):
    """A collective that is called at once comes after those that wait, and after what reads the
    tensor that it writes.  The first process takes another way in some runs, so that it makes calls
    plainly while the others wait with theirs: whoever changed the order would hang, or fail."""

    def mixed(x, flag):
        a = funcol.all_reduce(x @ w, "sum", WORLD)
        tripled = x * 3
        if flag:
            tripled = tripled + 1 - 1
        dist.all_reduce(x)
        b = funcol.all_gather_single(a, 0, WORLD)
        work = dist.broadcast(x, 0, async_op=True)
        work.wait()
        return b, tripled, x + 0

    fast = torch.compile(mixed, fullgraph=True)
    for run in range(8):
        x = torch.randn(3, 4)
        flag = rank == 0 and run in (3, 6)
        before = x.clone()
        plain, wanted = made(mixed, before, flag)
        compiled, found = made(fast, x, flag)
        assert found == wanted and len(found) == 4
        assert all(a.equal(b) for a, b in zip(plain, compiled)), run


def never_again(w):
    """Calls that would be made again, for gradients that were not noted, are refused."""

    def two(x, w):
        y = funcol.all_reduce(x @ w, "sum", WORLD)
        return torch.tanh(y)

    fast = torch.compile(two)
    for run in range(5):
        x = torch.randn(3, 4)
        out = fast(x, w)
        calls.clear()
        (g,) = torch.autograd.grad(out.sum(), w, create_graph=True)
        assert calls == ["allreduce"], run
        if run == 0:  # made plainly
            g.sum().backward()
            continue
        calls.clear()
        try:
            g.sum().backward()
        except RuntimeError as error:
            assert "collectives, which other processes would not call again" in str(error)
            assert not calls
        else:
            raise AssertionError("calls were made again")


def by_backends(w):
    for backend in ("eager", "aot_eager"):
        fast = torch.compile(step, backend=backend)
        for run in range(4):
            x = torch.randn(3, 4)
            (a, g, _), wanted = made(gradient_of, step, x, w)
            (b, h, _), found = made(gradient_of, fast, x, w)
            assert a.equal(b) and g.allclose(h) and found == wanted, (backend, run)


def as_graphs(w):
    fast = torch.compile(step, mode="reduce-overhead")
    for _ in range(5):
        x = torch.randn(3, 4)
        assert fast(x, w).equal(step(x, w))


def overloads(w):
    """Those of PyTorch's namespace are the records, and followed as they are."""
    ops, name = torch.ops._c10d_functional, WORLD.group_name

    def several(x):
        y = ops.wait_tensor(ops.all_reduce(x, "sum", name))
        z, t = ops.all_reduce_coalesced([y, y + 1], "max", name)
        u = torch.ops.aten.mul.Tensor(ops.wait_tensor(z), 2) + ops.wait_tensor(t)
        return ops.broadcast_(u, 0, name) + ops.all_reduce_(u, "sum", name)

    fast = torch.compile(several, fullgraph=True)
    for run in range(5):
        x = torch.randn(3, 4)
        (a, wanted), (b, found) = made(several, x), made(fast, x)
        assert a.equal(b) and found == wanted and len(found) == 5, run
    out = torch.empty(3 * size, 4)
    x = torch.full((3, 4), float(rank))
    assert ops.all_gather_into_tensor_out(x, size, WORLD, out=out) is out
    assert out[:, 0].tolist() == [float(r) for r in range(size) for _ in range(3)]


on_gpu = sys.argv[1] == "cuda"
if on_gpu:
    torch.cuda.set_device(int(os.environ.get("RANK", 0)) % torch.cuda.device_count())
    torch.set_default_device("cuda")
dist.init_process_group("nccl" if on_gpu else "gloo")
WORLD, rank, size = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
weight = torch.randn(4, 4, requires_grad=True)
tests = [
    compiled_as_eager,
    other_sizes,
    unused_and_equal,
    at_once,
    never_again,
    by_backends,
    overloads,
]
for test in tests + [as_graphs] * on_gpu:
    test(weight)
dist.destroy_process_group()
