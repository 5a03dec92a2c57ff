"""Small programs about what autograd remembers of writes, as functions of the library.

tools/record/expressions.py writes down what they give with the real torch.
"""

from __future__ import annotations

import re
import warnings


def leaf(torch, n=4):
    return torch.arange(1.0, n + 1).requires_grad_()


def written_view(torch, source, mode, by_leaf):
    """A view made in a mode, written in grad mode."""
    w = leaf(torch)
    x = {"leaf": w, "result": w * 2, "plain": torch.ones(4)}[source]
    with getattr(torch, mode)():
        v = x[0:2]
    factor = torch.tensor([2.0, 3.0], requires_grad=True) if by_leaf else 2
    v.mul_(factor)
    total = (x * 1).sum()
    if total.requires_grad:
        total.backward()
    return w.grad, getattr(factor, "grad", None), x.tolist(), v.requires_grad


def used_view(torch, mode, use):
    """A view made in a mode, used after its base was written."""
    x = leaf(torch) * 2
    with getattr(torch, mode)():
        v = x[0:2]
    x.mul_(3)
    return use(v)


def parts(torch, make, then):
    """Several views of one tensor: one written, or all used after their base was."""
    x = torch.ones(4, 2, requires_grad=True) * 1
    views = make(x)
    if then == "write":
        views[0].mul_(2)
        return x.grad_fn.name()
    x.mul_(2)
    return views[1].sum().item()


def out_of(torch, call):
    """out= into a tensor that gradients flow through."""
    y = leaf(torch, 3) * 2
    call(y)
    (y * y).sum().backward()


def result_written(torch, name):
    """An in-place result that the gradient may need, written again."""
    x = torch.tensor([0.2, 0.4, 0.6], requires_grad=True)
    y = getattr(x * 1, name)()
    y.mul_(2)
    y.sum().backward()
    return x.grad


def retain(torch, steps):
    """Which gradient is retained: x, y = 2 x and v = y[0:2], with steps."""
    x = leaf(torch)
    y = x * 2
    v = y[0:2]
    seen = []
    exec(steps, {"y": y, "v": v, "seen": seen, "torch": torch})
    (y.sum() + v.sum()).backward()
    return y.grad, v.grad, x.grad, y.retains_grad, v.retains_grad, seen


def inference(torch, use):
    with torch.inference_mode():
        made = torch.ones(3)
    return use(made)


def in_inference(torch):
    y = leaf(torch, 3) * 2
    with torch.inference_mode():
        y.mul_(2)
        z = y[0:2]
        z.add_(1)
        flags = y.requires_grad, z.requires_grad, y.is_inference(), z.is_inference(), y._version
    return flags


def taken_away(torch, how):
    """set_ on what a gradient saved."""
    y = leaf(torch, 3) * 2
    z = y * y
    with torch.no_grad():
        how(y)
    z.sum().backward()


def overlapping(torch, write):
    x = torch.arange(6.0)
    write(x)
    return x.tolist()


def later_write(torch, use, write):
    """An input written after an operator that does not need its values."""
    x = torch.tensor([[0.5, 0.25, 0.75], [0.1, 0.9, 0.3]], requires_grad=True)
    y = x * 1
    out = use(y)
    write(y)
    out.sum().backward()
    return x.grad


def activation(torch, name):
    """F.name(y, inplace=True), differentiated."""
    x = torch.tensor([-2.0, -0.5, 0.5, 2.0], requires_grad=True)
    y = getattr(torch.nn.functional, name)(x * 1, inplace=True)
    (y * y).sum().backward()
    return x.grad


def composed(torch, name, *args):
    """An in-place form of several operators, differentiated."""
    x = torch.tensor([0.2, 0.4, 0.6], requires_grad=True)
    y = x * 1
    getattr(y, name)(*args)
    (y * y).sum().backward()
    return x.grad


def view_chain(torch, depth):
    x = leaf(torch)
    y = x * 2
    v = y
    for _ in range(depth):
        v = v.view(4)
    v.mul_(3)
    y.sum().backward()
    return x.grad


def nested_backward(torch, depth):
    """A gradient that runs a backward pass, and so on; with modes that hold at every depth."""
    seen = []

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if ctx.depth == 0:
                seen.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
                return g, None
            with torch.enable_grad():
                x = torch.ones(2, requires_grad=True)
                Nested.apply(x, ctx.depth - 1).backward(g)
            return x.grad, None

    x = torch.ones(2, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        Nested.apply(x, depth).sum().backward()
    return x.grad, seen


def hooks_of_a_leaf(torch, use):
    """What hooks of a leaf that is used several times see, and when."""
    x, seen = leaf(torch, 2), []
    x.register_hook(lambda g: seen.append(("tensor", g.tolist())))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(("after", p.grad.tolist())))
    total = (x * 2 + x * 3 + x.square()).sum()
    use(total, x)
    return x.grad, seen


def failed_backward(torch):
    """Gradients after a pass that failed: none of leaves that more was to come to."""
    x, w = leaf(torch, 2), leaf(torch, 2)
    y = (x * 1).exp()
    total = (x * 3 + y).sum() + w.sum()
    with torch.no_grad():
        y.mul_(2)
    try:
        total.backward()
    except RuntimeError as error:
        return x.grad, str(error)[:40]


def view_of_a_view_leaf(torch, write):
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    write(x)
    return x


def in_place_view(torch, name, args, start):
    w = torch.arange(1.0, 7.0).reshape(3, 2, 1).requires_grad_()
    y = {"leaf": w, "result": w * 2, "view": (w * 2)[0], "saved": (w * 2).exp()}[start]
    getattr(y, name)(*args)
    if start == "view":
        y.mul_(3)
    y.sum().backward()
    return w.grad, y.shape, y._version


def again(torch, use):
    """A second pass through what saved nothing but shapes, indices or numbers."""
    x = leaf(torch)
    y = use(x)
    y.sum().backward()
    y.sum().backward()
    return x.grad


def filled(torch, write):
    """Leaves of what was overwritten have a gradient, of zeros."""
    x = leaf(torch)
    y = x * 2
    write(y)
    y.sum().backward()
    return x.grad


def by_itself(torch, name):
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    y = x * 1
    getattr(y, name)(y)
    y.sum().backward()
    return x.grad


def retained_layout(torch):
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    y = x.t() * 2
    y.retain_grad()
    y.sum().backward()
    return y.grad.stride(), y.grad


def detached_view(torch):
    x = torch.ones(2, 3)
    return x[0].detach_()


def late(torch):
    """A view of what required grad only afterwards."""
    x = torch.ones(4)
    v = x[:2]
    x.requires_grad_()
    y = v * 2
    return v.requires_grad, v.is_leaf, y.requires_grad


def second_pass(torch):
    v, w = torch.ones(1, 4), leaf(torch)
    v[0].add_(w)
    v.sum().backward()
    torch.autograd.grad(v.square().sum(), w)


def custom_view(torch, make):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return make(x)

        @staticmethod
        def backward(ctx, g):
            return g

    y = Twice.apply(leaf(torch) * 1)
    y.mul_(2)


def cross_entropy_then_write(torch, twice):
    logits = torch.tensor([[0.5, 0.25, 0.75], [0.1, 0.9, 0.3]], requires_grad=True)
    y = logits * 1
    loss = torch.nn.functional.cross_entropy(y, torch.tensor([0, 2]))
    with torch.no_grad():
        y.mul_(100)
    if twice:
        y.div_(2)
    (g,) = torch.autograd.grad(loss, logits, create_graph=twice)
    return (g, torch.autograd.grad((g * g).sum(), logits)[0]) if twice else g


def gelu_then_write(torch):
    x = torch.tensor([-1.0, 0.5, 2.0], requires_grad=True)
    y = torch.nn.functional.gelu(x * 1)
    y.mul_(3)
    y.sum().backward()
    return x.grad


MODES = ("no_grad", "inference_mode", "enable_grad")
PARTS = {
    "unbind": lambda x: x.unbind(0),
    "split": lambda x: x.split(2),
    "split_with_sizes": lambda x: x.split([1, 3]),
    "chunk": lambda x: x.chunk(2),
    "tensor_split": lambda x: x.tensor_split(2),
    "hsplit": lambda x: x.hsplit(2),
    "vsplit": lambda x: x.vsplit(2),
    "iter": list,
    "unsafe_split": lambda x: x.unsafe_split(2),
    "unsafe_chunk": lambda x: x.unsafe_chunk(2),
}
RESULTS = """exp_ relu_ sigmoid_ tanh_ sqrt_ rsqrt_ reciprocal_ expm1_ exp2_ tan_ abs_ sin_
    log_ log1p_ erf_ erfinv_ square_ neg_ floor_ lgamma_ digamma_ asin_ acos_ atan_ sinh_ cosh_
    logit_ frac_ trunc_ round_ sgn_ i0_ sinc_ erfc_ log2_ log10_ deg2rad_"""
ACTIVATIONS = "relu silu relu6 elu selu celu mish hardswish hardsigmoid hardtanh leaky_relu"
COMPOSED = [
    ("square_",), ("cumprod_", 0), ("cumsum_", 0), ("logit_",), ("renorm_", 2, 0, 0.3),
    ("clamp_min_", 0.3), ("clamp_max_", 0.5), ("clamp_", 0.3, 0.5),
    ("xlogy_", 2.0), ("lerp_", 1.0, 0.5), ("nan_to_num_",), ("tril_",), ("mvlgamma_", 1),
    ("addcmul_", 1.0, 1.0), ("pow_", 3), ("fmod_", 0.3), ("remainder_", 0.3), ("div_", 3.0),
]  # fmt: skip
RETAINED = [
    "y.retain_grad(); y.mul_(3)",
    "y.retain_grad(); y.mul_(3); y.mul_(5)",
    "v.retain_grad(); y.retain_grad(); v.mul_(3); y.mul_(5)",
    "v.retain_grad(); y.mul_(5)",
    "v.retain_grad(); v.mul_(5)",
    "y.register_hook(lambda g: seen.append(('before', g.tolist()))); y.retain_grad(); y.mul_(3); "
    "y.register_hook(lambda g: seen.append(('after', g.tolist())))",
    "y.retain_grad(); y.add_(1); y.retain_grad()",
    "y.mul_(2); y.retain_grad(); y.exp_()",
]
OUTS = {
    "mul": lambda t, y: t.mul(t.ones(3), 5, out=y),
    "sum": lambda t, y: t.sum(t.ones(3, 1), 1, out=y),
    "max": lambda t, y: t.max(t.ones(3, 2), 1, out=(y, t.zeros(3, dtype=t.long))),
    "cat": lambda t, y: t.cat([t.ones(1), t.ones(2)], out=y),
    "mv": lambda t, y: t.mv(t.ones(3, 2), t.ones(2), out=y),
    "exp": lambda t, y: t.exp(t.ones(3), out=y),
    "clamp": lambda t, y: t.clamp(t.ones(3), 0, 2, out=y),
    "mean": lambda t, y: t.mean(t.ones(3, 2), 1, out=y),
    "cumsum": lambda t, y: t.cumsum(t.ones(3), 0, out=y),
    "gather": lambda t, y: t.gather(t.ones(3), 0, t.tensor([0, 1, 2]), out=y),
    "sort": lambda t, y: t.sort(t.ones(3), out=(y, t.zeros(3, dtype=t.long))),
    "addcmul": lambda t, y: t.addcmul(t.ones(3), t.ones(3), t.ones(3), out=y),
    "where": lambda t, y: t.where(t.ones(3) > 0, t.ones(3), t.ones(3), out=y),
    "stack": lambda t, y: t.stack([t.ones(())] * 3, out=y),
}
SETS = {
    "set_": lambda y: y.set_(y.new_zeros(3)),
    "set_ of nothing": lambda y: y.set_(),
    "set_ of a detached one": lambda y: y.detach().set_(y.new_zeros(3)),
}
OVERLAPS = {
    "add_": lambda t, x: x[1:].add_(x[:-1]),
    "copy_": lambda t, x: x[1:].copy_(x[:-1]),
    "itself": lambda t, x: x.add_(x),
    "gaps": lambda t, x: x[::2].add_(x[1::2]),
    "transposed": lambda t, x: x[:4].view(2, 2).add_(x[:4].view(2, 2).t()),
    "out": lambda t, x: t.add(x[1:], 1, out=x[:-1]),
    "out itself": lambda t, x: t.add(x, 1, out=x),
    "exp out": lambda t, x: t.exp(x[1:], out=x[:-1]),
    "expanded": lambda t, x: x[:3].expand(2, 3).add_(1),
    "addcmul_": lambda t, x: x[1:].addcmul_(x[:-1], x[:-1]),
    "lerp_": lambda t, x: x[1:].lerp_(x[:-1], 0.5),
    "clamp_": lambda t, x: x[1:].clamp_(min=x[:-1]),
    "index_add_": lambda t, x: x.index_add_(0, t.tensor([0]), x[:1]),
    "index_add_ apart": lambda t, x: x[1:].index_add_(0, t.tensor([0]), x[:1]),
    "scatter_": lambda t, x: x.scatter_(0, t.tensor([0]), x[:1]),
    "cumsum_": lambda t, x: x[1:].cumsum_(0),
    "cumsum out": lambda t, x: t.cumsum(x[1:], 0, out=x[:-1]),
    "mm out": lambda t, x: t.mm(x[:4].view(2, 2), x[:4].view(2, 2), out=x[:4].view(2, 2)),
    "index_put_": lambda t, x: x.index_put_((t.tensor([0, 1]),), x[2:4]),
    "masked_scatter_": lambda t, x: x.masked_scatter_(x > 2, x),
    "slice assignment": lambda t, x: x.__setitem__(slice(1, None), x[:-1]),
}
USES = {
    "version": lambda t, m: m._version,
    "write": lambda t, m: m.mul_(2),
    "write a view": lambda t, m: m[0:1].fill_(2),
    "save": lambda t, m: m * t.ones(3, requires_grad=True),
    "save nothing": lambda t, m: m + t.ones(3, requires_grad=True),
    "requires_grad_": lambda t, m: m.requires_grad_(),
    "requires_grad": lambda t, m: setattr(m, "requires_grad", True),
    "view": lambda t, m: m[0:1].is_inference(),
    "clone": lambda t, m: m.clone().is_inference(),
    "detach": lambda t, m: m.detach().is_inference(),
    "copy from": lambda t, m: t.ones(3).copy_(m),
    "out": lambda t, m: t.add(t.ones(3), 1, out=m),
    "resize_": lambda t, m: m.resize_(5),
}
AGAIN = {
    "mean": lambda x: x.mean(),
    "sum": lambda x: x.sum(0),
    "view": lambda x: x.view(2, 2),
    "add": lambda x: x + 1,
    "mul": lambda x: x * x,
    "exp": lambda x: x.exp(),
    "cat": lambda x: x.flip(0),
    "max": lambda x: x.max(0)[0],
    "lerp": lambda x: x.lerp(x.detach(), 0.5),
}
FILLS = {
    "fill_": lambda y: y.fill_(1),
    "zero_": lambda y: y.zero_(),
    "copy_": lambda y: y.copy_(y.detach() * 3),
    "uniform_": lambda y: y.uniform_(),
    "slice": lambda y: y[:2].fill_(1),
}
MADE = {
    "detach, version": lambda m: m.detach()._version,
    "detach, write": lambda m: m.detach().mul_(2),
    "detach, is_inference": lambda m: m.detach().is_inference(),
    "data, write": lambda m: m.data.mul_(2),
    "view, write": lambda m: m.view(3).mul_(2),
}
WRITES = {
    "slice": lambda x: x[0].mul_(2),
    "transpose": lambda x: x.T.add_(1),
    "assignment": lambda x: x.__setitem__(0, 1.0),
    "copy_": lambda x: x[:, 1:].copy_(x.new_zeros(2, 2)),
    "view": lambda x: x.view(-1)[0:1].zero_(),
    "index": lambda x: x[[0]].mul_(2),
}
IN_PLACE_VIEWS = [
    ("transpose_", 0, 1), ("squeeze_",), ("unsqueeze_", 0), ("swapaxes_", 0, 1), ("squeeze_", -1),
]  # fmt: skip
LATER = {
    "mean": lambda y: y.mean(),
    "sum": lambda y: y.sum(1),
    "max": lambda y: y.max(1)[0],
    "min": lambda y: y.min(1).values,
    "sort": lambda y: y.sort(1)[0],
    "topk": lambda y: y.topk(2)[0],
    "kthvalue": lambda y: y.kthvalue(2)[0],
    "median": lambda y: y.median(1)[0],
    "index": lambda y: y[[1, 0]],
    "mask": lambda y: y[y > 0.2],
    "exp": lambda y: y.exp(),
    "softmax": lambda y: y.softmax(1),
    "square": lambda y: y.square(),
    "prod": lambda y: y.prod(1),
}


def programs(torch):
    """(name, function without arguments) of each program."""
    for source in ("leaf", "result", "plain"):
        for mode in MODES:
            for by_leaf in (False, True):
                name = f"view of a {source} made in {mode}{', by a leaf' * by_leaf}"
                yield name, lambda s=source, m=mode, b=by_leaf: written_view(torch, s, m, b)
    for mode in MODES:
        for use in ("requires_grad", "grad_fn", "is_leaf"):
            read = lambda v, u=use: getattr(v, u) is not None and getattr(v, u)
            yield (
                f"{use} of a view made in {mode}, base written",
                lambda m=mode, r=read: (
                    re.sub(" object.*", "", str(used_view(torch, m, r)))
                    if r.__defaults__[0] != "grad_fn"
                    else bool(used_view(torch, m, r))
                ),
            )
        yield (
            f"use of a view made in {mode}, base written",
            lambda m=mode: used_view(torch, m, lambda v: (v * 2).requires_grad),
        )
    for name, make in PARTS.items():
        for then in ("write", "use"):
            yield f"{name}: {then}", lambda m=make, t=then: parts(torch, m, t)
    for name, call in OUTS.items():
        yield f"out of {name}", lambda c=call: out_of(torch, lambda y: c(torch, y))
    for name in RESULTS.split():
        yield f"{name} written", lambda n=name: result_written(torch, n)
    for steps in RETAINED:
        yield f"retain: {steps}", lambda s=steps: retain(torch, s)
    for name, how in SETS.items():
        yield name, lambda h=how: taken_away(torch, h)
    for name, use in USES.items():
        yield f"inference tensor: {name}", lambda u=use: inference(torch, lambda m: u(torch, m))
    yield "in inference mode", lambda: in_inference(torch)
    for name, write in OVERLAPS.items():
        yield f"overlap: {name}", lambda w=write: overlapping(torch, lambda x: w(torch, x))
    for name, use in LATER.items():
        yield f"{name}, then written", lambda u=use: later_write(torch, u, lambda y: y.mul_(2))
    for name in ACTIVATIONS.split():
        yield f"{name} in place", lambda n=name: activation(torch, n)
    for name, *args in COMPOSED:
        given = [
            torch.full((3,), a) if (name in ("addcmul_", "lerp_", "xlogy_") and i == 0)
            or name == "addcmul_" else a for i, a in enumerate(args)
        ]  # fmt: skip
        yield f"{name}{tuple(args)}", lambda n=name, g=given: composed(torch, n, *g)
    yield "a chain of 3000 views", lambda: view_chain(torch, 3000)
    for depth in (3, 300):
        yield f"backward {depth} deep", lambda d=depth: nested_backward(torch, d)
    uses = {
        "backward": lambda total, x: total.backward(),
        "backward, inputs": lambda total, x: total.backward(inputs=[x]),
        "grad": lambda total, x: torch.autograd.grad(total, x),
        "with itself": lambda total, x: torch.autograd.backward([total, x.sum()]),
    }
    for name, use in uses.items():
        yield f"hooks of a leaf, {name}", lambda u=use: hooks_of_a_leaf(torch, u)
    yield "a failed backward", lambda: failed_backward(torch)
    for name, write in WRITES.items():
        yield (
            f"view of a leaf that is a view: {name}",
            lambda w=write: view_of_a_view_leaf(torch, w),
        )
    for name, *args in IN_PLACE_VIEWS:
        for start in ("leaf", "result", "view", "saved"):
            yield (
                f"{name} of a {start}",
                lambda n=name, a=args, s=start: in_place_view(torch, n, a, s),
            )
    for name, use in AGAIN.items():
        yield f"again: {name}", lambda u=use: again(torch, u)
    for name, write in FILLS.items():
        yield f"filled by {name}", lambda w=write: filled(torch, w)
    for name in ("add_", "sub_", "copy_"):
        yield f"{name} by itself", lambda n=name: by_itself(torch, n)
    yield "a view, then requires_grad_", lambda: late(torch)
    yield "a retained gradient's layout", lambda: retained_layout(torch)
    for name, use in MADE.items():
        yield f"made of an inference tensor: {name}", lambda u=use: inference(torch, lambda m: u(m))
    yield "a second pass through a written view", lambda: second_pass(torch)
    yield "detach_ of a view", lambda: detached_view(torch)
    yield "an input returned as it is", lambda: custom_view(torch, lambda x: x)
    yield "a view from a custom function", lambda: custom_view(torch, lambda x: x.view(2, 2))
    for twice in (False, True):
        name = f"cross_entropy, logits written{', twice' * twice}"
        yield name, lambda t=twice: cross_entropy_then_write(torch, t)
    yield "gelu, result written", lambda: gelu_then_write(torch)


FAMILIES = {"histories": None}


def run(torch, family):
    """(program, what it gives or raises)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, program in programs(torch):
            try:
                text = repr(program())
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
            yield name, text.replace("tritorch.", "torch.")
