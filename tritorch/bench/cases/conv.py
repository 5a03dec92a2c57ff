"""ResNet-50's distinct convolutions, channels last: forward, input gradient, weight gradient."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from tritorch.bench.declare import Array, Benchmark, Scale, family, moved, with_gradient


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


def resnet50() -> Iterator[Conv]:
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


def convolve(conv: Conv) -> Any:
    """The call."""
    return lambda t, x, w: t.nn.functional.conv2d(
        x, w, stride=conv.stride, padding=conv.kernel // 2
    )


@family("conv", seconds=50)
def cases(scale: Scale) -> Iterable[Benchmark]:
    """Each once, 64 images."""
    batch = scale.pick(64, 4, 2)
    dtype, tolerance = scale.pick(("bfloat16", 1e-2), ("float32", 1e-4), ("float32", 1e-4))
    distinct = list(dict.fromkeys(resnet50()))
    for conv in scale.pick(distinct, distinct[::3], distinct[:7:3]):
        if scale.name == "tiny":
            conv = Conv(min(conv.inputs, 4), 6, conv.kernel, conv.stride, 8)
        x = Array((batch, conv.inputs, conv.side, conv.side), dtype, channels_last=True)
        w = Array((conv.outputs, conv.inputs, conv.kernel, conv.kernel), dtype,
                  scale=(conv.inputs * conv.kernel**2) ** -0.5, channels_last=True)  # fmt: skip
        y = Array((batch, conv.outputs, conv.after, conv.after), dtype, channels_last=True)
        forward = Benchmark(
            "conv",
            f"{conv.kernel}x{conv.kernel}/{conv.stride} {conv.inputs}-{conv.outputs} "
            f"at {conv.side}",
            convolve(conv), {"x": x, "w": w}, bytes=moved({}, x, w, y),
            flops=2 * y.size * conv.inputs * conv.kernel**2, share="matmul",
            dtype="bf16" if dtype == "bfloat16" else "fp32", tolerance=tolerance,
            about="resnet50", tags=("forward",),
        )  # fmt: skip
        yield forward
        for name, which in (("input", "x"), ("weight", "w")):
            if name == "input" and conv.inputs == 3:
                continue  # nobody asks for the gradient of an image
            wanting = dataclasses.replace(forward.inputs[which], grad=True)
            one = forward.variant(inputs={**forward.inputs, which: wanting})
            gradient = with_gradient(one, y, forward.bytes, tags=(f"{name} gradient",))
            yield gradient.variant(name=f"{forward.name} {name} gradient")
