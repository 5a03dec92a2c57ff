"""Modules are found under the paths that pickles, packages and programs name."""

import importlib
import importlib.util
import pickle

import pytest

import tritorch
from tritorch.compat import moved


def test_all_former_paths_lead_to_a_module():
    table = moved._moved()
    assert len(table) > 200
    for former, present in table.items():
        assert importlib.util.find_spec(f"tritorch.{present}") is not None, present
        assert moved.home_of(f"tritorch.{former}") == f"tritorch.{present}"


@pytest.mark.parametrize(
    ("former", "present"),
    [
        ("_trees.spec", "trees.spec"),
        ("core.meta", "arrays.meta"),
        ("kernels.elementary", "kernels.scalar.elementary"),
        ("_following.gradients.cut", "compilation.backward.partition"),
        ("ops.checks", "ops.record.checks"),
        ("compat.torch_private._utils", "_utils"),
    ],
)
def test_both_paths_give_one_module(former, present):
    module = importlib.import_module(f"tritorch.{present}")
    assert importlib.import_module(f"tritorch.{former}") is module
    assert module.__spec__.name == f"tritorch.{present}"


def test_private_modules_of_pytorch_have_its_paths():
    dynamo = importlib.import_module("tritorch._dynamo.config")
    assert dynamo.__name__ == "tritorch._dynamo.config" and tritorch._dynamo.config is dynamo
    with pytest.raises(ModuleNotFoundError, match="tritorch._no_such_module"):
        importlib.import_module("tritorch._no_such_module")
    with pytest.raises(AttributeError, match="_no_such_module"):
        tritorch._no_such_module  # noqa: B018


def test_a_pickle_of_an_earlier_version_loads():
    spec = tritorch.utils._pytree.tree_structure({"a": [1, 2]})
    text = pickle.dumps(spec, protocol=0).replace(b"tritorch.trees.spec", b"tritorch._trees.spec")
    assert b"tritorch._trees.spec" in text and pickle.loads(text) == spec
