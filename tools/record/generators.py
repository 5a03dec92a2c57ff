#!/usr/bin/env python3
"""Records what PyTorch draws on the CPU from one seed, for tests/core/test_random.py.

PYTHON_WITH_TORCH tools/record/generators.py

Of every draw of tests/core/draws.py a fingerprint is kept, and of the generator's state after it;
and one state as it is, with the numbers that follow it.
"""

from __future__ import annotations

import base64
import warnings
import zlib
from typing import Any

import torch
import torch.nn.utils.prune
import torch.utils.data
from recording import ROOT, TESTS, write_json

from tests.core.draws import COUNT, DRAWS, SEQUENCES, digest

TARGET = TESTS / "core" / "recorded_random.json"


def fingerprints(numbers: Any) -> list[str]:
    """Of numbers, and of the state after they were drawn."""
    return [digest(torch, numbers), digest(torch, torch.get_rng_state())]


def main() -> None:
    """Writes what torch draws."""
    warnings.simplefilter("ignore")
    draws: dict[str, dict[str, list[str]]] = {}
    for draw in DRAWS:
        for dtype in draw.dtypes:
            torch.manual_seed(5)
            draws.setdefault(draw.name, {})[dtype] = fingerprints(draw(torch, COUNT, dtype))
    sequences = {}
    torch.manual_seed(6)
    for name, call in SEQUENCES.items():
        sequences[name] = fingerprints(call(torch))
    torch.manual_seed(2**63 + 7)
    torch.rand(1000), torch.randn(3)
    state = zlib.compress(torch.get_rng_state().numpy().tobytes(), 9)
    found = {
        "torch": torch.__version__,
        "draws": draws,
        "sequences": sequences,
        "state": base64.b85encode(state).decode(),
        "after": [torch.randn(3).tolist(), torch.rand(3).tolist()],
    }
    write_json(TARGET, found)
    print(f"wrote {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
