"""Where a worker is stuck: the Python stacks of a process or thread that does not answer.

A worker process registers faulthandler for a real-time signal. Its dump needs neither the
interpreter lock nor the cooperation of what runs there, so it works inside a C call too.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import time
import traceback

SIGNAL = signal.SIGRTMIN + 9
WARN_AFTER = float(os.environ.get("TRITORCH_LOADER_STALL_SECONDS", "120"))
_OWN = os.path.join("_utils", "worker.py")
_PATIENCE = 2.0  # seconds for a dump


def prepare() -> int:
    """In a worker process: a file that its stacks are written to, on a crash too."""
    file = os.memfd_create("tritorch-stacks", os.MFD_CLOEXEC)
    faulthandler.enable(file, all_threads=True)
    faulthandler.register(SIGNAL, file, all_threads=True)
    return file


def _read(file: int, start: int) -> str:
    return os.pread(file, max(os.fstat(file).st_size - start, 0), start).decode(errors="replace")


def _short(text: str) -> str:
    """Without the frames of the loader itself, and of what started it."""
    kept, skipping = [], False
    for line in text.splitlines():
        if not line.startswith("  File "):
            skipping = False
        elif _OWN in line and line.endswith(" in serve"):
            skipping = True
        if not skipping:
            kept.append(line)
    return "\n".join(kept).rstrip()


def of_crash(file: int | None) -> str:
    """What a dead worker left in its file."""
    text = "" if file is None else _read(file, 0)
    return _short(text[text.find("Fatal Python error") :]) if "Fatal Python error" in text else ""


def _state(pid: int) -> str:
    with contextlib.suppress(OSError, IndexError):
        with open(f"/proc/{pid}/stat") as file:
            letter = file.read().rpartition(")")[2].split()[0]
        names = {"T": "stopped", "t": "traced", "D": "in an uninterruptible system call",
                 "Z": "ended", "R": "running", "S": "sleeping"}  # fmt: skip
        return names.get(letter, letter)
    return "gone"


def of_process(pid: int, file: int | None) -> str:
    """The stacks of a worker process now."""
    if file is None:
        return f"It has not begun yet: it is still being started ({_state(pid)})."
    start = os.fstat(file).st_size
    state = _state(pid)
    try:
        os.kill(pid, SIGNAL)
    except OSError:
        return "It is gone."
    until = time.monotonic() + _PATIENCE
    size, seen = start, 0.0
    while (now := time.monotonic()) < until:
        length = os.fstat(file).st_size
        if length != size:
            size, seen = length, now
        elif size > start and now - seen > 0.05:  # nothing more is coming
            break
        time.sleep(0.01)
    return _short(_read(file, start)) or f"It gives no stack: the process is {state}."


def of_thread(ident: int | None) -> str:
    """The stack of a worker thread now."""
    frame = sys._current_frames().get(ident or 0)
    if frame is None:
        return "It is gone."
    frames = traceback.extract_stack(frame)
    own = [i for i, f in enumerate(frames) if _OWN in f.filename and f.name == "serve"]
    return "".join(traceback.format_list(frames[own[-1] + 1 if own else 0 :])).rstrip()
