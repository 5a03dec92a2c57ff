"""Whole training steps: forward, backward, optimizer; tokens or images a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tritorch.bench import models
from tritorch.bench.declare import Benchmark, Kit, Scale, family


def _make(name: str, half: bool, **options: Any) -> Callable[[Kit], Any]:
    def make(kit: Kit) -> Any:
        compiled = kit.name == "torch.compile"
        return models.trainer(
            kit.t, name, kit.device, half=half and kit.device != "cpu", compiled=compiled, **options
        )

    return make


def _gpu() -> Iterable[Benchmark]:
    batch = 16
    sizes = {k: v for k, v in models.GPT2.items() if k not in ("heads", "tied")}
    yield Benchmark(
        "train", f"gpt2 124M, batch {batch} of 1024, bf16",
        make=_make("gpt", True, batch=batch, fused=True, clipped=True, **models.GPT2),
        flops=models.gpt_operations(batch=batch, **sizes), share="matmul", dtype="bf16",
        tolerance=1e-2, compiled=True, memory=True, amount=(batch * 1024, "tokens"),
        about="gpt2", rounds=30,
    )  # fmt: skip
    yield Benchmark(
        "train", "resnet50, batch 128, bf16",
        make=_make("resnet50", True, batch=128),
        flops=models.resnet50_operations(128), share="matmul", dtype="bf16", tolerance=2e-2,
        memory=True, amount=(128, "images"), about="resnet50", rounds=30,
    )  # fmt: skip
    yield Benchmark(
        "train", "mlp 784-512-256-10, batch 128", make=_make("mlp", False),
        share="", tolerance=1e-4, amount=(128, "images"), clock="host", rounds=2000,
    )  # fmt: skip


@family("train", seconds=75)
def cases(scale: Scale) -> Iterable[Benchmark]:
    """GPT-2 124M, ResNet-50 and a small MLP on a GPU, small models elsewhere."""
    if scale.name == "gpu":
        yield from _gpu()
        return
    tiny = scale.name == "tiny"
    programs: dict[str, tuple[dict[str, Any], int, str]] = {
        "mlp": ({"batch": 4, "width": 8} if tiny else {}, 4 if tiny else 128, "images"),
        "cnn": ({"batch": 2, "side": 8} if tiny else {}, 2 if tiny else 64, "images"),
        "transformer": ({"batch": 2, "length": 3} if tiny else {}, 6 if tiny else 1024, "tokens"),
        "lstm": ({"batch": 2, "length": 3} if tiny else {}, 6 if tiny else 1024, "words"),
        "gpt": (
            {"batch": 1, "length": 5, "layers": 1, "width": 8, "heads": 2, "words": 7, "tied": True}
            if tiny else {"clipped": True}, 5 if tiny else 1024, "characters",
        ),
        "resnet50": (
            {"batch": 2, "side": 16, "blocks": (1, 1), "width": 4} if tiny
            else {"batch": 2, "side": 64}, 2, "images",
        ),
    }  # fmt: skip
    for name, (sizes, amount, what) in programs.items():
        yield Benchmark(
            "train", f"{name}, {amount} {what}", make=_make(name, False, **sizes),
            share="", tolerance=1e-3, amount=(amount, what), rounds=300,
        )  # fmt: skip
