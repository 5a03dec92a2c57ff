"""Where views and results lie: their shape, strides and offset, or the error.

A family is a grid: each template with each of its operands.  tools/record_expressions.py writes
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


def lines(text):
    return [line.strip() for line in text.strip().splitlines()]


OPERANDS = {"formats": IMAGES, "functions": DENSE}
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


def run(torch, family):
    """Each expression with what it gave."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for operand, template in FAMILIES[family]:
            names = {"torch": torch, "F": torch.nn.functional, "gradient": gradient}
            exec(f"x = {operand}", names)
            try:
                text = layout(eval(template, names))
            except Exception as error:
                text = type(error).__name__
            yield f"{template} of {operand}", text
