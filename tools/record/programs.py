#!/usr/bin/env python3
"""Records what the programs in tests/programs/scripts print with PyTorch.

    PYTHON_WITH_TORCH tools/record/programs.py

The tests run the same programs, unchanged, with tritorch.
"""

from __future__ import annotations

import sys

from recording import TESTS, answers, write_json

TARGET = TESTS / "programs" / "recorded_programs.json"


def main() -> None:
    """Writes the file."""
    script = TARGET.parent / "run_scripts.py"
    found = answers(sys.executable, script, TORCHDYNAMO_DISABLE="1")
    failed = {name: what["error"] for name, what in found.items() if what["error"]}
    if failed:
        sys.exit("\n".join(f"{name}: {error}" for name, error in failed.items()))
    lines = {name: what["out"].splitlines() for name, what in found.items()}
    write_json(TARGET, lines)
    print(f"{TARGET}: {len(lines)} programs, {sum(map(len, lines.values()))} lines")


if __name__ == "__main__":
    main()
