#!/usr/bin/env python3
"""Records what classes PyTorch 2.13's files define, and which attributes of instances are
assignable, for tests/classes.

python tools/record/classes.py PYTHON_WITH_TORCH
"""

from __future__ import annotations

import sys

from recording import TESTS, answers, write_rows


def main() -> None:
    """Writes recorded.json and assignable.json."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for module, file in (("describing", "recorded"), ("assigning", "assignable")):
        found = answers(sys.argv[1], "-m", f"tests.classes.{module}", "torch")
        write_rows(TESTS / f"classes/{file}.json", dict(sorted(found.items())))
        print(f"{len(found)} classes in {file}.json")


if __name__ == "__main__":
    main()
