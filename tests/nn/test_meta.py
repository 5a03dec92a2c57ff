"""Every module on the meta device: made, run and differentiated as on the CPU, without memory."""

import resource
import time

import pytest

import tritorch as torch
from tests.nn import cases
from tritorch import _C, nn
from tritorch.arrays.meta import MetaArray
from tritorch.arrays.symbolic import ShapeEnv

# What these are given decides what they compute by its values, in PyTorch too.
BY_VALUES = ("nn.AdaptiveLogSoftmaxWithLoss(", "nn.CTCLoss(", "nn.BatchNorm1d(3, momentum=None)")


def described(x):
    return tuple(x.shape), x.dtype, x.stride()


def moved(x):
    if not isinstance(x, torch.Tensor):
        return x
    return torch.empty_like(x, device="meta").requires_grad_(x.requires_grad)


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
@pytest.mark.parametrize("index", range(len(cases.CASES)), ids=lambda i: cases.CASES[i][0])
def test_modules_on_meta_give_what_those_on_the_cpu_give(index):
    expression, inputs = cases.CASES[index]
    if expression.startswith("nn.DataParallel("):
        pytest.skip("it moves its module to the GPUs, or to the CPU")
    made = lambda: eval(expression, {"torch": torch, "nn": nn, "np": cases.np})
    module = made()
    with torch.device("meta"):
        meta = made()
    assert [(n, described(p)) for n, p in module.state_dict().items()] == [
        (n, described(p)) for n, p in meta.state_dict().items()
    ]
    assert all(p.is_meta for p in (*meta.parameters(), *meta.buffers()))
    if not inputs or expression.startswith(BY_VALUES):
        return
    tensors = [cases.given(torch, x, 7 * index + i) for i, x in enumerate(inputs)]
    for x, given in zip(tensors, inputs):
        if not isinstance(given, str):
            x.requires_grad_()
    outs = cases.flat(module(*tensors))
    found = cases.flat(meta(*map(moved, tensors)))
    assert [described(x) for x in found] == [described(x) for x in outs]
    assert all(x.is_meta for x in found)
    wanted = [x.sum() for x in found if x.requires_grad]
    if wanted:
        torch.autograd.backward(wanted)
        torch.autograd.backward([x.sum() for x in outs if x.requires_grad])
        for own, other in zip(module.parameters(), meta.parameters()):
            assert (own.grad is None) == (other.grad is None)
            assert own.grad is None or described(own.grad) == described(other.grad)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        batch, time, width = x.shape
        split = lambda y: y.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
        q, k, v = map(split, self.c_attn(self.ln_1(x)).split(width, dim=2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(batch, time, width))
        return x + self.c_out(nn.functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    """GPT-2's decoder."""

    def __init__(self, layers=48, width=1600, heads=25, words=50257, context=1024):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, words, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.wte(tokens) + self.wpe(places)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def test_a_model_of_billions_of_parameters_takes_no_memory():
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with torch.device("meta"):
        model = GPT()
        out = model(torch.zeros(4, 1024, dtype=torch.int64))
    took = time.process_time() - start
    assert out.shape == (4, 1024, 50257)
    assert sum(p.numel() for p in model.parameters()) == 1_557_611_200
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024
    assert took < 20  # seconds of the processor; it takes 0.3


class Residual(nn.Module):
    def __init__(self, width, out, stride):
        super().__init__()
        conv = lambda i, o, k, s: nn.Conv2d(i, o, k, s, k // 2, bias=False)
        self.body = nn.Sequential(
            conv(width, out, 3, stride), nn.BatchNorm2d(out), nn.ReLU(),
            conv(out, out, 3, 1), nn.BatchNorm2d(out),
        )  # fmt: skip
        short = nn.Sequential(conv(width, out, 1, stride), nn.BatchNorm2d(out))
        self.short = short if stride != 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


def resnet():
    """ResNet-18, of few channels."""
    layers = [nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.MaxPool2d(3, 2, 1)]
    for width, out in ((8, 8), (8, 16), (16, 32), (32, 64)):
        layers += [Residual(width, out, 1 if width == out else 2), Residual(out, out, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


MODELS = {
    "GPT": (lambda: GPT(2, 32, 2, 50, 24), (3, 17), torch.int64, (5, 11)),
    "ResNet": (resnet, (3, 3, 64, 96), torch.float32, (2, 3, 96, 72)),
    "LSTM": (lambda: nn.LSTM(3, 5, 2), (7, 4, 3), torch.float32, (7, 6, 3)),
}


def with_symbols(env, shape, fixed):
    """A shape whose sizes are left open, but for some."""
    return tuple(n if i in fixed else env.symbol(f"n{i}", n) for i, n in enumerate(shape))


@pytest.mark.parametrize("name", MODELS)
def test_sizes_left_open_pass_through_models(name):
    make, shape, kind, other = MODELS[name]
    # A recurrent layer's steps are run one after the other: their number is known.
    fixed = {"GPT": (), "ResNet": (1,), "LSTM": (0, 2)}[name]
    with torch.device("meta"):
        model = make()
    env = ShapeEnv()
    sizes = with_symbols(env, shape, fixed)
    found = model(_C.wrap(MetaArray(sizes, kind)))
    out = found[0] if isinstance(found, tuple) else found
    out.sum().backward()
    assert not any(" == " in guard and "not" not in guard for guard in env.guards)
    for symbol, n in zip(env.symbols, [n for i, n in enumerate(other) if i not in fixed]):
        symbol.value = n  # as if this run had been with other sizes
    again = model(torch.empty(other, dtype=kind, device="meta"))
    again = again[0] if isinstance(again, tuple) else again
    assert tuple(map(int, out.shape)) == again.shape
    assert tuple(map(int, out.stride())) == again.stride()
