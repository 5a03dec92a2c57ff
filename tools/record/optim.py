#!/usr/bin/env python3
"""Records what PyTorch's optimizers and schedules do, for tests/optim.

    PYTHON_WITH_TORCH tools/record/optim.py

The cases are in tests/optim/cases.py: the tests run them with tritorch in torch's place.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

from recording import TESTS, read_cases

TARGET = TESTS / "optim/recorded.json"


def _sparse_adam(torch: Any, cases: Any, options: dict[str, Any]) -> Any:
    p = torch.tensor(cases.array((3, 3), 1.0, "float32"), requires_grad=True)
    optimizer = torch.optim.SparseAdam([p], **options)
    for number in range(5):
        rows, grad = cases.sparse_step(number)
        p.grad = torch.sparse_coo_tensor(torch.tensor([rows]).long(), torch.tensor(grad), (3, 3))
        optimizer.step()
    return {"params": cases.plain([p]), "state": cases.plain(optimizer.state_dict()["state"])}


def _short(value: Any) -> Any:
    """Ten significant digits tell float32 apart; twelve are enough for float64 here."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, (list, tuple)) else value


def main() -> None:
    """Writes what torch computes."""
    import torch

    warnings.simplefilter("ignore")
    cases = read_cases(TESTS / "optim/cases.py")
    optimizers, first = [], set()
    for name, options in cases.OPTIMIZERS:
        dtypes = ["float32"] if name in first else ["float32", "float64", "complex64"]
        for dtype in dtypes:
            if not (dtype == "complex64" and name in ("Adafactor", "Muon")):
                found = cases.run(torch, name, options, dtype)
                optimizers.append([name, options, dtype, found])
        first.add(name)
    resumed = []
    for name in cases.CLASSES:
        options = next(o for n, o in cases.OPTIMIZERS if n == name)
        params, optimizer = cases.make(torch, name, options, "float32")
        for number in range(cases.RESUME_AT):
            cases.step(torch, params, optimizer, number)
        resumed.append([name, cases.plain(params), cases.plain(optimizer.state_dict())])
    recorded = {
        "torch": torch.__version__,
        "optimizers": optimizers,
        "resumed": resumed,
        "lbfgs": [[o, cases.run_lbfgs(torch, o)] for o in cases.LBFGS],
        "sparse_adam": [[o, _sparse_adam(torch, cases, o)] for o in cases.SPARSE_ADAM],
        "schedulers": [[text, cases.run_scheduler(torch, text)] for text in cases.SCHEDULERS],
        "epochs": [[text, cases.run_epochs(torch, text)] for text in cases.EPOCH_FORM],
        "resumed_schedules": [[text, cases.run_resumed(torch, text)] for text in cases.RESUMED],
        "errors": [[text, cases.run_error(torch, text)] for text in cases.ERRORS],
        "repr": repr(cases.make(torch, "Adam", {"lr": 0.5}, "float32", named=True)[1]),
    }
    lines = []
    for key, value in recorded.items():
        if isinstance(value, list):
            rows = ",\n".join(json.dumps(_short(row), separators=(",", ":")) for row in value)
            lines.append(f"{json.dumps(key)}: [\n{rows}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(optimizers)} runs of torch {torch.__version__} in {TARGET}")


if __name__ == "__main__":
    main()
