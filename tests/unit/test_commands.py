"""Command lines: what is wrong with one is said in one sentence, with exit status 2."""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tritorch
from tritorch.__main__ import main
from tritorch.cli import commands, doctor
from tritorch.compat import variables

EXAMPLES = Path(
    next(iter(importlib.util.find_spec("tritorch.examples").submodule_search_locations))
)  # type: ignore[union-attr, arg-type]
PROGRAMS = sorted(
    path.stem
    for path in EXAMPLES.glob("*.py")
    if 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")
)


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command says that it refuses."""
    try:
        status = main(list(arguments))
    except SystemExit as end:
        status = end.code  # type: ignore[assignment]
    said = capsys.readouterr()
    assert status == 2, (arguments, status, said)
    assert said.out == "" and said.err.count("\n") == 1 and "Traceback" not in said.err, said
    return said.err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"tritorch {tritorch.__version__}\n"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("bnech", "bench"), ("docter", "doctor"), ("stnad-in", "stand-in"),
        ("--verison", "--version"), ("doctor --jsn", "--json"), ("demo --setps=3", "--steps"),
        ("bench --devcie cpu", "--device"), ("precompile --libary", "--library"),
        ("memory --uot x y", "--out"), ("stand-in --rmove", "--remove"),
        ("profile --no-memroy x.py", "--no-memory"), ("launch --nporc 2 x.py", "--nproc-per-node"),
    ],
)  # fmt: skip
def test_the_nearest_name_is_suggested(
    given: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"did you mean {meant}?" in _refused(capsys, *given.split())


MISSING = [
    "memory nosuch.pickle", "memory .", "memory junk", "memory list.pickle", "profile nosuch.py",
    "profile -m nosuch", "profile -o nosuch/page.html there.py",
    "profile --trace nosuch/x.json there.py", "run nosuch.py", "run -m nosuch", "run -c",
    "launch nosuch.py", "launch -m nosuch", "launch --no-python nosuch",
    "launch --nnodes 3:1 there.py", "launch --nproc-per-node many there.py",
    "bench --from nosuch.json", "bench --from junk", "bench --from empty.json",
    "bench --compare junk nosuch", "bench --device cuda", "bench --targets 9x",
    "bench --peers toch", "bench nosuch", "bench --roofline junk/x", "bench --goals junk",
    "precompile nosuch.py", "precompile -m nosuch", "precompile --target sm_90 nosuch.py",
    "precompile --unpack nosuch.zip", "precompile --pack nosuch/x.zip there.py",
    "precompile --plan nosuch.py:f --pack x.zip", "precompile --plan nosuch:f --pack x.zip",
    "demo --out junk/x", "demo --seconds 0",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("junk").write_bytes(b"junk\n")
    Path("there.py").write_text("raise SystemExit(7)\n")
    Path("empty.json").write_text("{}")
    Path("list.pickle").write_bytes(pickle.dumps([1, 2]))
    return tmp_path


@pytest.mark.parametrize("command", MISSING)
def test_files_devices_and_names_that_are_not_there(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tritorch.bench import cli

    monkeypatch.setattr(cli, "has_gpu", lambda: False)
    before = sorted(folder.rglob("*"))
    said = _refused(capsys, *command.split())
    words = command.split()[1:]
    named = [word for word in words if word[0] != "-"] or words
    assert any(part in said for word in named for part in word.split(":")), said
    assert sorted(folder.rglob("*")) == before  # no empty page, no folder


def test_every_command_with_a_file_is_here() -> None:
    """A command that comes has its files among those above."""
    known = {command.split()[0] for command in MISSING}
    listed = next(line for line in _help().splitlines() if line.strip().startswith("{"))
    assert set(listed.strip(" {}").split(",")) - known == {"doctor", "stand-in"}


def _help() -> str:
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([]) == 0
    return out.getvalue()


def test_suggestions() -> None:
    assert commands.suggestion("xyzzy", ["doctor", "demo"]) == ""
    assert commands.suggestion("x", []) == ""


# ---- settings ------------------------------------------------------------------------------------

WRONG = {
    "TRITORCH_SIMULATE_CUDA": ["yes", "memory=64X", "seed", "devices=0", "2"],
    "TRITORCH_CUDA_ALLOC_CONF": ["sanitize", "sanitize:maybe", "max_split_size_mb:1", "x:1"],
    "TRITORCH_CPU": ["sse", "AVX2", "1"],
    "TRITORCH_NUMPY_ONLY": ["yes", "2"],
    "TRITORCH_CACHE_DIR": [os.path.realpath(sys.executable)],
    "TRITORCH_COMPILE_MESSAGES": ["maybe"],
    "TRITORCH_COMPILERS": ["some", "-1", "1.5"],
    "TRITORCH_LOADER_STALL_SECONDS": ["soon", "-3", "nan"],
    "TRITORCH_GLOO_TRANSPORT": ["udp"],
    "TRITORCH_GLOO_ALL_REDUCE": ["rnig"],
    "TRITORCH_TEST_DEVICE": ["tpu"],
}  # fmt: skip
RIGHT = {
    "TRITORCH_SIMULATE_CUDA": ["0", "1", "seed=7,memory=2G,devices=2"],
    "TRITORCH_CUDA_ALLOC_CONF": ["sanitize:True", "sanitize:False,max_split_size_mb:512"],
    "TRITORCH_CPU": ["avx512", "avx2", "baseline"],
    "TRITORCH_NUMPY_ONLY": ["0", "1", "off"],
    "TRITORCH_CACHE_DIR": [os.getcwd(), "not/there/yet"],
    "TRITORCH_COMPILE_MESSAGES": ["0", "1", "off"],
    "TRITORCH_COMPILERS": ["all", "0", "4"],
    "TRITORCH_LOADER_STALL_SECONDS": ["0", "2.5", "inf"],
    "TRITORCH_GLOO_TRANSPORT": ["tcp"],
    "TRITORCH_GLOO_ALL_REDUCE": ["direct", "halving", "tree", "ring"],
    "TRITORCH_TEST_DEVICE": ["cuda", "simulated"],
}  # fmt: skip
FREE = {  # any text is one
    "TRITORCH_LIBCUDA", "TRITORCH_KERNEL_PACK", "TRITORCH_CUPTI", "TRITORCH_JOB_SECRET",
    "TRITORCH_STORE_INTERFACE", "TRITORCH_LIBNCCL",
}  # fmt: skip


def test_values_that_settings_do_not_take() -> None:
    assert {*WRONG, *FREE} == {*variables.SETTINGS} and WRONG.keys() == RIGHT.keys()
    for name, values in WRONG.items():
        for value in values:
            said = variables.refusal(name, value)
            assert said.startswith(name) and "\n" not in said, (name, value)
    for name, values in RIGHT.items():
        for value in (*values, ""):
            assert variables.refusal(name, value) == "", (name, value)


def test_all_settings_that_are_read_are_known() -> None:
    import re

    package, found = Path(tritorch.__file__).parent, set()
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r"environ(?:\.get\(|\[|\.setdefault\()\s*\"(TRITORCH_\w+)\"", text))
    assert len(found) > 8 and found <= variables.SETTINGS.keys()


def _python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip


def test_an_import_and_a_command_are_refused_for_a_setting() -> None:
    done = _python("-c", "import tritorch", TRITORCH_SIMULATE_CUDA="yes")
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and last.startswith('ValueError: TRITORCH_SIMULATE_CUDA: "yes"')
    done = _python("-m", "tritorch", "bench", "--list", TRITORCH_CPU="sse")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == (
        "tritorch: TRITORCH_CPU: 'sse' is not understood; give avx512, avx2 or baseline\n"
    )


def test_the_doctor_does_not_contradict_itself() -> None:
    """A refused setting fails, and what works without it is said to work; what is on is not
    recommended; a setting that is off is none."""
    asked = []

    def run(code: str, environment: dict[str, str | None]) -> tuple[str, str]:
        asked.append(environment)
        return "1.0", ""

    probe = {"load_error": "not found", "gpus": []}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITORCH_SIMULATE_CUDA", "memory=64X")
        patch.setattr(doctor, "_run", run)
        fine = doctor.Finding("extension", doctor.OK, "")
        tried = {each.name: each for each in doctor.try_all(fine, fine, probe)}
        assert tried["CPU"].status == tried["simulated device"].status == doctor.OK
        assert [each["TRITORCH_SIMULATE_CUDA"] for each in asked] == [None, "1"]
        assert "turns it on" in tried["simulated device"].detail
        (failed,) = doctor.check_settings({"TRITORCH_SIMULATE_CUDA": "memory=64X"})
        assert failed.status == doctor.FAIL and "memory=SIZE" in failed.detail
        patch.setenv("TRITORCH_SIMULATE_CUDA", "1")
        assert "TRITORCH_SIMULATE_CUDA" not in doctor.check_driver(probe).fix
        patch.setenv("TRITORCH_SIMULATE_CUDA", "0")
        assert "TRITORCH_SIMULATE_CUDA=1" in doctor.check_driver(probe).fix
        patch.setenv("TRITORCH_LIBCUDA", "/nosuch.so")
        assert "/nosuch.so" in doctor.check_driver(probe).fix
    found = {each.name: each for each in doctor.check_settings({
        "TRITORCH_SIMULATE_CUDA": "0", "TRITORCH_CPU": "", "TRITORCH_COMPILERS": "x",
        "TRITORCH_KERNEL_PACK": "/nosuch.zip",
    })}  # fmt: skip
    assert found["TRITORCH_SIMULATE_CUDA"].detail == "'0': no simulated device"
    assert "TRITORCH_CPU" not in found and found["TRITORCH_COMPILERS"].status == doctor.FAIL
    assert found["TRITORCH_KERNEL_PACK"].status == doctor.WARN


# ---- programs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_examples_run_as_modules(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"tritorch.examples.{name}", "--help"], capture_output=True,
        text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0 and "--steps" in done.stdout, done.stderr


def _timed(seconds: float, steps: int, out: Path, wait: Callable[[], None]) -> list[float]:
    sys.path.insert(0, str(EXAMPLES))
    try:
        char_gpt = importlib.import_module("char_gpt")
        training = importlib.import_module("training")
        log = training.Run.log
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(training.Run, "log", lambda *args, **more: (log(*args, **more), wait()))
            found: list[float] = char_gpt.main([
                f"--seconds={seconds}", f"--steps={steps}", f"--out={out}", "--batch=1",
                "--context=8", "--width=8", "--layers=1", "--heads=1", "--sample=1", "--device=cpu",
            ])  # fmt: skip
        return found
    finally:
        sys.path.remove(str(EXAMPLES))


def test_a_run_ends_by_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step takes a second of a clock that this test turns."""
    import time

    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def wait() -> None:
        now[0] += 1.0

    assert len(_timed(5.0, 1000, tmp_path, wait)) == 5
    assert len(_timed(0.0, 9, tmp_path, wait)) == 9
    assert len(_timed(100.0, 4, tmp_path, wait)) == 4
