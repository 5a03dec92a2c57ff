"""Collectives of the simulated device's communicators in each process, beside gloo's results."""

import itertools
import re
import threading

import tritorch as torch
import tritorch.distributed as dist

GPU = "cuda"


def values(kind, rank, shape=(6,)):
    torch.manual_seed(rank)
    x = torch.randn(shape) * 4
    if kind.is_complex:
        return torch.complex(x, x + 1)
    return x.abs().to(kind) if kind in (torch.bool, torch.uint8) else x.to(kind)


def on_both(function, *tensors):
    """The function's results of CPU tensors by gloo and of GPU tensors by nccl."""
    results = []
    for device in ("cpu", GPU):
        own = [each.to(device, copy=True) for each in tensors]
        results.append([each.cpu() for each in function(*own)])
    wanted, found = results
    for a, b in zip(wanted, found, strict=True):
        assert torch.equal(a, b), (a, b)


def reductions(rank, size):
    ops = dist.ReduceOp
    for kind, op in itertools.product(
        (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64,
         torch.uint8),
        (ops.SUM, ops.PRODUCT, ops.MIN, ops.MAX),
    ):  # fmt: skip
        x = values(kind, rank)

        def all_reduce(x, op=op):
            dist.all_reduce(x, op)
            return [x]

        def reduce_scatter(x, op=op):
            out = x.new_empty(3)
            dist.reduce_scatter_tensor(out, x.repeat(size)[: 3 * size].contiguous(), op)
            return [out]

        on_both(all_reduce, x)
        on_both(reduce_scatter, x)
    x = torch.full((5,), float(rank), device=GPU)
    dist.all_reduce(x, ops.AVG)
    assert x.tolist() == [(size - 1) / 2] * 5
    x = torch.full((2,), float(rank), device=GPU)
    dist.all_reduce(x, ops.PREMUL_SUM(2.0))
    assert x.tolist() == [float(size * (size - 1))] * 2
    x = torch.tensor([rank == 0, True], device=GPU)
    dist.all_reduce(x)
    assert x.tolist() == [True, True]
    x = values(torch.complex64, rank).to(GPU)
    dist.all_reduce(x)
    total = sum(values(torch.complex64, r) for r in range(size))
    assert torch.allclose(x.cpu(), total)


def moves(rank, size):
    for kind in (torch.float32, torch.int16, torch.bool, torch.complex64):
        x = values(kind, rank, (3, 4))

        def every(x):
            gathered = [torch.empty_like(x) for _ in range(size)]
            dist.all_gather(gathered, x)
            whole = x.new_empty((size * 3, 4))
            dist.all_gather_into_tensor(whole, x)
            strided = x.t()
            dist.broadcast(strided, size - 1)
            out = [torch.empty_like(x) for _ in range(size)] if rank == 0 else None
            dist.gather(x, out, 0)
            mine = torch.empty_like(x)
            dist.scatter(mine, [x.roll(i, 0) for i in range(size)] if rank == 0 else None, 0)
            swapped = x.new_empty((size, 2))
            dist.all_to_all_single(swapped, x.repeat(size, 1)[:size, :2].contiguous())
            return [*gathered, whole, strided, *(out or []), mine, swapped]

        on_both(every, x)

    def uneven(x):
        sizes = [1 + (rank + i) % 2 for i in range(size)]
        out = x.new_empty((sum(sizes), 2))
        sent = torch.cat([x[:1].expand(n, 2) + i for i, n in enumerate(sizes)])
        dist.all_to_all_single(out, sent.contiguous(), sizes, sizes)
        return [out]

    on_both(uneven, values(torch.float32, rank, (1, 2)))
    got = [torch.empty(r + 1, device=GPU) for r in range(size)]
    dist.all_gather(got, torch.full((rank + 1,), float(rank), device=GPU))
    assert [each.tolist() for each in got] == [[float(r)] * (r + 1) for r in range(size)]


def messages(rank, size):
    after, before = (rank + 1) % size, (rank - 1) % size
    x, y = torch.full((3,), float(rank), device=GPU), torch.empty(3, device=GPU)
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, y, before)]
    )
    for work in works:
        work.wait()
    assert y.tolist() == [float(before)] * 3
    if size > 1:
        if rank == 0:
            dist.send(x + 7, 1)
        elif rank == 1:
            dist.recv(y, 0)
            assert y.tolist() == [7.0] * 3


def streams_are_ordered(rank, size):
    """Results of works that are not waited for on the host; collectives of two groups at once."""
    other = dist.new_group(backend="nccl")
    side = torch.cuda.Stream()
    for step in range(5):
        x = torch.full((1000,), float(rank + step), device=GPU)
        y = torch.full((1000,), float(step), device=GPU)
        first = dist.all_reduce(x, async_op=True)
        with torch.cuda.stream(side):
            z = torch.full((10,), 1.0, device=GPU)
            second = dist.all_reduce(z, group=other, async_op=True)
            second.wait()
            z = z * 2
        third = dist.all_reduce(y, group=other, async_op=True)
        del y  # its memory stays until the collective is over
        torch.full((1000,), -1.0, device=GPU)
        first.wait()
        third.wait()
        total = sum(range(size)) + size * step
        assert (x * 2).tolist() == [2.0 * total] * 1000
        torch.cuda.current_stream().wait_stream(side)
        assert z.tolist() == [2.0 * size] * 10
        assert third.result()[0].tolist() == [float(step * size)] * 1000
    dist.barrier()


def asked_by_threads(rank, size):
    """Who asks a communicator for its state waits for nobody who waits for Python's lock."""
    backend = dist.distributed_c10d._get_default_group()._get_backend("cuda")
    (comm,) = backend._comms.values()
    threads = [threading.Thread(target=lambda: [comm.state for _ in range(2000)]) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert comm.state[0] == 0


def again(rank, size):
    """A group that was aborted; and a new one."""
    group = dist.new_group(backend="nccl")
    x = torch.ones(2, device=GPU)
    dist.all_reduce(x, group=group)
    torch.cuda.synchronize()
    group.abort()
    try:
        dist.all_reduce(x, group=group)
        raise AssertionError("an aborted group went on")
    except dist.DistBackendError as error:
        # To the others, a rank that aborts before they do is gone.
        assert re.search("aborted|A rank is gone", str(error)), error
    fresh = dist.new_group(backend="nccl")
    x = torch.ones(2, device=GPU)
    dist.all_reduce(x, group=fresh)
    assert x.tolist() == [float(size)] * 2
    dist.destroy_process_group(fresh)


def parts_of_a_group(rank, size):
    """A part's communicator is cut from the whole group's, also where some are in no part."""
    x = torch.ones(3, device=GPU)
    dist.all_reduce(x)
    for ranks in ([list(range(size))], [[each] for each in range(size)], [[size - 1]]):
        part = dist.split_group(split_ranks=ranks)
        mine = next((each for each in ranks if rank in each), None)
        assert (part is None) == (mine is None)
        if part is None:
            continue
        assert list(part._get_backend("cuda")._comms) == [0]
        x = torch.full((3,), rank + 1.0, device=GPU)
        dist.all_reduce(x, group=part)
        assert x.tolist() == [sum(each + 1.0 for each in mine)] * 3
        dist.destroy_process_group(part)


def in_graphs(rank, size):
    """Collectives that were captured run whenever the graph does; what waits on the host is not."""
    x = torch.zeros(4, device=GPU)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
        dist.all_reduce(y)
        work = dist.all_reduce(y, async_op=True)
        z = x * 2
        work.wait()
        y += z
    for step in range(3):
        x.fill_(step + rank)
        graph.replay()
        first = sum(step + r + 1 for r in range(size))
        assert y.tolist() == [float(first * size + 2 * (step + rank))] * 4
    group = dist.new_group(backend="nccl")
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            dist.barrier(group)
        raise AssertionError("a barrier was captured")
    except RuntimeError as error:
        assert "no graph can have one" in str(error)


def main():
    dist.init_process_group("cpu:gloo,cuda:nccl")
    for part in (reductions, moves, messages, streams_are_ordered, parts_of_a_group, in_graphs,
                 asked_by_threads, again):  # fmt: skip
        part(dist.get_rank(), dist.get_world_size())
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
