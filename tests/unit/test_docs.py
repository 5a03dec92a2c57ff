"""The code in docs/ runs."""

import pathlib
import re
import subprocess
import sys

import pytest

DOCS = pathlib.Path(__file__).parents[2] / "docs"


@pytest.mark.device
@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("operators", 4),
        ("adding", 4),
        ("custom_operators", 4),
        ("archives", 1),
        ("nested", 1),
        ("compile", 3),
    ],
)
def test_pages(page, least, tmp_path):
    code = re.findall(r"^```python\n(.*?)^```", (DOCS / f"{page}.md").read_text(), re.M | re.S)
    assert len(code) >= least
    path = tmp_path / f"{page}_page.py"  # a file: Triton reads its functions' source
    path.write_text("\n".join(code))
    # A process of its own: the page declares operators.
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_core_set_is_listed():
    tool = DOCS.parent / "tools" / "list_core.py"
    done = subprocess.run(
        [sys.executable, tool, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
