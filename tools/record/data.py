#!/usr/bin/env python3
"""Records how PyTorch's utils.data answers the expressions of tests/data/cases.py.

PYTHON_WITH_TORCH tools/record/data.py
"""

from __future__ import annotations

from recording import TESTS, read_cases, write_json


def main() -> None:
    """Writes what torch answers."""
    import torch

    cases = read_cases(TESTS / "data/cases.py")
    names, target = cases.namespace(torch), TESTS / "data/recorded.json"
    answers = {e: cases.answer(e, names) for e in cases.EXPRESSIONS}
    write_json(target, answers)
    print(f"{len(answers)} expressions with torch {torch.__version__}: {target}")


if __name__ == "__main__":
    main()
