#!/usr/bin/env python3
"""Records what the programs in tests/programs/scripts print with PyTorch.

    PYTHON_WITH_TORCH tools/record/programs.py

The tests run the same programs, unchanged, with tritorch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "programs"
TARGET = FOLDER / "recorded_programs.json"


def main() -> None:
    """Writes the file."""
    done = subprocess.run(
        [sys.executable, FOLDER / "run_scripts.py"],
        env={**os.environ, "TORCHDYNAMO_DISABLE": "1"},
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(done.stdout)
    failed = {name: what["error"] for name, what in found.items() if what["error"]}
    if failed:
        sys.exit("\n".join(f"{name}: {error}" for name, error in failed.items()))
    lines = {name: what["out"].splitlines() for name, what in found.items()}
    TARGET.write_text(json.dumps(lines, indent=1) + "\n")
    print(f"{TARGET}: {len(lines)} programs, {sum(map(len, lines.values()))} lines")


if __name__ == "__main__":
    main()
