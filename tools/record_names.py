#!/usr/bin/env python3
"""Records the names of PyTorch, module by module, in tritorch/_names.txt.

    PYTHON_WITH_TORCH tools/record_names.py

One line a module, `path: names`, without the leading "torch".  A line without names stands for the
module and all below it: private ones, and those in WHOLE.  "!" before a name: an enclosing package
has another object of that name (elsewhere it is the same object, to be found there too).
"""

from __future__ import annotations

import contextlib
import importlib
import io
import pkgutil
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "tritorch" / "_names.txt"
# Trees of which tritorch has nothing at all: that they exist is enough.
_WHOLE = """
    ao contrib cuda.tunable distributed.* export fx jit.* mtia nativert nn.backends nn.cpp
    nn.intrinsic nn.qat nn.quantizable nn.quantized numa onnx package quantization
    testing.* utils.backend_registration utils.bottleneck utils.bundled_inputs
    utils.cpp_extension utils.data.datapipes.* utils.hipify utils.jit
    utils.mobile_optimizer utils.model_dump utils.serialization utils.viz
    utils.benchmark.* xpu.*
"""
WHOLE = _WHOLE.split()
_PLAIN = (types.BuiltinFunctionType, types.MethodType)  # torch.add and friends: of no module


def modules(torch: Any) -> Iterator[tuple[str, bool]]:
    """The paths of all modules; of the private ones and of WHOLE the outermost alone."""
    whole = {"_C"}  # an extension: not a package to walk
    for found in pkgutil.walk_packages(torch.__path__, "torch.", onerror=lambda name: None):
        parts = found.name.split(".")[1:]
        if parts[-1] == "__main__":
            continue
        for i, part in enumerate(parts):
            above, path = ".".join(parts[:i]), ".".join(parts[: i + 1])
            private = part.startswith("_") and not part.startswith("__")
            if private or path in WHOLE or f"{above}.*" in WHOLE:
                whole.add(path)
                break
        else:
            yield ".".join(parts), False
    yield from ((path, True) for path in whole)


def names(module: Any) -> Iterator[str]:
    """What a module offers: its __all__, and what is of torch and not merely imported there."""
    listed = set(getattr(module, "__all__", ()))
    package = hasattr(module, "__path__") or not listed
    for name, value in sorted(vars(module).items()):
        if name.startswith("__") or isinstance(value, types.ModuleType):
            continue
        home = getattr(value, "__module__", None) or ""
        if not isinstance(home, str):
            home = ""
        mine = home == module.__name__ and not isinstance(value, _PLAIN)
        of_torch = home.startswith("torch") or type(value).__module__.startswith("torch")
        public = not name.startswith("_") or name.startswith("_foreach_")
        seen = package and public and (of_torch or isinstance(value, _PLAIN))
        if name in listed or mine or seen:
            yield name
    yield from sorted(n for n in listed if n not in vars(module) and hasattr(module, n))


def main() -> None:
    """Writes the file."""
    warnings.filterwarnings("ignore")
    import torch

    lines, found = [], {"": (torch, set(names(torch)))}
    lines.append(": " + " ".join(sorted(found[""][1])))
    for path, whole in sorted(set(modules(torch))):
        if whole:
            lines.append(f"{path}:")
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                module = importlib.import_module(f"torch.{path}")
        except Exception:  # what it needs is not installed: it exists nevertheless
            lines.append(f"{path}:")
            continue
        mine = list(names(module))
        found[path] = (module, set(mine))
        above = [".".join(path.split(".")[:i]) for i in range(path.count(".") + 1)]
        for i, name in enumerate(mine):
            others = [
                getattr(found[p][0], name) for p in above if p in found and name in found[p][1]
            ]
            if any(other is not getattr(module, name, other) for other in others):
                mine[i] = "!" + name
        lines.append(f"{path}: " + " ".join(mine))
    version = torch.__version__.split("+")[0]
    text = "\n".join([f"# The names of PyTorch {version}, by tools/record_names.py", *lines])
    TARGET.write_text(text + "\n")
    print(f"{TARGET}: {len(lines)} modules, {len(text.split())} names, {len(text)} bytes")


if __name__ == "__main__":
    main()
