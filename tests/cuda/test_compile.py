"""Every kernel compiles for sm_80, sm_90 and sm_100, without a GPU."""

import hashlib
import importlib
import importlib.util
import itertools
import os
import pathlib
import re

import pytest

pytestmark = pytest.mark.compile

triton = pytest.importorskip("triton")

from triton._C.libtriton import ir  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource, make_backend  # noqa: E402
from triton.runtime.cache import get_cache_manager, triton_key  # noqa: E402

import tritorch.kernels  # noqa: E402
from tests.tiers import quick  # noqa: E402
from tritorch.triton import sources  # noqa: E402
from tritorch.triton.driver import make_launcher  # noqa: E402
from tritorch.triton.resources import (  # noqa: E402
    parameter_sizes,
    resources,
    spilled_bytes,
)

TARGETS = (80, 90, 100)
SMALL = 89  # of consumers' cards, which have less shared memory (86 and 120 have as much)
TILED = {"attention", "flex", "conv", "matmul", "depthwise"}  # families with tiles that may not fit
# Which of them are compiled for in this run.
CHOSEN = tuple(map(int, os.environ.get("TRITORCH_COMPILE_TARGETS", "80,90,100").split(",")))
# How many variants of a kernel are compiled for all of them, and each of the others for one; by
# default all go through Triton's front end, and one of each kind is compiled for each target.
FOR_ALL = int(os.environ.get("TRITORCH_COMPILE_FOR_ALL", "0"))
# Bytes that a program may have.
SHARED = {80: 166_912, 86: 101_376, 89: 101_376, 90: 232_448, 100: 232_448, 120: 101_376}
DENSE = {"attention", "flex"}  # families whose tensors' last strides are 1
EXACT = {"pointwise", "complex"}  # families that divide exactly
# Arguments that are not sizes.
NUMBERS = {"divisor", "value", "scale", "eps", "shift", "seed", "offset", "p_drop", "p"}
OPTIONS = ("num_warps", "num_stages", "maxnreg")  # among the constants, as in launches
ONLY = "target"  # among the constants: what is launched on that target only

# For each kernel the variants to compile: (types of the arguments, constants).
STRIDED = [
    (
        {"x_ptr": f"*{x}", "y_ptr": f"*{y}", "n_elements": size,
         "shape": (size,) * ndim, "x_strides": (size,) * ndim, "y_strides": (size,) * ndim},
        {"NDIM": ndim, "WIDE": wide, "BLOCK": 1024},
    )
    for (x, y), ndim, (size, wide) in itertools.product(
        [("i8", "i8"), ("i64", "i64"), ("fp32", "bf16"), ("fp8e4nv", "fp32"), ("fp32", "fp8e5"),
         ("i32", "i1"), ("fp32", "u8"), ("fp32", "fp8e4nv")],
        [1, 4],
        [("i32", False), ("i64", True)],
    )
]  # fmt: skip
VARIANTS = {
    ("copy", "copy_strided"): STRIDED,
    ("copy", "copy_transposed"): [
        (
            {"x_ptr": f"*{kind}", "y_ptr": f"*{kind}"}
            | dict.fromkeys(
                ("n_rows", "n_cols", "x_col_stride", "y_row_stride", "x_batch_stride",
                 "y_batch_stride"), size),
            {"WIDE": wide, "BLOCK_ROWS": side, "BLOCK_COLS": side},
        )
        for kind, side in (("i8", 64), ("i16", 64), ("i32", 64), ("i64", 32))
        for size, wide in (("i32", False), ("i64", True))
    ],
    ("copy", "fill"): [
        ({"y_ptr": "*i64", "n_elements": size, "value": "i64"}, {"WIDE": wide, "BLOCK": 1024})
        for size, wide in (("i32", False), ("i64", True))
    ],
}  # fmt: skip

# Kernels that may spill registers: how many bytes are stored and loaded, and why.
SPILLS = {
    ("attention", "attention_dkdv"): (
        128, "two accumulators of 64 registers (Triton 3.6 spills most); operands too in float32",
    ),
    ("flex", "flex"): (128, "a softcap and a bias, of which each score loads an element"),
    ("flex", "flex_dq"): (128, "the same, with its derivative"),
    ("flex", "flex_dkdv"): (192, "the same; operands too in float32"),
    ("pointwise", "map1_flat"): (16, "digamma of float64 on sm_80, which aims at 96 registers"),
    ("pointwise", "map2_flat"): (24, "Chebyshev's polynomials: ptxas aims at 96 registers"),
    ("grid", "grid_sample"): (2048, "float64 only: all taps of a point in three dims at once"),
    ("sampling", "draw_by"): (64, "float64 only: two keys' random numbers beside the loop's"),
    ("grid", "grid_backward"): (6144, "float64 only: all taps of a point in three dims at once"),
}  # fmt: skip

# Variants that may, by a text in their types and constants; the kernel's others may not.
SPILLING_VARIANTS = {
    ("pairs", "scan_pairs", "log_plus"): (64, "libdevice's atan2 in float64, on sm_80 and sm_90"),
    ("matmul", "matmul", "'COMPLEX': True"): (8, "products of complex64 on sm_100"),
}

# The compiler of Triton 3.6 aims at 96 or 128 registers where 3.9's takes a few more.
if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7):
    SPILLS |= {
        ("attention", "attention"): (16, "float32 in full precision with a mask, on sm_80"),
        ("attention", "attention_dq"): (16, "float32 in full precision with a mask, on sm_80"),
        ("flex", "flex_delta"): (16, "bfloat16 on sm_100"),
        ("depthwise", "depthwise_weight"): (12, "bfloat16 on sm_100"),
        ("loss", "cross_entropy_in_place"): (8, "4,096 bfloat16 classes at a time, on sm_100"),
        ("matmul", "matmul"): (28, "float32 in full precision on sm_100, float64 on sm_80"),
        ("factor", "reflect_panel"): (16, "float32 panels of 64 rows, on sm_90"),
    }

# Consumers' cards, which compute float64 at a 64th of float32's speed.
SLOW_DOUBLES = {86: 64, 89: 64, 120: 64}

# The other families keep theirs in files of their own.
for _path in sorted(pathlib.Path(__file__).parent.glob("variants/[!_]*.py")):
    _spec = importlib.util.spec_from_file_location(_path.stem, _path)
    _module = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(_module)
    VARIANTS |= _module.VARIANTS

if triton.__version__.startswith("3.6."):
    SPILLS["conv", "conv"] = (208, "64-bit offsets of blocks of 128 by 128, by tap, on sm_90")


def all_kernels():
    """Every jit function that is launched (device functions have no pointers among their names)."""
    folder = pathlib.Path(tritorch.kernels.__path__[0])
    for path in sorted(folder.rglob("*.py")):
        if path.stem == "__init__":
            continue
        module = importlib.import_module(sources.module(path.stem))
        for name, value in vars(module).items():
            if isinstance(value, triton.JITFunction) and any(
                argument.endswith("_ptr") for argument in value.arg_names
            ):
                yield path.stem, name


def bound(function, types, constants):
    """A variant in Triton's words: types of all arguments, values by place, options."""
    signature = {argument: types.get(argument, "constexpr") for argument in function.arg_names}
    options = {key: constants[key] for key in OPTIONS if key in constants}
    values = {}
    for key, value in constants.items():  # of an argument, or (name, i): of one entry of a tuple
        name, *entry = (key,) if isinstance(key, str) else key
        if name not in (*OPTIONS, ONLY):
            values[function.arg_names.index(name), *entry] = value
    return signature, values, options


def source_of(family, name, types, constants):
    """A variant as at run time with large arrays, and its options: aligned pointers, sizes and
    strides that are multiples of 16, the last of a tensor's strides 1."""
    function = getattr(importlib.import_module(sources.module(family)), name)
    signature, values, options = bound(function, types, constants)
    aligned = {}
    for i, argument in enumerate(function.arg_names):
        kind = signature[argument]
        if isinstance(kind, tuple):
            dense = family in DENSE and argument.endswith("_strides")
            if dense:
                signature[argument] = (*kind[:-1], "constexpr")
                values[i, len(kind) - 1] = 1
            parts = [part for part in range(len(kind) - dense) if kind[part] != "constexpr"]
            aligned |= {(i, part): [["tt.divisibility", 16]] for part in parts}
        elif kind.startswith("*") or (kind in ("i32", "i64") and argument not in NUMBERS):
            aligned[i,] = [["tt.divisibility", 16]]
    return ASTSource(function, signature, values, aligned), options


def compile_for(target, family, name, types, constants):
    source, options = source_of(family, name, types, constants)
    return triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)


def kept(words, name, make):
    """What make() returns, a text; kept where Triton keeps its binaries."""
    cache = get_cache_manager(hashlib.sha256("-".join(words).encode()).hexdigest())
    path = cache.get_file(name)
    if path is None:
        path = cache.put(make(), name, binary=False)
    return pathlib.Path(path).read_text()


def front_end(target, source, options):
    """The text of what Triton's front end makes of a kernel."""
    words = triton_key(), source.hash(), str(sorted(options.items())), str(target)
    return kept(words, "ttir", lambda: lowered(target, source, options))


def lowered(target, source, options):
    chosen = GPUTarget("cuda", target, 32)
    backend = make_backend(chosen)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    parsed = backend.parse_options(options)
    codegen = backend.get_codegen_implementation(parsed)
    module = source.make_ir(chosen, parsed, codegen, backend.get_module_map(), context)
    return str(backend.make_ttir(module, {}, parsed, target))


def spilled(ptx):
    """spilled_bytes(ptx), which assembles once more."""
    return int(kept([ptx], "spilled", lambda: str(spilled_bytes(ptx))))


def negations(ttir):
    """Where a float is negated by Triton's `-x`, which is 0 - x in Triton 3.6: +0 of +0.

    Kernels write `negated(x)`.
    """
    zero = r"(%\w+) = arith.constant (?:dense<)?0.0+e\+00>? : (?:tensor<\S+)?[bf]"
    zeros = re.findall(zero, ttir)
    first = [*map(re.escape, zeros), r"(?!)"]
    return re.findall(rf".*(?:arith.negf|arith.subf (?:{'|'.join(first)}),).*", ttir)


def approximate_quotients(ttir):
    """Where float32 numbers are divided by Triton's `/`; kernels write `quotient(x, y)`."""
    return re.findall(r".*arith.divf .*f32\b.*", ttir)


def check_arithmetic(family, ttir, variant):
    assert not negations(ttir), variant
    if family in EXACT:
        assert not approximate_quotients(ttir), variant


def test_every_kernel_has_variants():
    assert set(all_kernels()) == set(VARIANTS)


def has_units_of_products(ptx, types, constants):
    assert "wgmma.mma_async" in ptx, constants
    assert ptx.count("cp.async.bulk.tensor") >= 2, constants
    assert ("cp.async.bulk.tensor.3d.global.shared" in ptx) == ("c" in types), constants


def has_units_of_convolution(ptx, types, constants):
    assert "wgmma.mma_async" in ptx, constants
    assert "cp.async.bulk.tensor.5d.shared" in ptx, constants


def has_units_of_attention(ptx, types, constants):
    if constants["MASK"] == "none":
        assert ptx.count("wgmma.mma_async") >= 8 and ptx.count("cp.async.bulk.tensor") >= 6


def has_units_of_flex(ptx, types, constants):
    assert ptx.count("wgmma.mma_async") >= 4 and "cp.async.bulk.tensor" in ptx


# What code for sm_90 must have where the copy engine brings blocks: all such variants.
UNITS = {
    ("matmul", "matmul_tma"): has_units_of_products,
    ("conv_tma", "conv_tma"): has_units_of_convolution,
    ("conv_tma", "conv_weight_tma"): has_units_of_convolution,
    ("attention", "attention"): has_units_of_attention,
    ("attention", "attention_dq"): has_units_of_attention,
    ("attention", "attention_dkdv"): has_units_of_attention,
    ("flex", "flex"): has_units_of_flex,
    ("flex", "flex_dq"): has_units_of_flex,
    ("flex", "flex_dkdv"): has_units_of_flex,
}


def has_wide_rows(target, ptx, constants):
    if target == 90:
        wide = ptx.count("ld.global.v4.b32") + ptx.count("ld.global.v2.b64")
        assert wide + ptx.count(", 0x10, ") >= 2, constants
        assert "st.global.v4.b32" in ptx or "st.global.v2.b64" in ptx


def has_wide_loads_of_aligned_tables(target, ptx, constants):
    if target == 90 and constants["ALIGNED"]:
        assert "ld.global.v4.b32" in ptx or "ld.global.v2.b64" in ptx, constants


def loads_ahead(target, ptx, constants):
    unit = {80: "mma.sync", 90: "wgmma.mma_async"}.get(target)
    if unit and constants["BY_TAP"]:
        assert unit in ptx and "cp.async.cg.shared.global" in ptx
        assert "ld.global.b16" not in ptx


# What code must have that is read or written 16 bytes at a time: of the first variant, which is
# compiled for all.
ACCESSES = {
    ("softmax", "softmax_rows"): has_wide_rows,
    ("norm", "norm_rows"): has_wide_rows,
    ("norm", "norm_rows_backward"): has_wide_rows,
    ("loss", "cross_entropy_in_place"): has_wide_rows,
    ("optim", "step"): has_wide_loads_of_aligned_tables,
    ("optim", "norms"): has_wide_loads_of_aligned_tables,
    ("optim", "rescale"): has_wide_loads_of_aligned_tables,
    ("conv", "conv"): loads_ahead,
}


def through_engine(types):
    return any("tensordesc" in str(kind) for kind in types.values())


def is_launched(target, types, constants):
    """sm_80 has no copy engine and does not convert float8_e4m3fn, nor does Triton for it or sm_86;
    products, convolutions and attention use the engine where they have the memory for it."""
    if target < 89 and "fp8e4nv" in str(types):
        return False
    if (target < 90 or target == 120) and through_engine(types):
        return False
    return constants.get(ONLY, target) == target


def spread(target, family, name):
    """Which variants show that a kernel compiles for a target: one of each kind, for each target
    another where there are several, and the first if its accesses are looked at."""
    kinds = {}
    for i, (types, constants) in enumerate(VARIANTS[family, name]):
        if is_launched(target, types, constants):
            kinds.setdefault((through_engine(types), ONLY in constants), []).append(i)
    place = {90: 0, 80: 2, 100: 4, 86: 1, 89: 3, 120: 2}[target]
    picked = {those[place * (len(those) - 1) // 4] for those in kinds.values()}
    return picked | ({0} if (family, name) in ACCESSES else set())


def share(target, family, name):
    """Which variants of a kernel are compiled for a target so that each is for one at least."""
    return [
        i
        for i, (types, constants) in enumerate(VARIANTS[family, name])
        if is_launched(target, types, constants)
        and (
            i < FOR_ALL
            or (through_engine(types) and target == 90)
            or turn(i, types, constants) == target
        )
    ]


def turn(i, types, constants):
    """For which target a variant is compiled if for one only."""
    those = [target for target in TARGETS if is_launched(target, types, constants)]
    return those[i % len(those)]


def compiled_here(target, family, name):
    """Which variants of a kernel are compiled for a target in this run."""
    return sorted((share if FOR_ALL else spread)(target, family, name))


@pytest.mark.parametrize("target", quick(CHOSEN, 90))
@pytest.mark.parametrize(("family", "name"), sorted(VARIANTS))
def test_compiles(target, family, name):
    for i in compiled_here(target, family, name):
        check_variant(target, family, name, i)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "name"), sorted(each for each in VARIANTS if each[0] in TILED), ids="-".join
)
def test_fits_small_cards(family, name):
    for i in spread(SMALL, family, name):
        check_variant(SMALL, family, name, i)


def check_variant(target, family, name, i):
    """It compiles, fits, spills no more than is known, and has the instructions that it should."""
    has_units = UNITS.get((family, name))
    types, constants = VARIANTS[family, name][i]
    by_engine = through_engine(types)
    compiled = compile_for(target, family, name, types, constants)
    assert compiled.asm["cubin"].startswith(b"\x7fELF")
    assert f".target sm_{target}" in compiled.asm["ptx"]
    check_arithmetic(family, compiled.asm["ttir"], (types, constants))
    packed = [size for _, size in make_launcher(compiled.src, compiled.metadata).parameters]
    assert packed == parameter_sizes(compiled.asm["cubin"]), (types, constants)
    if has_units and by_engine and target == 90:
        has_units(compiled.asm["ptx"], types, constants)
    if i == 0 and (family, name) in ACCESSES:
        ACCESSES[family, name](target, compiled.asm["ptx"], constants)
    assert compiled.metadata.shared <= SHARED[target], (types, constants)
    if resources(compiled.asm["cubin"]).stack:
        allowed, _ = SPILLS.get((family, name), (0, ""))
        for (*kernel, text), (size, _) in SPILLING_VARIANTS.items():
            if kernel == [family, name] and text in str((types, constants)):
                allowed = max(allowed, size)
        if "fp64" in str(types):
            allowed = max(allowed, SLOW_DOUBLES.get(target, 0))
        assert spilled(compiled.asm["ptx"]) <= allowed, (types, constants)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "name"), sorted(VARIANTS))
def test_the_front_end_takes_the_others(family, name):
    """Every variant that is not compiled in this run, and is launched on one of its targets."""
    compiled = {i for target in CHOSEN for i in compiled_here(target, family, name)}
    for i, (types, constants) in enumerate(VARIANTS[family, name]):
        those = [target for target in CHOSEN if is_launched(target, types, constants)]
        if those and i not in compiled:
            source, options = source_of(family, name, types, constants)
            ttir = front_end(those[i % len(those)], source, options)
            check_arithmetic(family, ttir, (types, constants))


def test_casts_beyond_a_type():
    """What the hardware's conversions alone would do otherwise than PyTorch; see copy.convert."""
    ptx = {}
    for types, constants in STRIDED:
        kinds = types["x_ptr"], types["y_ptr"]
        if kinds[0] == "*fp32" and kinds[1] in ("*u8", "*fp8e5", "*fp8e4nv"):
            if kinds not in ptx:
                ptx[kinds] = compile_for(90, "copy", "copy_strided", types, constants).asm["ptx"]
    assert "cvt.rzi.s64.f32" in ptx["*fp32", "*u8"] and "cvt.rzi.u" not in ptx["*fp32", "*u8"]
    assert "0f47700000" in ptx["*fp32", "*fp8e5"]  # 61440, from which on it is infinite
    assert "satfinite.e4m3" in ptx["*fp32", "*fp8e4nv"]


def test_dense_copies_use_wide_accesses():
    types, constants = (
        {"y_ptr": "*i64", "n_elements": "i32", "value": "i64"},
        {"WIDE": False, "BLOCK": 1024},
    )
    ptx = compile_for(90, "copy", "fill", types, constants).asm["ptx"]
    assert "st.global.v2.b64" in ptx


@pytest.mark.parametrize("name", ["reduce_columns", "reduce_moments", "reduce_extreme"])
def test_reductions_use_wide_accesses(name):
    types, constants = VARIANTS["reduction", name][0]
    types = types | {"col_strides": ("constexpr",)}
    constants = constants | {("col_strides", 0): 1}  # as launches specialise a stride of 1
    ptx = compile_for(90, "reduction", name, types, constants).asm["ptx"]
    assert "ld.global.v4.b32" in ptx or "ld.global.v2.b64" in ptx


# Arguments that carry the bits of floats, which are never 1.
BITS = NUMBERS | {"smoothing", "ratios", "shifts", "inverses", "extra", "power"}
# Sizes that are more than 1 where a kernel is launched: of a row in several parts.
LARGER = {("reduction", "merge_moments"): {"n_cols"}}


def of_ones(function, types, constants, larger):
    """A variant with every integer that a launch would specialise being 1: then it is a constant,
    which cannot be assigned to in a branch and has no methods."""
    as_they_are = {p.name for p in function.params if p.do_not_specialize} | BITS | larger
    signature, values, options = bound(function, types, constants)
    for i, (argument, kind) in enumerate(signature.items()):
        if argument in as_they_are:
            continue
        if isinstance(kind, tuple):
            ones = [part for part, each in enumerate(kind) if each in ("i32", "i64")]
            signature[argument] = tuple(
                "constexpr" if k in ones else each for k, each in enumerate(kind)
            )
            values |= {(i, part): 1 for part in ones}
        elif kind in ("i32", "i64"):
            signature[argument] = "constexpr"
            values[i,] = 1
    return ASTSource(function, signature, values, {}), options


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted({family for family, _ in VARIANTS}))
def test_sizes_of_one_compile(family):
    for name in sorted(name for each, name in VARIANTS if each == family):
        function = getattr(importlib.import_module(sources.module(family)), name)
        variants = VARIANTS[family, name]
        for types, constants in (variants[0], variants[-1])[: len(variants)]:
            source, options = of_ones(function, types, constants, LARGER.get((family, name), set()))
            front_end(90, source, options)
