"""The examples run, resume exactly, and lose as they do with torch in tritorch's place."""

import bz2
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

import tritorch
from tests.patience import PATIENCE
from tests.programs import curves

RECORDED = json.loads((Path(__file__).parent / "recorded_curves.json").read_text())


def close(found, name):
    """Sums in another order differ by 1e-7 of a value: that is all there is after eight steps (a
    rate changed by a tenth shows as 1e-3 and more).  Muon alone computes in bfloat16, where the
    order shows earlier: 8e-5 was seen, and a rate changed by a twentieth gives 7e-4."""
    rtol = 2e-4 if name == "char_gpt" else 3e-6
    np.testing.assert_allclose(found, RECORDED[name][str(len(found))], rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("name", curves.CASES)
def test_the_losses_are_torchs(name, tmp_path):
    close(curves.run(name, tritorch, 8, tmp_path, "cpu"), name)
    image = png(tmp_path / "loss.png")
    assert image.shape == (540, 960, 3) and (image != 255).any()


@pytest.mark.device
@pytest.mark.parametrize("name", curves.CASES)
def test_the_losses_on_a_gpu_are_torchs(name, tmp_path, capsys):
    close(curves.run(name, tritorch, 2, tmp_path, "cuda"), name)
    assert re.search(r"loss -?\d\.\d+ .* ms/step|s/step", capsys.readouterr().out)


class Stop(BaseException):
    """Stands for Ctrl-C."""


@pytest.mark.parametrize("name", curves.CASES)
def test_a_resumed_run_loses_as_an_uninterrupted_one(name, tmp_path, monkeypatch, capsys):
    more = ["--save-every=2"]
    if name == "char_gpt":  # what draws random numbers on the way goes on from the saved state
        more.append("--dropout=0.2")
    whole = curves.run(name, tritorch, 6, tmp_path / "whole", "cpu", *more)
    training = curves.load("training")
    log, steps = training.Run.log, []

    def interrupted(self, *args, **values):
        log(self, *args, **values)
        steps.append(1)
        if len(steps) == 5:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(training.Run, "log", interrupted)
        with pytest.raises(Stop):
            curves.run(name, tritorch, 6, tmp_path / "parts", "cpu", *more)
    tritorch.manual_seed(123)  # another process
    resumed = curves.run(name, tritorch, 6, tmp_path / "parts", "cpu", "--resume", *more)
    assert "resumed after step 4" in capsys.readouterr().out
    assert resumed == whole
    with pytest.raises(SystemExit, match="is of a run with --seed 0, not 1"):
        curves.run(name, tritorch, 6, tmp_path / "parts", "cpu", "--resume", "--seed=1", *more)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", curves.CASES)
def test_narrow_types(name, dtype, tmp_path):
    """Autocast, with a scaler for float16: near float32's losses, and not the same."""
    losses = curves.run(name, tritorch, 8, tmp_path, "cpu", f"--dtype={dtype}")
    wide = RECORDED[name]["8"]
    assert losses != pytest.approx(wide, rel=1e-6)
    assert losses == pytest.approx(wide, rel=0.1, abs=0.02)


def test_a_killed_run_leaves_a_checkpoint(tmp_path):
    """However a process ends, the last checkpoint that it wrote is whole."""
    options = curves.CASES["diffusion"][1].split()
    command = [sys.executable, curves.EXAMPLES / "diffusion.py", "--out=run", *options,
               "--device=cpu", "--save-every=1"]  # fmt: skip
    file = tmp_path / "run" / "checkpoint.pt"
    running = subprocess.Popen([*command, "--steps=100000"], cwd=tmp_path, stdout=subprocess.PIPE)
    until = time.monotonic() + PATIENCE
    while not file.exists() and running.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    done = len(tritorch.load(file)["history"]["loss"])
    assert done >= 1
    again = subprocess.run(
        [*command, "--resume", f"--steps={done + 2}"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert f"resumed after step {done} " in again.stdout and "2 steps in" in again.stdout


def test_ctrl_c_saves_after_the_step(tmp_path):
    options = curves.CASES["diffusion"][1].split()
    command = [sys.executable, curves.EXAMPLES / "diffusion.py", "--out=run", *options,
               "--device=cpu", "--save-every=1000000"]  # fmt: skip
    running = subprocess.Popen(
        [*command, "--steps=100000"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    running.stdout.readline()  # the loop has begun
    time.sleep(0.5)
    os.kill(running.pid, signal.SIGINT)
    told, _ = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130 and "--resume goes on" in told
    done = len(tritorch.load(tmp_path / "run" / "checkpoint.pt")["history"]["loss"])
    again = subprocess.run(
        [*command, "--resume", f"--steps={done + 2}"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert again.returncode == 0 and f"resumed after step {done} " in again.stdout, again.stderr


def png(path):
    """A PNG's pixels, and a check of every chunk."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body, kinds = 8, b"", []
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        chunk = data[at + 4 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(chunk)
        kinds.append(chunk[:4])
        if chunk[:4] == b"IHDR":
            width, height, *how = struct.unpack(">IIBBBBB", chunk[4:])
        body += chunk[4:] if chunk[:4] == b"IDAT" else b""
        at += 12 + length
    assert kinds == [b"IHDR", b"IDAT", b"IEND"] and how == [8, 2, 0, 0, 0]
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def test_pictures(tmp_path):
    curves.load("training")
    picture = curves.load("picture")
    for values in ([], [2.5], [float("nan")] * 3, [1e6, 3e6, float("inf"), 2e6], [-1.0, 1.0] * 50):
        picture.curve(tmp_path / "curve.png", values, "a title")
        image = png(tmp_path / "curve.png")
        assert image.shape == (540, 960, 3)
    assert picture.ticks(0, 1, 5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert picture.ticks(-3, 47, 6) == [0, 10, 20, 30, 40]
    rows = np.linspace(0, 1, 5 * 3 * 4 * 4).reshape(5, 3, 4, 4)
    picture.grid(tmp_path / "grid.png", rows, 3, scale=1)
    sheet = png(tmp_path / "grid.png")
    assert sheet.shape == (11, 16, 3)
    assert (sheet[1:5, 1:5] == np.round(rows[0].transpose(1, 2, 0) * 255)).all()
    smooth = picture.running_average([1.0, float("nan"), 1.0])
    assert smooth == pytest.approx([1, 1, 1])


def test_a_terminal_gets_one_line(tmp_path, monkeypatch, capsys):
    training = curves.load("training")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(training.os, "get_terminal_size", lambda *fd: os.terminal_size((80, 24)))
    curves.run("vae", tritorch, 3, tmp_path, "cpu")
    lines = capsys.readouterr().out.split("\n")[0].split("\r")[1:]
    assert len(lines) >= 2 and all(len(line) < 80 for line in lines)
    assert lines[-1].startswith("[====================] 3/3  loss ")


def test_the_text_is_plain():
    path = curves.EXAMPLES / "texts" / "kjv.txt.bz2"
    text = bz2.decompress(path.read_bytes()).decode("ascii")
    assert len(text) > 250_000 and len(set(text)) < 70
