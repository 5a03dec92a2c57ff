"""Writes recorded.json of folders of tests: what their expressions give with the real torch.

Runs under an interpreter that has torch: `python tools/record/expressions.py [FOLDER ...]`.
"""

import importlib
import json
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

FOLDERS = "expressions layouts names saved histories nodes graphs warned"
for folder in sys.argv[1:] or FOLDERS.split():
    cases = importlib.import_module(f"tests.{folder}.cases")
    recorded = {family: dict(cases.run(torch, family)) for family in cases.FAMILIES}
    path = ROOT / "tests" / folder / "recorded.json"
    path.write_text(json.dumps(recorded, indent=1, ensure_ascii=True) + "\n")
    print(f"{folder}: {sum(map(len, recorded.values()))} expressions, torch {torch.__version__}")
