#!/usr/bin/env python3
"""Compare archives of TorchScript with PyTorch's, both ways.

    python tools/compare/archives.py --torch PYTHON_WITH_TORCH --folder FOLDER [NAME ...]

PyTorch scripts or traces models of torchvision, torchaudio and transformers with random weights,
and writes each archive with inputs and outputs.  tritorch loads it, runs it and saves it again;
PyTorch loads and runs that.  Nothing is downloaded.  --record writes the counts to
bench/results/archives.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent.parent.parent / "bench" / "results" / "archives.json"
TOLERANCE = 1e-5
_VISION = ("resnet18", "resnet50", "alexnet", "vgg11", "squeezenet1_0", "densenet121",
           "googlenet", "inception_v3", "mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x0_5",
           "mnasnet0_5", "efficientnet_b0", "regnet_y_400mf", "convnext_tiny", "vit_b_16",
           "swin_t", "maxvit_t")  # fmt: skip
_SEGMENTATION = ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")
_AUDIO = (
    "wav2vec2",
    "conformer",
    "emformer",
    "deepspeech",
    "wav2letter",
    "tacotron2",
    "conv_tasnet",
)
_TEXT = ("bert", "gpt2", "distilbert", "t5", "roberta", "electra")
NAMES = tuple(
    f"{kind}.{name}"
    for kind, names in (
        ("vision", _VISION),
        ("segmentation", _SEGMENTATION),
        ("audio", _AUDIO),
        ("text", _TEXT),
    )
    for name in names
)


# ---- PyTorch's side ------------------------------------------------------------------------------


def without_extensions() -> None:
    """Let torchvision import without its C++, which is made for another build of PyTorch.  Of
    torchaudio the files in `torchaudio/lib` must be gone."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    kept.append(library)


kept: list[Any] = []


def build(name: str) -> tuple[Any, tuple[Any, ...], bool]:
    """A model, its inputs, and whether it is traced."""
    import torch

    kind, _, plain = name.partition(".")
    if kind == "vision":
        import torchvision

        options: dict[str, Any] = {"weights": None}
        if plain in ("googlenet", "inception_v3"):
            options |= {"init_weights": True, "transform_input": True}
        model = getattr(torchvision.models, plain)(**options)
        size = (
            299
            if plain == "inception_v3"
            else 224
            if plain in ("vit_b_16", "swin_t", "maxvit_t")
            else 96
        )
        return model, (torch.randn(1, 3, size, size),), False
    if kind == "segmentation":
        import torchvision

        model = getattr(torchvision.models.segmentation, plain)(weights=None, weights_backbone=None)
        return model, (torch.randn(1, 3, 64, 64),), False
    if kind == "audio":
        return _audio(plain)
    return _text(plain)


def _audio(plain: str) -> tuple[Any, tuple[Any, ...], bool]:
    import torch
    import torchaudio

    models = torchaudio.models
    if plain == "wav2vec2":
        return models.wav2vec2_base(), (torch.randn(1, 4000),), False
    if plain == "conformer":
        made = models.Conformer(input_dim=40, num_heads=4, ffn_dim=64, num_layers=2,
                                depthwise_conv_kernel_size=31)  # fmt: skip
        return made, (torch.randn(2, 50, 40), torch.tensor([50, 40])), False
    if plain == "emformer":
        made = models.Emformer(64, 4, 128, 2, 8, right_context_length=1)
        return made, (torch.randn(2, 33, 64), torch.tensor([30, 32])), False
    if plain == "deepspeech":
        return models.DeepSpeech(40, n_hidden=64), (torch.randn(2, 1, 20, 40),), False
    if plain == "wav2letter":
        return (
            models.Wav2Letter(num_classes=10, num_features=20, input_type="mfcc"),
            (torch.randn(1, 20, 60),),
            False,
        )
    if plain == "tacotron2":
        made = models.Tacotron2(
            n_symbol=20,
            encoder_embedding_dim=32,
            symbol_embedding_dim=32,
            decoder_rnn_dim=32,
            attention_rnn_dim=32,
            prenet_dim=16,
            postnet_embedding_dim=32,
        )
        inputs = (
            torch.randint(0, 20, (2, 9)),
            torch.tensor([9, 7]),
            torch.randn(2, 80, 11),
            torch.tensor([11, 8]),
        )
        return made, inputs, False
    return models.conv_tasnet_base(), (torch.randn(1, 1, 4000),), False


def _text(plain: str) -> tuple[Any, tuple[Any, ...], bool]:
    import torch
    import transformers

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
             "intermediate_size": 64, "vocab_size": 100}  # fmt: skip
    ids = torch.randint(0, 100, (1, 12))
    if plain == "bert":
        config = transformers.BertConfig(**small, attn_implementation="eager")
        return transformers.BertModel(config), (ids,), True
    if plain == "roberta":
        config = transformers.RobertaConfig(**small, attn_implementation="eager")
        return transformers.RobertaModel(config), (ids,), True
    if plain == "electra":
        config = transformers.ElectraConfig(**small, embedding_size=32, attn_implementation="eager")
        return transformers.ElectraModel(config), (ids,), True
    if plain == "distilbert":
        config = transformers.DistilBertConfig(
            dim=32,
            n_layers=2,
            n_heads=2,
            hidden_dim=64,
            vocab_size=100,
            attn_implementation="eager",
        )
        return transformers.DistilBertModel(config), (ids,), True
    if plain == "t5":
        config = transformers.T5Config(
            d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, vocab_size=100
        )
        return transformers.T5EncoderModel(config), (ids,), True
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=100, n_positions=32,
                                     attn_implementation="eager", use_cache=False)  # fmt: skip
    return transformers.GPT2Model(config), (ids,), True


class _Tuples:
    """A model whose results are tuples of tensors, which traces can give."""

    @staticmethod
    def around(model: Any) -> Any:
        import torch

        class Plain(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, ids: Any) -> Any:
                return self.model(ids, return_dict=False)[0]

        return Plain()


def write(names: list[str], folder: Path) -> None:
    """Writes archives, inputs and outputs with PyTorch."""
    import torch

    without_extensions()
    for name in names:
        try:
            torch.manual_seed(0)
            model, inputs, is_traced = build(name)
            model = (_Tuples.around(model) if is_traced else model).eval()
            with torch.no_grad():
                made = (
                    torch.jit.trace(model, inputs, check_trace=False)
                    if is_traced
                    else torch.jit.script(model)
                )
                made.save(str(folder / f"{name}.pt"))
                torch.manual_seed(1)
                outputs = flat(made(*inputs))
            torch.save((inputs, outputs), folder / f"{name}.io")
            print(name, "written", flush=True)
        except Exception as error:
            print(name, "NOT WRITTEN", repr(error)[:300], flush=True)


def _reads_back(path: Path, inputs: Any, outputs: Any) -> Any:
    import torch

    return compare(torch.jit.load(str(path)), inputs, outputs)


def read_back(names: list[str], folder: Path) -> None:
    """Loads what tritorch saved, and compares."""
    import torch

    for name in names:
        path = folder / f"{name}.ours.pt"
        if path.exists():
            inputs, outputs = torch.load(folder / f"{name}.io", weights_only=False)
            report(name, "back", partial(_reads_back, path, inputs, outputs))


# ---- both sides ----------------------------------------------------------------------------------


def flat(value: Any) -> list[Any]:
    """The tensors of a result, in order."""
    if hasattr(value, "detach"):
        return [value]
    if isinstance(value, dict):
        return [x for _, item in sorted(value.items()) for x in flat(item)]
    if isinstance(value, (tuple, list)):
        return [x for item in value for x in flat(item)]
    return []


def compare(module: Any, inputs: Any, outputs: Any) -> float:
    """The largest difference of a run, relative to the results' size."""
    torch = sys.modules["torch"]
    torch.manual_seed(1)
    with torch.no_grad():
        found = flat(module(*inputs))
    assert len(found) == len(outputs), f"{len(found)} results, {len(outputs)} wanted"
    worst = 0.0
    for a, b in zip(found, outputs):
        assert tuple(a.shape) == tuple(b.shape), f"{tuple(a.shape)} is not {tuple(b.shape)}"
        if a.numel():
            scale = max(1.0, float(b.double().abs().max()))
            worst = max(worst, float((a.double() - b.double()).abs().max()) / scale)
    assert worst <= TOLERANCE, f"differs by {worst:.3g}"
    return worst


def report(name: str, what: str, run: Callable[[], Any]) -> None:
    """Runs, and prints how it went as a line that `main` reads."""
    start = time.perf_counter()
    try:
        result = run()
    except Exception as error:
        if os.environ.get("SHOW"):
            traceback.print_exc()
        print(f"{name}\t{what}\tFAILED\t{str(error)[-400:]!r}", flush=True)
        return
    print(f"{name}\t{what}\tok\t{result!r} in {time.perf_counter() - start:.1f} s", flush=True)


def load_all(names: list[str], folder: Path) -> None:
    """Loads PyTorch's archives with tritorch, runs them and saves them again."""
    import tritorch as torch

    sys.modules["torch"] = torch
    for name in names:
        path = folder / f"{name}.pt"
        if not path.exists():
            continue
        inputs, outputs = torch.load(folder / f"{name}.io", weights_only=False)

        def load() -> float:
            module = torch.jit.load(str(path))  # noqa: B023
            worst = compare(module, inputs, outputs)  # noqa: B023
            module.save(str(folder / f"{name}.ours.pt"))  # noqa: B023
            return worst

        report(name, "load", load)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--torch", help="a Python with torch, torchvision, torchaudio, transformers"
    )
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--side", choices=("write", "load", "back"))
    parser.add_argument("--record", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    names = args.names or list(NAMES)
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.side:
        {"write": write, "load": load_all, "back": read_back}[args.side](names, args.folder)
        return 0
    here = [str(Path(__file__).resolve()), "--folder", str(args.folder)]
    missing = [n for n in names if not (args.folder / f"{n}.io").exists()]
    lines: list[str] = []
    for python, side, wanted in (
        (args.torch, "write", missing),
        (sys.executable, "load", names),
        (args.torch, "back", names),
    ):
        if wanted:
            done = subprocess.run(
                [python, *here, "--side", side, *wanted], stdout=subprocess.PIPE, text=True
            )
            print(done.stdout, end="")
            lines += done.stdout.splitlines()
    found: dict[str, dict[str, bool]] = {}
    for line in lines:
        parts = line.split("\t")
        if len(parts) == 4:
            found.setdefault(parts[0], {})[parts[1]] = parts[2] == "ok"
    both = sum(all(each.get(k) for k in ("load", "back")) for each in found.values())
    loaded = sum(bool(each.get("load")) for each in found.values())
    print(f"{loaded} of {len(found)} load and agree, {both} of them both ways")
    if args.record:
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
