"""Launch plans of kernels compiled for a real target: what the simulated path does not lower.

Kernels are compiled for sm_90 as on a GPU; their plans then launch a host function of the simulated
device, which shows the bytes that a GPU would get.
"""

import itertools
import struct

import numpy as np
import pytest

import tritorch
from tests.cuda import tutorial_kernels as kernels
from tritorch import _C, cuda

pytestmark = [pytest.mark.simulated, pytest.mark.compile]

triton = pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

from tritorch.triton.driver import make_launcher  # noqa: E402


def lower(function, types, constants, **options):
    signature = {name: types.get(name, "constexpr") for name in function.arg_names}
    values = {(function.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(function, signature, values)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def launch(compiled, *arguments, grid=(1, 1, 1)):
    """What a launch of the compiled kernel passes: (grid, the parameters' bytes)."""
    plan = make_launcher(compiled.src, compiled.metadata)
    seen = []
    function = _C.simulator.make_function(
        "recorder", [size for _, size in plan.parameters], lambda *got: seen.append(got)
    )
    types = compiled.src.signature.values()  # Triton passes constants too, and the plan skips them
    given = iter(arguments)
    arguments = [None if kind == "constexpr" else next(given) for kind in types]
    plan(*grid, 0, function, compiled.packed_metadata, None, None, None, *arguments)
    cuda.synchronize()
    _C.simulator.free_function(function)
    return plan.parameters, *seen[0][:2]


def integers(parameters, values):
    formats = {"pointer": "Q", "i32": "i", "i64": "q", "i1": "?"}
    return [
        struct.unpack("<" + formats[kind], value)[0] if kind in formats else value
        for (kind, _), value in zip(parameters, values)
    ]


def test_host_descriptors_become_tensor_maps():
    types = dict.fromkeys(("a_desc", "c_desc"), "tensordesc<fp16[64,32]>")
    types |= {"b_desc": "tensordesc<fp16[32,32]>", "K": "i32"}
    compiled = lower(
        kernels.matmul_tma_kernel, types, {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32}
    )
    assert "cp.async.bulk.tensor" in compiled.asm["ptx"]
    array = cuda.empty(256, 128, dtype=tritorch.float16)
    descriptor = TensorDescriptor.from_tensor(array, [64, 32])
    square = TensorDescriptor.from_tensor(array, [32, 32])
    parameters, _, values = launch(compiled, descriptor, square, descriptor, 128)
    kinds = [kind for kind, _ in parameters]
    assert kinds == ["nvTmaDesc", "i32", "i32", "i64", "i64"] * 3 + ["i32", "pointer", "pointer"]
    got = integers(parameters, values)
    assert got[1:5] == [256, 128, 128, 1] and got[15] == 128
    assert struct.pack("<Q", array.data_ptr()) in values[0]
    again = launch(compiled, descriptor, square, descriptor, 128)[2]
    assert again[0] == values[0] == values[10] != values[5]  # encoded once, and by their blocks


def test_our_descriptors_are_encoded_like_tritons():
    types = dict.fromkeys(("a_desc", "c_desc"), "tensordesc<fp16[64,32]>")
    types |= {"b_desc": "tensordesc<fp16[32,32]>", "K": "i32"}
    compiled = lower(
        kernels.matmul_tma_kernel, types, {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32}
    )
    array = cuda.empty(256, 128, dtype=tritorch.float16)
    theirs = [TensorDescriptor.from_tensor(array, [n, 32]) for n in (64, 32)]
    ours = [_C.Descriptor(array, (n, 32)) for n in (64, 32)]
    want = launch(compiled, theirs[0], theirs[1], theirs[0], 128)[2]
    assert launch(compiled, ours[0], ours[1], ours[0], 128)[2] == want


def test_device_descriptors_get_scratch_memory():
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "M": "i32", "N": "i32"}
    compiled = lower(kernels.device_descriptor_kernel, types, {"BLOCK_M": 64, "BLOCK_N": 32})
    assert compiled.metadata.global_scratch_size > 0
    before = cuda.memory_stats()["allocation.all.allocated"]
    array = cuda.empty(64, 32)
    parameters, grid, values = launch(compiled, array, array, 64, 32, grid=(2, 3, 1))
    *_, scratch, profile = integers(parameters, values)
    assert grid == (2, 3, 1)
    assert scratch % compiled.metadata.global_scratch_align == 0 and scratch and not profile
    assert cuda.memory_stats()["allocation.all.allocated"] - before == 2


def test_a_users_allocator_serves_scratch_memory():
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "M": "i32", "N": "i32"}
    compiled = lower(kernels.device_descriptor_kernel, types, {"BLOCK_M": 64, "BLOCK_N": 32})
    asked = []

    def allocator(size, alignment, stream):
        asked.append((size, alignment, stream))
        return cuda.empty(size, dtype=tritorch.uint8)

    from triton.runtime import _allocation

    previous = _allocation._allocator.get()
    triton.set_allocator(allocator)
    try:
        array = cuda.empty(64, 32)
        launch(compiled, array, array, 64, 32)
    finally:
        _allocation._allocator.set(previous)
    assert asked == [
        (compiled.metadata.global_scratch_size, compiled.metadata.global_scratch_align, 0)
    ]


@pytest.mark.parametrize(
    ("options", "attributes"),
    [
        ({}, []),
        ({"num_ctas": 2}, [4, 5]),
        ({"launch_cooperative_grid": True}, [2]),
        ({"launch_pdl": True}, [6]),
        ({"num_ctas": 4, "launch_cooperative_grid": True, "launch_pdl": True}, [2, 4, 5, 6]),
    ],
)
def test_clusters_cooperative_and_dependent_launches(options, attributes):
    types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n_elements": "i32"}
    compiled = lower(kernels.add_kernel, types, {"BLOCK": 1024}, **options)
    array = cuda.empty(64)
    _, grid, _ = launch(compiled, array, array, array, 64, grid=(3, 1, 1))
    last = _C.simulator.last_launch()
    assert sorted(last["attributes"]) == attributes
    assert last["grid"] == (3 * options.get("num_ctas", 1), 1, 1)
    assert last["block"] == (32 * compiled.metadata.num_warps, 1, 1)
    assert grid == (3, 1, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"address": 8}, "16-byte aligned"),
        ({"box": [512, 8]}, "box"),
        ({"strides": [7, 1]}, "multiples of 16"),
    ],
)
def test_what_a_tensor_map_refuses(change, message):
    good = {
        "address": cuda.empty(64, 64).data_ptr(), "swizzle": 0, "element_bytes": 4,
        "element_type": 7, "box": [8, 8], "shape": [64, 64], "strides": [64, 1], "fill_nan": False,
    }  # fmt: skip
    assert len(_C.encode_tensor_map(**good)) == 128
    with pytest.raises(cuda.CudaError, match=message):
        _C.encode_tensor_map(**(good | change))


def test_every_scalar_kind_is_packed():
    kinds = [
        "i1",
        "i8",
        "i16",
        "i32",
        "i64",
        "u8",
        "u16",
        "u32",
        "u64",
        "fp16",
        "bf16",
        "fp32",
        "fp64",
    ]
    plan = _C.Launcher(
        tuple(kinds), 4, 1, 0, False, False, (0, 1), (0, 1), None, False, False, lambda *_: None
    )
    seen = []
    function = _C.simulator.make_function(
        "recorder", [size for _, size in plan.parameters], lambda *got: seen.append(got)
    )
    run = lambda *values: plan(1, 1, 1, 0, function, None, None, None, None, *values)
    integers_in = [True, -3, -300, -70000, -(2**40), 200, 60000, 2**31 + 5, 2**63 + 1]
    run(*integers_in, 1.5, 1.00390625, 0.1, 0.1)
    cuda.synchronize()
    got = seen[0][1]
    formats = itertools.chain("?bhiqBHIQe", ["2s"], "fd", "QQ")
    values = [struct.unpack("<" + f, raw)[0] for f, raw in zip(formats, got)]
    assert values[:9] == integers_in and values[9] == 1.5
    # Halfway between two bfloat16 numbers: to the even one.
    assert values[10] == tritorch.bfloat16.numpy.type(1.00390625).tobytes()
    assert values[11] == np.float32(0.1) and values[12] == 0.1
    for position, bad, error in (
        (1, 128, OverflowError), (3, 2**31, OverflowError), (8, -1, OverflowError),
        (3, 1.5, TypeError), (11, "x", TypeError),
    ):  # fmt: skip
        arguments = [*integers_in, 1.5, 1.0, 0.1, 0.1]
        arguments[position] = bad
        with pytest.raises(error):
            run(*arguments)
