#!/usr/bin/env python3
"""Records how PyTorch's utils.data answers the expressions of tests/data/cases.py.

PYTHON_WITH_TORCH tools/record/data.py
"""

from __future__ import annotations

import json
from pathlib import Path

from reading import read_cases

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "data"
TARGET = FOLDER / "recorded.json"


def main() -> None:
    """Writes what torch answers."""
    import torch

    cases = read_cases(FOLDER / "cases.py")
    names = cases.namespace(torch)
    answers = {e: cases.answer(e, names) for e in cases.EXPRESSIONS}
    TARGET.write_text(json.dumps(answers, indent=1) + "\n")
    print(f"{len(answers)} expressions with torch {torch.__version__}: {TARGET}")


if __name__ == "__main__":
    main()
