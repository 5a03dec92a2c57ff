"""Everyday calls: what training steps and scripts are made of, on small tensors.

Each is a statement in the names that `SETUP` gives: `m` is the library, `d` the device.  Sizes are
small, so that a call costs what the host pays for it.
"""

from __future__ import annotations

SETUP = """
import math
F = m.nn.functional
m.manual_seed(0)
def r(*shape, **options): return m.randn(*shape, device=d, **options)
a, b, c = r(32, 32), r(32, 32), r(32, 32)
row, col, one = r(32), r(32, 1), r(1)
t = r(32, 32).t()
x3, y3 = r(4, 16, 32), r(4, 32, 16)
w, w3, bias, bias3 = r(32, 32), r(96, 32), r(32), r(96)
i, j = m.arange(1024, device=d).view(32, 32), m.arange(32, device=d)
few = m.tensor([3, 1, 2, 0], device=d)
u8 = m.ones(32, 32, dtype=m.uint8, device=d)
h, hb = a.half(), a.bfloat16()
mask = a > 0
flags = row > 0
target = m.tensor([*range(10)] * 3 + [4, 2], device=d)
logits = r(32, 10)
soft = m.rand(32, 10, device=d)
table = r(50, 32)
img, kern, kbias = r(2, 3, 8, 8), r(4, 3, 3, 3), r(4)
bn, bnb, mean, var = r(3), r(3), m.zeros(3, device=d), m.ones(3, device=d)
q, k, v = r(2, 4, 8, 16), r(2, 4, 8, 16), r(2, 4, 8, 16)
out, acc = m.zeros(32, 32, device=d), m.zeros(32, 32, device=d)
acc_row = m.zeros(32, device=d)
pa, pw, pb = (r(32, 32).requires_grad_() for _ in range(3))
pbias = r(32).requires_grad_()
step = 3
"""

# By kind: {name: statement}.
CASES: dict[str, dict[str, str]] = {
    "pointwise": {
        "add": "a + b", "subtract": "a - b", "multiply": "a * b", "divide": "a / b",
        "negate": "-a", "exp": "a.exp()", "relu": "F.relu(a)", "gelu": "F.gelu(a)",
        "silu": "F.silu(a)", "sigmoid": "m.sigmoid(a)", "tanh": "m.tanh(a)",
        "sqrt": "u8.float().sqrt()",
        "square": "a.square()", "abs": "a.abs()", "power": "a ** 2", "rsqrt": "(a * a).rsqrt()",
        "greater": "a > b", "equal": "i == i", "logical and": "mask & mask", "invert": "~mask",
        "maximum": "m.maximum(a, b)", "addcmul": "m.addcmul(a, b, c, value=0.5)",
        "lerp": "m.lerp(a, b, 0.3)", "where": "m.where(mask, a, b)",
        "where a number": "m.where(mask, a, 0.0)", "masked_fill": "a.masked_fill(mask, 0.0)",
        "clamp": "a.clamp(-1.0, 1.0)", "clamp below": "a.clamp(min=0.0)",
        "leaky relu": "F.leaky_relu(a, 0.1)",
        "round": "a.round()", "isnan": "m.isnan(a)", "softplus": "F.softplus(a)",
    },
    "with numbers": {
        "add a number": "a + 1.0", "multiply by a number": "a * 0.5", "a number minus": "1.0 - a",
        "divide by a number": "a / 3.0", "add an integer": "a + 2", "integers plus one": "i + 1",
        "remainder": "i % 7", "floor divide": "i // 3", "a number over": "1.0 / a",
    },
    "mixed dtypes": {
        "int64 + float32": "i + a", "uint8 * float32": "u8 * a", "float16 + float32": "h + a",
        "bool * float32": "mask * a", "int64 / int64": "i / i", "float16 + float16": "h + h",
        "bfloat16 * bfloat16": "hb * hb",
    },
    "broadcast and strided": {
        "a + row": "a + row", "a * column": "a * col", "a + a 0-d tensor": "a + one[0]",
        "transposed operand": "a + t", "both transposed": "t * t", "outer": "col * row",
        "three dims": "x3 + row", "a slice": "a[:, 1:] + b[:, 1:]",
    },
    "in place": {
        "add_": "acc.add_(a)", "add_ alpha": "acc.add_(a, alpha=0.1)",
        "add_ a row": "acc.add_(row)",
        "mul_ a number": "acc.mul_(0.9)", "zero_": "acc.zero_()", "fill_": "acc.fill_(1.0)",
        "copy_": "acc.copy_(a)", "copy_ of another dtype": "acc.copy_(i)",
        "clamp_": "acc.clamp_(0.0, 1.0)",
        "out=": "m.add(a, b, out=out)", "addcdiv_": "acc.addcdiv_(a, u8, value=0.1)",
        "lerp_": "acc.lerp_(a, 0.1)", "exp out=": "m.exp(a, out=out)", "relu_": "acc.relu_()",
    },
    "reductions": {
        "sum": "a.sum()", "sum a dim": "a.sum(1)", "sum dims": "x3.sum((0, 2))", "mean": "a.mean()",
        "mean keepdim": "a.mean(-1, keepdim=True)", "max": "a.max()", "max a dim": "a.max(1)",
        "amax": "a.amax(-1)", "argmax": "a.argmax(-1)", "std": "a.std()", "var a dim": "a.var(1)",
        "norm": "a.norm()", "all": "mask.all()", "any": "mask.any()", "cumsum": "a.cumsum(1)",
        "prod": "row.prod()", "logsumexp": "a.logsumexp(-1)", "softmax": "a.softmax(-1)",
        "log_softmax": "F.log_softmax(a, -1)", "topk": "row.topk(5)", "sort": "row.sort()",
        "vector norm": "m.linalg.vector_norm(a)",
    },
    "views": {
        "view": "a.view(16, 64)", "reshape": "a.reshape(-1)", "transpose": "a.transpose(0, 1)",
        "t": "a.t()",
        "permute": "x3.permute(2, 0, 1)", "unsqueeze": "a.unsqueeze(0)",
        "squeeze": "col.squeeze(1)",
        "expand": "row.expand(32, 32)", "flatten": "x3.flatten(1)", "chunk": "a.chunk(2, 1)",
        "split": "a.split(16, 0)", "unbind": "x3.unbind(0)", "narrow": "a.narrow(0, 1, 5)",
        "detach": "a.detach()",
    },
    "indexing": {
        "a row": "a[3]", "slices": "a[1:5, ::2]", "an element": "a[1, 2]", "None": "a[:, None]",
        "by a tensor": "a[few]", "by a mask": "row[flags]", "write a row": "acc[0] = row",
        "write a slice": "acc[1:3] = 0.0",
        "gather": "a.gather(1, target[:, None])", "index_select": "a.index_select(0, few)",
        "scatter_": "acc.scatter_(1, target[:, None], 1.0)",
        "index_add_": "acc.index_add_(0, few, a[:4])",
    },
    "shapes": {
        "cat": "m.cat([a, b])", "cat dim 1": "m.cat([a, b], 1)", "stack": "m.stack([a, b])",
        "contiguous": "t.contiguous()",
        "clone": "a.clone()", "repeat": "row.repeat(4)", "tril": "a.tril()", "flip": "a.flip(0)",
        "roll": "a.roll(1, 0)",
        "pad": "F.pad(a, (1, 1))",
    },
    "factories": {
        "zeros": "m.zeros(32, 32, device=d)", "ones": "m.ones(32, device=d)",
        "empty": "m.empty(32, 32, device=d)",
        "full": "m.full((32,), 2.0, device=d)", "arange": "m.arange(32, device=d)",
        "zeros_like": "m.zeros_like(a)",
        "ones_like": "m.ones_like(a)", "empty_like": "m.empty_like(a)",
        "new_zeros": "a.new_zeros(4)",
        "full_like": "m.full_like(a, 3.0)", "eye": "m.eye(8, device=d)",
        "linspace": "m.linspace(0, 1, 8, device=d)",
        "randn": "m.randn(32, device=d)", "rand": "m.rand(32, device=d)",
    },
    "casts": {
        "to float16": "a.half()", "to float64": "a.double()", "to int64": "a.long()",
        "to the same": "a.to(m.float32)",
        "float of integers": "i.float()", "type_as": "i.type_as(a)",
    },
    "products": {
        "matmul": "a @ b", "mm transposed": "a @ b.t()", "linear": "F.linear(a, w, bias)",
        "linear without bias": "F.linear(a, w)",
        "linear of three dims": "F.linear(x3, w3, bias3)", "addmm": "m.addmm(bias, a, w)",
        "bmm": "m.bmm(x3, y3)",
        "matmul broadcast": "x3 @ w", "mv": "m.mv(a, row)", "dot": "m.dot(row, row)",
        "einsum": "m.einsum('bij,bjk->bik', x3, y3)",
        "baddbmm": "m.baddbmm(x3[:, :, :16], x3, y3)", "outer product": "m.outer(row, row)",
    },
    "nn": {
        "embedding": "F.embedding(few, table)", "layer_norm": "F.layer_norm(a, (32,), row, bias)",
        "rms_norm": "F.rms_norm(a, (32,), row)",
        "batch_norm": "F.batch_norm(img, mean, var, bn, bnb, True)",
        "group_norm": "F.group_norm(img, 3, bn, bnb)",
        "conv2d": "F.conv2d(img, kern, kbias, padding=1)",
        "max_pool2d": "F.max_pool2d(img, 2)", "avg_pool2d": "F.avg_pool2d(img, 2)",
        "dropout": "F.dropout(a, 0.1)",
        "attention": "F.scaled_dot_product_attention(q, k, v)",
        "causal attention": "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        "interpolate": "F.interpolate(img, scale_factor=2)", "one_hot": "F.one_hot(target, 10)",
        "normalize": "F.normalize(a)",
        "glu": "F.glu(a)", "unfold": "F.unfold(img, 3)",
    },
    "losses": {
        "cross_entropy": "F.cross_entropy(logits, target)",
        "nll_loss": "F.nll_loss(logits, target)", "mse_loss": "F.mse_loss(a, b)",
        "l1_loss": "F.l1_loss(a, b)", "smooth_l1": "F.smooth_l1_loss(a, b)",
        "bce with logits": "F.binary_cross_entropy_with_logits(logits, soft)",
        "kl_div": "F.kl_div(logits, soft, reduction='batchmean')",
        "cosine similarity": "F.cosine_similarity(a, b)",
        "smoothed cross_entropy": "F.cross_entropy(logits, target, label_smoothing=0.1)",
    },
    "with gradients": {
        "add, recorded": "pa + pw", "linear, recorded": "F.linear(a, pw, pbias)",
        "layer_norm, recorded": "F.layer_norm(pa, (32,), row, pbias)",
        "softmax, recorded": "pa.softmax(-1)", "gelu, recorded": "F.gelu(pa)",
        "view, recorded": "pa.view(-1)",
        "cross_entropy, recorded": "F.cross_entropy(pa, target)",
        "mse, recorded": "F.mse_loss(pa, b)",
    },
}  # fmt: skip

# What looks at values: on a GPU it waits for the device, and has no time of its own.
LOOKS = {"by a mask", "one_hot"}

# Forward and backward together, which have bars of their own.
PASSES = {
    "(a * row + row).sum(), backward": "(pa * row + pbias).sum().backward()",
    "layer_norm, backward": "F.layer_norm(pa, (32,), row, pbias).sum().backward()",
    "linear and mse, backward": "F.mse_loss(F.linear(a, pw, pbias), b).backward()",
    "cross_entropy, backward": "F.cross_entropy(F.linear(a, pw), target).backward()",
    "attention, backward": "attend(pa.view(2, 2, 8, 32), q2, q2).sum().backward()",
}
SETUP += "q2 = r(2, 2, 8, 32)\nattend = F.scaled_dot_product_attention\n"
