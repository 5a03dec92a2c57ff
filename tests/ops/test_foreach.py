"""_foreach_* on a GPU: one launch for each dtype, with the CPU's results."""

import numpy as np
import pytest

import tritorch as torch
from tritorch.gpu.lists import foreach
from tritorch.ops.record.backends import backend

pytestmark = pytest.mark.device

SHAPES = ((3,), (0,), (5, 7), (), (2000,))


def some(dtype, seed):
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(np.asarray(rng.uniform(0.5, 2, s))).to(dtype) for s in SHAPES]


CASES = {
    "exp": lambda a, b, c: (a,),
    "neg": lambda a, b, c: (a,),
    "add": lambda a, b, c: (a, b),
    "sub": lambda a, b, c: (a, 2),
    "mul": lambda a, b, c: (a, [1, 2.0, 3, 4, 5]),
    "div": lambda a, b, c: (a, torch.tensor(2.0, dtype=a[0].dtype)),
    "maximum": lambda a, b, c: (a, 1.0),
    "minimum": lambda a, b, c: (a, b),
    "pow": lambda a, b, c: (a, 2),
    "addcmul": lambda a, b, c: (a, b, c, [1, 2, 3, 4, 5.0]),
    "addcdiv": lambda a, b, c: (a, b, c, 0.5),
    "lerp": lambda a, b, c: (a, b, c),
}


@pytest.fixture
def launches(monkeypatch):
    made = []

    def apply(name, rows, outs, compute):
        made.append(len(rows))
        return foreach.apply(name, rows, outs, compute)

    monkeypatch.setattr(backend("gpu", "foreach"), "apply", apply, raising=False)
    return made


def moved(value):
    return (
        [x.cuda() for x in value]
        if isinstance(value, list) and torch.is_tensor(value[0])
        else value
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_one_launch(name, dtype, launches):
    arguments = CASES[name](*(some(dtype, seed) for seed in range(3)))
    want = getattr(torch, f"_foreach_{name}")(*arguments)
    got = getattr(torch, f"_foreach_{name}")(*map(moved, arguments))
    targets = moved(arguments[0])
    version = targets[0]._version
    same = getattr(torch, f"_foreach_{name}_")(targets, *map(moved, arguments[1:]))
    assert launches == [5, 5]
    assert same is targets and targets[0]._version == version + 1
    tolerance = 1e-6 if dtype is torch.float32 else 1e-2
    for a, b, c in zip(want, got, targets):
        assert a.dtype is b.dtype and a.shape == b.shape
        cancelled = tolerance if name == "lerp" else 0  # whose weights here are beyond 1
        assert torch.allclose(a, b.cpu(), rtol=tolerance, atol=cancelled)
        assert torch.equal(b, c)


def test_lists_of_several_dtypes_and_what_is_not_dense(launches):
    a = [*some(torch.float32, 0), *some(torch.float16, 1), torch.arange(3), torch.ones(4, 4)]
    b = [x.cuda() for x in a]
    a[-1], b[-1] = a[-1][:, :2], b[-1][:, :2]
    want, got = torch._foreach_add(a, 1), torch._foreach_add(b, 1)
    assert launches == [5, 5]
    assert all(x.equal(y.cpu()) and x.dtype is y.dtype for x, y in zip(want, got))


def test_targets_that_others_read_change_one_after_the_other(launches):
    a = [torch.ones(3).cuda(), torch.full((3,), 2.0).cuda()]
    torch._foreach_add_(a, [a[1], a[0]])
    assert not launches
    assert a[0].tolist() == [3] * 3 and a[1].tolist() == [5] * 3


def test_gradients_are_recorded(launches):
    x = torch.ones(3, device="cuda", requires_grad=True)
    (y,) = torch._foreach_mul([x], 3)
    y.sum().backward()
    assert not launches and x.grad.tolist() == [3] * 3
    with torch.no_grad():
        torch._foreach_mul([x], 3)
    assert launches == [1]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        torch._foreach_mul_([x], 3)
