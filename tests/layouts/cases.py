"""Where views and results lie: their shape, strides and offset, or the error.

A family is a grid: each template with each of its operands.  tools/record/expressions.py writes
down what they give with the real torch.
"""

import warnings

ANY = """
    torch.zeros(2, 1, 3)
    torch.zeros(1, 1)
    torch.zeros(())
    torch.zeros(3, 0)
    torch.zeros(0, 1, 2, 1)
    torch.zeros(2, 3, 4)[:, :1]
    torch.zeros(2, 3, 4)[1:, ::2].mT
    torch.zeros(3, 1).expand(3, 2)
    torch.zeros(1, 2, 3, 1).to(memory_format=torch.channels_last)
    torch.zeros(4, 2, 0).permute(2, 0, 1)
"""

DENSE = """
    torch.zeros(2, 1, 3)
    torch.zeros(1, 4).mT
    torch.zeros(2, 3, 4)[:, :1]
    torch.zeros(2, 3, 4)[1:, ::2].mT
    torch.zeros(2, 3, 4).permute(2, 0, 1)
    torch.zeros(1, 2, 3, 1).to(memory_format=torch.channels_last)
"""

IMAGES = """
    torch.zeros(2, 3, 4, 4)
    torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)
    torch.zeros(1, 2, 3, 1).to(memory_format=torch.channels_last)
    torch.zeros(2, 3, 4, 4).permute(1, 0, 3, 2)
"""

TRAINED = """
    torch.randn(2, 3, 4, 4)
    last(torch.randn(2, 3, 4, 4))
    torch.randn(2, 3, 4, 4).permute(0, 1, 3, 2)
"""

VOLUMES = """
    torch.randn(2, 3, 4, 4, 4)
    last(torch.randn(2, 3, 4, 4, 4))
"""

TEMPLATES = {
    "views": """
        x[None]
        x[:, None]
        x[..., None]
        x[0]
        x[-1:]
        x[:, -1]
        x[1:, None, ::2]
        x[0:0]
        x[5:, ::2]
        x[:, 1:1:3]
        x[0:1, :1]
        x.select(-1, 0)
        x.narrow(0, 1, 0)
        x.unsqueeze(0)
        x.unsqueeze(-1)
        x.squeeze()
        x.squeeze(1)
        x.expand(2, *x.shape)
        x.expand(1, 1, *x.shape)
        x.expand(0, *x.shape)
        x.view(-1)
        x.view(1, -1, 1)
        x.view(x.shape)
        x.view(3, 0, 1)
        x.view_as(x)
        x.reshape(1, 1, -1)
        x.flatten()
        x.flatten(0, 1)
        x.transpose(0, -1)
        x.movedim(0, 1)
        x.diagonal()
        x.diagonal(1)
        x.diagonal(-1, 0, -1)
        x.unfold(0, 1, 2)
        x.unfold(-1, 0, 1)
        x.split(1)
        x.chunk(2, -1)
        x.tensor_split(2, -1)
        x.unbind(-1)
        x.as_strided((1, 2), (7, 1))
        x.as_strided((0, 2), (0, 3), 1)
        x.swapaxes(0, -1)[:, None]
        x.detach()
        x.real
        torch.view_as_real(x * 1j)
        (x * 1j).imag
        x.view(torch.int32)
        x.view(torch.int16)
        torch.atleast_2d(x)
        torch.atleast_3d(x)
        torch.zeros(3, 0)[2].set_(x)
    """,
    "indexing": """
        x[True]
        x[[0]]
        x[[0, 0]]
        x[:, [0, 0]]
        x[..., [0, 0, 0]]
        x[[[0], [0]]]
        x[:, [[0, 0]]]
        x[[0], :, [0, 1]]
        x[:, [0], [[1], [0]]]
        x[None, ..., [0]]
        x[torch.zeros(3, 2, dtype=torch.int64).T]
        x[:, torch.zeros(3, 2, dtype=torch.int64).T]
        x[:, torch.zeros(1, dtype=torch.int64).expand(2, 1)]
        x[[]]
        x[x == 0]
        x[(x == 0)[..., 0]]
        x[:, (x == 0)[0, :, 0]]
        x.nonzero()
        (x == 0).nonzero()
        (x == 0).argwhere()
        (x == 0).nonzero(as_tuple=True)
    """,
    "results": """
        x.clone()
        x.double()
        x + x
        x + 1
        x + torch.zeros(())
        x * x[:1]
        x[:1] < x
        x.mT + x
        torch.zeros_like(x)
        x.exp()
        x.int() / 2
        torch.where(x > 0, x, x.mT)
        x.abs_()
        x.int().exp()
        x + x.int()
        x.int().mT * x
        x**2
        x ** torch.tensor(2)
        2**x
        x.clamp(0, 1)
        x.clamp(min=x)
        x.lerp(x.mT, 0.5)
        x.addcmul(x, x, value=2)
        x.addcmul(x.int(), x)
        torch.add(x, 1, out=torch.empty(0))
        x.contiguous()
        x.to(memory_format=torch.channels_last)
    """,
    "formats": """
        torch.cat([x, x])
        torch.cat([x, x.contiguous()], -1)
        torch.vstack([x, x])
        x.roll(1, -1)
        F.pad(x, (1, 1))
        F.pad(x, (1, 1, 1, 1), mode="replicate")
        F.interpolate(x, scale_factor=2)
        F.interpolate(x, scale_factor=2, mode="bilinear")
        F.max_pool2d(x, 1)
        F.avg_pool2d(x, 1)
        F.batch_norm(x, None, None, training=True)
        F.group_norm(x, 1)
        F.instance_norm(x)
        F.rms_norm(x, x.shape[-1:])
        x.is_contiguous(memory_format=torch.channels_last)
    """,
    "gradients": """
        gradient(x, lambda x: x.sum())
        gradient(x, lambda x: (x * 3).sum())
        gradient(x, lambda x: (x * 3).double().sum())
        gradient(x, lambda x: x.mean())
        gradient(x, lambda x: (x.reshape(-1) * 2).sum())
        gradient(x, lambda x: x.sum() + (x * 2).sum())
        gradient(x.reshape(-1)[:1], lambda x: x.sum())
    """,
    "training": """
        trained(lambda x, w: F.conv2d(x, w), x, weight(5, 3, 3, 3))
        trained(lambda x, w: F.conv2d(x, w, padding=1, stride=2), x, last(weight(5, 3, 3, 3)))
        trained(lambda x, w: F.conv2d(x, w, torch.zeros(5)), x, weight(5, 3, 1, 1))
        trained(lambda x, w: F.conv2d(x, w, groups=3), x, weight(6, 1, 2, 2))
        trained(lambda x, w: F.conv2d(x, w, groups=3), x, last(weight(3, 1, 2, 2)))
        trained(lambda x, w: F.conv2d(x, w, dilation=2, padding="same"), x, weight(2, 3, 2, 2))
        trained(lambda x, w: F.conv_transpose2d(x, w, stride=2), x, weight(3, 5, 2, 2))
        trained(lambda x, w: F.conv_transpose2d(x, w), x, last(weight(3, 5, 2, 2)))
        trained(lambda x, w: F.conv_transpose2d(x, w, groups=3), x, weight(3, 2, 2, 2))
        trained(lambda x, w: F.batch_norm(x, None, None, w, w, True), x, weight(3))
        trained(lambda x, w: F.batch_norm(x, torch.zeros(3), torch.ones(3), w, w), x, weight(3))
        trained(lambda x: F.batch_norm(x, None, None, training=True), x)
        trained(lambda x, w: F.instance_norm(x, None, None, w, w), x, weight(3))
        trained(lambda x, w: F.group_norm(x, 3, w, w), x, weight(3))
        trained(lambda x: F.group_norm(x, 1), x)
        trained(lambda x, w: F.layer_norm(x, x.shape[1:], w, w), x, weight(*x.shape[1:]))
        trained(lambda x: F.layer_norm(x, x.shape[-1:]), x)
        trained(lambda x: F.local_response_norm(x, 2), x)
        trained(lambda x: F.max_pool2d(x, 2), x)
        trained(lambda x: F.max_pool2d(x, 2, return_indices=True), x)
        trained(lambda x: F.avg_pool2d(x, 2), x)
        trained(lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), x)
        trained(lambda x: F.adaptive_avg_pool2d(x, 2), x)
        trained(lambda x: F.adaptive_avg_pool2d(x, 1), x)
        trained(lambda x: F.adaptive_max_pool2d(x, 2), x)
        trained(lambda x: F.lp_pool2d(x, 2, 2), x)
        trained(lambda x: F.fractional_max_pool2d(x, 2, 2), x)
        F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)
        trained(lambda x: F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2), x)
        trained(lambda x: F.pixel_unshuffle(x, 2), x)
        trained(lambda x: F.channel_shuffle(x, 3), x)
        trained(lambda x: F.interpolate(x, scale_factor=2), x)
        trained(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), x)
        F.interpolate(x, size=(3, 5), mode="bicubic")
        trained(lambda x: F.interpolate(x, scale_factor=0.5, mode="area"), x)
        trained(lambda x: F.interpolate(x, size=(3, 3), mode="bilinear", antialias=True), x)
        trained(lambda x: F.interpolate(x, scale_factor=2, mode="nearest-exact"), x)
        trained(lambda x: F.pad(x, (1, 1)), x)
        trained(lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), x)
        trained(lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"), x)
        trained(lambda x: F.pad(x, (1, 1, 1, 1), mode="circular"), x)
        F.grid_sample(x, torch.zeros(x.shape[0], 2, 2, 2))
        trained(lambda x: F.unfold(x, 2), x)
        trained(lambda x: F.fold(F.unfold(x, 2), x.shape[2:], 2), x)
        trained(lambda x: F.prelu(x, x.new_zeros(3)), x)
        trained(lambda x: F.rrelu(x, training=True), x)
        trained(lambda x: F.rrelu(x), x)
        trained(lambda x: F.dropout(x, 0.5), x)
        trained(lambda x: F.dropout2d(x, 0.5), x)
        trained(lambda x: F.alpha_dropout(x, 0.5), x)
        trained(lambda x: F.glu(x, -1), x)
        trained(lambda x: F.relu6(x), x)
        trained(lambda x: F.gelu(x), x)
        trained(lambda x: F.silu(x), x)
        trained(lambda x: F.mish(x), x)
        trained(lambda x: F.hardswish(x), x)
        trained(lambda x: F.elu(x), x)
        trained(lambda x: F.softmax(x, 1), x)
        trained(lambda x: F.log_softmax(x, 1), x)
        trained(lambda x: F.softmin(x, -1), x)
        trained(lambda x: F.normalize(x), x)
        trained(lambda x: F.cosine_similarity(x, x, 1), x)
        F.mse_loss(x, x.sin(), reduction="none")
        F.smooth_l1_loss(x, x.sin(), reduction="none")
        trained(lambda x: torch.stack([x, x * 2]), x)
        trained(lambda x: torch.stack([x, x * 2], -1), x)
        trained(lambda x: torch.cat([x, x * 2], 1), x)
        trained(lambda x: torch.cat([x, x.contiguous()]), x)
        trained(lambda x: x.chunk(3, 1)[1].sin(), x)
        trained(lambda x: x[:, 1:].sin(), x)
        trained(lambda x: x[..., ::2] * 2, x)
        trained(lambda x: x.flatten(1) * 2, x)
        trained(lambda x: x.permute(0, 2, 3, 1).contiguous(), x)
        trained(lambda x: x.roll(1, -1), x)
        trained(lambda x: x.flip(1), x)
        trained(lambda x: x.mean((2, 3), keepdim=True), x)
        trained(lambda x: x.sum(1), x)
        trained(lambda x: x.amax((2, 3)), x)
        trained(lambda x: x.max(1), x)
        trained(lambda x: x.var((0, 2, 3)), x)
        trained(lambda x: x.std(1, keepdim=True), x)
        trained(lambda x: x.norm(dim=1), x)
        trained(lambda x: x.cumsum(1), x)
        trained(lambda x: x.logsumexp(1), x)
        trained(lambda x: x.sort(1), x)
        trained(lambda x: x.topk(2, 1), x)
        trained(lambda x: x.clamp(0, 1), x)
        trained(lambda x: torch.where(x > 0, x, x * 2), x)
        trained(lambda x: x.masked_fill(x > 0, 0), x)
        trained(lambda x: x + x.mean((2, 3), keepdim=True), x)
        trained(lambda x, w: x * w.view(1, -1, 1, 1), x, weight(3))
        trained(lambda x, w: x * w, x, weight(1, 3, 1, 1))
        trained(lambda x: x.half().float(), x)
        trained(lambda x: x.double(), x)
        trained(lambda x: x.contiguous(memory_format=torch.channels_last), x)
        trained(lambda x: x.contiguous(), x)
        trained(lambda x: x @ x.mT, x)
        trained(lambda x, w: F.linear(x, w), x, weight(5, x.shape[-1]))
        trained(lambda x: x.index_select(1, torch.tensor([0, 1])), x)
        trained(lambda x: x.gather(1, torch.zeros(2, 3, 4, 4, dtype=torch.int64)), x)
        trained(lambda x: x.repeat(1, 2, 1, 1), x)
        trained(lambda x: x.repeat_interleave(2, 1), x)
        trained(lambda x: x.expand(3, *x.shape) * 2, x)
        trained(lambda x: x.unsqueeze(1) * 2, x)
        trained(lambda x: x.unfold(2, 2, 1) * 2, x)
        trained(lambda x: x.tril(), x)
        trained(lambda x: F.avg_pool1d(x[0], 2), x)
        trained(lambda x: F.avg_pool1d(x[:, :, 0], 2), x)
        trained(lambda x: F.max_pool1d(x[:, :, 0], 2), x)
        trained(lambda x, w: F.conv1d(x[:, :, 0], w), x, weight(5, 3, 2))
        trained(lambda x: F.adaptive_avg_pool1d(x[:, :, 0], 2), x)
    """,
    "volumes": """
        trained(lambda x, w: F.conv3d(x, w), x, weight(5, 3, 2, 2, 2))
        trained(lambda x, w: F.conv3d(x, w, padding=1), x, last(weight(5, 3, 2, 2, 2)))
        trained(lambda x, w: F.conv_transpose3d(x, w), x, weight(3, 5, 2, 2, 2))
        trained(lambda x, w: F.batch_norm(x, None, None, w, w, True), x, weight(3))
        trained(lambda x, w: F.group_norm(x, 3, w, w), x, weight(3))
        trained(lambda x: F.max_pool3d(x, 2), x)
        trained(lambda x: F.avg_pool3d(x, 2), x)
        trained(lambda x: F.adaptive_avg_pool3d(x, 2), x)
        trained(lambda x: F.adaptive_max_pool3d(x, 2), x)
        F.interpolate(x, scale_factor=2)
        trained(lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), x)
        trained(lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"), x)
        trained(lambda x: F.relu(x), x)
        trained(lambda x: torch.stack([x, x * 2]), x)
        trained(lambda x: torch.cat([x, x * 2], 1), x)
    """,
    "attention": """
        F.scaled_dot_product_attention(x, x, x)
        F.scaled_dot_product_attention(x, x, x, is_causal=True)
        F.scaled_dot_product_attention(x, x * 2, x * 3)
        F.scaled_dot_product_attention(x, weight(2, 3, 5, 4), weight(2, 3, 5, 4))
        F.scaled_dot_product_attention(weight(2, 3, 5, 4), x, x)
        F.scaled_dot_product_attention(x, x, x, weight(4, 4).requires_grad_())
        F.scaled_dot_product_attention(x, x, x, torch.ones(4, 4).bool())
        F.scaled_dot_product_attention(x, x, x).transpose(1, 2).view(2, 4, -1)
        F.scaled_dot_product_attention(x[:1], x[:1], x[:1])
        F.scaled_dot_product_attention(x[0], x[0], x[0])
    """,
    "functions": """
        torch.fft.fft(x)
        torch.fft.rfft(x, dim=0)
        torch.fft.fftn(x * 1j)
        torch.fft.irfftn(x * 1j)
        torch.fft.ihfft(x, dim=0)
        (x * 1j).conj()
        (x * 1j).mH
        (x * 1j).angle()
        torch.round(x, decimals=2)
        torch.nan_to_num(x)
        torch.isreal(x)
        x.int().deg2rad()
        torch.float_power(2, x)
        F.hardtanh(x)
        F.softplus(x)
        F.hardshrink(x)
        F.logsigmoid(x)
        F.binary_cross_entropy_with_logits(x, x, reduction="none")
        F.huber_loss(x, x, reduction="none")
        x.renorm(2, 0, 1.0)
        x.nanmedian(-1)
        x.quantile(torch.tensor([0.5, 1]), 0)
        x.quantile(0.5, -1, keepdim=True)
        x.rot90()
        x.rot90(0)
        torch.frexp(x)
        x.take(torch.zeros(2, 3, dtype=torch.int64).T)
        x.scatter(0, x.long(), x)
        torch.select_copy(x, 0, 0)
        torch.view_copy(x, (-1,))
        x.narrow(0, 0, 1).slice_scatter(x[:1], 0, 0, 1)
        torch.linalg.qr(x)
        torch.linalg.svd(x)
        torch.linalg.inv(x.contiguous() + torch.eye(x.shape[-1]))
        torch.linalg.cholesky(x.contiguous() + torch.eye(x.shape[-1]))
    """,
}

ON_DEVICES = ("training", "volumes", "attention")  # which a GPU gives, too


def lines(text):
    return [line.strip() for line in text.strip().splitlines()]


HEADS = """
    torch.randn(2, 3, 4, 4)
    torch.randn(2, 4, 3, 4).transpose(1, 2)
    torch.randn(4, 2, 3, 4).permute(1, 2, 0, 3)
    torch.randn(2, 4, 3, 12)[..., :4].transpose(1, 2)
"""

OPERANDS = {
    "formats": IMAGES,
    "functions": DENSE,
    "training": TRAINED,
    "volumes": VOLUMES,
    "attention": HEADS,
}
FAMILIES = {
    f"layouts of {name}": [
        (x, line) for line in lines(templates) for x in lines(OPERANDS.get(name, ANY))
    ]
    for name, templates in TEMPLATES.items()
}


def layout(value):
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, (tuple, list)):
        return "; ".join(map(layout, value))
    return f"{list(value.shape)} {list(value.stride())} +{value.storage_offset()}"


def gradient(x, loss):
    leaf = x.detach().requires_grad_()
    loss(leaf).backward()
    return leaf.grad


def helpers(torch):
    def last(x):
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        return x.to(memory_format=formats[x.dim()])

    def trained(function, *inputs):
        """The results of a function, then the gradients of its inputs as they are computed."""
        leaves = [x.detach().requires_grad_() for x in inputs]
        results = function(*leaves)
        results = results if isinstance(results, tuple) else (results,)
        loss = sum(y.sin().sum() for y in results if y.requires_grad)
        return (*results, *torch.autograd.grad(loss, leaves))

    return {
        "torch": torch,
        "F": torch.nn.functional,
        "gradient": gradient,
        "trained": trained,
        "last": last,
        "weight": torch.ones,
    }


def run(torch, family):
    """Each expression with what it gave."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for operand, template in FAMILIES[family]:
            names = helpers(torch)
            exec(f"x = {operand}", names)
            try:
                text = layout(eval(template, names))
            except Exception as error:
                text = type(error).__name__
            yield f"{template} of {operand}", text
