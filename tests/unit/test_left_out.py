"""tools/torch_tests_left_out.py: which of PyTorch's own tests are left out."""

import sys
from pathlib import Path

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
from torch_tests_left_out import LeftOut  # noqa: E402


def test_reasons_are_of_patterns(tmp_path):
    (tmp_path / "torch_tests_x.toml").write_text(
        '["test_a.py"."no GPU"]\ntests = ["A::test_one", "B::test_of_*"]\n'
    )
    left_out = LeftOut(tmp_path)
    assert left_out.reason("test_a.py", "A::test_one") == "no GPU"
    assert left_out.reason("test_a.py", "B::test_of_gpu") == "no GPU"
    assert left_out.reason("test_a.py", "A::test_of_gpu") is None
    assert left_out.reason("test_b.py", "A::test_one") is None


def test_the_committed_files_read():
    left_out = LeftOut()
    assert left_out.reason("test_python_dispatch.py", "TestPythonRegistration::test_alias_analysis")
    assert all(patterns for patterns in left_out.patterns.values())
