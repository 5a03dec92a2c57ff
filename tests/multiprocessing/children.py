"""What child processes of these tests run; importable by spawned ones."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import tritorch


def write(inbox: Any, outbox: Any, module: Any) -> None:
    """Changes what it gets, and sends some back."""
    x, part, parameter = inbox.get()
    assert x.is_shared() and isinstance(parameter, tritorch.nn.Parameter)
    assert parameter.requires_grad and parameter.is_leaf
    assert x.untyped_storage() == part.untyped_storage()
    x[0] = 9
    part.fill_(5)
    with tritorch.no_grad():
        parameter.add_(1)
        module.weight.fill_(3)
    outbox.put(x)
    outbox.put(tritorch.arange(4))
    inbox.get()  # the sender's memory must be there until it was fetched


def send_and_die(outbox: Any, size: int) -> None:
    """Is killed with shared memory in its hands."""
    kept = [tritorch.ones(size).share_memory_() for _ in range(3)]
    outbox.put(kept[0])
    outbox.put(None)
    while kept:  # a thread of multiprocessing's gives out files, for as long as it is asked
        time.sleep(60)


def double(x: Any) -> Any:
    return x * 2


def raise_error(i: int) -> None:
    raise ValueError(f"process {i}")


def die_or_sleep(i: int) -> None:
    if i == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1000)


def exit_with(i: int, code: int) -> None:
    sys.exit(code)


def interrupted(i: int) -> None:
    raise KeyboardInterrupt


def fill(i: int, x: Any) -> None:
    x[i] = i + 1


def borrow(connection: Any) -> None:
    """Uses GPU memory of its parent, as that says."""
    lent: dict[str, Any] = {}
    while (asked := connection.recv()) is not None:
        what, value = asked
        if what == "take":
            whole, part, parameter = lent["tensors"] = value
            assert whole.is_cuda and parameter.is_leaf and parameter.requires_grad
            assert whole.untyped_storage() == part.untyped_storage()
            part.add_(1)  # nobody waits for it here
            connection.send((float(whole.sum()), type(parameter).__name__))
        elif what == "send on":
            try:
                connection.send(lent["tensors"][0])
            except RuntimeError as error:
                connection.send(str(error))
        elif what == "drop":
            whole = part = parameter = value = asked = None
            lent.clear()
            connection.send(None)
        elif what == "lend":
            lent["own"] = tritorch.arange(5, device="cuda")
            connection.send(lent["own"])
        elif what == "words":
            lent["storage"] = tritorch.UntypedStorage._new_shared_cuda(*value)
            connection.send(lent["storage"].tolist())
        elif what == "event":
            event, handle = value
            event.synchronize()
            event = tritorch.cuda.Event.from_ipc_handle("cuda:0", handle)
            event.wait()
            event.synchronize()
            connection.send(event.query())
