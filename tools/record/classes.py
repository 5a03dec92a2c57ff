#!/usr/bin/env python3
"""Records what classes PyTorch 2.13's files define, and which attributes of instances are
assignable, for tests/classes.

python tools/record/classes.py PYTHON_WITH_TORCH
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Writes recorded.json and assignable.json."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for module, file in (("describing", "recorded"), ("assigning", "assignable")):
        command = [sys.argv[1], "-W", "ignore", "-m", f"tests.classes.{module}", "torch"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        lines = (f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
        text = ",\n".join(lines)
        (ROOT / "tests" / "classes" / f"{file}.json").write_text(f"{{\n{text}\n}}\n")
        print(f"{len(found)} classes in {file}.json")


if __name__ == "__main__":
    main()
