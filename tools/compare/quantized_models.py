#!/usr/bin/env python3
"""Quantize 20 models as PyTorch does, and compare outputs, files and state dicts, both ways.

    python tools/compare/quantized_models.py --torch PYTHON_WITH_TORCH --folder FOLDER [NAME ...]

The same program runs under PyTorch and under tritorch: models with weights that are functions of
their indices are quantized dynamically, statically (eager and FX) and by QAT.  Compared are the
outputs, in steps of the output's scale, the sizes of the files, and each library's outputs after it
loaded the other's state dict.  --record writes the counts to bench/results/quantized_models.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[2] / "bench" / "results" / "quantized_models.json"


# ---- models, written against `torch`, whichever that is ------------------------------------------


def models(torch: Any) -> dict[str, tuple[Callable[[], Any], tuple[int, ...], str]]:
    """Each model's maker, the shape of its input, and how it is quantized."""
    nn = torch.nn

    def settled(model: Any) -> Any:
        """Weights that are functions of their indices, so that both libraries have the same."""
        with torch.no_grad():
            for parameter in model.parameters():
                values = torch.arange(parameter.numel(), dtype=torch.float32)
                waves = (
                    torch.sin(values * 0.7310585 + 0.5) * 0.9 / max(parameter.shape[-1], 1) ** 0.5
                )
                parameter.copy_(waves.reshape(parameter.shape))
            for name, buffer in model.named_buffers():
                if name.endswith("running_var"):
                    buffer.fill_(1.25)
                elif name.endswith("running_mean"):
                    buffer.copy_(torch.cos(torch.arange(buffer.numel()).float()) * 0.1)
        return model

    class Block(nn.Module):
        """A residual block."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.relu1 = nn.ReLU()
            self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.add = torch.ao.nn.quantized.FloatFunctional()

        def forward(self, x: Any) -> Any:
            """The block's output."""
            y = self.relu1(self.bn1(self.conv1(x)))
            return self.add.add_relu(self.bn2(self.conv2(y)), x)

    class Inverted(nn.Module):
        """A block of MobileNet: widened, by depth, narrowed."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.widen = nn.Sequential(
                nn.Conv2d(width, 2 * width, 1), nn.BatchNorm2d(2 * width), nn.ReLU()
            )
            self.depth = nn.Sequential(
                nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width),
                nn.BatchNorm2d(2 * width), nn.ReLU(),
            )  # fmt: skip
            self.narrow = nn.Sequential(nn.Conv2d(2 * width, width, 1), nn.BatchNorm2d(width))
            self.add = torch.ao.nn.quantized.FloatFunctional()

        def forward(self, x: Any) -> Any:
            """The block's output."""
            return self.add.add(self.narrow(self.depth(self.widen(x))), x)

    class Tagger(nn.Module):
        """An LSTM and a linear layer."""

        def __init__(self, kind: Any, **options: Any) -> None:
            super().__init__()
            self.rnn = kind(12, 16, **options)
            self.head = nn.Linear(16 * (2 if options.get("bidirectional") else 1), 5)

        def forward(self, x: Any) -> Any:
            """Scores of each step."""
            return self.head(self.rnn(x)[0])

    class Encoder(nn.Module):
        """A block of BERT's shape, its products by hand."""

        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(16, 16) for _ in range(4))
            self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
            self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)

        def forward(self, x: Any) -> Any:
            """The block's output."""
            q, k, v = (layer(x).reshape(*x.shape[:2], 4, 4).transpose(1, 2)
                       for layer in (self.q, self.k, self.v))  # fmt: skip
            weights = torch.softmax(q @ k.transpose(-1, -2) / 2, -1)
            x = self.norm1(x + self.o((weights @ v).transpose(1, 2).reshape(x.shape)))
            return self.norm2(x + self.down(torch.relu(self.up(x))))

    class Functional(nn.Module):
        """Sums and concatenations that FX finds."""

        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)
            self.head = nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            """Two branches, joined, pooled."""
            a, b = torch.relu(self.a(x)), self.b(x)
            y = torch.cat([a + b, a * 0.5], 1)
            return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(y, 1), 1))

    class Bags(nn.Module):
        """Embedding bags and a linear layer."""

        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(20, 12, mode="sum", include_last_offset=True)
            self.head = nn.Linear(12, 4)

        def forward(self, x: Any) -> Any:
            """Scores of each bag."""
            indices = (x.reshape(-1).abs() * 997).long() % 20
            offsets = torch.arange(0, indices.numel() + 1, x.shape[-1])
            return self.head(self.bag(indices, offsets))

    quantization = torch.ao.quantization
    stubs = lambda *layers: nn.Sequential(
        quantization.QuantStub(), *layers, quantization.DeQuantStub()
    )
    image, rows, steps = (2, 3, 8, 8), (4, 16), (5, 3, 12)
    conv = lambda *a, **k: nn.Conv2d(*a, **k)
    mlp = lambda: nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
    cnn = lambda: nn.Sequential(
        conv(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 5)
    )
    resnet = lambda: stubs(
        conv(3, 8, 3), Block(8), Block(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )
    mobile = lambda: stubs(
        conv(3, 8, 3),
        Inverted(8),
        Inverted(8),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )
    table = {
        "mlp.dynamic": (mlp, rows, "dynamic"),
        "wide_mlp.dynamic": (
            lambda: nn.Sequential(nn.Linear(16, 600), nn.ReLU(), nn.Linear(600, 8)),
            rows,
            "dynamic",
        ),
        "mlp.dynamic_fp16": (mlp, rows, "float16"),
        "lstm.dynamic": (lambda: Tagger(nn.LSTM), steps, "dynamic"),
        "bilstm.dynamic": (
            lambda: Tagger(nn.LSTM, num_layers=2, bidirectional=True),
            steps,
            "dynamic",
        ),
        "gru.dynamic": (lambda: Tagger(nn.GRU), steps, "dynamic"),
        "bert.dynamic": (lambda: nn.Sequential(Encoder(), Encoder()), (2, 6, 16), "dynamic"),
        "bags.static": (Bags, (3, 7), "embedding"),
        "mlp.static": (
            lambda: stubs(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)),
            rows,
            "static",
        ),
        "conv1d.static": (
            lambda: stubs(nn.Conv1d(3, 6, 3), nn.ReLU(), nn.Conv1d(6, 4, 3, stride=2)),
            (2, 3, 16),
            "static",
        ),
        "conv3d.static": (lambda: stubs(nn.Conv3d(3, 4, 3), nn.ReLU()), (1, 3, 5, 5, 5), "static"),
        "resnet.static": (resnet, image, "static"),
        "mobilenet.static": (mobile, image, "static"),
        "activations.static": (
            lambda: stubs(
                nn.Linear(16, 16),
                nn.Hardswish(),
                nn.Linear(16, 16),
                nn.ELU(),
                nn.Linear(16, 8),
                nn.LeakyReLU(),
            ),
            rows,
            "static",
        ),
        "mlp.fx": (mlp, rows, "fx"),
        "cnn.fx": (cnn, image, "fx"),
        "functional.fx": (Functional, image, "fx"),
        "mlp.qat": (lambda: stubs(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)), rows, "qat"),
        "cnn.fx_qat": (cnn, image, "fx_qat"),
        "mobilenet.qat": (mobile, image, "qat"),
    }
    return {
        name: ((lambda make=make: settled(make())), shape, how)
        for name, (make, shape, how) in table.items()
    }


def quantize(torch: Any, model: Any, batches: list[Any], how: str) -> Any:
    """The quantized model."""
    quantization = torch.ao.quantization
    if how in ("dynamic", "float16"):
        kinds = {torch.nn.Linear, torch.nn.LSTM, torch.nn.GRU}
        kind = torch.qint8 if how == "dynamic" else torch.float16
        return quantization.quantize_dynamic(model.eval(), kinds, dtype=kind)
    if how in ("fx", "fx_qat"):
        from importlib import import_module

        fx = import_module(torch.ao.quantization.__name__ + ".quantize_fx")
        training = how == "fx_qat"
        make = (
            quantization.get_default_qat_qconfig_mapping
            if training
            else (quantization.get_default_qconfig_mapping)
        )
        prepare = fx.prepare_qat_fx if training else fx.prepare_fx
        model = prepare(model.train(training), make("fbgemm"), (batches[0],))
        run(torch, model, batches, training)
        return fx.convert_fx(model.eval())
    if how == "embedding":
        model.eval().qconfig = None
        model.bag.qconfig = quantization.float_qparams_weight_only_qconfig
        return quantization.convert(quantization.prepare(model))
    training = how == "qat"
    model.train(training)
    default = quantization.get_default_qat_qconfig if training else quantization.get_default_qconfig
    model.qconfig = default("fbgemm")
    model = (quantization.prepare_qat if training else quantization.prepare)(model)
    run(torch, model, batches, training)
    return quantization.convert(model.eval())


def run(torch: Any, model: Any, batches: list[Any], training: bool) -> None:
    """Calibrates, or takes a few steps."""
    if not training:
        with torch.no_grad():
            for batch in batches:
                model(batch)
        return
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for batch in batches:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


def work(torch: Any, folder: Path, us: str, names: list[str]) -> None:
    """Quantizes each model; saves what it gives, and loads what the other library saved."""
    them = {"torch": "tritorch", "tritorch": "torch"}[us]
    for name, (make, shape, how) in models(torch).items():
        if names and name not in names:
            continue
        report: dict[str, Any] = {}
        try:
            count = 1
            for n in shape:
                count *= n
            ramp = torch.arange(count, dtype=torch.float32).reshape(shape)
            batches = [torch.sin(ramp * (0.31 + 0.07 * i)) for i in range(4)]
            model = quantize(torch, make(), batches, how)
            with torch.no_grad():
                out = model(batches[0])
            state = folder / f"{name}.{us}.pt"
            torch.save(model.state_dict(), state)
            report = {"out": out.reshape(-1).tolist(), "bytes": state.stat().st_size}
            theirs = folder / f"{name}.{them}.pt"
            if theirs.exists():
                model.load_state_dict(torch.load(theirs, weights_only=False))
                with torch.no_grad():
                    report["loaded"] = model(batches[0]).reshape(-1).tolist()
        except Exception as error:
            report["error"] = f"{type(error).__name__}: {str(error)[:300]}"
        (folder / f"{name}.{us}.json").write_text(json.dumps(report))


# ---- what came of it -----------------------------------------------------------------------------


def read(folder: Path, name: str, library: str) -> dict[str, Any]:
    """A library's report on a model."""
    path = folder / f"{name}.{library}.json"
    return json.loads(path.read_text()) if path.exists() else {"error": "no report"}


def furthest(a: list[float], b: list[float]) -> float:
    """The largest difference, as a share of the range of `b`'s 256 steps."""
    if len(a) != len(b):
        return float("inf")
    step = max((max(b) - min(b)) / 255, 1e-9)
    return max(abs(x - y) for x, y in zip(a, b)) / step


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--torch", required=True, help="a Python that has PyTorch")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument(
        "--work", choices=["torch", "tritorch"], help="for the processes themselves"
    )
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.work:
        library = __import__(args.work)
        __import__(f"{args.work}.ao.quantization")
        work(library, args.folder, args.work, args.names)
        return 0
    args.folder.mkdir(parents=True, exist_ok=True)
    for library in ("torch", "tritorch", "torch"):  # the second time it loads tritorch's
        python = args.torch if library == "torch" else sys.executable
        command = [
            python,
            __file__,
            *args.names,
            "--torch",
            args.torch,
            "--folder",
            str(args.folder),
            "--work",
            library,
        ]
        subprocess.run(command, check=True)
    import tritorch

    names = args.names or list(models_names(tritorch))
    passed = 0
    for name in names:
        ours, theirs = read(args.folder, name, "tritorch"), read(args.folder, name, "torch")
        if "error" in ours or "error" in theirs:
            print(f"{name:22} tritorch: {ours.get('error')}  torch: {theirs.get('error')}")
            continue
        apart = [furthest(ours["out"], theirs["out"])]
        apart += [
            furthest(ours.get("loaded", []), theirs["out"]),
            furthest(theirs.get("loaded", []), ours["out"]),
        ]
        ratio = ours["bytes"] / theirs["bytes"]
        good = max(apart) <= 1.01 and 0.8 < ratio < 1.25
        passed += good
        shown = " ".join(f"{x:8.4f}" for x in apart)
        verdict = "ok" if good else "DIFFERS"
        print(f"{name:22} {verdict:8} steps apart {shown}  file {ratio:.2f} of torch's")
    print(f"{passed} of {len(names)} models agree to one step")
    if args.record:
        RECORDED.write_text(json.dumps({"passed": passed, "models": len(names)}) + "\n")
    return 0 if passed == len(names) else 1


def models_names(torch: Any) -> list[str]:
    """The names of the models."""
    import tritorch.ao.quantization  # noqa: F401

    return list(models(torch))


if __name__ == "__main__":
    sys.exit(main())
