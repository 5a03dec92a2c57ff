"""Models that are trained, in PyTorch's names: the same source for every library that has them."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

Step = Callable[[], Any]
Loss = Callable[[], Any]
Shapes = list[tuple[int, ...]]


# ---- programs: (library, random, device, **sizes) -> model, optimizer, loss ---------------------


def mlp(
    t: Any, random: Any, device: str = "cpu", *, batch: int = 128, width: int = 512
) -> tuple[Any, Any, Loss]:
    """784-512-256-10."""
    nn = t.nn
    model = nn.Sequential(
        nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width // 2), nn.ReLU(),
        nn.Linear(width // 2, 10),
    ).to(device)  # fmt: skip
    x, y = floats(t, random, batch, 784).to(device), labels(t, random, 10, batch).to(device)
    optimizer = t.optim.Adam(model.parameters(), 1e-3)
    return model, optimizer, lambda: nn.functional.cross_entropy(model(x), y)


def cnn(
    t: Any, random: Any, device: str = "cpu", *, batch: int = 64, side: int = 32
) -> tuple[Any, Any, Loss]:
    """Three convolutions with batch norm on images."""
    nn = t.nn

    def block(inputs: int, outputs: int) -> list[Any]:
        return [
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs),
            nn.ReLU(), nn.MaxPool2d(2),
        ]  # fmt: skip

    model = nn.Sequential(
        *block(3, 32), *block(32, 64), *block(64, 64), nn.Flatten(),
        nn.Linear(64 * (side // 8) ** 2, 10),
    ).to(device)  # fmt: skip
    x = floats(t, random, batch, 3, side, side).to(device)
    y = labels(t, random, 10, batch).to(device)
    optimizer = t.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=5e-4)
    return model, optimizer, lambda: nn.functional.cross_entropy(model(x), y)


def transformer(
    t: Any, random: Any, device: str = "cpu", *, batch: int = 16, length: int = 64
) -> tuple[Any, Any, Loss]:
    """A classifier on nn.TransformerEncoder: 2 layers, width 128."""
    nn = t.nn
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    model = nn.ModuleDict({"encoder": nn.TransformerEncoder(layer, 2), "head": nn.Linear(128, 10)})
    model = model.to(device)
    x = floats(t, random, batch, length, 128).to(device)
    y = labels(t, random, 10, batch).to(device)
    optimizer = t.optim.AdamW(model.parameters(), 1e-4)

    def loss() -> Any:
        return nn.functional.cross_entropy(model["head"](model["encoder"](x).mean(1)), y)

    return model, optimizer, loss


def lstm(
    t: Any, random: Any, device: str = "cpu", *, batch: int = 32, length: int = 32
) -> tuple[Any, Any, Loss]:
    """A tagger: embedding, a bidirectional LSTM of width 128."""
    nn = t.nn
    parts = {
        "embedding": nn.Embedding(1000, 64),
        "lstm": nn.LSTM(64, 128, bidirectional=True),
        "head": nn.Linear(256, 20),
    }
    model = nn.ModuleDict(parts).to(device)
    x = labels(t, random, 1000, length, batch).to(device)
    y = labels(t, random, 20, length * batch).to(device)
    optimizer = t.optim.Adam(model.parameters(), 1e-3)

    def loss() -> Any:
        hidden, _ = model["lstm"](model["embedding"](x))
        return nn.functional.cross_entropy(model["head"](hidden).view(-1, 20), y)

    return model, optimizer, loss


def gpt(
    t: Any, random: Any, device: str = "cpu", *, batch: int = 16, length: int = 64,
    layers: int = 4, width: int = 128, heads: int = 4, words: int = 65, tied: bool = False,
    fused: bool | None = None,
) -> tuple[Any, Any, Loss]:  # fmt: skip
    """A GPT on tokens; by default a small one on characters."""
    nn, F = t.nn, t.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, time, width = x.shape
            q, k, v = (
                part.view(batch, time, heads, width // heads).transpose(1, 2)
                for part in self.qkv(self.norm1(x)).split(width, dim=2)
            )
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, time, width))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
            if tied:
                self.head.weight = self.tokens.weight

        def forward(self, ids: Any) -> Any:
            x = self.tokens(ids) + self.places(t.arange(ids.shape[1], device=ids.device))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    model = GPT().to(device)
    x, y = (labels(t, random, words, batch, length).to(device) for _ in range(2))
    optimizer = t.optim.AdamW(model.parameters(), 1e-3, fused=fused)

    def loss() -> Any:
        return F.cross_entropy(model(x).view(-1, words), y.view(-1))

    return model, optimizer, loss


def resnet50(
    t: Any, random: Any, device: str = "cpu", *, batch: int = 64, side: int = 224,
    blocks: tuple[int, ...] = (3, 4, 6, 3), width: int = 64,
) -> tuple[Any, Any, Loss]:  # fmt: skip
    """ResNet-50, channels last."""
    nn, F = t.nn, t.nn.functional

    class Bottleneck(nn.Module):  # type: ignore[name-defined]
        def __init__(self, before: int, width: int, stride: int) -> None:
            super().__init__()
            conv = lambda *sizes, **options: nn.Conv2d(*sizes, bias=False, **options)
            self.conv1, self.norm1 = conv(before, width, 1), nn.BatchNorm2d(width)
            self.conv2 = conv(width, width, 3, stride=stride, padding=1)
            self.norm2 = nn.BatchNorm2d(width)
            self.conv3, self.norm3 = conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
            self.shortcut = nn.Identity()
            if stride != 1 or before != 4 * width:
                self.shortcut = nn.Sequential(
                    conv(before, 4 * width, 1, stride=stride), nn.BatchNorm2d(4 * width)
                )

        def forward(self, x: Any) -> Any:
            y = F.relu(self.norm1(self.conv1(x)))
            y = F.relu(self.norm2(self.conv2(y)))
            return F.relu(self.norm3(self.conv3(y)) + self.shortcut(x))

    layers = [
        nn.Conv2d(3, width, 7, 2, padding=3, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
    ]  # fmt: skip
    before = width
    for stage, count in enumerate(blocks):
        for block in range(count):
            layers.append(Bottleneck(before, width << stage, 2 if block == 0 and stage else 1))
            before = 4 * (width << stage)
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000)]
    model = nn.Sequential(*layers).to(device).to(memory_format=t.channels_last)
    x = floats(t, random, batch, 3, side, side).to(device)
    x = x.contiguous(memory_format=t.channels_last)
    y = labels(t, random, 1000, batch).to(device)
    optimizer = t.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    return model, optimizer, lambda: F.cross_entropy(model(x), y)


PROGRAMS = {each.__name__: each for each in (mlp, cnn, transformer, lstm, gpt, resnet50)}
GPT2 = {"layers": 12, "width": 768, "heads": 12, "words": 50304, "length": 1024, "tied": True}


# ---- what is trained -----------------------------------------------------------------------------


def floats(t: Any, random: Any, *shape: int) -> Any:
    """Normal numbers."""
    return t.from_numpy(random.standard_normal(shape, "float32"))


def labels(t: Any, random: Any, high: int, *shape: int) -> Any:
    """Whole numbers below `high`."""
    return t.from_numpy(random.integers(0, high, shape))


def initialise(t: Any, model: Any, random: Any) -> None:
    """Weights from NumPy's numbers, so that every library starts alike."""
    with t.no_grad():
        for key, p in model.named_parameters():
            if p.dim() > 1:
                bound = math.sqrt(1 / math.prod(p.shape[1:]))
                values = random.random(tuple(p.shape), "float32")
                p.copy_(t.from_numpy((2 * values - 1) * bound))
            elif "bias" in key:
                p.zero_()


def trainer(
    t: Any, name: str, device: str = "cpu", *, half: bool = False, clipped: bool = False,
    compiled: bool = False, **sizes: Any,
) -> Step:  # fmt: skip
    """A function that makes one training step and returns its loss, a tensor."""
    import numpy as np

    random = np.random.default_rng(0)
    model, optimizer, loss_of = PROGRAMS[name](t, random, device, **sizes)
    initialise(t, model, random)
    if compiled:
        loss_of = t.compile(loss_of)

    def step() -> Any:
        optimizer.zero_grad()
        with t.autocast(device, t.bfloat16) if half else contextlib.nullcontext():
            loss = loss_of()
        loss.backward()
        if clipped:
            t.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


# ---- parameters alone ----------------------------------------------------------------------------


def gpt2_shapes(layers: int = 12, width: int = 768, words: int = 50304) -> Shapes:
    """The parameters of a GPT-2 with a tied head."""
    w = width
    layer: Shapes = [
        (w,), (w,), (3 * w, w), (3 * w,), (w, w), (w,), (w,), (w,), (4 * w, w), (4 * w,),
        (w, 4 * w), (w,),
    ]  # fmt: skip
    return [(words, w), (1024, w), *layer * layers, (w,), (w,)]


@dataclasses.dataclass(frozen=True)
class Conv:
    """Channels in and out, a kernel's side, the stride, the image's side."""

    inputs: int
    outputs: int
    kernel: int
    stride: int
    side: int

    @property
    def after(self) -> int:
        """The side of the result."""
        return -(-self.side // self.stride)


def resnet50_convolutions() -> Iterator[Conv]:
    """The convolutions of ResNet-50 on images of 224 pixels, in order, with repetitions."""
    yield Conv(3, 64, 7, 2, 224)
    before, side = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if block == 0 and stage else 1
            yield Conv(before, width, 1, 1, side)
            yield Conv(width, width, 3, stride, side)
            yield Conv(width, 4 * width, 1, 1, side // stride)
            if block == 0:
                yield Conv(before, 4 * width, 1, stride, side)
            before, side = 4 * width, side // stride


def resnet50_shapes() -> Shapes:
    """The parameters of ResNet-50: convolutions, two rows for each norm, the last layer."""
    shapes: Shapes = []
    for conv in resnet50_convolutions():
        shapes += [(conv.outputs, conv.inputs, conv.kernel, conv.kernel)]
        shapes += [(conv.outputs,)] * 2
    return [*shapes, (1000, 2048), (1000,)]


def gpt_operations(layers: int, width: int, words: int, length: int, batch: int) -> int:
    """Of a training step: six for each weight and token, and attention's, which is causal."""
    weights = layers * 12 * width * width + words * width
    attention = layers * length * width * 2  # for each token, both products, half of the pairs
    return 6 * batch * length * weights + 3 * batch * length * attention


def resnet50_operations(batch: int) -> int:
    """Of a training step on images of 224 pixels."""
    one = sum(2 * c.outputs * c.after**2 * c.inputs * c.kernel**2 for c in resnet50_convolutions())
    return 3 * batch * (one + 2 * 2048 * 1000)
