"""torch.backends and the other small modules that programs ask about their surroundings."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tritorch as torch
from tritorch.core import precision


def test_cudnn_accepts_settings_without_being_there():
    cudnn = torch.backends.cudnn
    assert not cudnn.is_available() and cudnn.version() is None
    assert cudnn.enabled and not cudnn.benchmark and not cudnn.deterministic
    cudnn.benchmark = True
    assert cudnn.benchmark
    with cudnn.flags(enabled=False, deterministic=True):
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (False, False, True)
    assert cudnn.enabled and cudnn.benchmark and not cudnn.deterministic
    assert cudnn.set_flags(_benchmark=False)[1] is True and not cudnn.benchmark
    with pytest.raises(RuntimeError, match="set_benchmark_cudnn expects a bool, but got str"):
        cudnn.benchmark = "x"
    with pytest.raises(RuntimeError, match="set_enabled_cudnn expects a bool, but got int"):
        cudnn.enabled = 1
    cudnn.whatever = 3  # a module, as in PyTorch
    del cudnn.whatever
    assert not cudnn.is_acceptable(torch.ones(1))


def test_tf32_of_matrices_and_convolutions():

    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    assert cuda.matmul.allow_tf32 is False and cuda.matmul.fp32_precision == "none"
    assert precision.matmul == "ieee"
    default = "import tritorch as t; print(t.backends.cudnn.allow_tf32)"
    for setting, expected in ((None, "True"), ("0", "False")):  # as in PyTorch
        environment = {k: v for k, v in os.environ.items() if k != "NVIDIA_TF32_OVERRIDE"}
        if setting is not None:
            environment["NVIDIA_TF32_OVERRIDE"] = setting
        command = [sys.executable, "-c", default]
        seen = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert seen.stdout.strip() == expected, seen.stderr
    before = cudnn.allow_tf32
    try:
        cuda.matmul.allow_tf32 = True  # one product, as in PyTorch
        assert torch.get_float32_matmul_precision() == "high" and precision.matmul == "tf32"
        assert cuda.matmul.fp32_precision == "tf32"
        torch.set_float32_matmul_precision("medium")
        assert precision.matmul == "tf32" and cuda.matmul.allow_tf32 is True
        cuda.matmul.fp32_precision = "tf32x3"  # three of them, tritorch's own
        assert precision.matmul == "tf32x3" and cuda.matmul.allow_tf32 is True
        with pytest.raises(RuntimeError, match="Unknown precision: tf33"):
            cuda.matmul.fp32_precision = "tf33"
        cuda.matmul.allow_tf32 = False
        assert precision.matmul == "ieee" and cuda.matmul.fp32_precision == "ieee"
        cudnn.allow_tf32 = False
        assert precision.convolution == "ieee" and cudnn.conv.fp32_precision == "none"
        cudnn.conv.fp32_precision = "tf32"
        assert cudnn.allow_tf32 is True
        torch.set_float32_matmul_precision("highest")
        assert cuda.matmul.allow_tf32 is False
    finally:
        cuda.matmul.fp32_precision = "none"
        cudnn.allow_tf32 = before
    with pytest.raises(AttributeError, match="Unknown attribute foo"):
        torch.backends.cuda.matmul.foo = 1
    with pytest.raises(AttributeError, match="Unknown attribute bar"):
        torch.backends.cuda.matmul.bar  # noqa: B018


def test_attention_can_be_chosen():
    cuda = torch.backends.cuda
    assert cuda.flash_sdp_enabled() and cuda.math_sdp_enabled()
    q = torch.randn(1, 1, 4, 8)
    expected = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    before = torch.nn.attention._cur_sdpa_kernel_backends()
    for disable in (cuda.enable_flash_sdp, cuda.enable_mem_efficient_sdp, cuda.enable_cudnn_sdp):
        disable(False)
    try:
        assert not cuda.flash_sdp_enabled() and not cuda.mem_efficient_sdp_enabled()
        found = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        assert torch.allclose(found, expected, atol=1e-6)
        cuda.enable_math_sdp(False)
        with pytest.raises(RuntimeError, match="No viable backend"):
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
    finally:
        for number in before:
            cuda._enable(int(number), True)
    with pytest.warns(FutureWarning), cuda.sdp_kernel(enable_flash=False):
        assert not cuda.flash_sdp_enabled() and cuda.math_sdp_enabled()
    assert cuda.flash_sdp_enabled() and cuda.is_built()


def test_libraries_that_are_not_there():
    b = torch.backends
    for library in (b.mkl, b.mkldnn, b.openmp, b.opt_einsum, b.mps, b.cusparselt):
        assert library.is_available() is False
    assert not b.mps.is_built() and b.opt_einsum.get_opt_einsum() is None
    with b.mkl.verbose(b.mkl.VERBOSE_ON), b.mkldnn.verbose(b.mkldnn.VERBOSE_OFF):
        pass
    with b.mkldnn.flags(enabled=False):
        assert not b.mkldnn.enabled
    assert b.mkldnn.enabled
    with pytest.raises(ValueError, match="opt_einsum is not available"):
        b.opt_einsum.set_flags(_strategy="greedy")
    b.opt_einsum.enabled = False
    b.mha.set_fastpath_enabled(False)
    assert not b.mha.get_fastpath_enabled()
    b.mha.set_fastpath_enabled(True)
    assert b.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
    with pytest.raises(AttributeError, match="has no attribute .xnnpack"):
        b.xnnpack  # noqa: B018


def test_devices_of_other_makers_are_not_there():
    assert not torch.mps.is_available() and not torch.xpu.is_available()
    assert torch.mps.device_count() == torch.xpu.device_count() == 0
    torch.mps.manual_seed(0), torch.xpu.manual_seed_all(0), torch.xpu.empty_cache()
    with pytest.raises(AssertionError, match="Torch not compiled with XPU enabled"):
        torch.xpu.synchronize()
    assert torch.distributed.is_available() and not torch.distributed.is_initialized()


def test_the_cpu_is_a_device():
    cpu = torch.cpu
    assert cpu.is_available() and cpu.device_count() == 1 and cpu.current_device() == "cpu"
    stream, event = cpu.Stream(), cpu.Event()
    before = cpu.current_stream()
    with cpu.stream(stream):
        assert cpu.current_stream() is stream
        stream.record_event(), stream.wait_stream(before), event.record()
    assert cpu.current_stream() is before and event.query()
    cpu.synchronize(), cpu.set_device(0)
    known = cpu.get_capabilities()
    assert known["num_logical_cores"] >= 1 and isinstance(known["architecture"], str)
    assert torch.get_device_module("cpu") is cpu
    assert torch.get_device_module("cuda:0") is torch.cuda
    with pytest.raises(RuntimeError, match="Invalid value of device"):
        torch.get_device_module(3.0)


@pytest.mark.device
def test_the_gpu_without_its_name():
    a = torch.accelerator
    assert a.is_available() and a.current_accelerator() == torch.device("cuda")
    assert a.device_count() == torch.cuda.device_count() and a.current_device_index() == 0
    with a.device_index(0), a.device_index(None):
        x = torch.ones(1000, device=a.current_accelerator())
    assert a.memory_allocated() >= x.nbytes and a.max_memory_allocated() >= x.nbytes
    a.synchronize(), a.empty_cache(), a.set_device_index(0)
    assert a.current_stream() == torch.cuda.current_stream()
    assert torch.bfloat16 in a.get_device_capability()["supported_dtypes"]
    assert torch.get_device_module() is torch.cuda
    assert torch.version.cuda and float(torch.version.cuda) >= 11


def test_without_an_accelerator(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert torch.accelerator.current_accelerator() is None
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is"):
        torch.accelerator.synchronize()
    assert torch.get_device_module() is torch.cpu


def test_versions_compare_by_number():
    from tritorch.torch_version import TorchVersion

    v = TorchVersion("2.13.0+tritorch")
    assert v >= "2.0" and v > "1.9.1" and v < (2, 14) and v >= (2, 13) and v > "2.13.0rc1"
    assert not v < "2.9" and v > "2.13" and v != "2.13.0" and v.split(".")[:2] == ["2", "13"]
    assert TorchVersion("1.10") > "1.9" and TorchVersion("1.10") == "1.10.0"
    assert TorchVersion("2.0.0.dev20230101") < "2.0.0" and TorchVersion("parrot") > "lion"
    assert isinstance(v, str) and hash(v) == hash(str(v))


def test_named_results():
    r = torch.return_types
    assert isinstance(torch.ones(2, 2).max(0), r.max) and isinstance(torch.ones(3).sort(), r.sort)
    assert r.topk in r.all_return_types and r.max.n_fields == 2
    assert r.max([1, 2]).indices == 2


def test_a_compiler_is_asked_outside_of_regions():
    c = torch.compiler
    assert not c.is_compiling() and not c.is_exporting() and "inductor" in c.list_backends()
    double = c.disable(lambda x: 2 * x)
    assert double(3) == c.disable(reason="no")(double)(3) == 6

    @c.wrap_numpy
    def total(x, scale):
        return np.sum(x) * np.asarray(scale)

    assert total(torch.ones(3), scale=2.0).item() == 6.0
    with c.set_stance("force_eager"):
        pass
    with pytest.raises(RuntimeError, match="invalid torch.compile stance"):
        c.set_stance("lie down")
    torch._dynamo.reset()


def test_modules_may_get_new_parameters_on_conversion():
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        layer = torch.nn.Linear(2, 2)
        weight = layer.weight
        layer(torch.ones(1, 2)).sum().backward()
        layer.double()
        assert layer.weight is not weight and weight.dtype == torch.float32
        assert layer.weight.dtype == layer.weight.grad.dtype == torch.float64
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    weight = layer.weight
    assert layer.float().weight is weight
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer.double()  # who holds the parameter sees what it becomes
        assert layer.weight is weight and weight.dtype == torch.float64
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def test_checks_and_threads():
    torch._check(True)
    with pytest.raises(IndexError, match="^no$"):
        torch._check_index(False, lambda: "no")
    with pytest.raises(TypeError, match="cond must be a bool"):
        torch._check(1)
    assert torch.get_num_interop_threads() == 1 and torch.set_flush_denormal(True) is False
    assert "NumPy" in torch.__config__.show() and "threads" in torch.__config__.parallel_info()


def test_gradients_of_convolutions_by_themselves():
    x, w = torch.randn(2, 4, 7, 6), torch.randn(6, 2, 3, 2)
    x.requires_grad_(), w.requires_grad_()
    out = torch.nn.functional.conv2d(x, w, None, 2, (1, 0), 1, 2)
    g = torch.randn(out.shape)
    out.backward(g)
    grad = torch.nn.grad
    assert torch.allclose(grad.conv2d_input(x.shape, w, g, 2, (1, 0), 1, 2), x.grad, atol=1e-5)
    assert torch.allclose(grad.conv2d_weight(x, w.shape, g, 2, (1, 0), 1, 2), w.grad, atol=1e-5)


def test_small_helpers():
    from tritorch.nn.modules import utils
    from tritorch.utils import dlpack, hooks

    assert utils._pair(3) == (3, 3) and utils._triple([1, 2, 3]) == (1, 2, 3)
    assert utils._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    state = torch.nn.ModuleDict({"module": torch.nn.Linear(2, 2)}).state_dict()
    utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"]
    torch.nn.Linear(2, 2).load_state_dict(state)
    x = torch.ones(3)
    assert dlpack.from_dlpack(dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()
    handle = torch.nn.Linear(1, 1).register_forward_hook(print)
    assert isinstance(handle, hooks.RemovableHandle)


def test_storages_of_files(tmp_path):
    file = tmp_path / "bytes"
    file.write_bytes(bytes(range(16)))
    mine = torch.UntypedStorage.from_file(file, False, 16)
    mine[0] = 9
    assert mine.tolist()[:2] == [9, 1] and file.read_bytes()[0] == 0 and mine.filename is None
    shared = torch.UntypedStorage.from_file(str(file), shared=True, nbytes=32)
    shared[1] = 7
    assert file.read_bytes()[:2] == b"\x00\x07" and shared.filename == str(file)
    assert file.stat().st_size == 32
    part = mine[4:8]  # on the same memory
    part[0] = 100
    assert mine[4] == 100 and part.nbytes() == 4 and mine.untyped() is mine
    as_tensor = torch.asarray(mine[:8], dtype=torch.uint8).view(torch.int32)
    as_tensor[0] = 1
    assert mine.tolist()[:4] == [1, 0, 0, 0]
    assert len(torch.IntStorage.from_file(file, False, 3)) == 3
    assert torch.asarray(torch.IntStorage.from_file(file, False, 3)).dtype == torch.int32
    with pytest.raises(RuntimeError, match="smaller than the required mapping size <64>"):
        torch.UntypedStorage.from_file(file, False, 64)
    with pytest.raises(RuntimeError, match="unable to open file .* in read-only mode: No such"):
        torch.UntypedStorage.from_file(tmp_path / "nowhere", False, 4)
    with pytest.raises(RuntimeError, match="with a step of 2"):
        mine[::2]
