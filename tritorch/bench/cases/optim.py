"""Optimizer steps over the parameters of real models, gradients in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from tritorch.bench import models
from tritorch.bench.declare import Array, Benchmark, Kit, Scale, family

Shapes = list[tuple[int, ...]]

# Optimizer: (arguments, numbers of a parameter that a step reads and writes).
OPTIMIZERS: dict[str, tuple[dict[str, Any], int]] = {
    "AdamW": ({"lr": 1e-3}, 7),
    "Adam": ({"lr": 1e-3}, 7),
    "SGD": ({"lr": 0.01, "momentum": 0.9}, 5),
    "RMSprop": ({"lr": 1e-3}, 5),
    "Adagrad": ({"lr": 1e-3}, 5),
}
FUSED = {"AdamW", "Adam", "SGD", "Adagrad"}


def _stepper(name: str, shapes: Shapes, fused: bool, clipped: bool) -> Callable[[Kit], Any]:
    def make(kit: Kit) -> Callable[[], Any]:
        t = kit.t
        start = dict(kit.inputs)
        params = []
        for i, shape in enumerate(shapes):
            # Views of one array each would not be what a model has.
            n = math.prod(shape)
            p = start["p"][:n].reshape(shape).clone().requires_grad_()
            p.grad = start["g"][i : i + n].reshape(shape).clone()
            params.append(p)
        options = dict(OPTIMIZERS[name][0])
        if fused:
            options["fused"] = True
        optimizer = getattr(t.optim, name)(params, **options)

        def step() -> Any:
            if clipped:
                t.nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            return params[0]

        return step

    return make


@family("optim", seconds=20)
def cases(scale: Scale) -> Iterable[Benchmark]:
    """AdamW and SGD on GPT-2's and ResNet-50's parameters, and many tiny ones."""
    gpt = models.gpt2_shapes(**scale.pick({}, {"layers": 2, "width": 256, "words": 1000},
                                          {"layers": 1, "width": 8, "words": 11}))  # fmt: skip
    resnet = models.resnet50_shapes()
    tiny: Shapes = [(8, 8), (8,), (4, 16), (16,)] * scale.pick(50, 50, 1)
    wanted: list[tuple[str, Shapes, str, bool]] = [
        ("gpt2", gpt, "AdamW", False), ("gpt2", gpt, "AdamW", True), ("gpt2", gpt, "SGD", False),
        ("gpt2", gpt, "Adam", False), ("gpt2", gpt, "RMSprop", False),
        ("gpt2", gpt, "Adagrad", False), ("tiny", tiny, "AdamW", False),
    ]  # fmt: skip
    if scale.name == "gpu":
        wanted.append(("resnet50", resnet, "SGD", False))
    for model, shapes, name, clipped in wanted:
        count = sum(map(math.prod, shapes))
        largest = max(map(math.prod, shapes))
        fused = name in FUSED and scale.name != "cpu"  # torch's default on the CPU is not fused
        yield Benchmark(
            "optim",
            f"{name}{' clipped' * clipped} {model}, {len(shapes)} tensors, {count / 1e6:.3g}M",
            make=_stepper(name, shapes, fused, clipped),
            inputs={"p": Array((largest,)), "g": Array((largest + len(shapes),), scale=0.01)},
            # Gradients are read and scaled before the step if they are clipped.
            bytes=4 * count * (OPTIMIZERS[name][1] + (3 if clipped else 0)),
            tolerance=1e-4, tags=(model, "clipped" if clipped else "plain"),
            clock="device" if count > 1e5 else "host",
        )  # fmt: skip
