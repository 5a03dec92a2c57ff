"""What strangers' programs gave tensors: foreign memory, old constructors, sizes beyond measure."""

import numpy as np
import pytest

import tritorch as torch
import tritorch.nn.functional as F


def test_fields_of_structures_are_refused():
    records = np.zeros(4, dtype=[("a", "u1"), ("b", "<f4"), ("c", "<f8")])
    for take in (torch.from_numpy, torch.as_tensor):
        with pytest.raises(ValueError, match="strides not a multiple of the element byte size"):
            take(records["b"])
    even = np.zeros(4, dtype=[("a", "<f4"), ("b", "<f4")])
    even["b"] = [1, 2, 3, 4]
    assert torch.from_numpy(even["b"]).stride() == (2,)
    assert torch.from_numpy(even["b"]).tolist() == [1, 2, 3, 4]


def test_negative_strides_are_refused():
    backwards = np.arange(4.0)[::-1]
    for take in (torch.from_numpy, torch.from_dlpack, torch.utils.dlpack.from_dlpack):
        with pytest.raises(ValueError, match="stride"):
            take(backwards)


@pytest.mark.parametrize("give", [lambda t: t.__dlpack__(), torch.utils.dlpack.to_dlpack])
@pytest.mark.parametrize("take", [torch.from_dlpack, torch.utils.dlpack.from_dlpack])
def test_capsules_share_memory_both_ways(give, take):
    t = torch.arange(4.0)
    u = take(give(t))
    u.add_(1)
    assert t.tolist() == [1, 2, 3, 4]
    t.mul_(2)
    assert u.tolist() == [2, 4, 6, 8]


def test_variable():
    t = torch.ones(2)
    v = torch.autograd.Variable(t, requires_grad=True)
    assert v.requires_grad and not t.requires_grad and v.data_ptr() == t.data_ptr()
    assert not torch.autograd.Variable(v).requires_grad
    assert isinstance(t, torch.autograd.Variable)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        torch.autograd.Variable([1])


def test_typed_constructors_keep_their_types():
    torch.set_default_dtype(torch.float64)
    try:
        single = torch.ones(2, dtype=torch.float32)
        assert single.new(2).dtype is single.new([1, 2]).dtype is torch.float32
        assert torch.FloatTensor([1]).dtype is torch.float32
        assert torch.Tensor([1]).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_warm_restarts_have_pytorchs_bits():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 7, 2, eta_min=1e-4)
    rates = []
    for _ in range(12):
        optimizer.step()
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"].hex())
    assert rates == [  # torch 2.13's
        "0x1.8556b56b101d1p-4", "0x1.4c915cb2b0363p-4", "0x1.f51022bb7cd12p-5",
        "0x1.3ef4c78f0f444p-5", "0x1.35c461ca57521p-6", "0x1.4abbfba35ed9dp-8",
        "0x1.999999999999ap-4", "0x1.94786a3edc4e6p-4", "0x1.8556b56b101d1p-4",
        "0x1.6cf6b988aa3b0p-4", "0x1.4c915cb2b0363p-4", "0x1.25c67c0d48286p-4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: torch.zeros(2**62, 2**62), "Storage size calculation overflowed with sizes="),
        (lambda: torch.empty(2**62), "Storage size calculation overflowed with sizes="),
        (lambda: torch.full((2**62, 4), 1.0), "Storage size calculation overflowed with sizes="),
        (lambda: torch.rand(2**62), "Storage size calculation overflowed with sizes="),
        (lambda: torch.arange(2**62), "Storage size calculation overflowed with sizes="),
        (lambda: torch.combinations(torch.arange(100), 50), "integer multiplication overflow"),
        (lambda: torch.tensor_split(torch.ones(3), 2**40), "bad_alloc"),
        (lambda: F.avg_pool1d(torch.ones(1, 1, 4), 2**62, 1, 2**61), "without overflow"),
    ],
)  # fmt: skip
def test_sizes_beyond_measure_are_refused_at_once(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


N = 2**62
OVERFLOWS = {
    f"sizes=[{2**60}]": lambda: torch.randperm(2**60),
    f"sizes=[{N}]": lambda: torch.linspace(0, 1, N),
    f"sizes=[{N - 1}]": lambda: torch.logspace(0, 1, N - 1),
    f"sizes=[{N - 2}]": lambda: torch.ones(4).resize_(N - 2),
    f"sizes=[{2**31}, {2**31}]": lambda: torch.eye(2**31),
    f"sizes=[4] and strides=[{N}]": lambda: torch.ones(4).as_strided((4,), (N,)),
    f"sizes=[{N}] and strides=[1]": lambda: torch.ones(4).as_strided((N,), (1,)),
    f"sizes=[{2**40}, 4] and strides=[{2**40}, 1]": lambda: torch.empty_strided(
        (2**40, 4), (2**40, 1)
    ),
}


@pytest.mark.parametrize("said", OVERFLOWS)
def test_sizes_beyond_measure_are_told(said):
    with pytest.raises(RuntimeError) as raised:
        OVERFLOWS[said]()
    assert str(raised.value) == f"Storage size calculation overflowed with {said}"
