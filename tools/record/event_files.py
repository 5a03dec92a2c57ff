#!/usr/bin/env python3
"""Records what PyTorch's SummaryWriter writes, for tests/tensorboard.

PYTHON_WITH_TORCH_AND_TENSORBOARD tools/record/event_files.py
"""

from __future__ import annotations

import json
import tempfile

from recording import TESTS, read_cases

FOLDER = TESTS / "tensorboard"


def main() -> None:
    """Writes the file."""
    import torch
    from torch.utils.tensorboard import SummaryWriter

    cases = read_cases(FOLDER / "cases.py")
    with tempfile.TemporaryDirectory() as folder:
        cases.log(torch, SummaryWriter, folder)
        found = cases.read(folder)
    target = FOLDER / "recorded.json"
    target.write_text(json.dumps(found, indent=None, separators=(",", ":")).replace('{"', '\n{"'))
    print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
