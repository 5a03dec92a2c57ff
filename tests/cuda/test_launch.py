"""Users' Triton kernels on tritorch arrays, and tritorch's own launches."""

import gc
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pytest

import tritorch
from tests.cuda import tutorial_kernels as kernels
from tritorch import _C, cuda
from tritorch.cuda import simulator
from tritorch.triton.kernel import wrap, written_kernel

RNG = np.random.default_rng(0)


def gpu(host):
    return cuda.from_numpy(np.ascontiguousarray(host))


def cdiv(a, b):
    return -(-a // b)


# ---- Triton's own way ----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 1000, 4096])
def test_vector_add(n):
    x, y = RNG.standard_normal((2, n)).astype(np.float32)
    out = cuda.empty(n)
    kernels.add_kernel[(cdiv(n, 256),)](gpu(x), gpu(y), out, n, BLOCK=256)
    np.testing.assert_array_equal(out.numpy(), x + y)
    out.zero_()
    kernels.add_kernel[lambda meta: (cdiv(n, meta["BLOCK"]),)](gpu(x), gpu(y), out, n, BLOCK=512)
    np.testing.assert_array_equal(out.numpy(), x + y)


@pytest.mark.parametrize(
    "kind", ["float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8"]
)
def test_vector_add_dtypes(kind):
    dtype = getattr(tritorch, kind)
    x = np.arange(100).astype(dtype.numpy)
    out = cuda.empty(100, dtype=dtype)
    kernels.add_kernel[(1,)](gpu(x), gpu(x), out, 100, BLOCK=128)
    np.testing.assert_array_equal(out.numpy(), (np.arange(100) * 2).astype(dtype.numpy))


@pytest.mark.parametrize("scale", [2.5, 3, 1])
@pytest.mark.parametrize("flag", [True, False])
def test_scalars(scale, flag):
    x = RNG.standard_normal(100).astype(np.float32)
    out = cuda.empty(100)
    kernels.scale_kernel[(1,)](gpu(x), out, 100, scale, flag, BLOCK=128)
    np.testing.assert_allclose(out.numpy(), x * np.float32(scale) if flag else x, rtol=1e-6)


def test_softmax():
    x = RNG.standard_normal((37, 100)).astype(np.float32)
    array, out = gpu(x), cuda.empty(37, 100)
    kernels.softmax_kernel[(5,)](out, array, array.stride(0), out.stride(0), 37, 100, BLOCK=128)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out.numpy(), e / e.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("activation", ["", "relu"])
def test_autotuned_matmul(activation):
    M, N, K = 48, 40, 36
    a, b = (RNG.standard_normal(s).astype(np.float16) for s in ((M, K), (K, N)))
    x, y, out = gpu(a), gpu(b), cuda.empty(M, N, dtype=tritorch.float16)
    kernels.matmul_kernel[lambda meta: (cdiv(M, meta["BLOCK_M"]) * cdiv(N, meta["BLOCK_N"]),)](
        x, y, out, M, N, K, *x.stride(), *y.stride(), *out.stride(), ACTIVATION=activation
    )
    expected = a.astype(np.float32) @ b.astype(np.float32)
    expected = np.maximum(expected, 0) if activation else expected
    np.testing.assert_allclose(out.numpy(), expected, rtol=2e-2, atol=2e-2)
    assert kernels.matmul_kernel.best_config is not None


def test_matmul_with_host_descriptors():
    from triton.tools.tensor_descriptor import TensorDescriptor

    M, N, K = 64, 32, 48
    a, b = (RNG.standard_normal(s).astype(np.float16) for s in ((M, K), (N, K)))
    x, y, out = gpu(a), gpu(b), cuda.empty(M, N, dtype=tritorch.float16)
    descriptors = [
        TensorDescriptor.from_tensor(x, [32, 16]),
        TensorDescriptor.from_tensor(y, [16, 16]),
        TensorDescriptor.from_tensor(out, [32, 16]),
    ]
    kernels.matmul_tma_kernel[(2, 2)](*descriptors, K, BLOCK_M=32, BLOCK_N=16, BLOCK_K=16)
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_allclose(out.numpy(), expected, rtol=2e-2, atol=2e-2)


def test_device_descriptors_with_our_scratch_memory():
    x = RNG.standard_normal((32, 64)).astype(np.float32)
    out = cuda.empty(32, 64)
    kernels.device_descriptor_kernel[(2, 2)](gpu(x), out, 32, 64, BLOCK_M=16, BLOCK_N=32)
    np.testing.assert_array_equal(out.numpy(), x + 1)


def test_tuples_and_functions_as_arguments():
    x = RNG.standard_normal(50).astype(np.float32)
    array, out = gpu(x), cuda.empty(50)
    kernels.apply_tuple_kernel[(1,)]((array, out), (50, 3), fn=kernels.relu, BLOCK=64)
    np.testing.assert_allclose(out.numpy(), np.maximum(x, 0) + 3, rtol=1e-6)


def test_other_objects_with_data_ptr():
    class Foreign:
        dtype = "float32"

        def __init__(self, array):
            self.array = array

        def data_ptr(self):
            return self.array.data_ptr()

    x, out = gpu(np.ones(64, np.float32)), cuda.empty(64)
    kernels.add_kernel[(1,)](Foreign(x), x, Foreign(out), 64, BLOCK=64)
    assert (out.numpy() == 2).all()


def test_a_host_array_is_refused():
    out = cuda.empty(64)
    with pytest.raises((TypeError, ValueError)):
        kernels.add_kernel[(1,)](np.ones(64, np.float32), out, out, 64, BLOCK=64)


def test_launches_go_to_the_current_stream():
    stream = cuda.Stream()
    x = gpu(np.ones(64, np.float32))
    stream.wait_stream(cuda.current_stream())
    with cuda.stream(stream):
        out = cuda.empty(64)
        kernels.add_kernel[(1,)](x, x, out, 64, BLOCK=64)
        assert (out.numpy() == 2).all()


def test_graph_capture_of_a_kernel():
    x, out = gpu(np.ones(64, np.float32)), cuda.zeros(64)
    kernels.add_kernel[(1,)](x, x, out, 64, BLOCK=64)  # compile outside of the capture
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        kernels.add_kernel[(1,)](x, x, out, 64, BLOCK=64)
        kernels.add_kernel[(1,)](out, x, out, 64, BLOCK=64)
    x.fill_(4)
    graph.replay()
    assert (out.numpy() == 12).all()


# ---- tritorch's own way --------------------------------------------------------------------------


def test_a_kernel_compiles_once_a_key():
    add = wrap(kernels.add_kernel)
    x, out = gpu(np.ones(256, np.float32)), cuda.empty(256)
    sizes = []
    for n, block in ((256, 256), (240, 256), (100, 256), (100, 128), (1, 128), (256, 256)):
        out.zero_()
        add((cdiv(n, block),), x, x, out, n, BLOCK=block)
        assert out.numpy().tolist() == [2.0] * n + [0.0] * (256 - n)
        sizes.append(add.cache_size)
    assert sizes == [1, 1, 2, 3, 4, 4]
    add(1, x[1:], x[1:], out[1:], 100, 128)  # not 16-byte aligned: another key
    assert add.cache_size == 5
    half = gpu(np.ones(256, np.float16))
    add(1, half, half, cuda.empty(256, dtype=tritorch.float16), 100, BLOCK=128, num_warps=2)
    assert add.cache_size == 6


def test_kernel_call_errors():
    add = wrap(kernels.add_kernel)
    x = gpu(np.ones(64, np.float32))
    for arguments, options, error, message in (
        ((1, x, x, x), {}, TypeError, "missing argument 'n_elements'"),
        ((1, x, x, x, 64, 64, 1), {}, TypeError, "at most 5 positional arguments"),
        ((1, x, x, x, 64, 64), {"BLOCK": 64}, TypeError, "multiple values for argument 'BLOCK'"),
        (((1, 2, 3, 4), x, x, x, 64, 64), {}, ValueError, "one to three dimensions"),
        ((-1, x, x, x, 64, 64), {}, ValueError, "negative"),
        (((1, 70000), x, x, x, 64, 64), {}, ValueError, "exceeds the hardware's limit"),
        ((1, x, x, x, 64, 64), {"nonsense": 3}, KeyError, "nonsense"),
    ):
        with pytest.raises(error, match=message):
            add(*arguments, **options)
    add(0, x, x, x, 64, 64)  # an empty grid launches nothing
    assert (x.numpy() == 1).all()


def test_large_integers():
    scale = wrap(kernels.scale_kernel)
    x, out = gpu(np.ones(4, np.int64)), cuda.empty(4, dtype=tritorch.int64)
    for value in (2**31, -(2**40), 2**62):
        scale(1, x, out, 4, value, True, 4)
        assert out.numpy().tolist() == [value] * 4


# ---- failures ------------------------------------------------------------------------------------


@pytest.mark.simulated
def test_an_access_out_of_bounds_names_the_kernel_and_the_process_lives():
    x = gpu(np.ones(64, np.float32))
    kernels.out_of_bounds_kernel[(1,)](x, 64, BLOCK=64)
    with pytest.raises(cuda.CudaError, match="store of 4 bytes.*out_of_bounds_kernel") as caught:
        cuda.synchronize()
    assert caught.value.name == "CUDA_ERROR_ILLEGAL_ADDRESS" and caught.value.code == 700
    simulator.clear_error()
    assert (gpu(np.ones(3)).numpy() == 1).all()


@pytest.mark.simulated
def test_an_injected_launch_failure():
    x = gpu(np.ones(64, np.float32))
    simulator.fail("launch")
    with pytest.raises(cuda.CudaError, match="cuLaunchKernelEx.*fewer warps"):
        kernels.add_kernel[(1,)](x, x, x, 64, BLOCK=64)
    kernels.add_kernel[(1,)](x, x, x, 64, BLOCK=64)
    assert (x.numpy() == 2).all()


# ---- without a C compiler, without torch ---------------------------------------------------------


def test_no_compiler_is_needed(tmp_path):
    """Every kind of launch with nothing on the PATH, and with nothing cached."""
    program = """
        import os, shutil, subprocess
        assert shutil.which("cc") is None and shutil.which("gcc") is None
        real = subprocess.Popen.__init__
        def watched(self, args, *rest, **options):
            name = os.path.basename(str(args[0] if isinstance(args, (list, tuple)) else args))
            assert not name.startswith(("cc", "gcc", "clang", "g++", "c++")), f"ran {name}"
            return real(self, args, *rest, **options)
        subprocess.Popen.__init__ = watched
        import tests.cuda.test_launch as t
        t.test_vector_add(100)
        t.test_matmul_with_host_descriptors()
        t.test_tuples_and_functions_as_arguments()
        t.test_a_kernel_compiles_once_a_key()
        import tests.cuda.test_lowering as lowering   # compiled for sm_90, launched by our plan
        lowering.test_host_descriptors_become_tensor_maps()
        lowering.test_device_descriptors_get_scratch_memory()
        print("done")
    """
    import os

    environment = {**os.environ, "PATH": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("CC", None)
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert result.stdout == "done\n", result.stderr


@pytest.mark.simulated
def test_two_devices_and_tritons_interpreter_variable():
    """A launch refuses arrays of another device; TRITON_INTERPRET does not lead past the device."""
    import os

    program = """
        import tests.cuda.tutorial_kernels
        import tests.cuda.test_launch as t
        from tritorch import cuda
        assert type(t.kernels.add_kernel).__name__ == "JITFunction"
        t.test_vector_add(100)
        here, there = cuda.zeros(64, device=0), cuda.zeros(64, device=1)
        add = t.wrap(t.kernels.add_kernel)
        add(1, there, there, there, 64, 64)
        try:
            add(1, here, there, here, 64, 64)
        except ValueError as error:
            print(error)
    """
    result = subprocess.run(
        [sys.executable, "-c", "import tritorch\n" + textwrap.dedent(program)],
        env={**os.environ, "TRITORCH_SIMULATE_CUDA": "devices=2", "TRITON_INTERPRET": "1"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert "launched on cuda:0 got an array on cuda:1" in result.stdout, result.stderr


def test_the_native_stack_is_the_only_launcher():
    x = gpu(np.ones(64, np.float32))
    compiled = kernels.add_kernel[(1,)](x, x, x, 64, BLOCK=64)
    assert isinstance(compiled.run, _C.Launcher)
    assert [kind for kind, _ in compiled.run.parameters] == ["pointer"] * 3 + ["i32"] + [
        "pointer"
    ] * 2


@pytest.mark.simulated
def test_machine_code_that_is_newer_than_the_driver() -> None:
    """The simulated driver is of CUDA 12.8, and so takes what ptxas 12 makes (ABI version 7)."""
    header = b"\x7fELF\x02\x01\x01\x33"
    with pytest.raises(cuda.CudaError, match="ABI version is 8.*CUDA 12.8: install"):
        _C.load_binary("kernel", header + b"\x08" + bytes(55), 0, 0)
    with pytest.raises(cuda.CudaError, match="NOT_SUPPORTED"):
        _C.load_binary("kernel", header + b"\x07" + bytes(55), 0, 0)
    with pytest.raises(cuda.CudaError, match="damaged") as raised:
        _C.load_binary("kernel", b"nonsense", 0, 0)
    assert "ABI" not in str(raised.value)


def test_a_kernel_that_is_known_to_what_finds_it_is_collected():
    class Source:
        def compile(self, *launch):
            raise LookupError

    def weak():
        source = Source()
        source.kernel = _C.Kernel(source.compile, ("x",), (None,), (0,))
        with pytest.raises(LookupError):
            source.kernel((1,), 5)
        return weakref.ref(source)

    found = weak()
    gc.collect()
    assert found() is None


def test_written_kernels_that_nobody_keeps_are_bounded():
    assert written_kernel.cache_info().maxsize is not None
