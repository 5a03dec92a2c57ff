"""How the examples are run for their loss curves, with any library in torch's place.

The tests run them with tritorch, tools/record/examples.py with torch.  Data come from NumPy in the
examples themselves; here the weights do too.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLES = Path(__file__).parents[2] / "examples"

# Each example's model, and its options: small enough for a simulated GPU.
CASES = {
    "char_gpt": ("GPT", "--batch=2 --context=8 --width=16 --layers=1 --heads=2 --sample=2"),
    "cnn": ("CNN", "--batch=4 --size=8 --width=4 --unseen=2"),
    "resnet": ("ResNet", "--batch=2 --size=4 --width=8 --stages=2 --unseen=2"),
    "vae": ("VAE", "--batch=8 --size=8 --width=4 --code=4"),
    "lstm_tagger": ("Tagger", "--batch=3 --width=8 --unseen=3"),
    "diffusion": ("Denoiser", "--batch=16 --width=16 --layers=2 --times=10 --points=50"),
    "reinforce": ("Policy", "--batch=4 --longest=20 --width=12"),
}


def load(name: str) -> Any:
    """An example's module, found the way its own imports are: in its folder."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    return importlib.import_module(name)


def set_weights(model: Any, torch: Any) -> Any:
    """Weights from NumPy: about 1 over the root of the inputs, norms' scales about 1."""
    rng = np.random.default_rng(7)
    with torch.no_grad():
        for parameter in model.parameters():
            shape = tuple(parameter.shape)
            if len(shape) > 1:
                values = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
            else:
                start = 1.0 if bool((parameter == 1).all()) else 0.0
                values = start + 0.1 * rng.standard_normal(shape)
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))
    return model


def run(name: str, torch: Any, steps: int, out: Path, device: str, *more: str) -> list[float]:
    """The losses of an example's first steps, its model started by `set_weights`."""
    example = load(name)
    model, options = CASES[name]
    make = getattr(example, model)
    argv = [*options.split(), f"--steps={steps}", f"--out={out}", f"--device={device}", *more]
    setattr(example, model, lambda *args: set_weights(make(*args), torch))
    try:
        return example.main(argv)
    finally:
        setattr(example, model, make)
