"""Writes recorded.json of folders of tests: what their expressions give with the real torch.

Runs under an interpreter that has torch: `python tools/record/expressions.py [FOLDER ...]`.
"""

import importlib
import sys

import torch
from recording import TESTS, write_json

FOLDERS = "expressions layouts names saved histories nodes graphs warned"
for folder in sys.argv[1:] or FOLDERS.split():
    cases = importlib.import_module(f"tests.{folder}.cases")
    recorded = {family: dict(cases.run(torch, family)) for family in cases.FAMILIES}
    write_json(TESTS / folder / "recorded.json", recorded)
    print(f"{folder}: {sum(map(len, recorded.values()))} expressions, torch {torch.__version__}")
