"""FlopCounterMode's numbers are PyTorch's; what has no formula is named."""

import tritorch as torch
from tritorch import nn
from tritorch.utils.flop_counter import FlopCounterMode, register_flop_formula


def total(function):
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


def test_products():
    a, b = torch.randn(4, 5), torch.randn(5, 6)
    assert total(lambda: a @ b) == 240
    assert total(lambda: torch.bmm(a[None], b[None])) == 240
    assert total(lambda: torch.addmm(torch.zeros(6), a, b)) == 240
    assert total(lambda: torch.matmul(torch.randn(2, 3, 4, 5), b)) == 1440
    assert total(lambda: torch.einsum("ij,jk->ik", a, b)) == 240
    assert total(lambda: a.exp() + 1) == 0


def test_convolutions_forward_and_backward():
    x, w = torch.randn(2, 3, 8, 8, requires_grad=True), torch.randn(6, 3, 3, 3, requires_grad=True)
    run = lambda: nn.functional.conv2d(x, w, padding=1)
    once = 2 * 64 * 9 * 2 * 6 * 3
    assert total(run) == once
    assert total(lambda: run().sum().backward()) == 3 * once
    back = torch.randn(3, 6, 3, 3)
    transposed = lambda: nn.functional.conv_transpose2d(torch.randn(2, 3, 8, 8), back)
    assert total(transposed) == 2 * 64 * 9 * 2 * 6 * 3


def test_attention():
    q, k, v = (torch.randn(2, 4, 16, 8, requires_grad=True) for _ in "qkv")
    run = lambda: nn.functional.scaled_dot_product_attention(q, k, v)
    assert total(run) == 2 * 4 * 2 * 16 * 16 * (8 + 8)
    assert total(lambda: run().sum().backward()) == 2 * 4 * 2 * 16 * 16 * 8 * 7


def test_modules_and_the_table():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 2, bias=False))

        def forward(self, x):
            return self.b(self.a(x).relu())

    with FlopCounterMode(display=False, depth=None) as counter:
        Net()(torch.ones(3, 4)).sum().backward()
    found = {
        name: {str(k): v for k, v in counts.items()}
        for name, counts in counter.get_flop_counts().items()
    }
    # As PyTorch's counter says of the same model.
    assert found["Net.a"] == {"aten.addmm": 192, "aten.mm": 192}
    assert found["Net.b.0"] == {"aten.mm": 3 * 96}
    assert found["Net"] == found["Global"] == {"aten.addmm": 192, "aten.mm": 192 + 3 * 96}
    lines = [line.split() for line in counter.get_table().splitlines()]
    assert lines[0] == ["Module", "FLOP", "%", "Total"] and lines[2] == [
        "Net",
        "672.000",
        "100.00%",
    ]


def test_operators_without_a_formula_are_listed():
    @torch.library.custom_op("testflops::mine", mutates_args=())
    def mine(x: torch.Tensor) -> torch.Tensor:
        return x @ x

    with FlopCounterMode(display=False) as counter:
        mine(torch.ones(3, 3))
    assert "testflops.mine (1 calls)" in counter.get_table()

    @register_flop_formula(torch.ops.testflops.mine)
    def count(x_shape, *args, out_shape=None, **kwargs):
        return 2 * x_shape[0] ** 3

    assert total(lambda: mine(torch.ones(3, 3))) == 54
