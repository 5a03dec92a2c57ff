"""What modules of devices that are not there answer, as PyTorch 2.13's build for the CPU does."""

import subprocess
import sys

import pytest

import tritorch
from tritorch import accelerator, backends, compiler, mps, mtia, types, xpu

ANSWERS = [
    (lambda: (xpu.is_available(), mps.is_available(), mtia.is_available()), (False,) * 3),
    (lambda: (xpu.device_count(), xpu.memory_allocated(), xpu.max_memory_reserved(0)), (0, 0, 0)),
    (lambda: (dict(xpu.memory_stats()), xpu.memory_snapshot(), xpu.get_arch_list()), ({}, [], [])),
    (lambda: (xpu.get_rng_state_all(), xpu.manual_seed_all(1)), ([], None)),
    (lambda: (mtia.memory_stats(), mtia.is_bf16_supported(), mtia.seed_all()), ({}, True, None)),
    (lambda: (mps.device_count(), mps.empty_cache(), mps.manual_seed(1)), (0, None, None)),
    (lambda: [tritorch.is_autocast_enabled(d) for d in ("mps", "xpu", "hpu")], [False] * 3),
    (lambda: tritorch.get_autocast_dtype("privateuseone"), tritorch.float16),
    (lambda: [tritorch.amp.is_autocast_available(d) for d in ("mps", "meta")], [True, False]),
    (lambda: tritorch.is_autocast_enabled("cuda:0"), False),
    (lambda: compiler.get_default_backend(), "inductor"),
    (lambda: compiler.skip_all_guards_unsafe([1, 2]), [False, False]),
    (lambda: types.py_sym_types, (tritorch.SymInt, tritorch.SymFloat, tritorch.SymBool)),
]  # fmt: skip


@pytest.mark.parametrize("i", range(len(ANSWERS)))
def test_answers(i):
    call, expected = ANSWERS[i]
    assert call() == expected


REFUSALS = [
    (lambda: xpu.synchronize(), AssertionError, "Torch not compiled with XPU enabled"),
    (lambda: xpu.Stream(), RuntimeError, "Tried to instantiate dummy base class Stream"),
    (lambda: xpu.temperature(), ImportError, "pyzes is required"),
    (lambda: mps.seed(), RuntimeError, "getDefaultGenerator.. without MPS backend"),
    (lambda: mps.driver_allocated_memory(), RuntimeError, "getDriverAllocatedMemory.. without MPS"),
    (lambda: mtia.set_device(0), RuntimeError, "setCurrentDevice.. without MTIA backend"),
    (lambda: mtia.init(), AssertionError, "Torch not compiled with MTIA enabled"),
    (
        lambda: tritorch.is_autocast_enabled("meta"),
        RuntimeError,
        "unknown device type for autocast",
    ),
    (lambda: tritorch.get_autocast_dtype("meta"), RuntimeError, "unsupported scalarType"),
    (lambda: compiler.set_default_backend(0), TypeError, "must be a string or callable"),
]


@pytest.mark.parametrize("i", range(len(REFUSALS)))
def test_refusals(i):
    call, error, words = REFUSALS[i]
    with pytest.raises(error, match=words):
        call()


PROGRAM = """
import torch, torch._C
assert torch._C._nn._parse_to("cuda", torch.half) == (torch.device("cuda"), torch.half, False, None)
assert torch._C._nn.gelu is torch.nn.functional.gelu
assert isinstance(torch.Tensor, torch._C._TensorMeta)
x = torch.ones(2)
assert torch._C._is_alias_of(x, x[1:]) and not torch._C._is_alias_of(x, torch.ones(2))
assert torch._C._data_address(x) == x.data_ptr() and torch._C._has_storage(x)
"""


def test_names_of_the_extension():
    program = f"from tritorch import _as_torch; _as_torch.as_torch()\n{PROGRAM}"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.device
def test_which_attention_takes_a_call():
    q = tritorch.ones(1, 2, 4, 8)
    asked = lambda x: backends.cuda.SDPAParams(x, x, x, None, 0.0, True)
    assert not backends.cuda.can_use_flash_attention(asked(q))
    assert backends.cuda.can_use_efficient_attention(asked(q.cuda()))
    assert not backends.cuda.can_use_cudnn_attention(asked(q.cuda()))
    assert accelerator.empty_host_cache() is None
