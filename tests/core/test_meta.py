"""Tensors on the meta device: what they say of themselves, and what they refuse."""

import copy
import io
import pickle

import pytest

import tritorch as torch


def empty(*shape, **options):
    return torch.empty(*shape, device="meta", **options)


def test_it_is_what_it_says():
    x = empty(2, 3)
    assert x.is_meta and not x.is_cpu and not x.is_cuda and x.device == torch.device("meta")
    assert x.data_ptr() == 0 and x.untyped_storage().nbytes() == 24 and not x.is_shared()
    assert x.type() == "tritorch.meta.FloatTensor" and x.get_device() == -1
    assert repr(x) == "tensor(..., device='meta', size=(2, 3))"
    y = torch.ones(2, device="meta", dtype=torch.float64)
    assert repr(y) == "tensor(..., device='meta', size=(2,), dtype=tritorch.float64)"
    assert f"{x.sum()}" == "tensor(..., device='meta', size=())"


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(3, device="meta"),
        lambda: torch.tensor([1.0, 2.0, 3.0], device="meta"),
        lambda: torch.rand(3, device="meta"),
        lambda: torch.randperm(3, device="meta"),
        lambda: torch.linspace(0, 1, 3, device="meta"),
        lambda: torch.full((3,), 7, device="meta"),
        lambda: torch.ones(3).to("meta"),
        lambda: torch.ones(3).new_zeros(3, device="meta"),
        lambda: empty(3).new_zeros(3),
        lambda: torch.zeros_like(empty(3)),
        lambda: torch.bernoulli(empty(3)),
        lambda: torch.normal(empty(3), empty(3)),
        lambda: torch.multinomial(empty(5), 3),
    ],
)
def test_factories(make):
    made = make()
    assert made.is_meta and made.shape == (3,)


def test_a_range_too_long_for_any_memory():
    assert torch.arange(10**13, device="meta").shape == (10**13,)


def test_no_data():
    x = empty(2, 3)
    for read in (x.tolist, x.cpu, lambda: x.to("cpu"), lambda: torch.ones(2, 3).copy_(x)):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            read()
    for read in (x[0, 0].item, lambda: bool(x[0, 0] > 1), lambda: torch.equal(x, x)):
        with pytest.raises(RuntimeError, match="cannot be called on meta tensors"):
            read()
    with pytest.raises(NotImplementedError, match="to_empty"):
        torch.nn.Linear(2, 3, device="meta").to("cpu")
    with pytest.raises(BufferError):
        x.__dlpack__()
    with pytest.raises(RuntimeError, match="Tensor on device cpu is not on the expected device"):
        x + torch.ones(2, 3)
    assert (x + torch.ones(())).is_meta  # a number
    for unknown in (x.nonzero, x.unique, lambda: x[x > 1]):
        with pytest.raises(NotImplementedError, match="depends on their values"):
            unknown()


def test_writes_do_nothing_but_count():
    x = empty(2, 3)
    version = x._version
    x[0] = 5.0
    x[x > 0] = 5.0
    x.copy_(torch.ones(2, 3))
    x.normal_()
    x.mul_(2).t_()
    assert x.shape == (3, 2) and x._version > version
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        x.add_(empty(4, 3, 2))
    y = torch.ones(2, device="meta", requires_grad=True)
    z = (y * 1).exp_()
    z.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_copies():
    x = empty(4, 3)[1:, ::2]
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.is_meta and y.shape == x.shape and y.stride() == x.stride()
    state = {"w": torch.ones(2, 3, requires_grad=True)}
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded = torch.load(file, map_location="meta")["w"]
    assert loaded.is_meta and loaded.shape == (2, 3) and loaded.requires_grad
    file = io.BytesIO()
    torch.save({"x": x}, file)
    file.seek(0)
    assert torch.load(file, weights_only=True)["x"].stride() == x.stride()


def test_modules():
    with torch.device("meta"):
        model = torch.nn.Linear(3, 4)
    real = torch.nn.Linear(3, 4)
    model(empty(2, 3)).sum().backward()
    assert model.weight.grad.is_meta
    made = copy.deepcopy(model).to_empty(device="cpu")
    assert made.weight.device == torch.device("cpu") and made.weight.shape == (4, 3)
    with pytest.warns(UserWarning, match="no-op"):
        model.load_state_dict(real.state_dict())
    model.load_state_dict(real.state_dict(), assign=True)
    assert torch.equal(model.weight, real.weight)


def test_under_transforms():
    x = empty(4, 3)
    assert torch.func.vmap(lambda row: row.sum() + 1)(x).shape == (4,)
    value, tangent = torch.func.jvp(torch.sin, (x,), (x,))
    assert value.is_meta and tangent.is_meta
    assert torch.func.grad(lambda x: x.sin().sum())(x).shape == (4, 3)
