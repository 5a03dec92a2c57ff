"""A folder has no more files than one looks over at once."""

import collections
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = 34  # besides a package's __init__.py


def files():
    """The files of the repository; of a tree without Git, all that are no build's."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if listed.returncode == 0:
        return [Path(line) for line in listed.stdout.splitlines() if (ROOT / line).is_file()]
    found = [path.relative_to(ROOT) for path in ROOT.rglob("*.*") if path.is_file()]
    return [path for path in found if path.suffix not in {".pyc", ".so"}]


@pytest.mark.parametrize("top", ["tritorch", "kernels", "src", "tools", "tests"])
def test_no_folder_has_more_files(top):
    counts = collections.Counter(
        path.parent.as_posix()
        for path in files()
        if path.parts[0] == top and path.name != "__init__.py"
    )
    assert counts
    assert {folder: n for folder, n in counts.items() if n > MOST} == {}
