"""A save to a path happens wholly or not at all."""

from __future__ import annotations

import importlib.util
import os
import stat
from pathlib import Path
from typing import Any

import pytest

import tritorch


class Unsaveable:
    """Fails in the middle of a pickle."""

    def __reduce__(self) -> Any:
        raise ValueError("not today")


@pytest.mark.parametrize("zipped", [True, False])
def test_failure_keeps_the_old_file(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "x.pt"
    tritorch.save({"a": 1}, path)
    with pytest.raises(ValueError, match="not today"):
        tritorch.save([tritorch.ones(3), Unsaveable()], path, _use_new_zipfile_serialization=zipped)
    assert tritorch.load(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["x.pt"]


def test_mode_and_links_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.pt", tmp_path / "link.pt"
    tritorch.save(1, real)
    real.chmod(0o640)
    link.symlink_to(real)
    tritorch.save(2, link)
    assert link.is_symlink() and tritorch.load(real) == 2
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_leftovers_of_dead_writers_go(tmp_path: Path) -> None:
    import fcntl

    dead, alive = tmp_path / ".x.pt.0123456789ab.tmp", tmp_path / ".x.pt.ba9876543210.tmp"
    other = tmp_path / ".x.pt.notes.tmp"
    for path in (dead, alive, other):
        path.write_bytes(b"half")
    with open(alive, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        tritorch.save(1, tmp_path / "x.pt")
    assert not dead.exists() and alive.exists() and other.exists()


def test_not_a_regular_file(tmp_path: Path) -> None:
    tritorch.save(1, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(IsADirectoryError):
        tritorch.save(1, tmp_path)


def test_killed_writers(repository: Path) -> None:
    spec = importlib.util.spec_from_file_location("kill", repository / "tools" / "kill_writer.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.kill_writers(6)["kills"] == 6
