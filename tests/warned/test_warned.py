"""What PyTorch warns of is warned of here: category, words, once or each time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import cases

ROOT = Path(__file__).parent.parent.parent
RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import tritorch
from tests.warned import cases
print(json.dumps({f: dict(cases.run(tritorch, f)) for f in cases.FAMILIES}))
"""

# What differs, and why.
OTHER = {
    "it is not there": """
        torch._vmap_internals.vmap(lambda t: t)(x)
        """,
    "Tensor.__array_wrap__ has the arguments that NumPy asks for": """
        np.add(torch.ones(2), np.ones(2))
        """,
    "tracing is the function itself": """
        torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))
        torch.jit.trace(lambda t: t * 2, torch.ones(1, 2))
        """,
    "without a GPU the error is another": """
        torch.cuda.reset_max_memory_allocated()
        torch.cuda.reset_max_memory_cached()
        """,
}  # fmt: skip
EXCEPTIONS = {line.strip() for text in OTHER.values() for line in text.strip().splitlines()}


@pytest.fixture(scope="module")
def found():
    """What a process of its own says, in which nothing has been said before."""
    plain = {k: v for k, v in os.environ.items() if k != "TRITORCH_SIMULATE_CUDA"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT)],
        capture_output=True, text=True, check=True, env=plain,
    )  # fmt: skip
    return json.loads(run.stdout.splitlines()[-1])


def test_recorded_are_the_cases(found):
    assert {f: list(v) for f, v in RECORDED.items()} == {
        f: cases.expressions(f) for f in cases.FAMILIES
    }
    assert {f: list(v) for f, v in found.items()} == {f: list(v) for f, v in RECORDED.items()}


@pytest.mark.parametrize("family", cases.FAMILIES)
def test_warned_as_recorded(family, found):
    wrong = {
        call: (found[family][call], theirs)
        for call, theirs in RECORDED[family].items()
        if call not in EXCEPTIONS and found[family][call] != theirs
    }
    assert not wrong


def test_exceptions_are_still_exceptions(found):
    for family, calls in RECORDED.items():
        for call in EXCEPTIONS & calls.keys():
            assert found[family][call] != calls[call], call
