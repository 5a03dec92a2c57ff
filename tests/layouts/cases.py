"""Where views and results lie: their shape, strides and offset, or the error.

A family is a grid: each template with each operand.  tools/record_expressions.py writes down what
they give with the real torch.
"""

import warnings

OPERANDS = """
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
}


def lines(text):
    return [line.strip() for line in text.strip().splitlines()]


FAMILIES = {
    f"layouts of {name}": [(x, line) for line in lines(templates) for x in lines(OPERANDS)]
    for name, templates in TEMPLATES.items()
}


def layout(value):
    if isinstance(value, (tuple, list)):
        return "; ".join(map(layout, value))
    return f"{list(value.shape)} {list(value.stride())} +{value.storage_offset()}"


def run(torch, family):
    """Each expression with what it gave."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for operand, template in FAMILIES[family]:
            names = {"torch": torch}
            exec(f"x = {operand}", names)
            try:
                text = layout(eval(template, names))
            except Exception as error:
                text = type(error).__name__
            yield f"{template} of {operand}", text
