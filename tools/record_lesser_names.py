"""Writes tests/names/recorded.json: what expressions give with the real torch.

Runs under an interpreter that has torch: `python tools/record_lesser_names.py`.
"""

import json
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "names"))

import cases  # noqa: E402

recorded = {family: dict(cases.run(torch, family)) for family in cases.FAMILIES}
path = ROOT / "tests" / "names" / "recorded.json"
path.write_text(json.dumps(recorded, indent=1, ensure_ascii=True) + "\n")
print(f"{sum(map(len, recorded.values()))} expressions, torch {torch.__version__}")
