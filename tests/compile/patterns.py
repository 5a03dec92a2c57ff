"""The statements of random programs, as patterns.

A letter names a kind of value (`KINDS`; b is the first size of x and varies between calls):

    V = {M}.sum(1)     a new variable of kind V, computed from any one of kind M
    T ~ {M}.t()        the new variable is a view: it shares what is known of M's memory
    M ^ {R}.expand(...)  a view that cannot be written
    {M!}.add_(1)       a variable of kind M that may be written
    $                  any one floating kind, the same throughout the pattern
    {u}                a number that no other statement has, for names of the pattern's own
    ?w ...             only where w requires a gradient (?g: where gradients are recorded for sure,
                       ?n: where NumPy has the dtype)
"""

from __future__ import annotations

# Kind -> size and what it holds, for who reads a pattern.
KINDS = {
    "M": "(b, 4), x's dtype",
    "N": "(b, 4), another floating dtype",
    "W": "(4, 4)",
    "T": "(4, b)",
    "H": "(b, 2)",
    "V": "(b,)",
    "R": "(4,)",
    "F": "(4 * b,)",
    "S": "()",
    "I": "(b, 4) int64",
    "J": "(b,) int64 from 0 to 3",
    "P": "(b,) int64, a permutation",
    "K": "(b, 4) bool",
    "L": "(b,) bool",
}
FLOATING = "MNWTHVRFS"

# Feature -> its weight, and its patterns.
PATTERNS: dict[str, tuple[float, str]] = {
    "pointwise": (10, r"""
        $ = {$}.sin()
        $ = {$} * {$}
        $ = {$} + {$}
        $ = {$} - {$} / 3
        $ = ({$} * 0.5).tanh()
        $ = torch.sigmoid({$})
        $ = torch.relu({$})
        $ = torch.where({$} > 0, {$}, {$} * 0.125)
        $ = torch.maximum({$}, {$})
        $ = -{$}
        $ = {$}.abs().add(1).sqrt()
        $ = {$} ** 2
        $ = {$}.clamp(-1, 2)
        M = {M} * {R} + {V}[:, None]
        M = F.gelu({M})
        N = {M}.double()
        M = {N}.to(x.dtype)
        $ = {$}.nan_to_num(0, 1, -1)
        K = {M} > {M}
        L = {V} >= 0
        L = {K}.any(1)
        K = {K} ^ {K}
        I = {M}.nan_to_num(0, 1, -1).clamp(-9, 9).long()
        I = {I} * 2 + 1
        M = {I} * {M}
        """),
    "numbers": (5, r"""
        $ = {$} * lr
        $ = {$} + n
        $ = {$} * (n / 4) - lr
        $ = torch.add({$}, {$}, alpha=lr)
        $ = torch.lerp({$}, {$}, lr)
        $ = {$}.clamp(-n, n)
        $ = {$} * math.sqrt(n + lr)
        M = {M} + x.shape[0]
        """),
    "reductions": (5, r"""
        S = {$}.sum()
        S = {$}.mean()
        V = {M}.sum(1)
        R = {M}.mean(0)
        V = {M}.amax(1)
        V = {M}.logsumexp(1)
        R = {M}.cumsum(0).sum(0)
        V = {M}.norm(dim=1)
        V = {M}.var(1, unbiased=False)
        J = {M}.argmax(1)
        V, J = {M}.max(dim=1)
        M = {M}.sort(1)[0]
        V = {M}.topk(2, 1)[0].sum(1)
        L = ({M} > 0).all(1)
        S = {K}.sum() * 0.5 + {S}
        """),
    "matmul": (4, r"""
        M = {M} @ {W}
        T = {W} @ {T}
        W = {T} @ {M}
        V = {M} @ {R}
        W = torch.outer({R}, {R})
        M = F.linear({M}, {W}, {R})
        W = torch.einsum("bi,bj->ij", {M}, {M})
        M = torch.addmm({M}, {M}, {W}, beta=lr)
        """),
    "normalising": (4, r"""
        M = {M}.softmax(1)
        M = F.log_softmax({M}, dim=-1)
        M = F.layer_norm({M}, (4,), {R})
        M = F.normalize({M} + 2, dim=1)
        S = F.cross_entropy({M}, {J})
        S = F.mse_loss({M}, {M}.detach())
        S = F.smooth_l1_loss({M}, {M} * 2)
        """),
    "convolution": (1.5, r"""
        M = F.conv2d({M}.view(-1, 1, 2, 2), {W}[:2, :2].reshape(1, 1, 2, 2), padding=1).flatten(1)[:, :4] * 1
        M = F.conv1d({M}.unsqueeze(1), {R}[:3].view(1, 1, 3), padding=1).squeeze(1)
        H = F.max_pool1d({M}.unsqueeze(1), 2).squeeze(1)
        """),
    "indexing": (4, r"""
        M = {M}[{P}]
        V = {M}[torch.arange(x.shape[0], device=device), {J}]
        V = {M}.gather(1, {J}[:, None])[:, 0]
        S = {M}[{K}].sum()
        R = {M}[{L}].sum(0)
        M = {W}[{J}]
        M = {M}.index_select(0, {P})
        M = torch.where({K}, {M}, {R})
        M = {M}.masked_fill({K}, lr)
        M = torch.cat([{M}[1:], {M}[:1]])
        M = torch.stack([{V}, {V} * 2, {V} + 1, {V}], 1)
        M = torch.zeros_like({M}).scatter(1, {J}[:, None], 1.0)
        M = {M}.flip(0).roll(1, 1)
        P = {V}.argsort()
        """),
    "views": (6, r"""
        T ~ {M}.t()
        M ~ {T}.t()
        F = {M}.reshape(-1)
        M ~ {F}.view(-1, 4)
        M ^ {R}.expand(x.shape[0], 4)
        W ~ {W}.T
        H ~ {M}[:, 1:3]
        H ~ {M}[:, ::2]
        R ~ {W}[1]
        R ~ {W}.diagonal()
        S ~ {R}[-1]
        V ~ {M}[:, 0]
        M ~ {M}[:]
        M ~ {M}.view_as({M})
        H, H ~ {M}.chunk(2, 1)
        V, V, V, V ~ {M}.unbind(1)
        R, R, R, R ~ {W}.unbind()
        H, H ~ {M}.split(2, 1)
        R ~ {W}.as_strided((4,), (1,), {W}.storage_offset())
        R ~ {W}.as_strided((4,), (0,), {W}.storage_offset() + 1) + 0
        V ~ {M}.select(1, n % 4)
        M ~ {M}.unsqueeze(0).squeeze(0)
        """),
    "in-place": (8, r"""
        {$!}.add_(1)
        {$!}.mul_(0.5)
        {$!}.add_({$}, alpha=lr)
        {$!}.copy_({$})
        {$!}.zero_()
        {$!}.fill_(lr)
        {$!} += {$}
        {$!} *= 1.5
        {$!}.clamp_(-1, 1)
        {M!}[0:1] = {R}
        {M!}[:, 1] = {V}
        {M!}[:, 1:3] *= 2
        {M!}[{K}] = 0.25
        {M!}[{L}] += 1
        {M!}[{P}] = {M} * 2
        {M!}.masked_fill_({K}, lr)
        {M!}.index_add_(0, {P}, {M})
        {M!}.scatter_(1, {J}[:, None], lr)
        {M!}.relu_()
        {W!}.fill_diagonal_(n)
        {I!}.add_(n)
        {K!}.logical_not_()
        {M!}.t().mul_(2)
        {M!}.view(-1)[::2].sub_(1)
        {W!}[1].copy_({R})
        {M!}.add_({M!}.flip(0))
        {W!}.copy_({W!}.t() * 1)
        m{u} = {M}[:] * 1\nm{u}[:] = {M!}[:]\n{M!}.add_(1)\nM = m{u}
        m{u} = torch.slice_scatter({M!}, {M}[:1], 0, 0, 1)\n{M!}.zero_()\nM = m{u}
        f{u} = F.dropout({M!}, 0.5, False)\nf{u} += {R}
        $ = {$}.clone()\n{$!}.sub_(lr)
        $ = {$} * 1\n$ ~ {$}\n{$!}.add_(1)
        torch._foreach_add_([{M!}, {M!}], n)
        {M!}.addmm_({M}, {W}, alpha=lr)
        {M!}[...] = {M}
        {M!}[1:] = {M}[:-1]
        {V!}[0] = n
        """),
    "out=": (1.5, r"""
        o{u} = torch.empty_like({$}).detach()\ntorch.add({$}.detach(), {$}.detach(), out=o{u})\n$ = o{u} + 1
        o{u} = torch.zeros(4, dtype=x.dtype, device=device)\ntorch.sum({M}.detach(), 0, out=o{u})\nR ~ o{u}
        o{u} = torch.empty(0, dtype=x.dtype, device=device)\ntorch.mul({M}.detach(), 2, out=o{u})\nM ~ o{u}
        """),
    "detached": (3, r"""
        $ = {$}.detach() * 2
        $ ~ {$}.detach()
        $ = {$}.clone()
        $ = {$}.detach().clone()
        {$}.data.mul_(0.5)
        $ = {$}.data + 1
        d{u} = {$}.detach()\nd{u}.add_(lr)
        """),
    "aliases": (2, r"""
        $ ~ {$}
        $ ~ {$}.to({$}.dtype)
        $ ~ {$}.contiguous()
        $ ~ F.dropout({$}, 0.5, False)
        $ ~ {$}.add_(0) if False else {$}
        d{u} = {M} * 1\nd{u}.t_()\nT ~ d{u}
        d{u} = {M}.detach() * 1\nd{u}.data = {M}.detach() + 1\nM ~ d{u}
        d{u} = torch.empty(0, dtype=x.dtype, device=device)\nd{u}.set_({R}.detach())\nR ^ d{u}
        d{u} = torch.empty(0, dtype=x.dtype, device=device)\nd{u}.resize_(4).fill_(lr)\nR = d{u}
        """),
    "factories": (3, r"""
        M = torch.zeros(x.shape[0], 4, dtype=x.dtype, device=device)
        R = torch.arange(4, dtype=x.dtype, device=device)
        R = torch.tensor([lr, n, 0.0, 1.0], dtype=x.dtype, device=device)
        W = torch.eye(4, dtype=x.dtype, device=device)
        $ = torch.ones_like({$})
        V = {M}.new_full((x.shape[0],), lr)
        S = torch.tensor(lr, dtype=x.dtype, device=device)
        J = torch.arange(x.shape[0], device=device) % 4
        M = torch.empty_like({M}).copy_({M})
        R = torch.linspace(0, n, 4, dtype=x.dtype, device=device)
        """),
    "random": (3, r"""
        $ = torch.rand_like({$}) + {$}
        $ = torch.randn_like({$}) * lr
        M = torch.randn(x.shape[0], 4, dtype=x.dtype, device=device)
        M = F.dropout({M}, 0.25)
        M = torch.empty_like({M}).normal_()
        P = torch.randperm(x.shape[0], device=device)
        J = torch.randint(0, 4, (x.shape[0],), device=device)
        K = torch.bernoulli(torch.full_like({M}, 0.5)).bool()
        R = torch.empty(4, dtype=x.dtype, device=device).uniform_(-1, n)
        J = torch.multinomial(torch.ones(x.shape[0], 4, device=device), 1)[:, 0]
        S = {S} + random.random()
        g{u} = torch.Generator(device).manual_seed(n)\nR = torch.rand(4, generator=g{u}, device=device, dtype=x.dtype)
        M = F.dropout({M}, lr, training=flag) if 0 <= lr else {M} * 2
        """),
    "seeds": (0.6, r"""
        torch.manual_seed(n)
        torch.manual_seed(5)\nM = torch.rand_like({M})
        with torch.random.fork_rng(devices=[]):\n    M = torch.rand_like({M})
        """),
    "values": (4, r"""
        log.append({S}.item())
        q{u} = {S}.item()\n$ = {$} + q{u}
        log.append({R}.tolist())
        log.append(bool(({M} > 0).any()))
        log.append(({S} > 0).item())
        log.append(float({S}) * 2)
        log.append(tuple({M}.shape))\nM = {M} * len({M})
        log.append(torch.equal({$}, {$}))
        log.append(int({K}.sum()))
        V = {M}[:, int({J}[:1].sum())] * 2
        log.append({V}.numel() + {V}.dim())
        log.append(str({M}.dtype) + str({M}.stride()))
        log.append(0.5 in {R})
        log.append({M}.data_ptr() == {M}.data_ptr())
        log.append({$}._version)
        log.append(({$}.grad_fn is None, {$}.is_leaf, {$}._base is None))
        if {S} > 0:\n    state[0] += 2
        if ({V} > 0.5).any():\n    log.append(n)
        while {S}.abs() * (state[0] + 1) < 2 and state[0] < 9:\n    state[0] += 1
        k{u} = max(1, int({K}.sum()) % 5)\nS = {M}[:k{u}].sum()
        S = ({R}[0].item() > 0 and {S}) or {S} * 2
        """),
    "printed": (1, r"""
        print({R})
        log.append(str({S}))
        log.append(f"{{S}:.3f}")
        print({M}.shape, {J})
        """),
    "state": (4, r"""
        state[0] += 1\n$ = {$} * state[0]
        $ = {$} * setting
        global setting\nsetting = setting + 0.5
        $ = {$} + get_cell()\nput_cell(get_cell() * 0.5)
        Settings.factor += lr\n$ = {$} * Settings.factor
        $ = scaled_by_default({$})
        state.append(n)\nlog.append(len(state))
        $ = make_operation(torch.Tensor.add if flag else torch.Tensor.mul)({$}, {$})
        $ = getattr({$}, "sin" if state[0] % 2 else "cos")()
        with torch.random.fork_rng(devices=[]):\n    torch.manual_seed(state[0])\n    M = torch.rand_like({M})
        """),
    "kept": (3, r"""
        cache["a"] = {$}
        cache["b"] = {M}.detach()
        S = cache.get("a", {$}).detach().sum()
        M = {M} + cache.get("b", {M}).detach().sum()
        if "b" in cache:\n    cache["b"].add_(1)
        cache.setdefault("list", []).append({V})
        model.kept = {M}
        S = getattr(model, "kept", {M}).detach().mean()
        cache["t"] = cache.get("t", 0) + {S}.detach()
        """),
    "modules": (5, r"""
        M = model({M})
        M = model({M}) + {M}
        model.train(flag)\nM = model({M})
        with torch.no_grad():\n    for p{u} in model.parameters():\n        p{u}.mul_(0.75)
        M = model({M}.detach())
        """),
    "module hooks": (1, r"""
        h{u} = model.register_forward_hook(lambda m, args, out: log.append("forward"))\nM = model({M})\nh{u}.remove()
        h{u} = model.register_forward_pre_hook(lambda m, args: (args[0] * 2,))\nM = model({M})\nh{u}.remove()
        h{u} = model.register_forward_hook(lambda m, args, out: out + state[0])\nM = model({M})\nh{u}.remove()
        ?g model.register_full_backward_hook(lambda m, gi, go: log.append("module backward"))\nM = model({M})
        """),
    "tensor hooks": (1.5, r"""
        ?g h{u} = {M} * 2 + w.sum()\nif h{u}.requires_grad:\n    h{u}.register_hook(lambda g: log.append(("hook", g.sum().item())))\nM = h{u} * 1
        ?g h{u} = {M} * 2 + w.sum()\nif h{u}.requires_grad:\n    h{u}.register_hook(lambda g: g * lr)\nM = h{u} + 1
        ?g h{u} = {M} * 2 + w.sum()\nif h{u}.requires_grad:\n    h{u}.retain_grad()\n    cache["retained"] = h{u}\nM = h{u} + 1
        ?g with torch.autograd.graph.saved_tensors_hooks(lambda t: (log.append("pack"), t * 1)[1], lambda t: (log.append("unpack"), t)[1]):\n    M = ({M} @ w).tanh()
        ?w w.register_post_accumulate_grad_hook(lambda p: log.append(("accumulated", p.grad.sum().item())))
        """),
    "backward inside": (2.5, r"""
        ?w l{u} = ({M} @ w).sum()\nif l{u}.requires_grad:\n    l{u}.backward(retain_graph=True)
        ?w l{u} = (w * {S}.detach()).sum()\nif l{u}.requires_grad:\n    l{u}.backward()\n    log.append(w.grad.sum().item())
        ?w l{u} = ({M}.detach() @ w).tanh().sum()\nif l{u}.requires_grad:\n    l{u}.backward()\n    w.grad.mul_(lr)
        ?w w.grad = None
        ?w W = {W} if w.grad is None else w.grad * 2\nw.grad = None
        """),
    "autograd.grad": (2, r"""
        ?g W = torch.autograd.grad(({M} @ w).tanh().sum(), w, create_graph=True)[0]
        ?g W = torch.autograd.grad((w * w).sum() * lr, w)[0]
        ?g a{u} = {M}.detach().requires_grad_()\nM = torch.autograd.grad((a{u} ** 3).sum(), a{u}, create_graph=True)[0]
        a{u} = {M}.detach().requires_grad_()\nb{u} = a{u} * w.sum()\nM ~ b{u}
        """),
    "optimizers": (1.5, r"""
        ?w if torch.is_grad_enabled():\n    optimizer.zero_grad()\n    (model({M}.detach()) * w.sum()).mean().backward()\n    optimizer.step()
        ?w if torch.is_grad_enabled():\n    (w * {S}.detach()).sum().backward()\n    optimizer.step()\n    optimizer.zero_grad(set_to_none=flag)
        for g{u} in optimizer.param_groups:\n    g{u}["lr"] = lr
        """),
    "custom functions": (1.5, r"""
        M = Scaled.apply({M}, lr)
        M = Scaled.apply({M}, state[0])
        a{u} = {M} * 1\nM = Doubled.apply(a{u})
        """),
    "checkpoint": (1, r"""
        M = checkpoint(lambda a: (a @ w).tanh() * lr, {M}, use_reentrant=False)
        M = checkpoint(lambda a: F.dropout(a, 0.5) * 2, {M}, use_reentrant=False)
        """),
    "transforms": (1.5, r"""
        M = torch.func.vmap(lambda r: r * 2 + lr)({M})
        V = torch.func.vmap(lambda r, q: (r * q).sum(), in_dims=(0, None))({M}, {R})
        M = torch.func.grad(lambda a: (a * a).sum() * n)({M}.detach())
        M = torch.func.jvp(torch.sin, ({M}.detach(),), ({M}.detach(),))[1]
        """),
    "autocast": (1, r"""
        with torch.autocast(device, torch.bfloat16):\n    N = {M} @ {W}
        with torch.autocast(device, torch.bfloat16):\n    N = F.linear({M}, {W}) + {M}
        with torch.autocast(device, torch.bfloat16, enabled=flag):\n    N = model({M}).softmax(1) * 2
        """),
    "requires_grad_": (1, r"""
        a{u} = {$}.detach().clone().requires_grad_()\n$ = a{u} * 2
        a{u} = {$}.detach() * 1\nlog.append(a{u}.requires_grad_(flag).requires_grad)\n$ = a{u} + 1
        model.requires_grad_(flag)
        """),
    "python": (3, r"""
        for r{u} in rows({M}):\n    log.append(r{u}.sum().item())
        S = sum((r{u} * lr).sum() for r{u} in {M}) + {S}
        R = sum(list(rows({M}))) + {R}
        a{u} = {$} * 3\nr{u} = weakref.ref(a{u})\nlog.append(r{u}() is a{u})\n$ = a{u} + 1
        a{u} = {$} * 3\nrefs.append(weakref.ref(a{u}))\ndel a{u}
        with logged("context") as c{u}:\n    M = {M} * (c{u}[0] + 1)
        a{u}, *b{u} = {M}.unbind(1)\nV = a{u} * len(b{u})
        d{u} = {"k": {M}, "l": [{V}]}\nV = sum(d{u}["l"]) + d{u}["k"].sum(1)
        M = (lambda t, *, scale=lr: t * scale)({M})
        log.append(isinstance({M}, torch.Tensor) and {M} is not {M})
        log.append(sorted([{S}.item(), lr, 0.25]))
        d{u} = copy.deepcopy({M}.detach())\nM = d{u} + 1
        t{u} = threading.Thread(target=lambda: log.append(({M} * 2).sum().item()))\nt{u}.start()\nt{u}.join()
        M = functools.reduce(torch.add, [{M}, {M}, {M}])
        S = torch.stack([t.sum() for t in sorted([{M}, {M}], key=lambda t: t.sum().item())])[0]
        """),
    "nested compiled": (1.5, r"""
        $ = small_compiled({$})
        $ = small({$})
        a{u} = {$} * 1\n$ ~ stepping_compiled(a{u}, lr)
        $ = compiled(lambda t: t * lr + setting)({$})
        $ = torch.compiler.disable(small)({$})
        """),
    "numpy": (1.5, r"""
        ?n a{u} = {$}.detach().cpu().numpy()\nlog.append(float(a{u}.sum()))
        ?n b{u} = {$}.detach() * 2\na{u} = b{u}.cpu().numpy()\na{u}[...] = a{u} + 1\narrays.append(a{u})\n$ ~ b{u}
        ?n a{u} = np.ones(4)\nb{u} = torch.from_numpy(a{u})\nc{u} = b{u}.to(device) * 2\na{u} += n\nR = {R} + (c{u} + b{u}.to(device)).to(x.dtype)
        ?n b{u} = torch.from_numpy(np.arange(4.0))\nb{u}.add_(lr)\narrays.append(b{u}.numpy())
        """),
    "ambient inside": (1.5, r"""
        torch.set_default_dtype(torch.float64)\nN = torch.ones(x.shape[0], 4, device=device) * lr\ntorch.set_default_dtype(torch.float32)
        with torch.device(device):\n    R = torch.zeros(4, dtype=x.dtype)
        b{u} = torch.is_grad_enabled()\ntorch.set_grad_enabled(flag)\nM = {M} * w.sum()\ntorch.set_grad_enabled(b{u})
        with Named():\n    M = {M} * 2 + {M}.sum()
        M = ({M}.as_subclass(Tagged) * lr).as_subclass(torch.Tensor)
        M = no_grad_small({M})
        """),
}  # fmt: skip


def choices(feature: str) -> list[str]:
    """The patterns of a feature, each with its line ends."""
    lines = PATTERNS[feature][1]
    return [line.strip().replace(r"\n", "\n") for line in lines.strip().splitlines()]
