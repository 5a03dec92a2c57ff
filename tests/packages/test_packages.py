"""Packages made for PyTorch, unmodified: those that are installed here are tried.

CI tries them in an environment of their own (tools/package_trials.py); here they are what a
developer's environment happens to have.
"""

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("package_trials", ROOT / "tools/package_trials.py")
tool = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = tool
spec.loader.exec_module(tool)


def test_every_trial_is_listed_and_says_what_it_tries():
    listed = {trial.name for trial in tool.trials()}
    assert listed == {p.stem.removeprefix("try_") for p in tool.TRIALS.glob("try_*.py")}
    assert all(trial.what and trial.packages for trial in tool.trials())


@pytest.mark.parametrize("trial", tool.trials(), ids=lambda trial: trial.name)
def test_a_package(trial):
    if importlib.util.find_spec("torch") is not None:
        pytest.skip("torch is installed here")
    done = tool.run(Path(sys.executable), trial)
    if done.state == "skipped":
        pytest.skip(done.said)
    assert done.state == "ok", done.said
