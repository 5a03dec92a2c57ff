"""The choice of ptxas, which makes machine code; the doctor asks too, so Python alone is needed.

# Note [Two assemblers]
Triton's wheel has two: `ptxas`, and `ptxas-blackwell` of a newer CUDA, which Triton takes for
Blackwell and from 3.9 on for sm_90 too.  In Triton 3.6 and 3.7 the first is of CUDA 12.8, which is
known to miscompile for sm_90.  A driver of CUDA 12 loads the machine code of all releases of CUDA
12 and of none of CUDA 13.  So the other one of the two is taken where Triton's is not sound, or not
loaded by the driver, and the other one is.  The settings that name Triton's override this.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

_SOUND = (12, 9)  # the first release that is not known to miscompile for sm_90
_DOUBTED = (90,)
_NAMES = ("ptxas", "ptxas-blackwell")
_SETTINGS = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
DRIVER = "TRITORCH_DRIVER_CUDA"  # what a process that compiles for another is told of the driver


class Assembler(NamedTuple):
    """A ptxas, by its path."""

    path: str

    @property
    def name(self) -> str:
        """The file's name."""
        return Path(self.path).name

    def version(self) -> str:
        """ "12.9.86", or "" if it does not say."""
        return _version(self.path)

    def release(self) -> tuple[int, ...]:
        """(12, 9), or nothing."""
        return tuple(map(int, self.version().split(".")[:2])) if self.version() else ()

    def identity(self) -> str:
        """The file's name and size, which tell builds apart without running it."""
        try:
            return f"{self.name} {Path(self.path).stat().st_size}"
        except OSError:
            return self.name


@functools.cache
def _version(path: str) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    match = re.search(r"release (\d+\.\d+)(?:, V(\d+(?:\.\d+)+))?", done.stdout)
    return (match[2] or match[1]) if match else ""


def folder() -> Path | None:
    """The programs of the installed Triton, which is not imported for it."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "backends" / "nvidia" / "bin"


@functools.cache
def triton_version(programs: Path) -> tuple[int, ...]:
    """The version of the Triton that programs are of: (3, 9)."""
    try:
        text = (programs.parents[2] / "__init__.py").read_text()
    except OSError:
        return ()
    found = re.search(r"__version__ = ['\"](\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else ()


def is_newer(target: int) -> bool:
    """True if Triton takes `ptxas-blackwell` for a target."""
    programs = folder()
    since = 90 if programs is not None and triton_version(programs) >= (3, 9) else 100
    return target >= since


def setting_of(target: int) -> str:
    """The variable of the environment that names Triton's ptxas for a target."""
    return _SETTINGS[is_newer(target)]


def is_other(found: Assembler, target: int) -> bool:
    """True of the program that Triton does not take for a target."""
    named = os.environ.get(setting_of(target))
    return not named and found.name == _NAMES[not is_newer(target)]


def chosen(target: int, driver: int) -> Assembler | None:
    """The ptxas for a target (90); None if there is none.

    driver: the CUDA version that the driver is of (12080), 0 where there is none."""
    newer = is_newer(target)
    if said := os.environ.get(_SETTINGS[newer]):
        return Assembler(said)
    programs = folder()
    if programs is None:
        return None
    other = os.environ.get(_SETTINGS[not newer]) or str(programs / _NAMES[not newer])
    return _better(str(programs / _NAMES[newer]), other, target, driver // 1000)


@functools.cache
def _better(own: str, other: str, target: int, cuda: int) -> Assembler | None:
    """Triton's own choice, or the other one: Note [Two assemblers]."""
    if not Path(own).exists():
        return None
    if target < 90:
        return Assembler(own)
    first, second = Assembler(own), Assembler(other)
    release = first.release()
    if not release:
        return first
    is_sound = release >= _SOUND or target not in _DOUBTED
    if is_sound and (release[0] <= 12 or cuda == 0 or cuda >= release[0]):
        return first
    instead = second.release()
    if instead < _SOUND or instead[0] > max(cuda, 12):
        return first
    return second
