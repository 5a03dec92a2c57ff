"""Every collective, held against what NumPy says of all members' numbers."""

import pickle
import sys
from datetime import timedelta

import ml_dtypes
import numpy as np

import tritorch as torch
import tritorch.distributed as dist
from tritorch.distributed import ReduceOp

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
]  # fmt: skip
# Nothing, one, what one round has, several rounds, a length that nothing divides.
SIZES = [0, 1, 7, 1000, 70_001, 300_007]
HALVES = {torch.float16: np.float16, torch.bfloat16: ml_dtypes.bfloat16}


def numbers(rank, dtype, size, salt=0):
    """The numbers of one member: all members know those of all."""
    generator = np.random.default_rng(1000 * rank + 10 * salt + size)
    if dtype is torch.bool:
        return generator.integers(0, 2, size).astype(bool)
    if dtype.is_complex:
        parts = generator.standard_normal((2, size))
        return (parts[0] + 1j * parts[1]).astype(dtype.name)
    if dtype.is_floating_point:
        return generator.standard_normal(size).astype(HALVES.get(dtype, dtype.name))
    return generator.integers(0, 100, size).astype(dtype.name)


def tensor(array, dtype):
    if dtype is torch.bfloat16:
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(array.copy())


def array(tensor):
    return tensor.float().numpy() if tensor.dtype is torch.bfloat16 else tensor.numpy()


def reduced(parts, op, dtype):
    """In the order of the ranks; halves are added in float32."""
    wide = [part.astype(np.float32) if dtype in HALVES else part for part in parts]
    functions = {
        ReduceOp.SUM: np.add, ReduceOp.AVG: np.add, ReduceOp.PRODUCT: np.multiply,
        ReduceOp.MIN: np.minimum, ReduceOp.MAX: np.maximum, ReduceOp.BAND: np.bitwise_and,
        ReduceOp.BOR: np.bitwise_or, ReduceOp.BXOR: np.bitwise_xor,
    }  # fmt: skip
    total = wide[0]
    for part in wide[1:]:
        total = functions[op](total, part)
        if dtype not in HALVES:
            total = total.astype(parts[0].dtype)
    if op is ReduceOp.AVG:
        if total.dtype.kind in "ui":
            total = np.trunc(total / len(parts)).astype(total.dtype)
        elif total.dtype.kind == "c":  # part by part, each rounded once
            pair = total.view(total.real.dtype)
            total = (pair / np.array(len(parts), pair.dtype)).view(total.dtype)
        elif total.dtype.kind != "b":
            total = total / np.array(len(parts), total.dtype)
    if dtype in HALVES:
        total = total.astype(HALVES[dtype])
        return total.astype(np.float32) if dtype is torch.bfloat16 else total
    return total.astype(parts[0].dtype)


def ops_of(dtype):
    ops = [ReduceOp.SUM, ReduceOp.AVG]
    if dtype.is_complex:
        return ops
    ops += [ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX]
    return ops if dtype.is_floating_point else [*ops, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR]


def check(found, wanted, exact=True):
    """exact: to the bit; else as sums in another order, rounded at every step, may differ."""
    tolerance = 3e-2 if found.dtype in HALVES else 1e-4
    found = array(found)
    assert found.shape == wanted.shape
    if wanted.dtype == ml_dtypes.bfloat16:
        wanted = wanted.astype(np.float32)
    if exact:
        assert found.tobytes() == wanted.tobytes()
    else:
        kind = np.float32 if found.dtype.itemsize == 2 else found.dtype
        np.testing.assert_allclose(
            found.astype(kind), wanted.astype(kind), rtol=tolerance, atol=tolerance
        )


def reductions(rank, size, exactness):
    """Whose sums are added in the order of the ranks ("exact": all_reduce's and reduce's, "direct":
    all_reduce's, "loose": neither's), and not in that of an algorithm."""
    for dtype in DTYPES:
        for length in SIZES if dtype in (torch.float32, torch.bfloat16) else (7, 70_001):
            everyone = [numbers(r, dtype, length) for r in range(size)]
            for op in ops_of(dtype) if length == 7 else (ReduceOp.SUM, ReduceOp.AVG):
                wanted = reduced(everyone, op, dtype)
                rounds = op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT) and (
                    dtype.is_floating_point or dtype.is_complex
                )
                x = tensor(everyone[rank], dtype)
                dist.all_reduce(x, op)
                check(x, wanted, not rounds or exactness != "loose")
                root = length % size
                x = tensor(everyone[rank], dtype)
                dist.reduce(x, root, op)
                mine = wanted if rank == root else everyone[rank]
                check(x, mine, not rounds or exactness == "exact")
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        for length in (3, 50_001):
            everyone = [
                [numbers(r, dtype, length, salt=p) for p in range(size)] for r in range(size)
            ]
            wanted = reduced([parts[rank] for parts in everyone], ReduceOp.SUM, dtype)
            out = torch.empty(length, dtype=dtype)
            dist.reduce_scatter(out, [tensor(part, dtype) for part in everyone[rank]])
            check(out, wanted)
            out = torch.empty(length, dtype=dtype)
            whole = torch.cat([tensor(part, dtype) for part in everyone[rank]])
            dist.reduce_scatter_single(out, whole)
            check(out, wanted)
            dist.reduce_scatter_tensor(whole[rank * length : (rank + 1) * length], whole)
            check(whole[rank * length : (rank + 1) * length], wanted)
    x = torch.full((5,), float(rank + 1))
    dist.all_reduce(x, ReduceOp.PREMUL_SUM(0.5))
    assert x.tolist() == [0.5 * size * (size + 1) / 2] * 5


def movements(rank, size):
    for dtype in DTYPES:
        for length in SIZES if dtype is torch.float32 else (5, 70_001):
            everyone = [numbers(r, dtype, length) for r in range(size)]
            mine = tensor(everyone[rank], dtype)
            root = length % size
            x = mine.clone()
            dist.broadcast(x, root)
            check(x, everyone[root])
            outs = [torch.empty(length, dtype=dtype) for _ in range(size)]
            dist.all_gather(outs, mine)
            for out, wanted in zip(outs, everyone, strict=True):
                check(out, wanted)
            out = torch.empty(size * length, dtype=dtype)
            dist.all_gather_into_tensor(out, mine)
            check(out, np.concatenate(everyone))
            out[rank * length : (rank + 1) * length] = mine
            dist.all_gather_single(out, out[rank * length : (rank + 1) * length])
            check(out, np.concatenate(everyone))
            outs = [torch.empty(length, dtype=dtype) for _ in range(size)]
            dist.gather(mine, outs if rank == root else None, dst=root)
            if rank == root:
                for out, wanted in zip(outs, everyone, strict=True):
                    check(out, wanted)
            pieces = [numbers(root, dtype, length, salt=p) for p in range(size)]
            out = torch.empty(length, dtype=dtype)
            sources = [tensor(piece, dtype) for piece in pieces] if rank == root else None
            dist.scatter(out, sources, src=root)
            check(out, pieces[rank])
            table = [[numbers(r, dtype, length, salt=p) for p in range(size)] for r in range(size)]
            outs = [torch.empty(length, dtype=dtype) for _ in range(size)]
            dist.all_to_all(outs, [tensor(piece, dtype) for piece in table[rank]])
            for r, out in enumerate(outs):
                check(out, table[r][rank])
            out = torch.empty(size * length, dtype=dtype)
            dist.all_to_all_single(out, torch.cat([tensor(p, dtype) for p in table[rank]]))
            check(out, np.concatenate([row[rank] for row in table]))
    # Rows of any number: member r sends r + p rows to member p.
    rows = torch.cat([torch.full((rank + p, 3), 10.0 * rank + p) for p in range(size)])
    out = torch.empty(sum(r + rank for r in range(size)), 3)
    dist.all_to_all_single(
        out, rows, [r + rank for r in range(size)], [rank + p for p in range(size)]
    )
    assert out.equal(torch.cat([torch.full((r + rank, 3), 10.0 * r + rank) for r in range(size)]))
    eights = torch.arange(8.0).to(torch.float8_e5m2) if rank == 0 else torch.zeros(8).to(
        torch.float8_e5m2
    )  # fmt: skip
    dist.broadcast(eights, 0)
    assert eights.float().tolist() == torch.arange(8.0).to(torch.float8_e5m2).float().tolist()


def layouts(rank, size):
    """Tensors with gaps, transposed ones, one that needs a gradient, one on the GPU."""
    x = torch.full((4, 6), float(rank + 1)).t()
    dist.all_reduce(x)
    assert x.eq(size * (size + 1) / 2).all() and x.stride() == (1, 6)
    wide = torch.zeros(4, 6)
    wide[:, ::2] = rank + 1
    dist.all_reduce(wide[:, ::2])
    assert wide[:, ::2].eq(size * (size + 1) / 2).all() and wide[:, 1::2].eq(0).all()
    works = [dist.all_reduce(wide[:, 1::2], async_op=True) for _ in range(3)]
    works[-1].wait()
    x = torch.ones(3, requires_grad=True)
    dist.all_reduce(x)
    assert x.tolist() == [size] * 3
    if torch.cuda.is_available():
        x = torch.full((1000,), float(rank + 1), device="cuda")
        dist.all_reduce(x)
        assert x.cpu().eq(size * (size + 1) / 2).all()
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        assert x.cpu().eq(size * size * (size + 1) / 2).all()
        outs = [torch.empty(1000, device="cuda") for _ in range(size)]
        dist.all_gather(outs, x)
        assert all(out.equal(x) for out in outs)


def sparse(rank, size):
    """Members have entries of their own, some in the same places, one has none."""
    dense = torch.zeros(size + 2, 3)
    if rank != 1:
        dense[rank], dense[size] = rank + 1.0, 2.0
    x = dense.to_sparse(1)
    assert dist.all_reduce(x, async_op=True).wait()
    wanted = torch.zeros(size + 2, 3)
    for other in range(size):
        if other != 1:
            wanted[other] = other + 1.0
            wanted[size] += 2.0
    assert x.is_sparse and x.to_dense().equal(wanted)
    try:
        dist.all_reduce(x, ReduceOp.MAX)
        raise AssertionError("the largest of sparse tensors was taken")
    except RuntimeError as error:
        assert "ReduceOp.SUM is all there is" in str(error)


def works(rank, size):
    """Asynchronous ones run in order, and futures give what was written."""
    xs = [torch.full((10_000,), float(rank + i)) for i in range(20)]
    pending = [dist.all_reduce(x, async_op=True) for x in xs]
    pending[-1].wait()
    assert all(work.is_completed() and work.is_success() for work in pending)
    base = sum(range(size))
    assert all(x.eq(base + i * size).all() for i, x in enumerate(xs))
    x = torch.ones(5)
    future = dist.all_reduce(x, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    assert doubled.wait().tolist() == [2.0 * size] * 5
    assert dist.barrier(async_op=True).wait()
    work = dist.broadcast(x, 0, async_op=True)
    assert work.wait(timedelta(seconds=30)) and work.result()[0] is x
    with dist._coalescing_manager(async_ops=True) as manager:
        for x in xs[:3]:
            dist.all_reduce(x)
    manager.wait()
    assert all(x.eq(size * (base + i * size)).all() for i, x in enumerate(xs[:3]))


def messages(rank, size):
    x = torch.arange(100_000.0) + rank
    right, left = (rank + 1) % size, (rank - 1) % size
    if size > 1:
        y = torch.empty(100_000)
        ops = [dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, y, left)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        assert y.equal(torch.arange(100_000.0) + left)
        # Later tags first, and large ones that no buffer holds.
        big = torch.full((6_000_000,), float(rank))
        sends = [dist.isend(big + tag, right, tag=tag) for tag in range(3)]
        for tag in (2, 0, 1):
            got = torch.empty(6_000_000)
            assert dist.recv(got, left, tag=tag) == left
            assert got.eq(left + tag).all()
        for work in sends:
            work.wait()
        if rank == 0:
            senders = set()
            for _ in range(size - 1):
                got = torch.empty(1)
                sender = dist.recv(got)
                assert got.item() == sender
                senders.add(sender)
            assert senders == set(range(1, size))
        else:
            dist.send(torch.tensor([float(rank)]), 0)
        dist.barrier()
        if rank == 0:
            dist.send_object_list([{"a": 1}, "two"], 1)
        if rank == 1:
            objects = [None, None]
            assert dist.recv_object_list(objects, 0) == 0
            assert objects == [{"a": 1}, "two"]


class Code:
    """A class that `weights_only` refuses."""


def safe_objects(rank, size):
    """Objects that travel without code: tensors and what holds them."""
    mine = {"rank": rank, "x": torch.arange(rank + 1)}
    everyone = [None] * size
    dist.all_gather_object(everyone, mine, weights_only=True)
    assert [each["x"].tolist() for each in everyone] == [list(range(r + 1)) for r in range(size)]
    taken = [None] * size if rank == 0 else None
    dist.gather_object(mine, taken, dst=0, weights_only=True)
    assert taken is None or [each["rank"] for each in taken] == list(range(size))
    given = [mine, "text"] if rank == 0 else [None, None]
    dist.broadcast_object_list(given, 0, weights_only=True)
    assert given[0]["rank"] == 0 and given[1] == "text"
    out = [None]
    many = [{"to": torch.tensor(r)} for r in range(size)] if rank == 0 else None
    dist.scatter_object_list(out, many, 0, weights_only=True)
    assert out[0]["to"].item() == rank
    code = [Code()] if rank == 0 else [None]
    try:  # who says nothing of it sends pickles, which those who do refuse
        dist.broadcast_object_list(code, 0, weights_only=rank > 0)
    except pickle.UnpicklingError:
        assert rank > 0
    else:
        assert rank == 0


def objects(rank, size):
    everyone = [None] * size
    dist.all_gather_object(everyone, {"rank": rank, "text": "x" * rank})
    assert everyone == [{"rank": r, "text": "x" * r} for r in range(size)]
    taken = [None] * size if rank == size - 1 else None
    dist.gather_object(("of", rank), taken, dst=size - 1)
    assert taken is None or taken == [("of", r) for r in range(size)]
    given = ["first", {"second": rank}] if rank == 0 else [None, None]
    dist.broadcast_object_list(given, 0)
    assert given == ["first", {"second": 0}]
    out = [None]
    dist.scatter_object_list(out, [f"to {r}" for r in range(size)] if rank == 0 else None, 0)
    assert out == [f"to {rank}"]


def groups(rank, size):
    assert dist.get_rank() == rank and dist.get_world_size() == size
    assert dist.is_initialized()
    odd = dist.new_group(list(range(1, size, 2))) if size > 1 else None
    if odd is not None and odd != dist.GroupMember.NON_GROUP_MEMBER:
        x = torch.tensor([float(rank)])
        dist.all_reduce(x, group=odd)
        assert x.item() == sum(range(1, size, 2))
        assert dist.get_global_rank(odd, dist.get_rank(odd)) == rank
        dist.broadcast(x.fill_(rank), group=odd, group_src=odd.size() - 1)
        assert x.item() == dist.get_process_group_ranks(odd)[-1]
        dist.destroy_process_group(odd)
    mine, every = dist.new_subgroups(max(1, size // 2))
    x = torch.ones(1)
    dist.all_reduce(x, group=mine)
    assert x.item() == mine.size() and len(every) == size // mine.size()
    part = dist.split_group(split_ranks=[[r] for r in range(size)])
    dist.all_reduce(x, group=part)
    assert part.size() == 1 and x.item() == mine.size()
    if dist.get_backend() == "gloo":
        dist.monitored_barrier()
        dist.monitored_barrier(timeout=timedelta(seconds=60), wait_all_ranks=True)


def main():
    backend = "mpi" if "mpi" in sys.argv else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=120))
    rank, size = dist.get_rank(), dist.get_world_size()
    reductions(rank, size, sys.argv[1])
    if "reductions" not in sys.argv:
        movements(rank, size)
        layouts(rank, size)
        sparse(rank, size)
        works(rank, size)
        messages(rank, size)
        objects(rank, size)
        safe_objects(rank, size)
        groups(rank, size)
    dist.barrier()
    dist.destroy_process_group()
    assert not dist.is_initialized()


if __name__ == "__main__":
    main()
