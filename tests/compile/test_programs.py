"""The examples and the programs of tests/programs compiled: they print and lose the same."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tritorch as torch
from tests.programs import curves
from tests.tiers import first_quick

SCRIPTS = Path(curves.__file__).parent / "scripts"
NAMES = sorted({path.stem for path in SCRIPTS.glob("*.py")} - {"seedless"})
STEPS = 6


@functools.cache
def printed(way: str) -> Any:
    """The texts that all programs print plainly, and in a way to run them."""
    script = Path(__file__).with_name("compiled_scripts.py")
    done = subprocess.run(
        [sys.executable, "-m", "tritorch", "run", script, way],
        capture_output=True, text=True, check=False,
        env={**os.environ, "TRITORCH_SIMULATE_CUDA": "0", "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("way", first_quick(["models", "whole"]))
@pytest.mark.parametrize("name", NAMES)
def test_programs_print_the_same(name: str, way: str) -> None:
    eager, compiled = printed(way)[name]
    assert "Traceback" not in eager and len(eager) > 100
    for out in compiled:
        assert out == eager


def with_compiled_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the examples' models are compiled in place."""
    prepare = curves.set_weights

    def prepared(model: Any, library: Any) -> Any:
        prepare(model, library).compile()
        return model

    monkeypatch.setattr(curves, "set_weights", prepared)


@pytest.mark.parametrize("name", curves.CASES)
def test_examples_lose_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    eager = curves.run(name, torch, STEPS, tmp_path / "eager", "cpu")
    whole = torch.compile(curves.run)
    for number in range(2):
        assert whole(name, torch, STEPS, tmp_path / f"whole {number}", "cpu") == eager
    with_compiled_models(monkeypatch)
    assert curves.run(name, torch, STEPS, tmp_path / "model", "cpu") == eager


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["char_gpt", "resnet"])
def test_examples_in_narrow_types(
    name: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With autocast, and a scaler for float16."""
    eager = curves.run(name, torch, STEPS, tmp_path / "eager", "cpu", f"--dtype={dtype}")
    with_compiled_models(monkeypatch)
    assert curves.run(name, torch, STEPS, tmp_path / "model", "cpu", f"--dtype={dtype}") == eager
