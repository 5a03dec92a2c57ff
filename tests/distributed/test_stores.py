"""Stores: what each operation does, waiting, many clients, and frames of strangers."""

import contextlib
import hashlib
import hmac
import os
import pickle
import random
import socket
import struct
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

import tritorch.distributed as dist
from tritorch import _C

SHORT = timedelta(milliseconds=200)


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def store(request, tmp_path):
    if request.param == "hash":
        made = dist.HashStore()
    elif request.param == "file":
        made = dist.FileStore(str(tmp_path / "store"), 1)
    else:
        made = dist.TCPStore("localhost", 0, 1, True, wait_for_workers=False)
    made.set_timeout(timedelta(seconds=30))
    return dist.PrefixStore("some", made) if request.param == "prefix" else made


def test_values(store):
    store.set("a", "1")
    store.set("b", b"\x00\xff")
    assert store.get("a") == b"1" and store.get("b") == b"\x00\xff"
    assert store.num_keys() == 2 and store.check(["a", "b"]) and not store.check(["a", "c"])
    assert store.add("n", 5) == 5 and store.add("n", -7) == -2 and store.get("n") == b"-2"
    store.append("a", "23")
    assert store.get("a") == b"123"
    store.multi_set(["x", "y"], ["X", "Y"])
    assert store.multi_get(["y", "x"]) == [b"Y", b"X"]
    assert store.delete_key("x") and not store.delete_key("x") and not store.check(["x"])
    assert sorted(store.list_keys()) == ["a", "b", "n", "y"]
    with pytest.raises(ValueError, match="same size"):
        store.multi_set(["a"], [])
    with pytest.raises(dist.DistStoreError, match="is no number"):
        store.add("a", 2) and store.add("b", 1)


def test_compare_set(store):
    assert store.compare_set("k", "wrong", "new") == b"wrong" and not store.check(["k"])
    assert store.compare_set("k", "", "first") == b"first"
    assert store.compare_set("k", "other", "new") == b"first"
    assert store.compare_set("k", "first", "second") == b"second" == store.get("k")


def test_queues(store):
    for value in ("a", "b"):
        store.queue_push("q", value)
    assert store.queue_len("q") == 2 and store.queue_len("other") == 0
    assert store.queue_pop("q") == b"a" and store.queue_pop("q", block=False) == b"b"
    with pytest.raises(dist.QueueEmptyError):
        store.queue_pop("q", block=False)
    later = threading.Timer(0.1, store.queue_push, ("q", "late"))
    later.start()
    assert store.queue_pop("q") == b"late"
    later.join()


def test_waiting(store):
    start = time.monotonic()
    with pytest.raises(dist.DistStoreError, match=r"wait timeout after 200ms, keys: .*never"):
        store.wait(["never"], SHORT)
    assert 0.15 < time.monotonic() - start < 20
    store.set_timeout(SHORT)
    with pytest.raises(dist.DistStoreError, match="wait timeout"):
        store.get("never")
    assert store.timeout == SHORT
    store.set_timeout(timedelta(seconds=60))
    threads = [threading.Timer(0.1 * i, store.set, (f"k{i}", str(i))) for i in (2, 1)]
    for thread in threads:
        thread.start()
    store.wait(["k1", "k2"])
    assert store.multi_get(["k1", "k2"]) == [b"1", b"2"]


def test_python_stores_need_only_methods():
    class Mine(dist.Store):
        def __init__(self):
            self.values = {}

        def set(self, key, value):
            self.values[key] = value.encode() if isinstance(value, str) else value

        def get(self, key):
            return self.values[key]

    mine = Mine()
    dist.PrefixStore("p", mine).set("k", "v")
    assert mine.values == {"p/k": b"v"} and dist.PrefixStore("p", mine).get("k") == b"v"
    with pytest.raises(NotImplementedError, match="Mine has no add"):
        mine.add("k", 1)


def test_files_are_shared(tmp_path):
    one, two = (dist.FileStore(str(tmp_path / "f"), 2) for _ in range(2))
    one.set("a", "1")
    assert two.get("a") == b"1" and two.add("n", 2) == 2 and one.add("n", 3) == 5
    one.queue_push("q", "x")
    assert two.queue_pop("q") == b"x" and one.queue_len("q") == 0
    (tmp_path / "text").write_text("no store, but some text")
    with pytest.raises(dist.DistStoreError, match="no store's file"):
        dist.FileStore(str(tmp_path / "text"), 1)


def test_it_listens_at_one_interface_only():
    server = dist.TCPStore("127.0.0.1", 0, is_master=True)
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [row[1] for row in sockets if row[3] == "0A"]
    port = f"{server.port:04X}"
    assert [place for place in listening if place.endswith(port)] == [f"0100007F:{port}"]
    with pytest.raises(dist.DistNetworkError, match="TRITORCH_STORE_INTERFACE"):
        dist.TCPStore("192.0.2.1", 0, is_master=True)


def test_nobody_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = time.monotonic()
    with pytest.raises(dist.DistNetworkError, match="timed out while trying to connect"):
        dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=1))
    assert time.monotonic() - start < 20


def test_strangers_without_the_secret(monkeypatch):
    monkeypatch.setenv("TRITORCH_JOB_SECRET", "one")
    server = dist.TCPStore("127.0.0.1", 0, is_master=True)
    server.set("k", "v")
    monkeypatch.setenv("TRITORCH_JOB_SECRET", "another")
    with pytest.raises(dist.DistNetworkError, match="does not know this job's secret"):
        dist.TCPStore("127.0.0.1", server.port, is_master=False)
    monkeypatch.setenv("TRITORCH_JOB_SECRET", "one")
    client = dist.TCPStore("127.0.0.1", server.port, is_master=False)
    assert client.get("k") == b"v"


@pytest.mark.parametrize("length", [0, 1, 55, 56, 63, 64, 65, 1000])
def test_hashes(length):
    text = os.urandom(length)
    assert _C.distributed.sha256(text) == hashlib.sha256(text).digest()
    for key in (b"", b"k", b"k" * 64, b"k" * 65):
        assert _C.distributed.hmac(key, text) == hmac.digest(key, text, "sha256")


def test_thousands_of_clients():
    """One thread serves all: each waits for a key that the last one writes."""
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=60))
    threads_of_one = set(os.listdir("/proc/self/task"))
    clients = [
        dist.TCPStore("127.0.0.1", server.port, is_master=False, timeout=timedelta(seconds=60))
        for _ in range(1000)
    ]
    for client in clients:
        client.add("n", 1)
    assert server.add("n", 0) == 1000
    assert set(os.listdir("/proc/self/task")) <= threads_of_one
    threads = [threading.Thread(target=client.wait, args=(["go"],)) for client in clients[:200]]
    for thread in threads:
        thread.start()
    server.set("go", "1")
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


MAGIC = struct.pack("<I", 0x31545354)


def frame(op=2, number=0, timeout=0, keys=(), values=()):
    body = struct.pack("<BqI", op, number, timeout)
    for strings in (keys, values):
        body += struct.pack("<I", len(strings))
        body += b"".join(struct.pack("<I", len(text)) + text for text in strings)
    return MAGIC + struct.pack("<I", len(body)) + body


def reply(connection):
    def take(count):
        data = b""
        while len(data) < count:
            part = connection.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    return take(struct.unpack("<4xI", take(8))[0])


def greeted(port):
    """A connection that has proven that it knows the (empty) secret."""
    connection = socket.create_connection(("127.0.0.1", port), 10)
    nonce = b"n" * 32
    connection.sendall(frame(0, 1, values=[nonce]))
    answer = reply(connection)
    theirs = answer[25 : 25 + 32]
    connection.sendall(frame(1, values=[hmac.digest(b"", b"client" + theirs + nonce, "sha256")]))
    assert reply(connection)[0] == 0
    return connection


def hostile(chance):
    """A frame that is no frame, or one with lies in it."""
    kind = chance.randrange(7)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 200))
    if kind == 1:
        return MAGIC + struct.pack("<I", chance.choice([2**32 - 1, 2**31, 2**29 + 1])) + b"x" * 20
    good = bytearray(
        frame(
            chance.randrange(0, 30), chance.choice([0, 1, -1, 2**63 - 1]), chance.randrange(3),
            [chance.randbytes(chance.randrange(9)) for _ in range(chance.randrange(4))],
            [chance.randbytes(chance.randrange(9)) for _ in range(chance.randrange(4))],
        )
    )  # fmt: skip
    if kind == 2:
        return bytes(good[: chance.randrange(len(good))])
    if kind == 3:
        at = chance.randrange(len(good))
        good[at] ^= 1 << chance.randrange(8)
        return bytes(good)
    if kind == 4:  # counts and lengths that are not covered
        return MAGIC + struct.pack("<I", 21) + struct.pack("<BqIII", 2, 0, 0, 2**32 - 1, 7)
    return bytes(good) * chance.randrange(1, 4)


@pytest.mark.parametrize("known", [False, True], ids=["stranger", "member"])
def test_hostile_frames_neither_crash_nor_hang_it(known):
    count = int(os.environ.get("TRITORCH_FUZZ_FRAMES", "2000"))
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=20))
    chance = random.Random(count + known)
    held = []  # some stay connected, in the middle of a frame
    for _ in range(count):
        if known:
            connection = greeted(server.port)
        else:
            connection = socket.create_connection(("127.0.0.1", server.port), 10)
        try:
            connection.sendall(hostile(chance))
        except OSError:
            pass
        if chance.random() < 0.02:
            held.append(connection)
        else:
            connection.close()
    server.set("alive", "yes")
    assert server.get("alive") == b"yes"


def test_a_client_that_goes_while_it_waits_is_forgotten():
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=20))
    waiting = [greeted(server.port) for _ in range(50)]
    for connection in waiting:
        connection.sendall(frame(4, 0, 60_000, [b"later"]) + b"more")
        connection.close()
    server.set("later", "1")
    assert server.get("later") == b"1"


def test_a_client_of_pytorch_s_is_told_at_once(capfd):
    """The first bytes of PyTorch's client get their answer, its first question an end."""
    server = dist.TCPStore("127.0.0.1", 0, 1, True)
    greeting = bytes([0]) + (0x3C85F7CE).to_bytes(4, "little")
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
            client.sendall(greeting)
            client.sendall(bytes([13]) + b"abcd")
            assert client.recv(4) == b"abcd"
            client.sendall(bytes([3]) + b"question")
            with contextlib.suppress(ConnectionError):
                assert client.recv(1) == b""
    server.set("k", b"v")  # it goes on
    said = capfd.readouterr().err
    assert said.count("another torch") == 1 and f"[127.0.0.1]:{server.port}" in said
    assert "--as-torch" in said


@pytest.mark.parametrize("answers", [False, True])
def test_a_server_that_is_no_store(answers):
    """One that closes at the greeting, as PyTorch's does, and one that answers something else."""

    def serve(listener):
        client, _ = listener.accept()
        with client:
            client.recv(100)
            if answers:
                client.sendall(b"HTTP/1.1 400 Bad Request")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        port, begun = listener.getsockname()[1], time.monotonic()
        with pytest.raises(dist.DistNetworkError, match="no store") as raised:
            dist.TCPStore("127.0.0.1", port, 2, False, timeout=timedelta(seconds=60))
        thread.join()
    assert time.monotonic() - begun < 20
    assert answers or f"[127.0.0.1]:{port}" in str(raised.value)


def test_a_store_that_is_stopped_says_so():
    """Its address takes connections, and nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(dist.DistError, match=rf"127.0.0.1\]:{port} does not answer"):
            dist.TCPStore("127.0.0.1", port, 2, False, timeout=timedelta(seconds=1))


def test_errors_travel():
    for kind in (dist.DistBackendError, dist.DistNetworkError, dist.QueueEmptyError):
        error = pickle.loads(pickle.dumps(kind("why")))
        assert type(error) is kind and str(error) == "why" and isinstance(error, dist.DistError)
    assert issubclass(dist.QueueEmptyError, dist.DistStoreError)
    assert issubclass(dist.DistError, RuntimeError)
