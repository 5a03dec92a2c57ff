"""`scan`, `associative_scan`, and what torch.func computes, by themselves and in programs."""

import io

import pytest

import tritorch as torch
from tritorch import nn
from tritorch._higher_order_ops import associative_scan, scan
from tritorch._subclasses.fake_tensor import FakeTensorMode
from tritorch.export import Dim, export


def running(carry, x):
    """Sums so far, and what was there before."""
    return carry + x, {"before": carry * 1.0, "x": x}


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_carries_along_a_dim(dim, reverse):
    xs = torch.randn(3, 3)
    carry, ys = scan(running, torch.zeros(3), xs, dim=dim, reverse=reverse)
    order = xs.flip(dim) if reverse else xs
    sums = order.cumsum(dim) - order
    assert torch.allclose(carry, xs.sum(dim))
    assert torch.allclose(ys["before"], sums.flip(dim) if reverse else sums, atol=1e-6)
    assert torch.equal(ys["x"], xs)


def test_scan_has_gradients():
    xs = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    init = torch.ones(3, dtype=torch.float64, requires_grad=True)

    def products(init, xs):
        carry, ys = scan(lambda c, x: (c * x, c.sin()), init, xs)
        return carry.sum() + ys.sum()

    assert torch.autograd.gradcheck(products, (init, xs))


def test_scan_refuses():
    xs, init = torch.randn(4, 3), torch.zeros(3)
    for arguments, said in (
        ((3, init, xs), "Combine_fn must be a callable, but got 3"),
        ((running, [], xs), "requires init leaves"),
        ((running, 1.0, xs), "All init leaves must be a Tensor but got 1.0"),
        ((running, init, xs[:0]), "scan dimension > 0"),
        ((lambda c, x: c + x, init, xs), "must return a tuple of the next carry and an output"),
        ((lambda c, x: ((c + x).double(), x), init, xs), "differ in 'dtype: .*float32 vs"),
        ((lambda c, x: ((c, c), x), init, xs), "to have the same structure"),
    ):
        with pytest.raises(RuntimeError, match=said):
            scan(*arguments)
    with pytest.raises(RuntimeError, match="Reverse must be a bool"):
        scan(running, init, xs, reverse=1)
    assert scan(running, init, [])[1] == []


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_is_one_after_the_other(count, reverse):
    """Of affine maps, which do not commute."""
    factors, shifts = torch.randn(2, count, 3, dtype=torch.float64).unbind(0)

    def combined(first, second):
        return first[0] * second[0], first[1] * second[0] + second[1]

    found = associative_scan(combined, (factors, shifts), 0, reverse, "generic")
    order = range(count - 1, -1, -1) if reverse else range(count)
    value = None
    for i in order:
        part = factors[i], shifts[i]
        value = part if value is None else combined(value, part)
        for one, wanted in zip(found, value):
            assert torch.allclose(one[i], wanted)


def test_associative_scan_of_parts_and_elements():
    matrices = torch.randn(5, 2, 2)
    found = associative_scan(torch.matmul, matrices, 0, combine_mode="generic")
    assert torch.allclose(found[-1], torch.linalg.multi_dot(list(matrices)), atol=1e-5)
    x = torch.randn(4, 6, requires_grad=True)
    found = associative_scan(torch.mul, x, -1, combine_mode="generic")
    found.sum().backward()
    wanted = x.detach().clone().requires_grad_()
    wanted.cumprod(-1).sum().backward()
    assert torch.allclose(x.grad, wanted.grad, atol=1e-5)
    with pytest.raises(ValueError, match="need to be on CUDA"):
        associative_scan(torch.add, x, 0)
    with pytest.raises(ValueError, match="Combine_mode must either"):
        associative_scan(torch.add, x, 0, combine_mode="x")


@pytest.mark.simulated
def test_associative_scan_of_elements_on_a_gpu():
    x = torch.randn(9, 4, device="cuda")
    assert torch.allclose(associative_scan(torch.add, x, 0), x.cumsum(0), atol=1e-5)


class Scanning(nn.Module):
    """Has a parameter that the function reads, too."""

    def __init__(self):
        super().__init__()
        self.decay = nn.Parameter(torch.full((3,), 0.5))

    def forward(self, xs):
        return scan(lambda c, x: (c * self.decay + x, c.sin()), torch.zeros(3), xs)


def through_a_file(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


@pytest.mark.parametrize("shapes", [None, ({0: Dim("steps", min=2)},)], ids=["fixed", "open"])
def test_scan_is_one_node_of_a_program(shapes):
    module = Scanning()
    program = export(module, (torch.randn(5, 3),), dynamic_shapes=shapes)
    nodes = [n for n in program.graph.nodes if n.target is torch.ops.higher_order.scan]
    assert len(nodes) == 1
    xs = torch.randn(5 if shapes is None else 8, 3)
    for run in (program.module(), through_a_file(program).module()):
        for found, wanted in zip(run(xs), module(xs)):
            assert torch.allclose(found, wanted)
    pure = program.run_decompositions({}).module()
    assert torch.allclose(pure(xs)[0], module(xs)[0])


class Mapped(nn.Module):
    """torch.func inside of a program."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        rows = torch.vmap(lambda row: self.linear(row).relu().sum())(x)
        scanned = associative_scan(torch.add, x, 0, combine_mode="generic")
        slopes = torch.func.grad(lambda x: x.sin().prod())(x)
        return rows, scanned, slopes, torch.func.jacrev(torch.sin)(x[0])


def test_transforms_run_on_descriptions():
    module, x = Mapped(), torch.randn(3, 4)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        found = module(mode.from_tensor(x))
    assert [each.shape for each in found] == [each.shape for each in module(x)]
    program = export(module, (x,))
    x = torch.randn(3, 4)
    for run in (program.module(), program.run_decompositions().module()):
        for one, wanted in zip(run(x), module(x)):
            assert torch.allclose(one, wanted, atol=1e-6)
