"""What autocast is tried on: expressions of `torch`, of float32 tensors x (3x3), v (3), b (2x3x3),
image (1x3x6x6), volume (1x2x4x4x4), n (2x3, positive) and their bfloat16 twins with a `_low`."""

from __future__ import annotations

from typing import Any

import numpy as np

F = "torch.nn.functional."
EXPRESSIONS = [
    # products
    "torch.mm(x, x)", "x @ x", "x.matmul(v)", "torch.bmm(b, b)", "torch.mv(x, v)",
    "torch.dot(v, v)",
    "torch.addmm(x, x, x)", "torch.baddbmm(b, b, b)", "torch.addbmm(x, b, b)", "torch.inner(x, x)",
    "torch.inner(v, v)", "torch.tensordot(x, x, 1)", "torch.tensordot(x, x, 2)",
    "torch.einsum('ij,jk->ik', x, x)", "torch.outer(v, v)", "torch.kron(x, x)",
    F + "linear(x, x)", F + "linear(x, x, v)", F + "linear(x, x, bias=v)", F + "bilinear(x, x, b)",
    F + "conv1d(b, torch.ones(2, 3, 2))", F + "conv2d(image, torch.ones(2, 3, 2, 2))",
    F + "conv_transpose2d(image, torch.ones(3, 2, 2, 2))", F + "prelu(x, v)",
    F + "scaled_dot_product_attention(b, b, b)",
    # losses
    F + "mse_loss(x_low, x)", F + "l1_loss(x_low, x_low)", F + "smooth_l1_loss(x, x_low)",
    F + "huber_loss(x_low, x_low)", F + "cross_entropy(x_low, labels)",
    F + "nll_loss(x_low, labels)",
    F + "binary_cross_entropy(n_low, n_low)", F + "binary_cross_entropy_with_logits(x_low, x_low)",
    F + "kl_div(x_low, x_low)", F + "poisson_nll_loss(x_low, x_low)",
    F + "soft_margin_loss(x_low, x_low)", F + "multi_margin_loss(x_low, labels)",
    F + "hinge_embedding_loss(x_low, x_low)", F + "triplet_margin_loss(x_low, x_low, x_low)",
    F + "cosine_embedding_loss(x_low, x_low, v)", F + "margin_ranking_loss(v, v, v)",
    # rows, pooling, padding
    F + "softmax(x_low, 0)", F + "log_softmax(x_low, 0)", F + "layer_norm(x_low, (3,))",
    F + "batch_norm(x_low, None, None, training=True)", F + "normalize(x_low)", F + "gelu(x_low)",
    F + "avg_pool2d(image_low, 2)", F + "avg_pool3d(volume_low, 2)", F + "max_pool2d(image_low, 2)",
    F + "max_pool3d(volume_low, 2)", F + "max_pool3d(volume_low, 2, return_indices=True)[0]",
    F + "adaptive_avg_pool3d(volume_low, 2)", F + "adaptive_avg_pool2d(image_low, 2)",
    F + "pad(x_low, (1, 1))", F + "pad(b_low, (1, 1), 'reflect')",
    F + "pad(image_low, (1, 1, 1, 1), 'replicate')", F + "interpolate(image_low, scale_factor=2)",
    F + "embedding(labels, x)", F + "dropout(x_low)",
    # joining and the rest
    "torch.cat([x, x_low])", "torch.cat([x_low, x_low])", "torch.stack((x, x_low))",
    "torch.hstack([x, x_low])", "torch.add(x, x_low)", "x_low + 1", "torch.exp(x_low)",
    "torch.sum(x_low)", "x_low.sum(0)", "torch.prod(n_low)", "x_low.cumsum(0)", "x_low.norm()",
    "torch.trace(x_low)", "torch.pow(n_low, 2)", "n_low.log()", "x_low.softmax(1)",
    "torch.where(x > 0, x, x_low)", "torch.matmul(x.double(), x.double())", "(x.long() @ x.long())",
    "torch.mm(x, x, out=torch.empty(3, 3))", "x.clone().addmm_(x, x)", "torch.nn.Linear(3, 2)(x)",
    "torch.nn.LSTM(3, 2)(x)[0]", "torch.nn.GRU(3, 2)(x)[0]",
    "torch.nn.MultiheadAttention(3, 1)(b, b, b)[0]",
    "torch.nn.TransformerEncoderLayer(3, 1)(b)", "torch.nn.BatchNorm1d(3)(x_low)",
]  # fmt: skip


def world(torch: Any) -> dict[str, Any]:
    """The names that expressions use."""
    random = np.random.default_rng(0)

    def tensor(*shape: int) -> Any:
        return torch.tensor(random.normal(size=shape).astype(np.float32))

    made = {
        "x": tensor(3, 3), "v": tensor(3), "b": tensor(2, 3, 3), "image": tensor(1, 3, 6, 6),
        "volume": tensor(1, 2, 4, 4, 4), "n": tensor(2, 3).abs().clamp(0.1, 0.9),
    }  # fmt: skip
    made.update({f"{name}_low": value.to(torch.bfloat16) for name, value in made.items()})
    return {**made, "torch": torch, "labels": torch.tensor([0, 2, 1])}


def result(torch: Any, expression: str, **options: Any) -> str:
    """The dtype of an expression inside autocast, or the type of its error."""
    names = world(torch)
    try:
        with torch.autocast("cpu", **options):
            return str(eval(expression, names).dtype).split(".")[1]
    except Exception as error:
        return type(error).__name__


def scaler(torch: Any) -> list[Any]:
    """A scaler's state over steps of which some overflow: [state, whether the step was skipped]."""
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([p], 0.5)
    made = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    history = []
    for factor in (1.0, 2.0, float("inf"), 1.0, float("nan"), 0.5, 0.25, 1.0):
        optimizer.zero_grad()
        made.scale((p * factor).sum()).backward()
        before = p.detach().clone()
        if factor == 0.5:
            made.unscale_(optimizer)
        made.step(optimizer)
        made.update()
        history.append([made.state_dict(), bool((p == before).all()), p.tolist()])
    return history
