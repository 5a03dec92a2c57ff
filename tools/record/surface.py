#!/usr/bin/env python3
"""Records what the expressions of tests/surface give with torch 2.13, and compares tritorch.

python tools/record/surface.py --torch PYTHON_WITH_TORCH [FAMILY ...]    write recorded.json
python tools/record/surface.py --compare [FAMILY ...]                    what differs
"""

from __future__ import annotations

import json
import sys
import tomllib

from recording import TESTS, answers, parser, write_json

FOLDER = TESTS / "surface"
RUNNING = ("-m", "tests.surface.running")


def main() -> None:
    """Records, or compares."""
    options = parser(__doc__)
    options.add_argument("--torch", help="an interpreter with torch: record")
    options.add_argument("--compare", action="store_true", help="print what differs")
    options.add_argument("families", nargs="*")
    args = options.parse_args()
    path = FOLDER / "recorded.json"
    recorded = json.loads(path.read_text()) if path.exists() else {}
    if args.torch:
        new = answers(args.torch, *RUNNING, "torch", *args.families)
        recorded = {**recorded, **new} if args.families else new
        write_json(path, recorded, sort_keys=True)
        print(f"{sum(map(len, new.values()))} expressions recorded")
    if args.compare:
        told = tomllib.loads((FOLDER / "differs.toml").read_text())
        agree = total = 0
        for family, lines in answers(sys.executable, *RUNNING, *args.families).items():
            for line, text in lines.items():
                want = recorded[family][line]
                total += 1
                agree += text == want
                if text != want and line not in told.get(family, {}):
                    print(f"--- {family}: {line}\n  ours:  {text[:300]!r}\n  torch: {want[:300]!r}")
        print(f"{agree} of {total} agree")


if __name__ == "__main__":
    main()
