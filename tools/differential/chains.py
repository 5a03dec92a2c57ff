"""What chains of expressions are made of: templates by family, one a line."""

from __future__ import annotations

_UNARY = [
    "abs",
    "neg",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "square",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "erf",
    "erfc",
    "erfinv",
    "ceil",
    "floor",
    "round",
    "trunc",
    "frac",
    "sign",
    "sgn",
    "reciprocal",
    "logical_not",
    "bitwise_not",
    "lgamma",
    "digamma",
    "deg2rad",
    "rad2deg",
    "sinc",
    "i0",
    "logit",
    "nan_to_num",
    "relu",
    "conj_physical",
    "absolute",
    "negative",
    "fix",
    "arctan",
    "arcsin",
]
_UNARY_PLAIN = [
    "positive",
    "isnan",
    "isinf",
    "isfinite",
    "isposinf",
    "isneginf",
    "isreal",
    "signbit",
    "angle",
    "special.entr",
    "special.erfcx",
    "special.i0e",
    "special.i1",
    "special.i1e",
    "special.ndtr",
    "special.ndtri",
    "special.log_ndtr",
    "special.bessel_j0",
    "special.bessel_j1",
    "special.bessel_y0",
    "special.expit",
    "special.psi",
    "special.gammaln",
]
_ACTIVATIONS = [
    "gelu",
    "silu",
    "softplus",
    "elu",
    "selu",
    "celu",
    "mish",
    "hardswish",
    "hardsigmoid",
    "hardtanh",
    "relu6",
    "leaky_relu",
    "logsigmoid",
    "softsign",
    "tanhshrink",
    "softshrink",
    "hardshrink",
]
_BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "floor_divide",
    "remainder",
    "fmod",
    "pow",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "atan2",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "copysign",
    "nextafter",
    "heaviside",
    "xlogy",
    "gcd",
    "lcm",
    "float_power",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "logical_and",
    "logical_or",
    "logical_xor",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "true_divide",
    "ldexp",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "subtract",
    "multiply",
    "divide",
    "greater",
    "less_equal",
    "not_equal",
]
_NO_IN_PLACE = {"maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2"}
_OPERATORS = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
]
_REDUCTIONS = [
    "sum",
    "mean",
    "prod",
    "amax",
    "amin",
    "all",
    "any",
    "std",
    "var",
    "nansum",
    "nanmean",
    "count_nonzero",
    "logsumexp",
]
_ALONG = ["max", "min", "median", "nanmedian", "mode", "sort", "cummax", "cummin"]
_SCANS = ["cumsum", "cumprod", "logcumsumexp"]


def _pointwise() -> list[str]:
    out = []
    for name in _UNARY:
        out += [f"torch.{name}({{a}})", f"{{a}}.{name}()", f"{{fc}}.{name}()", f"{{f}}.{name}_()"]
        out += [f"torch.{name}({{a}}, out={{out}})"]
    for name in _UNARY_PLAIN:
        out += [f"torch.{name}({{a}})", f"torch.{name}({{f}})"]
    for name in _ACTIVATIONS:
        out += [f"F.{name}({{f}})"]
    for name in _BINARY:
        out += [f"torch.{name}({{a}}, {{b}})", f"{{a}}.{name}({{b}})"]
        out += [f"torch.{name}({{a}}, {{b}}, out={{out}})"]
        if name not in _NO_IN_PLACE:
            out += [f"{{a}}.{name}_({{b}})", f"{{a}}.{name}({{n}})"]
    for sign in _OPERATORS:
        out += [f"{{a}} {sign} {{b}}", f"{{a}} {sign} {{b}}", f"{{a}} {sign} {{n}}"]
        out += [f"{{n}} {sign} {{a}}"]
    return out


def _reductions() -> list[str]:
    out = []
    for name in _REDUCTIONS:
        out += [f"{{a}}.{name}({{dims}}{{keep}})", f"torch.{name}({{num}}, {{dims}}{{keep}})"]
        if name not in ("logsumexp",):
            out += [f"{{a}}.{name}()"]
    for name in _ALONG:
        out += [f"{{num}}.{name}({{d}})", f"torch.{name}({{f}}, {{d}})"]
    for name in _SCANS:
        out += [f"{{a}}.{name}({{d}})", f"torch.{name}({{f}}, {{d}})"]
    return out


LINES = """
    torch.add({a}, {b}, alpha={n})
    torch.sub({a}, {b}, alpha={n})
    torch.div({a}, {b}, rounding_mode={rounding})
    {a}.div({n}, rounding_mode={rounding})
    {num}.clamp({n}, {n})
    {num}.clamp(min={b})
    {num}.clamp_min({n})
    {num}.clamp_max_({n})
    torch.clamp({num}, {b}, {b2})
    torch.where({mask}, {a}, {b})
    torch.where({mask}, {a}, {b})
    torch.where({mask}, {a}, {n})
    torch.where({mask}, {n}, {a})
    torch.lerp({fc}, {b}, {x})
    torch.lerp({f}, {same}, {same})
    {f}.lerp_({same}, 0.5)
    torch.addcmul({a}, {b}, {b2})
    torch.addcmul({a}, {b}, {b2}, value={x})
    torch.addcdiv({f}, {b}, {b2}, value={x})
    {f}.addcmul_({same}, {b}, value=2)
    torch.isclose({a}, {b})
    torch.allclose({a}, {b})
    torch.equal({a}, {b})
    torch.rsub({a}, {b})
    torch.pow({n}, {a})
    torch.special.xlog1py({a}, {b})
    torch.special.zeta({f}, {b})
    torch.round({f}, decimals={small})
    torch.complex({f}, {same})
    torch.polar({f}, {same})
    torch.nan_to_num({f}, {n}, {n}, {n})
    torch.polygamma({one}, {f})
    F.threshold({num}, {x}, {n})
    F.gelu({f}, approximate='tanh')
    F.softplus({f}, {pos}, {pos})
    F.leaky_relu({f}, {x})
    F.prelu({f2}, torch.tensor([0.25], dtype={fdtype}))
    {a}.transpose({d}, {e_dim})
    {a}.transpose({d}, {e_dim})
    {a}.permute({perm})
    {a}.permute({perm})
    {a2}.mT
    {m}.t()
    {a}.movedim({d}, {e_dim})
    {a}.swapaxes({d}, {e_dim})
    {a}.expand({shape_expanded})
    {a}.expand({shape_expanded})
    {a}.narrow({d}, 0, {k})
    {a}.select({d}, {at})
    {a}[{basic}]
    {a}[{basic}]
    {a}[{basic}]
    {a}[{index}]
    {a}[{index}]
    {a}[{index}]
    {a1}[{mask}]
    {a}.unfold({d}, {k}, {one})
    {a2}.diagonal({small})
    {a2}.diagonal({small}, {d}, {e_dim})
    torch.as_strided({a}, {as_strided})
    {a}.squeeze()
    {a}.squeeze({d})
    {a}.unsqueeze({new_dim})
    {a}.view({shape_reshaped})
    {a}.reshape({shape_reshaped})
    {a}.view(-1)
    {a}.flatten()
    {a2}.flatten(0, 1)
    {a}.unflatten({d}, (-1, 1))
    {a}.ravel()
    {a1}.split({split}, {d})
    {a1}.chunk({one}, {d})
    {a1}.unbind({d})
    {a1}.tensor_split({one}, {d})
    {c}.real
    {c}.imag
    {c}.conj()
    {c}.H
    torch.view_as_real({c})
    {a}.view(torch.int32)
    {a}.view(torch.uint8)
    {a}.view_as({same})
    {a}.broadcast_to({shape_expanded})
    torch.atleast_2d({a})
    torch.atleast_3d({a})
    torch.broadcast_tensors({a}, {b})
    {a}.detach()
    {a}.contiguous()
    {a}.clone()
    {a}.clone()
    {a}.clone(memory_format={format})
    {a4}.contiguous(memory_format=torch.channels_last)
    {a4}.to(memory_format=torch.channels_last)
    {a}.to({dtype})
    {a}.to({dtype})
    {a}.to({dtype})
    {a}.to({dtype}, copy=True)
    {a}.half()
    {a}.double()
    {a}.float()
    {a}.bfloat16()
    {a}.long()
    {a}.bool()
    {a}.type(torch.int32)
    {a}.type_as({b})
    {a}.cfloat()
    torch.zeros_like({a})
    torch.ones_like({a}, dtype={dtype})
    torch.full_like({a}, {n})
    torch.full_like({a}, {n}, memory_format={format})
    {a}.new_full({shape_new}, {n})
    {a}.new_tensor([{n}, {n}])
    {a}.new_ones({shape_new}, dtype={dtype})
    torch.full({shape_new}, {n})
    torch.full({shape_new}, {n}, dtype={dtype})
    torch.arange({small}, 7, {one})
    torch.arange({n}, dtype={dtype})
    torch.linspace({n}, {n}, {one})
    torch.eye({one}, 3, dtype={dtype})
    torch.zeros({shape_new}, dtype={dtype})
    torch.ones({shape_new})
    torch.tensor({n})
    torch.tensor({n}, dtype={dtype})
    torch.tensor([[{n}, {n}], [{n}, {n}]])
    torch.tensor([{n}, {n}], dtype={dtype})
    {a}.flip({dims})
    {a}.roll({small}, {d})
    {a}.roll(1)
    {a2}.rot90({small})
    {a2}.fliplr()
    {a1}.flipud()
    {a}.repeat(2, *[1] * {a}.dim())
    {a}.repeat({shape_expanded})
    {a}.tile((2,))
    {a}.repeat_interleave(2)
    {a}.repeat_interleave(2, {d})
    {a2}.tril({small})
    {a2}.triu({small})
    {a2}.tril_({small})
    {m}.diag()
    {vec}.diag({small})
    {a1}.diag_embed()
    {a}.diagflat()
    {num}.argmax()
    {num}.argmax({d}{keep})
    {num}.argmin({d})
    {a}.max()
    {a}.min()
    {num}.aminmax()
    {num}.aminmax(dim={d})
    {f}.std({dims}, correction={small})
    {f}.var({d}, unbiased={flag})
    torch.std_mean({f}, {d})
    torch.var_mean({fc})
    {fc}.norm()
    {f}.norm({e}, {d})
    torch.linalg.vector_norm({fc}, {e}, {dims})
    torch.linalg.norm({fm})
    {f}.median()
    {f}.nanmedian({d})
    {a}.sum({dims}, dtype={dtype})
    {a}.mean({dims}, dtype={fdtype})
    {a}.cumsum({d}, dtype={dtype})
    {num}.kthvalue({k}, {d})
    {num}.sort({d}, True)
    {num}.sort(stable=True, dim={d})
    {num}.argsort({d})
    {num}.topk({k}, {d})
    {num}.topk({k}, {d}, largest=False)
    {num}.msort()
    {a}.unique()
    {num}.unique(return_inverse=True, return_counts=True)
    {num}.unique(dim={d})
    {a}.unique_consecutive()
    {f}.quantile(0.5)
    {f}.quantile(0.25, {d})
    {a1}.diff(dim={d})
    {m}.trace()
    {fc}.softmax({d})
    {a}.softmax({d}, dtype=torch.float32)
    {f}.log_softmax({d})
    torch.trapezoid({f1})
    torch.cat([{a1}, {b}], {d})
    torch.cat([{a1}, {same}, {same}], {d})
    torch.cat([{a1}, {same}], {d})
    torch.stack([{a}, {same}], {new_dim})
    torch.stack([{a}, {b}])
    torch.hstack([{a}, {same}])
    torch.vstack([{a}, {same}])
    torch.dstack([{a}, {same}])
    torch.column_stack([{a}, {same}])
    torch.cat([{a1}, {same}], {d}, out={out})
    torch.meshgrid({vec}, {vec}, indexing='ij')
    torch.block_diag({m}, {b})
    torch.cartesian_prod({vec}, {b})
    torch.combinations({vec})
    {a}.index_select({d}, {ints})
    torch.index_select({a1}, {d}, {ints})
    {a}.gather({d}, {gather_index})
    {a}.scatter({d}, {gather_index}, {same})
    {a}.scatter({d}, {gather_index}, {n})
    {a}.scatter_add({d}, {gather_index}, {same})
    {a}.scatter_reduce({d}, {gather_index}, {same}, {reduce})
    {a}.scatter_reduce({d}, {gather_index}, {same}, {reduce}, include_self=False)
    {a1}.scatter_({d}, {gather_index}, {same})
    {a}.index_add({d}, {ints_n}, {same})
    {a}.index_add({d}, {ints_n}, {same}, alpha={n})
    {a}.index_copy({d}, {perm_n}, {same})
    {a}.index_fill({d}, {ints}, {n})
    {a}.index_fill_({d}, {ints}, {n})
    {a}.index_reduce({d}, {ints_n}, {same}, {reduce})
    {a1}.index_put(({ints},), torch.tensor({n}, dtype={dtype}))
    {a1}.index_put_(({ints_n},), {same}, accumulate=True)
    {a}.masked_fill({mask}, {n})
    {a}.masked_fill_({mask}, {n})
    {a}.masked_select({mask})
    {a}.masked_scatter({mask}, {same})
    {a}.take({flat_index})
    torch.take_along_dim({a}, {gather_index}, {d})
    {a}.put({flat_index}, torch.tensor({n}, dtype={dtype}))
    {a}.nonzero()
    {a}.argwhere()
    torch.nonzero({a}, as_tuple=True)
    torch.searchsorted(torch.tensor([-1.0, 0.0, 0.5, 2.0]), {num})
    torch.bucketize({f}, torch.tensor([-1.0, 0.0, 2.0]), right={flag})
    {a1}.select_scatter({n}, {d}, 0)
    {a}.slice_scatter({same}, {d})
    {num}.histc(3)
    {i}.bincount()
    {fc}.matmul({mm_partner})
    {a2} @ {mm_partner}
    {m}.mm({mm_partner})
    {m}.mv({vec_last})
    {vec}.dot({vec_last})
    torch.vdot({vec}, {vec_last})
    torch.bmm({a3}, {bm})
    torch.baddbmm(torch.zeros(1, dtype=torch.float32), {f3}, {bm})
    torch.addmm({f}, {m}, {mm_partner}, beta={n}, alpha={n})
    torch.addmv({f}, {m}, {vec_last})
    torch.addr({a}, {vec}, {vec})
    torch.outer({vec}, {b})
    torch.inner({a}, {same})
    torch.tensordot({a}, {same}, {one})
    torch.einsum('ij,kj->ik', {m}, {like_t})
    torch.einsum('...i->...', {a1})
    torch.einsum('ii->i', {m})
    torch.kron({a}, {b})
    torch.cross({f}, {same}, dim={d})
    torch.cdist({f2}, {like_t})
    F.linear({f1}, {like_t})
    {m}.matrix_power(2)
    torch.linalg.det({fm})
    torch.linalg.multi_dot([{m}, {mm_partner}])
    torch.linalg.matrix_norm({fm})
    torch.linalg.cross({f}, {same})
    torch.linalg.vecdot({fc}, {same})
    F.layer_norm({f1}, ({f1}.shape[-1],))
    F.layer_norm({f1}, ({vec_last}.shape[-1],), {vec_last}, {vec_last})
    F.rms_norm({f1}, ({f1}.shape[-1],))
    F.normalize({f}, dim={d})
    F.cosine_similarity({f}, {same}, dim={d})
    F.pad({a1}, ({one}, {small}))
    F.pad({a2}, ({one}, 0, {small}, 1), value={n})
    F.pad({f3}, (1, 1), mode='reflect')
    F.pad({f3}, (1, 1), mode='replicate')
    F.interpolate({f4}, scale_factor=2)
    F.interpolate({f4}, size=(3, 3), mode='bilinear')
    F.interpolate({f3}, size=4, mode='linear', align_corners={flag})
    F.max_pool1d({f3}, {k})
    F.max_pool2d({f4}, {one}, return_indices=True)
    F.avg_pool2d({f4}, {one})
    F.avg_pool1d({f3}, {one}, padding=0)
    F.adaptive_avg_pool2d({f4}, 2)
    F.adaptive_max_pool1d({f3}, 2)
    F.unfold({f4}, 2, padding=1)
    F.pixel_shuffle({f4}, 2)
    F.channel_shuffle({f4}, 2)
    F.batch_norm({f2}, None, None, training=True)
    F.group_norm({f3}, 1)
    F.instance_norm({f3})
    F.local_response_norm({f3}, 2)
    F.glu({f}, {d})
    F.one_hot({i})
    F.mse_loss({f}, {same}, reduction={reduction})
    F.l1_loss({fc}, {same}, reduction={reduction})
    F.smooth_l1_loss({f}, {same}, reduction={reduction})
    F.huber_loss({f}, {same}, reduction={reduction}, delta={pos})
    F.kl_div({f}, {same}, reduction={reduction})
    F.binary_cross_entropy_with_logits({f}, {same}, reduction={reduction})
    F.cross_entropy({fm}, {same}, reduction={reduction})
    F.soft_margin_loss({f}, {same}, reduction={reduction})
    F.poisson_nll_loss({f}, {same}, reduction={reduction})
    F.embedding({ints}, {fm})
    F.conv1d({f3}, torch.ones(2, {f3}.shape[1], 1, dtype={fdtype}))
    F.conv2d({f4}, torch.ones(2, {f4}.shape[1], 2, 2, dtype=torch.float32), padding=1)
    F.scaled_dot_product_attention({f3}, {same}, {same})
    {a}.copy_({b})
    {a}[{index}] = {n}
    {a}[{index}] = {n}
    {a}[{basic}] = {b}
    {a}[{basic}].fill_({n})
    {a}[{basic}].mul_({n})
    {a}[{basic}].add_({n})
    {a}[{basic}].zero_()
    {a}.fill_({n})
    {a}.t_()
    {a}.transpose_({d}, {e_dim})
    {a}.unsqueeze_({new_dim})
    {a}.squeeze_()
    {a} += {n}
    {a} *= {b}
    {a} -= {b}
    {a} /= {n}
    {a}.masked_scatter_({mask}, {same}.clone())
    {a}.resize_({shape_new}).zero_()
    {a}.cumsum_({d})
    {f}.clamp_(-1, 1)
    {f}.uniform_(0, 0)
    torch.sum({a}, {d}, out=torch.empty(0, dtype={dtype}))
    torch.matmul({m}, {mm_partner}, out=torch.empty(0, dtype={dtype}))
    torch.index_select({a1}, {d}, {ints}, out={out})
    torch.cumsum({a}, {d}, out=torch.empty(0, dtype={dtype}))
    torch.clamp({num}, {n}, {n}, out={out})
    torch.where({mask}, {a}, {same}, out={out})
    torch.max({num}, {same}, out={out})
    torch.eq({a}, {b}, out={outbool})
    {a}.item()
    {a}.tolist()
    bool({a})
    int({a})
    float({a})
    len({a})
    {a}.stride()
    {a}.is_contiguous()
    {a}.is_contiguous(memory_format=torch.channels_last)
    {a}.numel()
    torch.result_type({a}, {b})
    torch.result_type({a}, {n})
    {a}.element_size()
    {a} in {b}
    {n} in {a}
    {f}.frexp()
    torch.signbit({num})
    torch.logit({f}, 0.1)
    torch.special.logsumexp({f}, {d})
    torch.cov({fm})
    torch.corrcoef({fm})
    torch.gradient({f1})
    torch.renorm({f2}, 2, {d}, 1.0)
    torch.isin({num}, {b})
    torch.vander({vec}, 3)
    torch.cumulative_trapezoid({f1})
    torch.heaviside({f}, {b})
    torch.fft.fft({f1})
    torch.fft.rfft({f1}, dim={d})
    torch.fft.fftshift({a1})
    torch.float_power({a}, {n})
    torch.bitwise_and({ib}, {n})
    torch.logical_xor({a}, {b})
    ~{ib}
    -{a}
    +{a}
    abs({a})
    round({f})
    {a1}.index_select(0, torch.tensor([0, {small}]))
    torch.select_copy({a}, {d}, {at})
    torch.sgn({c})
    {a}.sum_to_size({shape_of})
    {a}.expand_as({b})
    torch.swapaxes({a}, {d}, 0)
    torch.empty_like({a}).stride()
    torch.empty_like({a}, memory_format={format}).stride()
    torch.ones_like({a}, memory_format={format})
    {f}.rand_like().stride() if hasattr({f}, 'rand_like') else torch.rand_like({f}).stride()
"""
_PLAIN = [line.strip() for line in LINES.strip().splitlines() if "hasattr" not in line]
_VIEW_OF = (
    "{a}.transpose", "{a}.permute", "{a2}.mT", "{a}.expand({s", "{a}.narrow", "{a}.select",
    "{a}[{basic}]", "{a}.unfold", "{a2}.diagonal", "{a}.unsqueeze({", "{a}.movedim",
)  # fmt: skip
VIEWS = [
    line for line in _PLAIN if line.startswith(_VIEW_OF) and "=" not in line and "_(" not in line
]


def template(rng: object) -> str:
    """One template: pointwise, a reduction, a view, or one of the lines."""
    r = rng.random()  # type: ignore[attr-defined]
    family = POINTWISE if r < 0.3 else REDUCTIONS if r < 0.38 else VIEWS if r < 0.55 else _PLAIN
    return rng.choice(family)  # type: ignore[attr-defined]


POINTWISE = _pointwise()
REDUCTIONS = _reductions()
