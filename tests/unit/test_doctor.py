"""The doctor: what it says of each kind of trouble, and that it says it when the import fails."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tritorch
from tritorch.cli import doctor
from tritorch.cli.doctor import FAIL, NOTE, OK, WARN, Finding
from tritorch.compat import extension
from tritorch.triton import assemblers


def run(*arguments, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "tritorch", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="session")
def report():
    """The report of this machine, as JSON, with a setting that does not exist."""
    done = run("doctor", "--json", TRITORCH_SIMULATE_CUDA="1", TRITORCH_SIMULATE_CUDO="1")
    return done.returncode, json.loads(done.stdout)


def entry(report, section, name):
    return next(finding for finding in report[1][section] if finding["name"] == name)


def test_exit_status_says_whether_tritorch_can_run(report):
    status, content = report
    assert status == 0 and content["can_run"] is True
    assert content["version"] == tritorch.__version__


def test_reports_what_is_installed(report):
    import numpy

    assert entry(report, "Installed", "numpy")["detail"] == numpy.__version__
    assert entry(report, "Installed", "extension")["detail"] == tritorch._C.__file__
    for name in ("CPU", "simulated device"):
        assert entry(report, "What works", name)["status"] == OK, name


def test_unknown_setting_is_named_with_the_nearest_known(report):
    found = entry(report, "Settings", "TRITORCH_SIMULATE_CUDO")
    assert found["status"] == WARN and found["fix"] == "did you mean TRITORCH_SIMULATE_CUDA?"
    assert entry(report, "Settings", "TRITORCH_SIMULATE_CUDA")["status"] == NOTE


def test_a_setting_that_cannot_be_read_fails():
    done = run("doctor", TRITORCH_SIMULATE_CUDA="sede=7")
    assert done.returncode == 1
    assert "sede" in done.stdout and "tritorch cannot run" in done.stdout


def test_asking_the_driver_loads_no_driver_here():
    code = (
        "import tritorch.cli.doctor as d; d.examine(); "
        "assert 'libcuda' not in open('/proc/self/maps').read(); "
        "import tritorch; assert not tritorch.cuda.is_initialized()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_works_without_the_extension(tmp_path):
    package = Path(tritorch.__file__).parent
    shutil.copytree(package, tmp_path / "tritorch", ignore=shutil.ignore_patterns("*.so"))
    # -S -E would hide NumPy too; the copy comes first on the path, and has no editable finder.
    code = (
        "import sys, runpy; sys.meta_path[:] = [f for f in sys.meta_path "
        "if 'Editable' not in type(f).__name__ and 'ScikitBuild' not in type(f).__name__]; "
        f"sys.path.insert(0, {str(tmp_path)!r}); sys.orig_argv[1:] = ['-m', 'tritorch', 'doctor']; "
        "import tritorch"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "[fail] extension" in done.stdout and extension.REINSTALL in done.stdout
    assert "tritorch cannot run" in done.stdout
    assert done.stderr == ""


def test_help_without_arguments():
    done = run()
    assert done.returncode == 0 and "doctor" in done.stdout and "demo" in done.stdout
    assert run("doctor", "--nonsense").returncode == 2
    assert run("--nonsense").returncode == 2


@pytest.mark.parametrize(
    ("argv", "arguments"),
    [
        (["python", "-m", "tritorch", "doctor"], []),
        (["python", "-X", "dev", "-m", "tritorch", "doctor", "--json"], ["--json"]),
        (["python", "-mtritorch", "doctor"], []),
        (["python", "-m", "tritorch", "demo"], None),
        (["python", "-m", "pytest", "-m", "tritorch"], None),
        (["python", "train.py", "doctor"], None),
    ],
)
def test_doctor_arguments(argv, arguments):
    assert extension.doctor_arguments(argv) == arguments


def test_version_tuple():
    assert doctor.version_tuple("3.6.0+git1") == (3, 6, 0)
    assert doctor.version_tuple("2.4.0rc1") == (2, 4, 0)
    assert doctor.version_tuple("unknown") == ()


GPU = {"name": "NVIDIA H100", "memory": 80 << 30, "capability": [9, 0]}


@pytest.mark.parametrize(
    ("probe", "status", "words"),
    [
        ({"cuda": 12040, "init": 0}, OK, "550.54, CUDA 12.4"),
        ({"cuda": 11080, "init": 0}, WARN, "install driver 525"),
        (
            {"cuda": 12040, "init": 100, "init_name": "CUDA_ERROR_NO_DEVICE"},
            WARN,
            "CUDA_VISIBLE_DEVICES",
        ),
        ({"cuda": 12040, "init": 803}, WARN, "reboot"),
        ({"cuda": 12040, "init": 12345}, WARN, "error 12345"),
        ({"load_error": "libcuda.so.1: no such file"}, NOTE, "--gpus all"),
        ({"crash": "the process died with signal 11"}, WARN, "signal 11"),
    ],
)
def test_driver(probe, status, words):
    found = doctor.check_driver({"gpus": [], **probe}, "550.54")
    assert found.status == status
    assert words in f"{found.detail} {found.fix}"


def test_no_driver_at_all(monkeypatch):
    monkeypatch.setattr(os.path, "exists", lambda path: False)
    monkeypatch.delenv("TRITORCH_SIMULATE_CUDA", raising=False)
    found = doctor.check_driver({"load_error": "not found", "gpus": []})
    assert found.status == NOTE and "525" in found.fix and "TRITORCH_SIMULATE_CUDA=1" in found.fix


@pytest.mark.parametrize(
    ("release", "capability", "driver", "status", "words"),
    [
        ("12.9", [9, 0], 12080, OK, "CUDA 12.9, for sm_90"),
        ("13.4", [10, 0], 13000, OK, "CUDA 13.4, for sm_100"),
        ("13.4", [9, 0], 12080, WARN, f"set {assemblers.setting_of(90)} to a ptxas of CUDA 12"),
        ("13.4", [10, 0], 12080, WARN, "set TRITON_PTXAS_BLACKWELL_PATH to"),
    ],
)
def test_assemblers(monkeypatch, tmp_path, release, capability, driver, status, words):
    program = tmp_path / "ptxas"
    program.write_text(f"#!/bin/sh\necho Cuda compilation tools, release {release}, V{release}.1\n")
    program.chmod(0o755)
    for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        monkeypatch.setenv(name, str(program))
    (found,) = doctor.check_assemblers({"cuda": driver, "gpus": [{"capability": capability}]})
    assert found.status == status and words in f"{found.detail} {found.fix}"


def test_no_assembler(monkeypatch):
    for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        monkeypatch.setenv(name, "/nowhere/ptxas")
    assert not [*doctor.check_assemblers({"cuda": 12080, "gpus": [{"capability": [9, 0]}]})]


def test_gpus():
    new, old = doctor.check_gpus({"gpus": [GPU, {**GPU, "name": "T4", "capability": [7, 5]}]})
    assert new == Finding("GPU 0", OK, "NVIDIA H100, 80.0 GiB, sm_90")
    assert old.status == WARN and "sm_75" in old.detail and "sm_80" in old.fix


@pytest.mark.parametrize(
    ("triton", "numpy", "status"),
    [("3.6.0", "2.5.0", NOTE), ("3.6.0", "2.3.5", OK), ("3.9.0", "2.5.0", OK)],
)
def test_known_problem_of_triton_36_with_new_numpy(monkeypatch, triton, numpy, status):
    monkeypatch.setattr(doctor, "_run", lambda code, **_: (triton, ""))
    monkeypatch.setattr(doctor, "_installed", {"numpy": numpy, "triton": triton}.get)
    found = doctor.check_triton()
    assert found.status == status and ("works around" in found.detail) == (status == NOTE)


def test_dependency_too_old_broken_or_missing(monkeypatch):
    monkeypatch.setattr(doctor, "_run", lambda code, **_: ("3.5.1", ""))
    found = doctor.check_triton()
    assert found.status == FAIL and found.fix == "pip install 'triton>=3.6'"
    monkeypatch.setattr(doctor, "_run", lambda code, **_: ("", "ImportError: GLIBC"))
    monkeypatch.setattr(doctor, "_installed", lambda name: "3.9.0")
    assert "3.9.0 is installed but fails: ImportError: GLIBC" in doctor.check_triton().detail
    monkeypatch.setattr(doctor, "_installed", lambda name: "")
    assert doctor.check_triton().detail == "not installed"


def test_old_python():
    found = doctor.check_python((3, 10, 2))
    assert found.status == FAIL and "3.11" in found.fix


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "deep" / "cache"))
    assert doctor.check_cache() == Finding("kernel cache", OK, str(tmp_path / "deep" / "cache"))
    monkeypatch.setenv("TRITON_CACHE_DIR", "/proc/cache")
    assert doctor.check_cache().status == WARN


def test_subprocesses_that_die_or_hang():
    assert "signal" in doctor._run("import os; os.abort()")[1]
    assert "within" in doctor._run("import time; time.sleep(60)", timeout=0.5)[1]
    assert doctor._run("raise ValueError('this')")[1] == "ValueError: this"


def test_render_lists_every_finding_with_its_fix():
    text = doctor.render(
        {"Installed": [Finding("triton", FAIL, "not installed", "pip install it")]}
    )
    assert "[fail] triton  not installed" in text and "-> pip install it" in text
    assert text.endswith("tritorch cannot run: see [fail] above.")
    assert doctor.render({"A": [Finding("x", WARN, "y")]}).endswith("tritorch can run.")
