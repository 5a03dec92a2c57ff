"""Fake tensors: what they pretend, what they refuse, and what makes them."""

import pytest

import tritorch as torch
from tritorch import nn
from tritorch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from tritorch.arrays.symbolic import ShapeEnv


@pytest.fixture
def mode():
    return FakeTensorMode()


def test_it_pretends(mode):
    with mode:
        x = torch.empty(2, 3, device="cuda")
        y = torch.ones(2, 3)
    assert isinstance(x, FakeTensor) and isinstance(x, torch.Tensor)
    assert x.is_cuda and not x.is_meta and x.device == torch.device("cuda:0")
    assert x.fake_device == torch.device("cuda", 0) and x.fake_mode is mode
    assert repr(x) == "FakeTensor(..., device='cuda:0', size=(2, 3))"
    assert repr(y.double()) == "FakeTensor(..., size=(2, 3), dtype=tritorch.float64)"
    assert isinstance(x.cpu(), FakeTensor) and x.cpu().device == torch.device("cpu")
    assert (x @ x.t()).device == x.device and x.data_ptr() == 0
    assert isinstance(y.new_zeros(2), FakeTensor) and isinstance(torch.zeros_like(x), FakeTensor)
    assert not isinstance(torch.ones(2), FakeTensor)  # the mode is left
    with pytest.raises(AttributeError):
        _ = torch.ones(1).fake_mode


def test_a_model_on_a_gpu_that_is_not_here(mode):
    with mode, torch.device("cuda"):
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                              nn.Linear(8 * 14 * 14, 10), nn.Dropout())  # fmt: skip
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        out = model(torch.randn(4, 3, 16, 16))
        nn.functional.cross_entropy(out, torch.randint(10, (4,))).backward()
        optimizer.step()
    assert out.shape == (4, 10) and out.device == torch.device("cuda:0")
    for parameter in model.parameters():
        assert isinstance(parameter, FakeTensor) and isinstance(parameter.grad, FakeTensor)
        assert parameter.grad.stride() == parameter.stride()
    assert repr(model[0].bias) == (
        "Parameter(FakeTensor(..., device='cuda:0', size=(8,), requires_grad=True))"
    )


@pytest.mark.parametrize(
    "ask",
    [
        lambda y: y.sum().item(), lambda y: y.tolist(), lambda y: bool(y[0, 0] > 0),
        lambda y: torch.equal(y, y),
    ],
)  # fmt: skip
def test_values_are_refused(mode, ask):
    with mode, pytest.raises(DataDependentOutputException, match="aten._local_scalar_dense"):
        ask(torch.ones(2, 3))


def test_sizes_that_hang_on_values_are_refused(mode):
    y = mode.from_tensor(torch.ones(2, 3))
    with pytest.raises(DynamicOutputShapeException, match=r"aten.nonzero.default"):
        y.nonzero()
    with pytest.raises(DynamicOutputShapeException):
        y[y > 0]


def test_devices_and_real_tensors_do_not_mix(mode):
    with mode:
        x, y = torch.empty(2, device="cuda"), torch.empty(2)
        with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cpu"):
            x + y
    real = torch.ones(2)
    for call in (lambda: y + real, lambda: torch.matmul(y, real)):
        with pytest.raises(AssertionError, match="convert all Tensors to FakeTensors first"):
            call()
    with mode, pytest.raises(AssertionError, match="convert all Tensors"):
        real + 1
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert isinstance(real + 1, FakeTensor)
    with mode, unset_fake_temporarily():
        assert (real + torch.ones(2)).tolist() == [2.0, 2.0]


def test_fakes_of_real_tensors(mode):
    base = torch.arange(6.0).reshape(2, 3)
    weight = nn.Parameter(base.t())
    fake = mode.from_tensor(weight)
    assert mode.from_tensor(weight) is fake and isinstance(fake, nn.Parameter)
    assert fake.shape == (3, 2) and fake.stride() == (1, 3) and fake.requires_grad
    first, second = mode.from_tensor(base[0]), mode.from_tensor(base[1])
    assert first._array.shares_storage(second._array) and second.storage_offset() == 3


def test_sizes_left_open():
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    x = mode.from_tensor(torch.ones(5, 7))
    y = (x @ mode.from_tensor(torch.ones(7, 5))).sum(1)
    assert str(y.shape[0]) == "s0" and int(y.shape[0]) == 5
    assert len(env.symbols) == 2  # sizes that are equal are one symbol


def test_a_number_that_a_program_writes_down_is_known(mode):
    with mode:
        x = torch.tensor(4.0)
        y = x.add_(1)
        assert x.item() == y.item() == 5 and x.constant is not None
        x.add_(torch.rand(()))
        assert x.constant is None
        with pytest.raises(DataDependentOutputException):
            x.item()
        assert torch.tensor([1.0, 2.0]).constant is None


def test_gradients_and_copies_are_fake(mode):
    import copy

    from tritorch._subclasses.fake_tensor import FakeCopyMode

    x = torch.ones(2, requires_grad=True)
    x.grad = torch.ones(2)
    assert isinstance(mode.from_tensor(x).grad, FakeTensor)
    with FakeCopyMode(mode):
        twin = copy.deepcopy(nn.Linear(3, 2))
    assert all(isinstance(p, nn.Parameter) and isinstance(p, FakeTensor) for p in twin.parameters())
    real = torch.ones(3)
    with mode, pytest.raises(AssertionError, match="convert all Tensors to FakeTensors"):
        real[0]


def test_elements_are_numbers_that_nobody_knows():
    from tritorch.fx.experimental.symbolic_shapes import ShapeEnv as Env, free_unbacked_symbols

    with FakeTensorMode(shape_env=Env()):
        assert len(torch.rand(3).tolist()) == 3
        n = torch.ones(2, dtype=torch.int64)[0].item()
    assert len(free_unbacked_symbols(n)) == 1
