"""Expressions of the top-level namespace's lesser names, compared with PyTorch's as text.

tools/record/expressions.py writes down what they give with the real torch.  Where messages are
our own, only the error's type is compared: those families are in ERRORS_BY_TYPE.
"""

import warnings

import numpy as np

from . import internals

FAMILIES = dict(internals.FAMILIES)

FAMILIES["losses"] = """
    torch.kl_div(w, w), torch.kl_div(w, w + 1, 0, log_target=True), torch.kl_div(w, w + 2, 2)
    torch.kl_div(w, w, 1), torch.kl_div(w, w, 4).shape
    torch.hinge_embedding_loss(w, one), torch.hinge_embedding_loss(w, -one, 20.0, 1)
    torch.cosine_embedding_loss(w, w + x, torch.ones(4), 0.0, 0)
    torch.cosine_embedding_loss(w, w + x, -torch.ones(4), 0.5, 2)
    torch.margin_ranking_loss(w, x, one, 1.0, 2), torch.margin_ranking_loss(w, x, -one)
    torch.triplet_margin_loss(w, x, w)
    torch.triplet_margin_loss(w, x, one, 2.0, 1.0, 1e-6, True, 1)
    """

FAMILIES["dropout"] = """
    torch.feature_dropout(one[0], 0.5, True)
    torch.feature_alpha_dropout(one[0], 0.5, True)
    torch.alpha_dropout(one, 1.5, True)
    torch.dropout(one, 2, True)
    torch.alpha_dropout(one.int(), 0.5, True)
    torch.feature_dropout(one.int(), 0.5, True)
    torch.alpha_dropout(one, 1.0, True), torch.feature_dropout(one, 1.0, True)
    torch.alpha_dropout_(one.clone(), 1.0, True), torch.feature_dropout_(one.clone(), 0.5, False)
    torch.feature_alpha_dropout(w, 0.0, True), torch.feature_alpha_dropout_(w.clone(), 0.3, False)
    torch.native_dropout(w, 0.0, True), torch.native_dropout(w, 0.5, False)
    torch.native_dropout(w, 1.0, True), torch.native_dropout(w[:0], 0.5, True)
    torch.native_dropout(w, 1.5, True)
    torch.native_dropout(w.int(), 0.5, True)
    """

FAMILIES["embedding_bag"] = """
    torch.embedding_bag(w, i, o)
    torch.embedding_bag(w.double(), i, o)
    torch.embedding_bag(w, i, o, False, 1)
    torch.embedding_bag(w, i, o, False, 2)
    torch.embedding_bag(w, i, o4, False, 0, False, None, True)
    torch.embedding_bag(w, i, o4, False, 2, False, None, True)
    torch.embedding_bag(w, i, o, False, 0, False, torch.ones(5) * 2, False, 1)
    torch.embedding_bag(w, i, o, False, 1, False, None, False, 1)
    torch.embedding_bag(w, i, o, False, 2, False, None, False, -3)
    torch.embedding_bag(w, i, o, False, 0, False, None, False, None)
    torch.embedding_bag(w, i[:0], o[:0])
    torch.embedding_bag(w, i.int(), o)
    torch.embedding_bag(w, i, o4, False, 1, False, torch.ones(5), True)
    torch.embedding_bag(w, i, o, False, 3)
    torch.embedding_bag(w, i, o, False, 0, False, None, False, 9)
    torch.embedding_bag(w, i, o[:, None])
    torch.embedding_bag(w[0], i, o)
    torch.embedding_bag(w, i, o[:0], False, 0, False, None, True)
    torch.embedding_bag(w, i.float(), o)
    torch.embedding_renorm_(w.clone(), i, 2.0, 2.0), torch.embedding_renorm_(w.clone(), i, 2.0, 1)
    torch.embedding_renorm_(w.clone(), i.float(), 2.0, 1)
    """

FAMILIES["norms"] = """
    torch.native_batch_norm(y, None, None, None, None, True, 0.1, 1e-5)[1:]
    torch.native_batch_norm(y, None, None, torch.zeros(3), torch.ones(3), False, 0.1, 1e-5)
    torch.native_group_norm(y, torch.ones(3), None, 2, 3, 4, 3, 1e-5)[1].shape
    torch.batch_norm_update_stats(y, torch.zeros(3), torch.ones(3), 0.1)
    torch.batch_norm_update_stats(y, None, None, 0.1)
    """

FAMILIES["parts"] = """
    torch.slice_copy(w, 1, 1, None, 2), torch.slice_copy(w, 0, -2)
    torch.slice_copy(w, 3)
    torch.slice_copy(w, 0, 0, 2, 0)
    torch.slice_inverse(w[:, 1:2], w, 1, 1, 2), w[1:].slice_inverse(w, 0, 1)
    torch.unsafe_split_with_sizes(w, [1, 2], 1), w.unsafe_split_with_sizes([3, 1])
    torch.unsafe_split_with_sizes(w, [1, 1], 1)
    torch.is_distributed(w), w.is_distributed()
    torch.from_file("no such file", size=3)
    """

FAMILIES["fake_quantize"] = """
    torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255)
    torch.fake_quantize_per_tensor_affine(x, torch.tensor(0.1), torch.tensor(3), 0, 20)
    torch.fake_quantize_per_tensor_affine(x, torch.tensor([0.1]), torch.tensor([2.5]), 0, 20)
    torch.fake_quantize_per_tensor_affine(x.double(), 0.1, 1, 0, 2)
    torch.fake_quantize_per_tensor_affine(x.half(), 0.1, 1, 0, 2)
    torch.fake_quantize_per_tensor_affine(torch.tensor([float("nan"), float("inf")]), 0.1, 3, 0, 20)
    torch.fake_quantize_per_tensor_affine(x[:0], 0.1, 1, 0, 2)
    torch.fake_quantize_per_tensor_affine(x, 0.1, 300, 0, 255)
    torch.fake_quantize_per_tensor_affine(x.int(), 0.1, 0, 0, 2)
    grad_of(x, lambda v: torch.fake_quantize_per_tensor_affine(v, 0.1, 3, 0, 20))
    torch.fake_quantize_per_channel_affine(x, s3, torch.tensor([0, 3, 1]).int(), 1, 0, 20)
    torch.fake_quantize_per_channel_affine(x, s3, torch.tensor([0, 3.5, 1.0]), 1, 0, 20)
    grad_of(x, lambda v: torch.fake_quantize_per_channel_affine(v, s3, z3.int(), 1, 0, 20))
    grad_of(x, lambda v: torch.fake_quantize_per_channel_affine(v, s3, z3 + 0.5, 1, 0, 20))
    torch.fake_quantize_per_channel_affine(x, s3, z3, 1, 0, 20)
    torch.fake_quantize_per_channel_affine(x, s3, z3.int(), 0, 0, 20)
    torch.fake_quantize_per_channel_affine(x, s3.double(), z3.int(), 1, 0, 20)
    torch.fake_quantize_per_channel_affine(x, s3, z3[:1].int(), 1, 0, 20)
    torch.fake_quantize_per_channel_affine(x, s3, z3.int(), 5, 0, 20)
    torch.fake_quantize_per_channel_affine(x, s3, z3.int() + 30, 1, 0, 20)
    torch.choose_qparams_optimized(x, 12, 200, 0.16, 8)
    torch.choose_qparams_optimized(x, 7, 200, 0.5, 2)
    torch.choose_qparams_optimized(torch.zeros(3), 3, 200, 0.16, 4)
    torch.choose_qparams_optimized(x, 20, 200, 0.16, 4)
    observed(x, 1, 1, False, False, 0, 255)
    observed(x, 1, 0, False, False, 0, 255)
    observed(x, 1, 1, True, True, -128, 127)
    observed(x, 1, 1, True, False, 0, 15)
    torch.fused_moving_avg_obs_fake_quant(x, on, on, s3, s3, s3, z3.int(), 0.1, 0, 9, 1, True)
    observed(x * 1e-6, 1, 1, False, False, 0, 255)
    observed(x.abs() * 1e-6, 1, 1, False, True, 0, 255)
    """

FAMILIES["quantized"] = """
    q.dtype, q.is_quantized, q.shape, q.stride(), len(q), q.numel(), q.element_size(), q.type()
    q.int_repr(), q.q_scale(), q.q_zero_point(), q.qscheme(), q.dequantize()
    c.int_repr(), c.q_per_channel_scales(), c.q_per_channel_zero_points(), c.q_per_channel_axis()
    c.qscheme(), c.dequantize(), c.clone().int_repr(), c[0].int_repr(), c[0].q_per_channel_axis()
    c.t()
    torch.quantize_per_tensor(w, 0.5, 2, torch.qint8).int_repr()
    torch.quantize_per_tensor(w, 0.5, 2, torch.qint32).int_repr()
    torch.quantize_per_tensor(w, 0.5, 2, torch.quint4x2).dequantize()
    torch.quantize_per_tensor(ties, 0.1, 0, torch.qint8).int_repr()
    torch.quantize_per_tensor(w, torch.tensor(0.5), torch.tensor(2), torch.quint8).int_repr()
    [v.int_repr() for v in torch.quantize_per_tensor([w, x], s3, z3, torch.quint8)]
    torch.quantize_per_channel(w, s3, z3 + 0.5, 1, torch.quint8).qscheme()
    torch.quantize_per_channel(w, s3, z3 + 0.5, 1, torch.quint8).int_repr()
    torch.quantize_per_tensor_dynamic(x, torch.quint8, False).int_repr()
    torch.quantize_per_tensor_dynamic(x, torch.qint8, True).q_zero_point()
    torch.quantize_per_tensor(w, 0.5, 2, torch.uint8)
    torch.quantize_per_tensor(w.double(), 0.5, 2, torch.quint8)
    torch.quantize_per_tensor(w, 0.5, 300, torch.quint8)
    torch.quantize_per_channel(w, s3, z3, 0, torch.qint8)
    torch.quantize_per_tensor_dynamic(w, torch.qint32, True)
    q[0].dequantize(), q.t().dequantize(), q.reshape(-1).dequantize(), q.unsqueeze(0).shape
    q.relu().dequantize(), q.clamp(0, 1).dequantize(), q.sigmoid().int_repr(), q.tanh().int_repr()
    q.max().dequantize(), q.mean().dequantize(), q.sort()[1], q.sort()[0].dequantize()
    q == q, q > 1.0, q.equal(q), q[0, 0].item(), torch.cat([q, q]).dequantize()
    q.clone().copy_(x * 2).dequantize()
    q.numpy()
    q.tolist()
    q.float()
    q.to(torch.float32)
    torch.dequantize(w), torch.dequantize([q])[0], w.dequantize()
    torch.empty_quantized([2], q).q_scale()
    torch.quantized_max_pool2d(q[None, None], 2).dequantize()
    torch.quantized_max_pool1d(q[None], 2, 1).dequantize()
    torch.quantized_batch_norm(q.reshape(1, 3, 2, 2), s3, x[0], s3, s3, 1e-5, 0.2, 3).int_repr()
    torch.per_tensor_affine, torch.per_channel_symmetric, torch.qscheme, torch.qint8.itemsize
    """

FAMILIES["dtypes"] = """
    [getattr(torch, n) for n in names], [getattr(torch, n).itemsize for n in names]
    torch.int4.is_signed, torch.uint3.is_signed, torch.float8_e8m0fnu.is_signed
    torch.bits8.is_signed
    torch.qint8.is_signed
    torch.chalf, torch.bit, torch.chalf.to_real(), torch.chalf.is_complex
    torch.float4_e2m1fn_x2.is_floating_point
    x.to(torch.float8_e4m3fnuz), x.to(torch.float8_e5m2fnuz), x.abs().to(torch.float8_e8m0fnu)
    x.to(torch.float8_e5m2fnuz).float(), torch.tensor([500.0, -7e4]).to(torch.float8_e4m3fnuz)
    torch.empty(2, dtype=torch.int4)
    torch.zeros(2, dtype=torch.bits8)
    torch.zeros(2, dtype=torch.uint8).view(torch.bits8).view(torch.uint8)
    torch.zeros(4, dtype=torch.uint8).view(torch.bits16).shape
    h, h + 1, h * h, h.abs(), h.real, h.imag, torch.view_as_real(h), h == h, h.to(torch.complex64)
    torch.view_as_complex(x[:, :2].half().contiguous()), h[0, 1].item(), h.tolist(), h.conj(), h.t()
    torch.ones(3, dtype=torch.chalf), torch.zeros(2, dtype=torch.chalf), torch.tensor([2j]).chalf()
    [torch.promote_types(torch.chalf, k) for k in kinds]
    torch.promote_types(torch.float8_e5m2fnuz, torch.float8_e5m2)
    torch.promote_types(torch.int4, torch.int4), torch.can_cast(torch.int4, torch.int8)
    torch.finfo(torch.float8_e4m3fnuz), torch.finfo(torch.float8_e8m0fnu), torch.finfo(torch.chalf)
    torch.iinfo(torch.quint8)
    """

FAMILIES["symbols"] = """
    torch.sym_int(3.7), torch.sym_int(-3.7), torch.sym_float(2), torch.sym_not(True)
    torch.sym_max(1, 2.0), torch.sym_min(1, 2.0), torch.sym_max(2, 1.0), torch.sym_max(3, 2)
    torch.sym_sum([1, 2, 3]), torch.sym_ite(True, 1, 2), torch.sym_sqrt(4)
    torch.sym_ite(1, 2, 3)
    torch.sym_constrain_range(3, min=1, max=2)
    torch.sym_constrain_range(3, min=1, max=5)
    torch.sym_constrain_range(1, min=2, max=1)
    isinstance(3, (torch.SymInt, torch.SymFloat, torch.SymBool))
    torch.cond(True, lambda a: a + 1, lambda a: a - 1, (w,))
    torch.cond(torch.tensor(False), lambda a: a + 1, lambda a: a - 1, (w,))
    torch.cond(torch.ones(2), lambda a: a, lambda a: a, (w,))
    torch.get_autocast_ipu_dtype(), torch.get_autocast_xla_dtype(), torch.is_autocast_ipu_enabled()
    torch.init_num_threads(), torch.is_vulkan_available(), torch.has_lapack, torch.has_spectral
    """

FAMILIES["futures"] = """
    [done.wait(), done.value(), done.done(), Future().done()]
    done.set_result(4)
    done.then(lambda f: f.value() + 1).wait()
    Future().set_exception(3)
    torch.futures.wait_all([done, done]), torch.futures.wait_all([])
    [f.value() for f in torch.futures.collect_all([done, done]).wait()]
    torch.jit.wait(torch.jit.fork(lambda a, b=1: a + b, 2, b=3)), torch.fork(lambda: 3).wait()
    torch.jit.fork(lambda: 1 // 0)
    Future(devices=["cpu"])
    """

FAMILIES["methods"] = """
    w.clone().map2_(x.t(), one, lambda a, b, c: a + b * c)
    w.clone().map2_(torch.ones(5), one, lambda a, b, c: a)
    w.clone().requires_grad_().map2_(w, w, lambda a, b, c: a)
    w.resize(3, 4), w.resize_as(x), w.resize(12).shape
    w.resize(3)
    w.volatile, w.name, w.grad_dtype
    (w.clone().requires_grad_() * 1).grad_dtype
    w.to_mkldnn().to_dense()
    w.clone().module_load(one), w.module_load(one, assign=True)
    w.__delitem__(0)
    grad_in(torch.float16), grad_in(None), grad_in(torch.float32)
    """

FAMILIES["scaled_mm"] = """
    F.scaled_mm(a8, b8, s1, S.TensorWise, s1, S.TensorWise)
    F.scaled_mm(a8, b8, s1, S.TensorWise, s1, S.TensorWise, output_dtype=torch.float32)
    F.scaled_mm(a8, b8, w[:, 2:] + 1, S.RowWise, w[:1] + 1, S.RowWise, output_dtype=torch.float32)
    F.scaled_mm(a8, b8, s1, S.TensorWise, s1, S.TensorWise, bias=w[0], output_dtype=torch.float32)
    F.scaled_mm(a8, b8, torch.ones(4, 2), S.RowWise, torch.ones(1, 3), S.RowWise)
    list(F.ScalingType.__members__), list(F.SwizzleType.__members__)
    """

ERRORS_BY_TYPE = ("futures", "methods", *internals.ERRORS_BY_TYPE)


STORED = [
    "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32", "float4_e2m1fn_x2",
    "int1", "int7", "uint1", "uint7", "bits1x8", "bits2x4", "bits4x2", "bits8", "bits16", "qint8",
    "quint8", "qint32", "quint4x2", "quint2x4",
]  # fmt: skip
KINDS = [
    "bool", "uint8", "int64", "half", "bfloat16", "float", "double", "cfloat", "cdouble", "chalf",
]  # fmt: skip


def world(torch):
    """What the expressions see."""
    import importlib

    F = importlib.import_module(f"{torch.__name__}.nn.functional")
    importlib.import_module(f"{torch.__name__}.futures")
    importlib.import_module(f"{torch.__name__}.jit")
    tensor = lambda values: torch.tensor(np.asarray(values).tolist())
    w = tensor(np.arange(12.0).reshape(4, 3))
    x = tensor([[-1.0, 0.3, 0.26, 5.0], [2.0, -3.0, 9.0, 0.1], [0.75, 1.5, -0.45, 0.05]]).t()
    x = x.contiguous()
    z3 = tensor([0, 3, 1])

    def grad_of(v, function):
        v = v.clone().requires_grad_()
        (function(v) * torch.arange(12.0).reshape(4, 3)).sum().backward()
        return v.grad

    def observed(v, observe, fake, by_row, symmetric, low, high):
        shape = (0,) if by_row else ()
        state = [
            torch.full(shape, float("inf")), torch.full(shape, -float("inf")),
            torch.ones(1), torch.zeros(1).int(),
        ]  # fmt: skip
        on = [torch.tensor([observe]), torch.tensor([fake])]
        for share in (1, 3):
            out = torch.fused_moving_avg_obs_fake_quant(
                (v.t() if by_row else v) * share,
                *on,
                *state,
                0.25,
                low,
                high,
                0 if by_row else -1,
                by_row,
                symmetric,
            )
        return out, state

    def grad_in(kind):
        v = w.clone().requires_grad_()
        v.grad_dtype = kind
        (v * 2).sum().backward()
        return v.grad.dtype, v.grad_dtype

    done = torch.futures.Future()
    done.set_result(3)
    float8 = lambda v: v.to(torch.float8_e4m3fn)
    y = tensor(np.sin(np.arange(24.0)).reshape(2, 3, 4))
    return {
        **internals.names(torch, w, x, y),
        "torch": torch, "F": F, "S": F.ScalingType, "w": w, "x": x, "one": torch.ones_like(w),
        "i": tensor([0, 1, 2, 3, 1]), "o": tensor([0, 2, 2]), "o4": tensor([0, 2, 2, 5]),
        "y": y, "s3": tensor([0.1, 0.2, 0.25]),
        "ties": tensor([0.05, 0.15, 0.25, -0.05]), "z3": z3, "on": tensor([1]),
        "grad_of": grad_of, "observed": observed, "grad_in": grad_in, "done": done,
        "q": torch.quantize_per_tensor(x, 0.1, 10, torch.quint8),
        "c": torch.quantize_per_channel(x, tensor([0.5, 0.25, 1.0]), z3, 1, torch.qint8),
        "h": torch.complex(x, x * 2).to(torch.complex32), "Future": torch.futures.Future,
        "names": STORED,
        "kinds": [getattr(torch, name) for name in KINDS],
        "a8": float8(w), "b8": float8(x.t()[:, :3].contiguous().t()).t(), "s1": tensor(0.5),
    }  # fmt: skip


def expressions(family):
    return [line.strip() for line in FAMILIES[family].splitlines() if line.strip()]


def run(torch, family):
    """(expression, what it gives or raises) of a family."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space = world(torch)
        for expression in expressions(family):
            try:
                text = repr(eval(expression, dict(space)))
            except Exception as error:
                text = type(error).__name__
                if family not in ERRORS_BY_TYPE:
                    text += f": {error}"
            yield expression, text.replace("tritorch.", "torch.")
