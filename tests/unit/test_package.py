"""The package as a whole: what importing it does, and what it says when it cannot."""

import importlib.metadata
import importlib.resources
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tritorch

# Makes the copy at sys.argv[1] the only tritorch there is.
_ONLY_THE_COPY = textwrap.dedent("""
    import sys
    sys.meta_path[:] = [f for f in sys.meta_path if "Editable" not in type(f).__name__
                        and "ScikitBuild" not in type(f).__name__]
    sys.path.insert(0, sys.argv[1])
""")


def python(code, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.fixture
def copy(tmp_path):
    """A copy of the package's Python files alone."""
    target = tmp_path / "tritorch"
    source = Path(tritorch.version.__file__).parent
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return target


def import_error(folder):
    """The one sentence that importing the copy in a folder ends in."""
    done = python(_ONLY_THE_COPY + "import tritorch", folder)
    assert done.returncode == 1
    last = done.stderr.strip().split("\n")[-1]
    assert last.startswith("ImportError: ") and last.endswith(".")
    assert not re.search(r"[.!?] [A-Z]", last), f"more than one sentence: {last}"
    assert "During handling" not in done.stderr
    return last


def test_a_checkout_without_a_build_says_what_to_run(copy, tmp_path):
    (tmp_path / "CMakeLists.txt").touch()
    (tmp_path / "src").mkdir()
    message = import_error(tmp_path)
    assert f"source checkout {tmp_path}" in message
    assert "run `make demo` or `pip install -e .` in it" in message


def test_an_install_without_the_extension_says_what_to_run(copy, tmp_path):
    message = import_error(tmp_path)
    assert "lacks its extension for Python 3." in message
    assert "run `pip install --force-reinstall --no-deps tritorch`" in message


def test_an_extension_for_another_python_is_named(copy, tmp_path):
    (copy / "_C.cpython-27-x86_64-linux-gnu.so").touch()
    assert "(only _C.cpython-27-x86_64-linux-gnu.so)" in import_error(tmp_path)


def test_a_broken_extension_says_what_the_loader_said(copy, tmp_path):
    suffix = Path(tritorch._C.__file__).name.removeprefix("_C")
    (copy / f"_C{suffix}").write_bytes(b"not a library")
    message = import_error(tmp_path)
    assert "extension does not load" in message and "file too short" in message
    assert "run `pip install --force-reinstall --no-deps tritorch`" in message


def test_missing_numpy_says_what_to_run(copy, tmp_path):
    blocker = "sys.modules['numpy'] = None\n"
    done = python(_ONLY_THE_COPY + blocker + "import tritorch", tmp_path)
    assert "run `pip install 'numpy>=2.0'`." in done.stderr.strip().split("\n")[-1]


def test_version_is_the_same_everywhere():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", tritorch.__version__)
    assert tritorch.__version__ == tritorch.version.__version__
    assert importlib.metadata.version("tritorch") == tritorch.__version__


def test_the_readme_states_the_extension_s_size():
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    stated = float(re.search(r"extension module \(([\d.]+) MB\)", readme)[1])
    assert stated == pytest.approx(os.path.getsize(tritorch._C.__file__) / 1e6, rel=0.15)


def test_ships_types_and_kernels():
    files = importlib.metadata.files("tritorch")
    assert files is not None
    package = importlib.resources.files("tritorch")
    assert (package / "py.typed").is_file()
    import tritorch.kernels

    assert Path(tritorch.kernels.__file__).parent.name == "kernels"


def test_every_folder_of_code_is_a_package():
    """A folder without `__init__.py` has no loader: an editable install imports it, a wheel not."""
    folder = Path(tritorch.__file__).parent
    bare = {p.parent for p in folder.rglob("*.py") if not (p.parent / "__init__.py").exists()}
    assert not bare


def test_import_loads_neither_triton_nor_cuda():
    code = """
        import sys, tritorch
        heavy = {"triton", "torch", "ml_dtypes", "asyncio", "multiprocessing", "argparse"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
        assert "libcuda" not in open("/proc/self/maps").read()
        assert not tritorch.cuda.is_initialized()
    """
    done = python(code)
    assert done.returncode == 0, done.stderr
    done = python(code, TRITORCH_SIMULATE_CUDA="0")
    assert done.returncode == 0, done.stderr


@pytest.mark.device
def test_no_import_of_torch_is_ever_attempted():
    """Importing, allocating, running a kernel, timing it: torch is asked for by none of them."""
    code = """
        import sys

        attempts = []

        class Recorder:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("torch", "torchvision", "functorch"):
                    attempts.append(name)
                return None

        sys.meta_path.insert(0, Recorder())
        import numpy as np
        import tritorch
        import tritorch.cli.demo_kernels as kernels
        from tritorch.utils.benchmark import Timer, do_bench

        x = tritorch.cuda.from_numpy(np.arange(100, dtype=np.float32))
        out = tritorch.cuda.empty(100)
        run = lambda: kernels.add[(1,)](x, x, out, 100, BLOCK=128)
        run()
        assert (out.numpy() == 2 * np.arange(100)).all()
        do_bench(run, warmup=1, rep=1)
        Timer("run()", globals={"run": run}).timeit(2)
        tritorch.cuda.memory_summary()
        np.from_dlpack(tritorch.cuda.empty(3, pin_memory=True))
        assert "torch" not in sys.modules
        print("attempts:", attempts)
    """
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "attempts: []"


@pytest.mark.device
def test_demo_checks_its_result(tmp_path):
    command = [sys.executable, "-m", "tritorch", "demo", "-n", "5000", "--steps=2", "--device=cpu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the result equals NumPy's" in done.stdout
    assert "What works" in done.stdout and "Allocated" in done.stdout
    assert "2 steps in" in done.stdout and "loss on text it has not seen" in done.stdout
    made = {path.name for path in (tmp_path / "tritorch-demo").iterdir()}
    assert made == {"checkpoint.pt", "loss.png", "sample.txt"}


def test_metadata_and_the_commit():
    about = importlib.metadata.metadata("tritorch")
    links = {line.partition(",")[0] for line in about.get_all("Project-URL")}
    assert {"Homepage", "Documentation", "Repository", "Changelog", "Issues"} <= links
    assert "@" in about["Author-email"]
    topics = [line for line in about.get_all("Classifier") if line.startswith("Topic ::")]
    audience = [line for line in about.get_all("Classifier") if line.startswith("Intended")]
    assert len(topics) >= 3 and len(audience) >= 3
    assert {"opt-einsum", "optree"} <= set(about.get_all("Provides-Extra"))
    assert re.fullmatch("[0-9a-f]{40}|", tritorch.version.git_version)
