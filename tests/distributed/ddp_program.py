"""DistributedDataParallel in each process: all train as one process on the whole batch does."""

import contextlib
import copy
import io
import pickle

import tritorch as torch
import tritorch.distributed as dist
from tritorch import nn
from tritorch.distributed.algorithms.ddp_comm_hooks import default_hooks
from tritorch.nn.parallel import DistributedDataParallel as DDP

F = nn.functional
OPTIONS = (
    {}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True},
    {"static_graph": True}, {"bucket_cap_mb": 1e-5}, {"bucket_cap_mb": 1e-4,
    "gradient_as_bucket_view": True, "find_unused_parameters": True},
)  # fmt: skip


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5, bias=False), nn.Linear(5, 3))


def batch(step):
    torch.manual_seed(100 + step)
    return torch.randn(8, 6), torch.randint(0, 3, (8,))


def train(model, rank, size, steps=4, compiled=False):
    """Steps on every size-th example; the third adds up two passes, the first unsynchronised."""
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    call = torch.compile(model) if compiled else model
    for step in range(steps):
        x, y = (each[rank::size] for each in batch(step))
        if step == 2 and isinstance(model, DDP):
            with model.no_sync():
                F.cross_entropy(call(x), y).backward()
        elif step == 2:
            F.cross_entropy(call(x), y).backward()
        F.cross_entropy(call(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.detach().clone() for p in model.parameters()]


def same_everywhere(tensors):
    for each in tensors:
        found = [torch.empty_like(each) for _ in range(dist.get_world_size())]
        dist.all_gather(found, each.contiguous())
        assert all(torch.equal(other, each) for other in found)


def as_one_process(rank, size):
    wanted = train(network(0), 0, 1)
    for compiled in (False, True):
        for options in OPTIONS:
            found = train(DDP(network(rank), **options), rank, size, compiled=compiled)
            again = train(DDP(network(rank), **options), rank, size, compiled=compiled)
            same_everywhere(found)
            for one, other, single in zip(found, again, wanted, strict=True):
                assert torch.equal(one, other), options
                assert torch.allclose(one, single, 1e-5, 1e-6), (options, compiled)


class Branching(nn.Module):
    """Uses one of its parts in a pass, or both."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(3, 2) for _ in range(3))

    def forward(self, x, parts):
        return sum(getattr(self, part)(x) for part in parts)


def unused_parameters(rank, size):
    torch.manual_seed(0)
    model = DDP(Branching(), find_unused_parameters=True)
    x = torch.ones(2, 3)
    for parts in ("a" if rank == 0 else "ab", "a", "abc"):
        model.zero_grad()
        model(x, parts).sum().backward()
        grads = {name: p.grad for name, p in model.module.named_parameters()}
        assert grads["a.weight"].tolist() == [[2.0] * 3] * 2
        if parts == "abc":
            assert grads["b.weight"].tolist() == [[2.0] * 3] * 2
        elif parts == "a" and rank != 0:
            assert grads["b.weight"] is None
    model.zero_grad()
    model(x, "a" if rank == 0 else "ab").sum().backward()
    found = model.module.b.weight.grad
    if size == 1:
        assert found is None
    else:  # who did not use it gets the average too
        assert torch.allclose(found, torch.full((2, 3), 2.0 * (size - 1) / size))
    assert model.module.c.weight.grad is None
    strict = DDP(Branching())
    strict(x, "a").sum().backward()
    try:
        strict(x, "a")
    except RuntimeError as error:
        assert "Expected to have finished reduction in the prior iteration" in str(error)
        assert "b.weight" in str(error)
    else:
        raise AssertionError("a parameter without a gradient was not missed")


class Words(nn.Module):
    """Tables of both kinds with sparse gradients, and one that only some passes use."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.words = nn.Embedding(11, 6, sparse=True)
        self.bags = nn.EmbeddingBag(7, 6, mode="sum", sparse=True)
        self.rare = nn.Embedding(5, 6, sparse=True)
        self.last = nn.Linear(6, 3)

    def forward(self, x, rare):
        y = self.words(x[:, 0]) + self.bags(x[:, 1:] % 7)
        return self.last(y + self.rare(x[:, 0] % 5) if rare else y)


def sparse_gradients(rank, size):
    """Steps on every size-th example, of which the second adds up two passes."""

    def trained(model, rank, size, rare):
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        for step in range(4):
            torch.manual_seed(200 + step)
            x, y = torch.randint(0, 11, (8, 4))[rank::size], torch.randint(0, 3, (8,))[rank::size]
            optimizer.zero_grad()
            for last in (False, True) if step == 1 else (True,):
                waits = last or not isinstance(model, DDP)
                with contextlib.nullcontext() if waits else model.no_sync():
                    F.cross_entropy(model(x, rare(step)), y).backward()
            tables = model.module if isinstance(model, DDP) else model
            assert tables.words.weight.grad.is_sparse and tables.bags.weight.grad.is_sparse
            optimizer.step()
        return list(model.parameters())

    for options in OPTIONS:
        some = options.get("find_unused_parameters")
        rare = (lambda step: step > 1) if some else (lambda step: True)
        found = trained(DDP(Words(rank), **options), rank, size, rare)
        wanted = trained(Words(0), 0, 1, rare)
        same_everywhere([p.detach() for p in found])
        for mine, other in zip(found, wanted, strict=True):
            assert torch.allclose(mine, other, 1e-4, 1e-5), options
    hooked = DDP(Words(rank))
    hooked.register_comm_hook(None, default_hooks.allreduce_hook)
    for mine, other in zip(
        trained(hooked, rank, size, lambda _: True), trained(Words(0), 0, 1, lambda _: True)
    ):
        assert torch.allclose(mine, other, 1e-4, 1e-5)
    dense = nn.Embedding(4, 2)
    model = DDP(nn.Sequential(dense))
    dense.sparse = True  # after the fact
    try:
        model(torch.tensor([1])).sum().backward()
    except RuntimeError as error:
        assert "Expected variable to have dense gradient. Parameter: 0.weight" in str(error)
    else:
        raise AssertionError("a sparse gradient travelled as a dense one")


def buffers_and_states(rank, size):
    torch.manual_seed(rank)
    plain = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    model = DDP(plain)
    for _ in range(2):
        model(torch.randn(5, 3)).sum().backward()
    model(torch.randn(5, 3))
    means = [torch.empty(4) for _ in range(size)]
    model.eval()
    model(torch.zeros(1, 3))  # buffers are rank 0's from here on
    dist.all_gather(means, plain[1].running_mean)
    assert all(torch.equal(means[0], each) for each in means)
    assert set(model.state_dict()) == {f"module.{name}" for name in plain.state_dict()}
    other = pickle.loads(pickle.dumps(model))
    assert other.reducer is not model.reducer
    saved = io.BytesIO()
    torch.save(model.state_dict(), saved)
    saved.seek(0)
    other.load_state_dict(torch.load(saved))
    x = torch.ones(2, 3)
    assert torch.equal(other.eval()(x), model.eval()(x))


def accumulated(rank, size):
    """Parts that only an unsynchronised pass uses are averaged with the next one."""
    torch.manual_seed(0)
    model = DDP(Branching(), find_unused_parameters=True)
    x = torch.ones(3)  # one row: a node with several inputs
    with model.no_sync():
        model(x, "a" if rank == 0 else "b").sum().backward()
    model(x, "c").sum().backward()
    grads = {name: p.grad for name, p in model.module.named_parameters()}
    assert grads["a.bias"].tolist() == [1 / size] * 2 and grads["c.bias"].tolist() == [1.0] * 2
    if size == 1:
        assert grads["b.weight"] is None
    else:
        assert grads["b.weight"].tolist() == [[(size - 1) / size] * 3] * 2


def told(rank, size):
    """What a module says of itself."""
    model = DDP(network(0), bucket_cap_mb=1e-4)
    model._set_ddp_runtime_logging_sample_rate(4)
    sampled = []
    for _ in range(15):
        model(batch(0)[0]).sum().backward()
        sampled.append(model._get_ddp_logging_data()["iteration"])
    assert sampled == [*range(11), 10, 12, 12, 12]
    found = model._get_ddp_logging_data()
    sizes = [int(each) for each in found["rebuilt_bucket_sizes"].split(", ")]
    assert sum(sizes) == found["total_parameter_size_bytes"] and len(sizes) > 1
    assert (found["rank"], found["world_size"], found["backend_name"]) == (rank, size, "gloo")
    assert (found["module_name"], found["dtypes"]) == ("Sequential", "float")
    order = [int(each) for each in found["prev_iteration_grad_ready_order_indices"].split(", ")]
    assert sorted(order) == list(range(5)) and sorted(order[:2]) == [3, 4]  # the last layer's
    for name in ("forward_compute_time", "backward_compute_time", "backward_comm_time"):
        assert 0 < found[name] < 60e9 and found[f"avg_{name}"] > 0
    try:
        model._set_static_graph()
        raise AssertionError("a graph became static after its first pass")
    except RuntimeError as error:
        assert "should be called before training loop starts" in str(error)
        assert model._get_ddp_logging_data()["error"] == str(error)


def hooks(rank, size):
    wanted = train(DDP(network(0)), rank, size)
    names = ("allreduce_hook", "fp16_compress_hook", "bf16_compress_hook")
    chosen = [(getattr(default_hooks, name), name) for name in names]
    chosen.append((default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), "wrapped"))
    for hook, name in chosen:
        model = DDP(network(rank), bucket_cap_mb=1e-4)
        model.register_comm_hook(None, hook)
        for one, other in zip(train(model, rank, size), wanted, strict=True):
            near = 1e-6 if name == "allreduce_hook" else 0.02
            assert torch.allclose(one, other, near, near), name
    seen = []

    def noting(state, bucket):
        seen.append((bucket.index(), bucket.is_last(), len(bucket.parameters())))
        assert bucket.buffer().numel() == sum(each.numel() for each in bucket.gradients())
        return default_hooks.allreduce_hook(state, bucket)

    model = DDP(network(0), bucket_cap_mb=1e-4)
    model.register_comm_hook(None, noting)
    model(batch(0)[0]).sum().backward()
    assert [index for index, _, _ in seen] == list(range(len(seen))) and len(seen) > 1
    assert [last for _, last, _ in seen] == [False] * (len(seen) - 1) + [True]
    assert sum(count for _, _, count in seen) == len(list(model.parameters()))


def refused(rank, size):
    for make, kind, text in (
        (lambda: DDP(nn.ReLU()), RuntimeError, "is not needed when a module doesn't have any"),
        (lambda: DDP(network(0), device_ids=[0]), ValueError, "only work with single-device"),
        (lambda: DDP(nn.LazyLinear(2)), RuntimeError, "uninitialized parameters"),
    ):
        try:
            make()
        except kind as error:
            assert text in str(error)
        else:
            raise AssertionError(text)
    if size > 1:
        try:
            DDP(nn.Linear(2, 2 + rank))
        except RuntimeError as error:
            assert "appears not to match sizes of the same param in process" in str(error)
        else:
            raise AssertionError("models that differ were taken")
    model = DDP(copy.deepcopy(network(0)))
    try:
        model.register_comm_hook(None, 3)
    except TypeError as error:
        assert "must be callable" in str(error)


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    for part in (as_one_process, unused_parameters, sparse_gradients, accumulated, told,
                 buffers_and_states, hooks, refused):  # fmt: skip
        part(rank, size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
