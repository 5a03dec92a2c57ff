"""What the classes of PyTorch's files are: constructors, bases, homes.  Runs with torch, too.

python -m tests.classes.describing [torch]    print it as JSON, of torch or of tritorch
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from typing import Any

MODULES = (
    *(
        f"nn.modules.{name}"
        for name in (
            "activation", "adaptive", "batchnorm", "channelshuffle", "container", "conv",
            "distance", "dropout", "flatten", "fold", "instancenorm", "lazy", "linear", "loss",
            "module", "normalization", "padding", "pixelshuffle", "pooling", "rnn", "sparse",
            "transformer", "upsampling", "utils",
        )
    ),
    "nn.parameter", "nn.utils.parametrize", "nn.utils.prune", "optim.lr_scheduler",
    "optim.optimizer", "utils.data.dataloader", "utils.data.dataset", "utils.data.sampler",
    "autograd.function", "distributions.constraints", "distributions.distribution",
    "distributions.exp_family", "distributions.transforms", "amp.autocast_mode", "amp.grad_scaler",
)  # fmt: skip


def classes(module: Any) -> list[str]:
    """The names of the classes that a module of torch's defines."""
    return sorted(
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    )


def constructor(cls: type) -> str:
    """Its arguments, without what annotations say: "self, p=0.5, *, bias=True"."""
    try:
        parameters = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
    except (TypeError, ValueError):
        return "?"
    parts = []
    starred = False
    for p in parameters:
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred = starred or p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY)
        default = "" if p.default is p.empty else f"={_shown(p.default)}"
        parts.append(f"{mark}{p.name}{default}")
    return ", ".join(parts)


def _shown(value: Any) -> str:
    return value.__name__ if inspect.isroutine(value) or callable(value) else repr(value)


def describe(cls: type) -> list[Any]:
    """[constructor, names of its bases, its module]."""
    return [constructor(cls), [base.__name__ for base in cls.__mro__[1:-1]], cls.__module__]


def main() -> None:
    """Prints all of them."""
    if sys.argv[1:] != ["torch"]:
        from tritorch.compat import as_torch

        as_torch.as_torch()
    found = {}
    names = json.loads(sys.stdin.read()) if sys.argv[1:] != ["torch"] else {}
    for path in MODULES:
        module = importlib.import_module(f"torch.{path}")
        for name in names.get(path, ()) if names else classes(module):
            value = getattr(module, name, None)
            found[f"{path}.{name}"] = describe(value) if isinstance(value, type) else None
    print(json.dumps(found))


if __name__ == "__main__":
    main()
