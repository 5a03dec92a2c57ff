"""What a package index would say of torch, where tritorch stands for it.

`importlib.metadata.version("torch")` answers so in a program that says torch.  `python -m tritorch
stand-in` writes the same into an environment, so that pip takes torch for installed there and does
not fetch gigabytes for a package that asks for it.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Any

from tritorch.cli import commands
from tritorch.compat import stub_package
from tritorch.torch_version import API

_FILES = {
    "METADATA": f"""Metadata-Version: 2.1
Name: torch
Version: {API}
Summary: PyTorch's Python API, by tritorch
Requires-Dist: tritorch
""",
    "INSTALLER": "tritorch\n",
}


class Stated(metadata.Distribution):
    """The distribution "torch" of a program in which tritorch stands for it."""

    def read_text(self, filename: str) -> str | None:
        return _FILES.get(filename)

    def locate_file(self, path: Any) -> Path:
        return Path(__file__).parents[2] / str(path)


def _folder() -> Path:
    return Path(sysconfig.get_path("purelib")) / f"torch-{API}.dist-info"


def _command() -> Path:
    return Path(sysconfig.get_path("scripts")) / "torchrun"


def write() -> Path:
    """pip takes torch for installed in this environment, and type checkers find its stubs."""
    try:
        there = metadata.distribution("torch")
    except metadata.PackageNotFoundError:
        there = None
    if there is not None and (there.read_text("INSTALLER") or "").strip() != "tritorch":
        raise SystemExit(
            f"python -m tritorch stand-in: torch {there.version} is installed here: "
            "`pip uninstall torch` first"
        )
    folder = _folder()
    folder.mkdir(exist_ok=True)
    for name, text in _FILES.items():
        (folder / name).write_text(text)
    stubs = stub_package.write(folder.parent)
    command = _command()
    command.write_text(
        f"#!{sys.executable}\nimport sys\nfrom tritorch.distributed.run import torchrun\n"
        "sys.exit(torchrun())\n"
    )
    command.chmod(0o755)
    recorded = [f"{folder.name}/{name},,\n" for name in (*_FILES, "RECORD")]
    recorded += [f"{file.relative_to(folder.parent)},,\n" for file in stubs]
    recorded.append(f"{os.path.relpath(command, folder.parent)},,\n")
    (folder / "RECORD").write_text("".join(recorded))
    return folder


def remove() -> bool:
    """Takes back what `write` did; False if it had not."""
    folder = _folder()
    if not folder.exists():
        return False
    _command().unlink(missing_ok=True)
    stub_package.remove(folder.parent)
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()
    return True


def main(arguments: list[str]) -> int:
    """`python -m tritorch stand-in [--remove]`"""
    parser = commands.Parser(
        prog="python -m tritorch stand-in",
        description=f"Tells pip that torch {API} is installed in this environment, so that "
        "packages that ask for torch install without it, puts torchrun beside pip, and torch's "
        "types where checkers look. `pip uninstall torch` takes it back, too.",
    )
    parser.add_argument("--remove", action="store_true", help="take it back")
    options = parser.parse_args(arguments)
    if options.remove:
        print("removed" if remove() else "torch's stand-in was not here")
        return 0
    print(f"wrote {write()}")
    print("Run programs by `python -m tritorch run`, or call tritorch.as_torch() first.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
