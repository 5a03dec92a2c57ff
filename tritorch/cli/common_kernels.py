"""The kernels that many programs share: what `python -m tritorch precompile --library` compiles.

Each entry is run in float32, bfloat16 and float16, forward and backward, at sizes whose kernels
serve many others: divisible by 16 or not, long rows and short, large products and small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

_UNARY = (
    "abs", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh", "sigmoid",
    "erf", "relu", "square", "sign", "floor", "log1p",
)  # fmt: skip
_ACTIVATIONS = ("gelu", "silu", "relu", "leaky_relu", "elu", "softplus", "mish", "hardswish")
_BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "pow")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_REDUCTIONS = ("sum", "mean", "amax", "amin", "prod", "argmax", "var", "logsumexp")
_SHAPES = ((1024, 1024), (37, 331), (8, 128, 768))
_PRODUCTS = ((4096, 4096, 4096), (512, 768, 3072), (128, 64, 50257), (1, 4096, 4096), (33, 65, 129))
_OPTIMIZERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}),
    ("Adam", {"lr": 1e-3}),
    ("AdamW", {"lr": 1e-3, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 1e-3}),
    ("Adagrad", {"lr": 1e-3}),
)


def run() -> list[str]:
    """Launches all of it on the device; what failed, and why."""
    import tritorch

    failed = []
    for kind in (tritorch.float32, tritorch.bfloat16, tritorch.float16):
        for name, call in _calls(tritorch, kind):
            try:
                _with_gradient(call())
            except Exception as error:
                failed.append(f"{name} of {kind}: {type(error).__name__}: {error}"[:300])
    tritorch.cuda.synchronize()
    return failed


def _with_gradient(result: Any) -> None:
    if getattr(result, "requires_grad", False):
        result.backward(result.detach())


def _calls(t: Any, kind: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    F = t.nn.functional

    def new(*shape: int, leaf: bool = True, dtype: Any = kind) -> Any:
        return t.empty(shape, device="cuda", dtype=dtype, requires_grad=leaf)

    def indices(n: int) -> Any:
        return t.zeros(n, device="cuda", dtype=t.int64)

    for shape in _SHAPES:
        yield "factories", lambda s=shape: t.zeros(s, device="cuda", dtype=kind).fill_(1).normal_()
        for other in (t.float32, t.bfloat16, t.float16, t.float64, t.int64, t.bool):
            yield "to", lambda s=shape, other=other: new(*s).to(other)
            yield "to", lambda s=shape, other=other: new(*s, leaf=False, dtype=other).to(kind)
        yield "transposed", lambda s=shape: new(*s).transpose(-1, -2).contiguous()
        yield "cat", lambda s=shape: t.cat([new(*s), new(*s)], -1)
        for name in _UNARY:
            yield name, lambda s=shape, name=name: getattr(t, name)(new(*s))
        for name in _ACTIVATIONS:
            yield name, lambda s=shape, name=name: getattr(F, name)(new(*s))
        for name in _BINARY:
            each = getattr(t, name)
            yield name, lambda s=shape, each=each: each(new(*s), new(*s))
            yield name, lambda s=shape, each=each: each(new(*s), new(s[-1]))
            if name not in ("maximum", "minimum"):
                yield name, lambda s=shape, each=each: each(new(*s), 2.5)
        for name in _COMPARISONS:
            each = getattr(t, name)
            yield name, lambda s=shape, each=each: each(new(*s), new(*s))
            yield name, lambda s=shape, each=each: each(new(*s), 0)
        yield "where", lambda s=shape: t.where(new(*s) > 0, new(*s), new(*s))
        for name in _REDUCTIONS:
            each = getattr(t, name)
            for dim in (-1, 0):
                yield name, lambda s=shape, each=each, dim=dim: each(new(*s), dim)
        yield "sum", lambda s=shape: new(*s).sum()
        yield "mean", lambda s=shape: new(*s).mean()
        yield "cumsum", lambda s=shape: new(*s).cumsum(-1)
        yield "softmax", lambda s=shape: F.softmax(new(*s), -1)
        yield "log_softmax", lambda s=shape: F.log_softmax(new(*s), -1)
        yield "dropout", lambda s=shape: F.dropout(new(*s), 0.1)
        n = shape[-1]
        yield "layer_norm", lambda s=shape, n=n: F.layer_norm(new(*s), (n,), new(n), new(n))
        yield "rms_norm", lambda s=shape, n=n: F.rms_norm(new(*s), (n,), new(n))
        yield "mse_loss", lambda s=shape: F.mse_loss(new(*s), new(*s, leaf=False))
    for m, k, n in _PRODUCTS:
        yield "matmul", lambda m=m, k=k, n=n: new(m, k) @ new(k, n)
        yield "linear", lambda m=m, k=k, n=n: F.linear(new(m, k), new(n, k), new(n))
    yield "bmm", lambda: new(16, 256, 64) @ new(16, 64, 256)
    for size in (64, 128):
        for causal in (True, False):
            yield (
                "scaled_dot_product_attention",
                lambda size=size, causal=causal: F.scaled_dot_product_attention(
                    *(new(2, 8, 1024, size) for _ in "qkv"), is_causal=causal
                ),
            )
    for rows, words in ((8192, 50257), (256, 10)):
        yield (
            "cross_entropy",
            lambda rows=rows, words=words: F.cross_entropy(new(rows, words), indices(rows)),
        )
        yield (
            "embedding",
            lambda rows=rows, words=words: F.embedding(indices(rows), new(words, 768)),
        )
    image = lambda channels, size: new(8, channels, size, size)
    for channels, size in ((64, 56), (3, 224)):
        for order in (t.contiguous_format, t.channels_last):
            yield (
                "conv2d",
                lambda c=channels, s=size, order=order: F.conv2d(
                    image(c, s).to(memory_format=order), new(64, c, 3, 3), new(64), padding=1
                ),
            )
            yield (
                "max_pool2d",
                lambda c=channels, s=size, order=order: F.max_pool2d(
                    image(c, s).to(memory_format=order), 2
                ),
            )
    yield (
        "batch_norm",
        lambda: F.batch_norm(
            image(64, 56), new(64, leaf=False), new(64, leaf=False), new(64), new(64), True
        ),
    )
    yield "group_norm", lambda: F.group_norm(image(64, 56), 32, new(64), new(64))
    yield "adaptive_avg_pool2d", lambda: F.adaptive_avg_pool2d(image(64, 56), 1)
    for name, options in _OPTIMIZERS:
        yield name, lambda name=name, options=options: _step(t, name, options, new)


def _step(t: Any, name: str, options: dict[str, Any], new: Callable[..., Any]) -> None:
    parameters = [new(1024, 768), new(768), new(331)]
    for each in parameters:
        each.grad = t.empty_like(each)
    t.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer = getattr(t.optim, name)(parameters, **options)
    optimizer.step()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
