"""What programs with gradients are made of: templates one a line.

`L` stands for a leaf, `{f}` for any float tensor.  Statements of several parts are one line each.
"""

from __future__ import annotations

from typing import Any

_UNARY = [
    "exp",
    "log1p",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "square",
    "abs",
    "neg",
    "sqrt",
    "relu",
    "erf",
    "atan",
    "expm1",
    "reciprocal",
    "sinh",
    "cosh",
    "tan",
    "rsqrt",
    "exp2",
    "clone",
    "digamma",
    "softmax0",
    "log",
    "sinc",
    "trunc",
    "sgn",
]
_IN_PLACE = [
    "exp",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "square",
    "abs",
    "neg",
    "relu",
    "erf",
    "atan",
    "expm1",
    "tan",
    "exp2",
    "sinh",
    "cosh",
    "asinh",
    "sqrt",
    "reciprocal",
    "rsqrt",
]


def _families() -> list[str]:
    out = []
    for name in _UNARY:
        out.append("{f}.softmax({d})" if name == "softmax0" else f"{{f}}.{name}()")
    for name in _IN_PLACE:
        out.append(f"{{f}}.{name}_()")
    for sign in "+-*/":
        out += [f"{{f}} {sign} {{b}}", f"{{f}} {sign} {{x}}", f"{{x}} {sign} {{f}}"] * 2
    for name in ("add", "sub", "mul", "div"):
        out += [f"{{f}}.{name}_({{b}})", f"{{f}}.{name}_({{x}})"]
    for name in ("maximum", "minimum", "atan2", "hypot", "logaddexp", "fmod", "copysign"):
        out.append(f"torch.{name}({{f}}, {{b}})")
    return out


_LINES = """
    ({f} * {x}).pow(2)
    {f}.pow({e})
    {f}.pow_(2)
    {f}.clamp(-1, 1)
    {f}.clamp_(-1, 1)
    {f}.sum({dims}{keep})
    {f}.sum()
    {f}.mean()
    {f}.mean({dims}{keep})
    {f}.prod({d})
    {f}.amax({dims}{keep})
    {f}.max({d})
    {f}.max({d})[0]
    {f}.min({d})
    {f}.max()
    {f}.sort({d})
    {f}.sort({d})[0]
    {f}.topk({k}, {d})
    {f}.kthvalue({k}, {d})
    {f}.median({d})
    {f}.cumsum({d})
    {f}.cumprod({d})
    {f}.std()
    {f}.var({d})
    torch.var_mean({f})
    {f}.norm()
    {f}.logsumexp({d})
    {f}.log_softmax({d})
    {f}.unbind({d})
    {f}.split({split}, {d})
    {f}.chunk(2, {d})
    {f}.transpose({d}, {e_dim})
    {f}.permute({perm})
    {f}.expand({shape_expanded})
    {f}.narrow({d}, 0, {k})
    {f}.select({d}, {at})
    {f}[{basic}]
    {f}[{basic}]
    {f}[{index}]
    {f}.unfold({d}, {k}, {one})
    {f2}.diagonal({small})
    torch.as_strided({f}, {as_strided})
    {f}.squeeze()
    {f}.unsqueeze({new_dim})
    {f}.view(-1)
    {f}.reshape({shape_reshaped})
    {f}.flatten()
    {f}.contiguous()
    {f}.view_as({f})
    {f}.detach()
    {f}.detach()
    {f}.data
    {f}.clone()
    {f}.double()
    {f}.to(torch.float64)
    torch.cat([{f1}, {same}], {d})
    torch.stack([{f}, {same}], {new_dim})
    torch.where({mask}, {f}, {b})
    torch.where({f} > 0, {f}, {b})
    torch.lerp({f}, {same}, 0.5)
    torch.addcmul({f}, {same}, {b}, value=2)
    torch.addcdiv({f}, {same}, 2 + {f}.abs())
    {f}.addcmul_({same}, {b})
    {f}.lerp_({same}, 0.25)
    {f}.gather({d}, {gather_index})
    {f}.scatter({d}, {gather_index}, {same})
    {f}.scatter_add({d}, {gather_index}, {same})
    {f}.index_select({d}, {ints})
    {f}.index_add({d}, {ints_n}, {same})
    {f1}.index_copy_({d}, {perm_n}, {same})
    {f}.masked_fill({mask}, {x})
    {f}.masked_fill_({mask}, {x})
    {f}.masked_select({mask})
    {f}.take({flat_index})
    {f}.flip({d})
    {f}.roll(1)
    {f2}.tril()
    {f2}.triu_()
    {f}.repeat(2, *[1] * {f}.dim())
    {f2} @ {mm_partner}
    {fm}.mm({mm_partner})
    F.linear({f1}, {like_t})
    F.layer_norm({f1}, ({f1}.shape[-1],))
    F.softplus({f})
    F.silu({f})
    F.gelu({f})
    F.relu({f}, inplace=True)
    F.leaky_relu({f}, 0.1, inplace=True)
    F.silu({f} * 1, inplace=True)
    F.elu({f}, inplace=True)
    F.hardtanh({f})
    F.mse_loss({f}, {same})
    F.normalize({f}, dim={d})
    F.pad({f1}, (1, 0))
    F.dropout({f}, 0.0)
    {f}.add_({same}, alpha=2)
    {f}[{basic}].mul_({x})
    {f}[{basic}].mul_({x})
    {f}[{basic}].add_({x})
    {f}[{basic}].exp_()
    {f}[{basic}].zero_()
    {f}[{basic}].copy_({x} * torch.ones(1, dtype={f}.dtype))
    {f}.view(-1)[0:1].mul_({x})
    {f}.T.mul_({x})
    {f}.zero_()
    {f}.fill_({x})
    {f}.copy_({b})
    {f}[{basic}] = {x}
    {f}[{basic}] = {b}
    {f}[{index}] = {x}
    {f}[{mask}] = {x}
    {f} += {b}
    {f} *= {x}
    {f}.t_() if {f}.dim() == 2 else None
    {f}.squeeze_()
    {f}.unsqueeze_(0)
    {f}.requires_grad_()
    {f}.requires_grad_(False)
    {f}.detach_()
    {f}.retain_grad()
    {f}.retain_grad()
    {f}.register_hook(lambda g: g * 2) and None
    {f}.register_hook(lambda g: g.clone()) and None
    {f}.register_hook(lambda g: None) and None
    with torch.no_grad(): {f}.mul_({x})
    with torch.no_grad(): {f}[{basic}] = {x}
    with torch.no_grad(): {v} = {f} * {x}
    with torch.no_grad(): {v} = {f}[{basic}]
    with torch.no_grad(): {v} = {f}.view(-1)
    with torch.no_grad(): {v} = {f}.detach().requires_grad_()
    with torch.enable_grad(): {v} = {f} * {x}
    with torch.inference_mode(): {v} = {f} * {x}
    {f}.data.mul_({x})
    {f}.detach().mul_({x})
    {f}.sum().backward(retain_graph=True)
    {f}.sum().backward()
    {f}.backward(torch.ones_like({f}), retain_graph=True)
    torch.autograd.grad({f}.sum(), {leaf}, retain_graph=True, allow_unused=True)
    torch.autograd.grad({f}.square().sum(), {leaf}, create_graph=True, allow_unused=True)
    torch.autograd.grad({f}.square().sum(), {leaf}, create_graph=True)
    torch.autograd.grad({f}.exp().sum(), [{leaf}, {leaf}], create_graph=True, allow_unused=True)
    torch.autograd.grad({f}.sum(), {f}, create_graph=True, allow_unused=True)
    {leaf}.grad
    {leaf}.grad.zero_()
    setattr({leaf}, 'grad', None)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t + 0, lambda t: t): {v} = {f} * {same}
    with torch.autograd.graph.save_on_cpu(): {v} = {f}.exp()
    torch.utils.checkpoint.checkpoint(lambda t: t.sin().exp(), {f}, use_reentrant=False)
    {f}._version
    {f}.requires_grad
    {f}.is_leaf
    {f}._is_view()
    {f}._base is None
    {f}.grad_fn is None
    {f}.grad_fn.name() if {f}.grad_fn is not None else None
    torch.mul({f}, {x}, out={out})
    torch.add({f}, {same}, out={same})
"""
_PLAIN = [line.strip() for line in _LINES.strip().splitlines()]
_FAMILIES = _families()


def template(rng: object) -> str:
    """One template."""
    return rng.choice(_FAMILIES if rng.random() < 0.25 else _PLAIN)  # type: ignore[attr-defined]


def ending(tensors: dict[str, Any]) -> list[str]:
    """The last statements: gradients of all that has any, and what leaves and others have got."""
    parts = [
        f"({name} * {1 + i % 3}).double().sum()"
        for i, (name, value) in enumerate(tensors.items())
        if value.requires_grad
    ]
    if not parts:
        return []
    looks = [f"g{name[1:]} = {name}.grad" for name, value in tensors.items() if value.requires_grad]
    return [f"total = {' + '.join(parts)}", "total.backward()", *looks]
