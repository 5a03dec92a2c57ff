"""Matrix products: 40 shapes of real models' layers in bfloat16, a few of them in other types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tritorch.bench.declare import Array, Benchmark, Scale, family, moved

# Where, (rows, columns, inner), how: "linear" x w^T, "plain" x w, "grad" x^T w, as in a weight's
# gradient.  Rows of layers are tokens or pixels: of GPT-2 8 texts of 1024, of ViT 64 images.
SHAPES: list[tuple[str, tuple[int, int, int], str]] = [
    ("gpt2 qkv", (8192, 2304, 768), "linear"),
    ("gpt2 attention out", (8192, 768, 768), "linear"),
    ("gpt2 mlp up", (8192, 3072, 768), "linear"),
    ("gpt2 mlp down", (8192, 768, 3072), "linear"),
    ("gpt2 head", (8192, 50304, 768), "linear"),
    ("gpt2 mlp up, input gradient", (8192, 768, 3072), "plain"),
    ("gpt2 mlp up, weight gradient", (3072, 768, 8192), "grad"),
    ("llama3-8b qkv", (8192, 6144, 4096), "linear"),
    ("llama3-8b attention out", (8192, 4096, 4096), "linear"),
    ("llama3-8b gate and up", (8192, 28672, 4096), "linear"),
    ("llama3-8b down", (8192, 4096, 14336), "linear"),
    ("llama3-8b head", (2048, 128256, 4096), "linear"),
    ("llama3-8b down, weight gradient", (4096, 14336, 8192), "grad"),
    ("llama3-8b gate and up, one token", (1, 28672, 4096), "linear"),
    ("llama3-8b gate and up, 16 tokens", (16, 28672, 4096), "linear"),
    ("llama3-8b down, 64 tokens", (64, 4096, 14336), "linear"),
    ("llama3-70b qkv", (4096, 10240, 8192), "linear"),
    ("llama3-70b attention out", (4096, 8192, 8192), "linear"),
    ("llama3-70b gate and up", (4096, 57344, 8192), "linear"),
    ("llama3-70b down", (4096, 8192, 28672), "linear"),
    ("llama3-70b down, 16 tokens", (16, 8192, 28672), "linear"),
    ("deepseek-v3 query down", (4096, 1536, 7168), "linear"),
    ("deepseek-v3 query up", (4096, 24576, 1536), "linear"),
    ("deepseek-v3 key-value down", (4096, 576, 7168), "linear"),
    ("deepseek-v3 key-value up", (4096, 32768, 512), "linear"),
    ("deepseek-v3 attention out", (4096, 7168, 16384), "linear"),
    ("deepseek-v3 expert gate and up", (256, 4096, 7168), "linear"),
    ("deepseek-v3 expert down", (256, 7168, 2048), "linear"),
    ("deepseek-v3 router", (4096, 256, 7168), "linear"),
    ("vit-l16 qkv", (12608, 3072, 1024), "linear"),
    ("vit-l16 mlp up", (12608, 4096, 1024), "linear"),
    ("vit-l16 mlp down", (12608, 1024, 4096), "linear"),
    ("vit-b16 patches", (12544, 768, 768), "linear"),
    ("resnet50 stage 1, 1x1", (200704, 64, 256), "linear"),
    ("resnet50 stage 2, 1x1", (50176, 512, 128), "linear"),
    ("resnet50 classifier", (256, 1000, 2048), "linear"),
    ("square", (8192, 8192, 8192), "plain"),
    ("square", (1024, 1024, 1024), "plain"),
    ("square", (384, 384, 384), "plain"),
    ("odd", (1537, 2049, 1023), "plain"),
]
FEW = {"gpt2 mlp up", "llama3-8b qkv", "llama3-8b down", "square"}
TYPES = {  # (what the inputs are, what the result is, tolerance)
    "bf16": ("bfloat16", "bfloat16", 1e-2),
    "fp16": ("float16", "float16", 2e-3),
    "fp8": ("float8_e4m3fn", "bfloat16", 2e-2),
    "tf32": ("float32", "float32", 2e-3),
    "fp32": ("float32", "float32", 1e-5),
}
SMALL = 1e9  # operations, below which the launch counts for as much as the kernel
CPU_OPERATIONS = 2e9


def linear(t: Any, x: Any, w: Any) -> Any:
    """x w^T."""
    return t.nn.functional.linear(x, w)


def plain(t: Any, x: Any, w: Any) -> Any:
    """x w."""
    return t.matmul(x, w)


def grad(t: Any, x: Any, w: Any) -> Any:
    """x^T w."""
    return t.matmul(x.t(), w)


def array_call(how: str) -> Any:
    """The same with the names of NumPy, for NumPy, JAX and CuPy."""
    turned = {
        "linear": lambda x, w: (x, w.T),
        "plain": lambda x, w: (x, w),
        "grad": lambda x, w: (x.T, w),
    }[how]

    def call(module: Any, x: Any, w: Any) -> Any:
        x, w = turned(x, w)
        return getattr(module, "numpy", module).matmul(x, w)

    return call


def tf32(call: Any) -> Any:
    """`call` with float32 products that may round their operands."""

    def run(t: Any, x: Any, w: Any) -> Any:
        # "high" may also mean three products of split operands; "medium" is one in both libraries.
        t.set_float32_matmul_precision("medium")
        try:
            return call(t, x, w)
        finally:
            t.set_float32_matmul_precision("highest")

    return run


def scaled(call: Any) -> Any:
    """The float8 product with one scale for each operand."""

    def run(t: Any, x: Any, w: Any, one: Any) -> Any:
        F = t.nn.functional
        if not hasattr(F, "scaled_mm"):  # PyTorch before 2.10
            return t._scaled_mm(x, w.t(), one, one, out_dtype=t.bfloat16)
        kind = F.ScalingType.TensorWise
        return F.scaled_mm(x, w.t(), one, kind, one, kind, output_dtype=t.bfloat16)

    return run


def one(what: str, sizes: tuple[int, int, int], how: str, kind: str) -> Benchmark:
    """A product in one type."""
    m, n, k = sizes
    dtype, out, tolerance = TYPES[kind]
    shapes = {"linear": ((m, k), (n, k)), "plain": ((m, k), (k, n)), "grad": ((k, m), (k, n))}[how]
    inputs = dict(zip("xw", (Array(shape, dtype, scale=k**-0.25) for shape in shapes)))
    call = {"linear": linear, "plain": plain, "grad": grad}[how]
    # JAX looks for the fastest algorithm at each new shape, which takes it a second.
    others = {"jax": array_call(how)} if kind in ("bf16", "fp16", "fp32") and what in FEW else {}
    others |= {"cupy": array_call(how)} if kind in ("fp16", "fp32") else {}
    reference = lambda x, w: array_call(how)(__import__("numpy"), x, w)
    if kind == "tf32":
        call = tf32(call)
    elif kind == "fp8":
        call = scaled(call)
        inputs["one"] = Array((), "float32", "positive")
    return Benchmark(
        "matmul", f"{what} {m}x{n}x{k} {kind}", call, inputs,
        bytes=moved(inputs, Array((m, n), out)), flops=2 * m * n * k, share="matmul", dtype=kind,
        tolerance=tolerance, reference=None if kind == "fp8" else reference, peers=others,
        graph=2 * m * n * k < SMALL, about=what, tags=(kind,),
    )  # fmt: skip


@family("matmul", seconds=80)
def cases(scale: Scale) -> Iterable[Benchmark]:
    """All 40 in one type, and some in the others."""
    for what, sizes, how in SHAPES:
        smaller = {"cpu": lambda n: min(n, 512), "tiny": lambda n: n % 11 + 2}
        rows = smaller.get(scale.name, lambda n: n)
        m, n, k = sizes
        if scale.name == "cpu":  # a part of the rows, or of what is summed in a gradient
            m, k = (m, rows(k)) if how == "grad" else (rows(m), k)
            if 2 * m * n * k > CPU_OPERATIONS:
                continue
        elif scale.name == "tiny":
            m, n, k = rows(m), rows(n), rows(k)
        yield one(what, (m, n, k), how, scale.pick("bf16", "fp32", "fp32"))
        if scale.name == "gpu" and what in FEW and (what != "square" or m > 4096):
            for kind in ("fp8", "fp16", "tf32", "fp32"):
                # Grouped so that fp8's columns are columns: both libraries want that order.
                yield one(what, sizes, "linear" if kind == "fp8" else how, kind)
