"""Compiled variants of kernels/flex.py: with functions as programs have them."""

import inspect

import triton.language as tl

import tritorch as torch
from tritorch.arrays.written import Program
from tritorch.gpu.nn.flex import _part, tiles
from tritorch.kernels import flex
from tritorch.ops.pointwise import scalar_programs
from tritorch.triton import written

_INPUTS = ("s", "b", "h", "q", "k")


def bias(table):
    return lambda s, b, h, q, k: torch.tanh((s + table[h, q - k]) / 20.0) * 20.0


def causal(b, h, q, k):
    return q >= k


def softcap(s, b, h, q, k):
    return torch.tanh(s / 20.0) * 20.0


def document(table):
    return lambda b, h, q, k: (table[b, q] == table[b, k]) & (q >= k)


def functions(score, mask, kind):
    """Jit functions of a score_mod (its value, and with its slope) and a mask_mod; the tensors."""
    program = Program()
    inputs = [(name, torch.int32) for name in _INPUTS[1:]]

    def made(name, given, outputs, of):
        kinds = [of] * len(outputs)
        return written.function(scalar_programs.emit(name, given, program, outputs, kinds))

    outputs = score and scalar_programs.write(program, score, [("s", kind), *inputs], True)
    seen = mask and scalar_programs.write(program, mask, inputs)
    return (
        score and made("score", _INPUTS, outputs[:1], kind),
        score and made("score_and_slope", _INPUTS, outputs, kind),
        mask and made("mask", _INPUTS[1:], seen, torch.bool),
        program.tensors,
    )


def cases():
    """Type, width of a head, score_mod, mask_mod, whether blocks are listed, the copy engine."""
    table = torch.empty(16, 4096, device="meta", dtype=torch.bfloat16)
    ids = torch.empty(4, 4096, device="meta", dtype=torch.int32)
    for engine in (0, 90, 100):
        yield "bf16", 128, None, causal, True, engine
        yield "bf16", 64, bias(table), causal, True, engine
        yield "fp16", 128, bias(table), None, False, engine
        yield "bf16", 128, softcap, causal, True, engine
        yield "bf16", 64, None, document(ids), True, engine
    yield "fp32", 64, bias(table), causal, True, 0
    yield "fp64", 64, bias(table), None, False, 0


NAMES = {torch.bfloat16: "bf16", torch.int32: "i32"}


def variants(name, work):
    names = inspect.signature(getattr(flex, name).fn).parameters
    for kind, width, score, mask, sparse, engine in cases():
        score, slope, mask, tensors = functions(
            score, mask, torch.float64 if kind == "fp64" else torch.float32
        )
        size = {"fp32": 4, "fp64": 8}.get(kind, 2)
        cost = "masks" if score is None else "gathers" if tensors else "scores"
        block_m, block_n, warps, stages = tiles(width, size, work, cost, engine)
        block_m, block_n = _part(128, block_m), _part(128, block_n)
        exact = "*fp64" if kind == "fp64" else "*fp32"
        known = dict.fromkeys(("lse_ptr", "top_ptr", "delta_ptr"), exact) | {
            "scale": "i64", "partial": ("*i32", "*i32", "i32"), "full": ("*i32", "*i32", "i32"),
            "table_steps": ("i32",) * 2, "pointers": tuple(f"*{NAMES[x.dtype]}" for x in tensors),
        }  # fmt: skip
        known["pointers"] = known["pointers"] or (f"*{kind}",)
        known["sizes"] = known["strides"] = ("i32",) * max(sum(x.ndim for x in tensors), 1)
        for n, block in {"q": block_m, "dout": block_m, "k": block_n, "v": block_n}.items():
            known[n] = f"tensordesc<{kind}[1,1,{block},{width}]>" if engine else f"*{kind}"
        types = {}
        for n in names:
            if n.endswith("_strides"):
                types[n] = ("i32",) * (3 if n == "lse_strides" else 4)
            elif not n.isupper():
                types[n] = known.get(n, f"*{kind}" if n.endswith("_ptr") else "i32")
        constants = {
            "SCORE": score, "SLOPE": slope, "MASK": mask, "SPARSE": sparse, "FULL": sparse,
            "TOPS": False, "Q_BLOCK": 128, "KV_BLOCK": 128, "PRECISION": "ieee",
            "COMPUTE": tl.float64 if kind == "fp64" else tl.float32, "ENGINE": engine > 0,
            "WIDE": False, "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_E": width,
            "BLOCK_V": width,
        }  # fmt: skip
        launch = {"num_warps": warps, "num_stages": stages} | ({"target": engine} if engine else {})
        yield types, {n: v for n, v in constants.items() if n in names} | launch


VARIANTS = {
    ("flex", "flex_delta"): list(variants("flex_delta", "dq"))[:1],
    ("flex", "flex"): list(variants("flex", "forward")),
    ("flex", "flex_dq"): list(variants("flex_dq", "dq")),
    ("flex", "flex_dkdv"): list(variants("flex_dkdv", "dkdv")),
}
