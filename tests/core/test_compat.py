"""Names that old programs and other libraries use."""

import warnings

import numpy as np
import pytest

import tritorch as torch


def test_random_module_is_the_default_generator():
    torch.random.manual_seed(5)
    state = torch.random.get_rng_state()
    first = torch.randn(4)
    torch.random.set_rng_state(state)
    assert torch.randn(4).equal(first) and torch.random.initial_seed() == 5


@pytest.mark.device
def test_cuda_generators():
    torch.cuda.manual_seed(7)
    assert torch.cuda.initial_seed() == 7
    states = torch.cuda.get_rng_state_all()
    first = torch.randn(5, device="cuda")
    assert torch.randn(5, device="cuda").ne(first).any()
    torch.cuda.set_rng_state_all(states)
    assert torch.randn(5, device="cuda").equal(first)
    torch.cuda.set_rng_state(states[0])
    assert torch.randn(5, device="cuda").equal(first)
    assert len(torch.cuda.default_generators) == torch.cuda.device_count()
    torch.cuda.seed_all()
    assert torch.cuda.default_generators[0].initial_seed() != 7


@pytest.mark.device
def test_typed_classes():
    assert torch.cuda.HalfTensor(2, 3).dtype is torch.float16
    assert torch.cuda.LongTensor([1, 2]).device.type == "cuda"
    x = torch.ones(2)
    assert isinstance(x, torch.FloatTensor) and not isinstance(x, torch.cuda.FloatTensor)
    assert isinstance(x.cuda(), torch.cuda.FloatTensor)
    assert torch.typename(x) == x.type() == "tritorch.FloatTensor"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.FloatStorage([1, 2.5]).tolist() == [1.0, 2.5]
        assert torch.cuda.LongStorage([3]).device.type == "cuda"
        assert torch.DoubleStorage(2).size() == 2


def test_default_tensor_type():
    try:
        torch.set_default_tensor_type(torch.DoubleTensor)
        assert torch.ones(1).dtype is torch.float64
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")
    assert torch.ones(1).dtype is torch.float32


@pytest.mark.device
def test_device_as_context_and_decorator():
    with torch.device("cuda"):
        made = torch.ones(2), torch.tensor([1]), torch.arange(3), torch.randn(2)
        with torch.device("cpu"):
            assert not torch.zeros(1).is_cuda
    assert all(x.is_cuda for x in made) and not torch.ones(1).is_cuda
    assert torch.device("cuda")(lambda: torch.zeros(1))().is_cuda


@pytest.mark.parametrize("shape", [(7, 3), (8, 3), (9, 2), (4, 4), (3, 7), (3, 3, 3)])
def test_fill_diagonal(shape):
    for wrap in (False, True):
        ours = torch.zeros(*shape).fill_diagonal_(1, wrap=wrap).numpy()
        theirs = np.zeros(shape)
        np.fill_diagonal(theirs, 1, wrap=wrap)
        np.testing.assert_array_equal(ours, theirs)


def test_in_place_functions_and_views():
    x = torch.tensor([3.0, -2.0])
    assert torch.square_(x) is x and x.tolist() == [9, 4]
    y = torch.arange(6.0)
    assert y.as_strided_((2, 2), (1, 2)) is y and y.tolist() == [[0, 2], [1, 3]]
    assert torch.ones(2, 3, 4).transpose(0, 1).dim_order() == (1, 0, 2)


@pytest.mark.device
def test_what_only_gpus_have():
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    x.record_stream(torch.cuda.Stream())
    assert x.__cuda_array_interface__["shape"] == (2, 3)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.requires_grad_().__cuda_array_interface__  # noqa: B018
    assert not hasattr(torch.ones(1), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="not on a GPU"):
        torch.ones(1).record_stream(torch.cuda.current_stream())
