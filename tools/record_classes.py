#!/usr/bin/env python3
"""Records what classes PyTorch 2.13's files define, for tests/classes.

python tools/record_classes.py PYTHON_WITH_TORCH
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main() -> None:
    """Writes recorded.json."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    command = [sys.argv[1], "-W", "ignore", "-m", "tests.classes.describing", "torch"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    (ROOT / "tests" / "classes" / "recorded.json").write_text(f"{{\n{lines}\n}}\n")
    print(f"{len(found)} classes")


if __name__ == "__main__":
    main()
