"""Writes tests/ops/recorded_linalg.npz: what the real torch's linear algebra computes and refuses.

Runs under an interpreter that has torch: `python tools/record/linalg.py`.  The tests need none.
"""

import json

import numpy as np
import torch
from recording import TESTS, read_cases

cases = read_cases(TESTS / "ops/linalg_cases.py")
arrays = {}
for kind, dtype in (("r", np.float64), ("c", np.complex128)):
    for call in cases.CALLS:
        try:
            found = cases.run(torch, call, kind, dtype)
        except Exception as error:
            raise SystemExit(f"{call}: {error}") from error
        arrays |= {f"{kind} {call} {name}": value for name, value in found.items()}
errors = {call: cases.complaint(torch, call) for call in cases.ERRORS}
path = TESTS / "ops/recorded_linalg.npz"
np.savez_compressed(path, errors=json.dumps(errors), **arrays)
print(
    f"{len(arrays)} arrays, {len(errors)} errors, {path.stat().st_size} bytes, {torch.__version__}"
)
print("\n".join(f"{call}: {why}" for call, why in errors.items() if not why[0]))
