"""ResNet-50's distinct convolutions, channels last: forward, input gradient, weight gradient."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from tritorch.bench.declare import Array, Benchmark, Scale, family, moved, with_gradient
from tritorch.bench.models import Conv, resnet50_convolutions


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
    distinct = list(dict.fromkeys(resnet50_convolutions()))
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
