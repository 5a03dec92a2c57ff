"""PyTorch's classes, private ones too: the arguments of constructors, the bases, the homes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "recorded.json").read_text())
APART = {  # and why
    "amp.autocast_mode._UnmanagedAutocast": "what torch.export writes into graphs",
    "nn.modules.lazy._LazyProtocol": "an annotation of `self`",
    "nn.parameter._BufferMeta": "the class of Tensor is `type`",
    "nn.parameter._ParameterMeta": "the class of Tensor is `type`",
    "nn.parameter.UninitializedParameter": "PyTorch's is built by __new__",
    "nn.parameter.UninitializedBuffer": "PyTorch's is built by __new__",
}


def _found() -> dict[str, Any]:
    names: dict[str, list[str]] = {}
    for dotted in RECORDED:
        path, _, name = dotted.rpartition(".")
        names.setdefault(path, []).append(name)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.classes.describing"],
        input=json.dumps(names), capture_output=True, text=True, check=False, cwd=HERE.parents[1],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _is_within(wanted: list[str], bases: list[str]) -> bool:
    """Whether these bases are among ours, in this order; we may have others in between."""
    rest = iter(bases)
    return all(name in rest for name in wanted)


def test_classes_are_what_they_are_in_pytorch() -> None:
    wrong = {}
    for dotted, ours in _found().items():
        arguments, bases, home = RECORDED[dotted]
        if ours is None:
            wrong[dotted] = "missing"
        elif arguments not in (ours[0], "self, *args, **kwargs", "self, /, *args, **kwargs", "?"):
            wrong[dotted] = f"{ours[0]}, not {arguments}"
        elif not _is_within(bases, ours[1]) or ours[2] != home:
            wrong[dotted] = f"{ours[1:]}, not {[bases, home]}"
    assert {name: why for name, why in wrong.items() if name not in APART} == {}
    assert len(RECORDED) > 250 and not set(APART) - set(RECORDED)
