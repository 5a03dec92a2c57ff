"""Writes tests/nn/recorded.npz: what the real torch's modules print and compute.

Runs under an interpreter that has torch: `python tools/record/nn.py`.  The tests need none.
"""

import json

import numpy as np
import torch
import torch.nn.utils.prune
from recording import TESTS, read_cases

cases = read_cases(TESTS / "nn/cases.py")
texts, arrays = [], {}
for index, (expression, _) in enumerate(cases.CASES):
    found = cases.run(torch, index)
    texts.append({"case": expression, "repr": found.pop("repr"), "state": found.pop("state")})
    arrays |= {f"{index} {name}": np.asarray(value) for name, value in found.items()}
np.savez_compressed(TESTS / "nn/recorded.npz", texts=json.dumps(texts), **arrays)
print(f"{len(texts)} cases, {len(arrays)} arrays, torch {torch.__version__}")
