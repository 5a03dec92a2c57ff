#!/usr/bin/env python3
"""Records what the expressions of tests/surface give with torch 2.13, and compares tritorch.

python tools/record/surface.py --torch PYTHON_WITH_TORCH [FAMILY ...]    write recorded.json
python tools/record/surface.py --compare [FAMILY ...]                    what differs
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "surface"


def run(python: str, *arguments: str) -> dict[str, dict[str, str]]:
    """What each expression gives under an interpreter."""
    command = [python, "-W", "ignore", "-m", "tests.surface.running", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    """Records, or compares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--torch", help="an interpreter with torch: record")
    parser.add_argument("--compare", action="store_true", help="print what differs")
    parser.add_argument("families", nargs="*")
    args = parser.parse_args()
    path = FOLDER / "recorded.json"
    recorded = json.loads(path.read_text()) if path.exists() else {}
    if args.torch:
        new = run(args.torch, "torch", *args.families)
        recorded = {**recorded, **new} if args.families else new
        path.write_text(json.dumps(recorded, indent=1, ensure_ascii=True, sort_keys=True) + "\n")
        print(f"{sum(map(len, new.values()))} expressions recorded")
    if args.compare:
        told = tomllib.loads((FOLDER / "differs.toml").read_text())
        agree = total = 0
        for family, lines in run(sys.executable, *args.families).items():
            for line, text in lines.items():
                want = recorded[family][line]
                total += 1
                agree += text == want
                if text != want and line not in told.get(family, {}):
                    print(f"--- {family}: {line}\n  ours:  {text[:300]!r}\n  torch: {want[:300]!r}")
        print(f"{agree} of {total} agree")


if __name__ == "__main__":
    main()
