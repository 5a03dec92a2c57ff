"""Pickles that would run code, or cost far more than their size, are refused."""

from __future__ import annotations

import collections
import io
import pickle
import tracemalloc
from typing import Any

import pytest

import tritorch
from tritorch import serialization
from tritorch.serialization.archive import ArchiveWriter

_ran: list[Any] = []


def run(*args: Any) -> int:
    """What no pickle may call."""
    _ran.append(args)
    return 0


class Reduces:
    """Pickles as a call."""

    def __init__(self, *reduction: Any) -> None:
        self.reduction = reduction

    def __reduce__(self) -> Any:
        return self.reduction


class Stateful:
    """Runs code when it gets its state."""

    def __setstate__(self, state: Any) -> None:
        run(state)

    def __getstate__(self) -> Any:
        return {"a": 1}


def checkpoint(data: bytes, **records: bytes) -> io.BytesIO:
    """A zip around a pickle."""
    file = io.BytesIO()
    writer = ArchiveWriter(file.write, "archive")
    writer.add("data.pkl", data)
    writer.add("byteorder", b"little")
    for name, record in records.items():
        writer.add(f"data/{name}", record)
    writer.close()
    file.seek(0)
    return file


def refuse(data: bytes, match: str, **records: bytes) -> None:
    """Loading must raise, and take no memory to speak of."""
    tracemalloc.start()
    try:
        with pytest.raises(pickle.UnpicklingError, match=match):
            tritorch.load(checkpoint(data, **records))
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert not _ran


def pickled(value: Any) -> bytes:
    return pickle.dumps(value, protocol=2)


def test_calls() -> None:
    import os

    refuse(pickled(Reduces(os.system, ("echo ran",))), "whose module posix is blocked")
    refuse(pickled(Reduces(eval, ("1+1",))), "GLOBAL eval was not an allowed global by default")
    refuse(pickled(Reduces(getattr, ([], "append"))), "GLOBAL getattr was not an allowed global")
    refuse(pickled(Reduces(run, (1,))), r"run was not an allowed global .*add_safe_globals")
    nested = Reduces(collections.OrderedDict, ([("a", Reduces(run, ()))],))
    refuse(pickled(nested), "run was not an allowed global")
    refuse(b"\x80\x02ctorch\nSize\n)R)R.", "unrecognized function of type")
    refuse(pickled(Stateful()), "was not an allowed global")
    refuse(b"\x80\x02csys\nexit\n.", "whose module sys is blocked")
    refuse(b"\x80\x02ctorch.os\nsystem\n.", "GLOBAL torch.os.system was not an allowed global")
    refuse(b"\x80\x02ctorch\nload\n.", "GLOBAL torch.load was not an allowed global")


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"K\x01)R.", "unrecognized function of type"),
        (b"ctorch\nfloat32\n)R.", "unrecognized function of type"),
        (b"ctorch\nFloatStorage\nK\x05\x85R.", "unrecognized function"),
        (b"ctorch\nTensor\nJ\xff\xff\xff\x7f\x85R.", "tensors from storages only"),
        (b"ctorch.storage\nUntypedStorage\nJ\xff\xff\xff\x7f\x85R.", "come from the file"),
        (b"ctorch.storage\nUntypedStorage\nJ\xff\xff\xff\x7f\x85\x81.", "come from the file"),
        (b"ctorch\nFloatTensor\nJ\xff\xff\xff\x7f\x85R.", "unrecognized function"),
        (b"c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R.", "only text can be encoded"),
        (b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00rot\x86R.", "only text"),
        (b"]}b.", "Can only build Tensor, Parameter, OrderedDict"),
        (b"K\x01)\x81.", "Can only create new object for nn.Parameter"),
        (b")K\x01a.", "Can only append to lists, but got <class 'tuple'>"),
        (b"]K\x01K\x02s.", "Can only SETITEM for dict"),
        (b"](K\x01K\x02u.", "Can only SETITEMS for dict"),
        (b"\x8c\x01a.", "Unsupported operand 140"),
        (b"i", "Unsupported operand 105"),
        (b"K\x01", "truncated"),
        (b"", "truncated"),
        (b"X\xff\xff\xff\x7fabc.", "truncated"),
        (b"h\x07.", "Memo value not found at index 7"),
        (b".", "corrupt pickle: IndexError"),
        (b"t.", "corrupt pickle"),
        (b"K\x01\x86.", "unexpected MARK"),
        (b"NQ.", "persistent_load id must be tuple or int"),
        (b"K\x01\x85Q.", "Only persistent_load of storage is allowed"),
        (b"X\x07\x00\x00\x00storage\x85Q.", "must be a tuple of 5 items"),
        (b"ctorch._utils\n_rebuild_wrapper_subclass\n.", "which tritorch does not have"),
        (b"ctorch.serialization\n_get_layout\nX\x01\x00\x00\x00a\x85R.", "layout"),
    ],
)
def test_malformed(data: bytes, match: str) -> None:
    if match == "layout":
        with pytest.raises(RuntimeError, match="unknown layout"):
            tritorch.load(checkpoint(b"\x80\x02" + data))
        return
    refuse(b"\x80\x02" + data, match)


def test_dict_keys_cannot_hang() -> None:
    deep = b"}" + b")" + b"\x85" * 200_000 + b"K\x01s."
    wide = b"}" + b")" + b"q\x00h\x00\x86" * 60 + b"K\x01s."  # 2^60 hashes
    refuse(b"\x80\x02" + deep, "nested too deeply")
    refuse(b"\x80\x02" + wide, "nested too deeply")
    modulus = 2**61 - 1
    colliding = pickled({n * modulus: 0 for n in range(8, 12)})
    refuse(colliding, "extreme number")


def test_copies_are_paid_for() -> None:
    base = b"\x80\x02ccollections\nOrderedDict\nq\x00]q\x01(" + b"K\x00K\x00\x86" * 2000 + b"e]("
    refuse(base + b"h\x00h\x01\x85R" * 2000 + b"e.", "builds far more than its size")


STORAGE = (
    b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu%stQ"
)
TENSOR = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE + b"%s\x89NtR."


@pytest.mark.parametrize(
    ("numel", "view", "match"),
    [
        (b"K\x03", b"K\x00K\x03\x85K\x01\x85", "wrong byte size: expected 12 got 8"),
        (b"J\xff\xff\xff\x7f", b"K\x00K\x02\x85K\x01\x85", "wrong byte size"),
        (b"J\xff\xff\xff\xff", b"K\x00K\x02\x85K\x01\x85", "number of elements"),
        (b"K\x02", b"K\x01K\x02\x85K\x01\x85", "out of bounds for storage of size 8"),
        (b"K\x02", b"K\x00K\x02\x85K\x02\x85", "out of bounds"),
        (b"K\x02", b"J\xff\xff\xff\xffK\x01\x85K\x01\x85", "not be negative|not negative"),
        (b"K\x02", b"K\x01K\x02\x85J\xff\xff\xff\xff\x85", "not negative"),
        (b"K\x02", b"K\x00K\x02\x85)", "one length"),
        (b"K\x02", b"NK\x02\x85K\x01\x85", "offset must be an int"),
        (b"K\x02", b"K\x00(" + b"J\xff\xff\xff\x7f" * 3 + b"t(K\x00K\x00K\x00t", "overflow"),
    ],
)  # fmt: skip
def test_sizes_are_checked(numel: bytes, view: bytes, match: str) -> None:
    file = checkpoint(TENSOR % (numel, view), **{"0": bytes(8)})
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match=match):
        tritorch.load(file)
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match=match):
        file.seek(0)
        tritorch.load(file, weights_only=False)


def test_good_sizes() -> None:
    file = checkpoint(TENSOR % (b"K\x02", b"K\x00K\x02\x85K\x01\x85"), **{"0": bytes(8)})
    assert tritorch.load(file).tolist() == [0, 0]


class Point:
    """A plain class."""

    def __init__(self, x: int) -> None:
        self.x = x


def test_safe_globals() -> None:
    data = pickled([Point(3)])
    refuse(data, "Point was not an allowed global")
    with serialization.safe_globals([Point]):
        assert tritorch.load(checkpoint(data))[0].x == 3
        assert serialization.get_safe_globals() == [Point]
    serialization.add_safe_globals([(Point, f"{__name__}.Other"), Point])
    try:
        other = data.replace(b"\nPoint\n", b"\nOther\n")
        assert type(tritorch.load(checkpoint(other))[0]) is Point
    finally:
        serialization.clear_safe_globals()
    refuse(data, "Point was not an allowed global")
    assert serialization.get_unsafe_globals_in_checkpoint(checkpoint(data)) == [f"{__name__}.Point"]


def test_errors_of_users_classes_are_theirs() -> None:
    with serialization.safe_globals([run]):
        assert tritorch.load(checkpoint(pickled(Reduces(run, (1, 2))))) == 0
    assert _ran == [(1, 2)]
    _ran.clear()
    with serialization.safe_globals([int]), pytest.raises(ValueError, match="invalid literal"):
        tritorch.load(checkpoint(pickled(Reduces(int, ("x",)))))


def test_lacking_module_is_named() -> None:
    file = checkpoint(b"\x80\x02ctorch.export.nowhere\nGraph\n.")
    with pytest.raises(
        AttributeError, match=r"needs torch.export.nowhere.Graph, which tritorch does"
    ):
        tritorch.load(file, weights_only=False)


def conjugated(size: int, times: int) -> bytes:
    """A tensor of `size` complex numbers, `times` times with a pending conjugation."""
    number = b"J" + size.to_bytes(4, "little")
    storage = (
        b"(X\x07\x00\x00\x00storagectorch\nComplexFloatStorage\nX\x01\x00\x00\x000"
        b"X\x03\x00\x00\x00cpu" + number + b"tQ"
    )
    metadata = b"}X\x04\x00\x00\x00conj\x88s"
    view = b"K\x00" + number + b"\x85K\x01\x85\x89N"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + view + metadata + b"tR"
    return b"\x80\x02]" + (b"(" + tensor * times + b"e") + b"."


def test_what_is_computed_from_storages_is_paid_for() -> None:
    data = bytes(8 << 20)
    refuse(conjugated(1 << 20, 400), "computes far more than its storages hold", **{"0": data})
    loaded = tritorch.load(checkpoint(conjugated(1 << 10, 5), **{"0": data[: 8 << 10]}))
    assert [each.shape for each in loaded] == [(1 << 10,)] * 5


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_tensors_of_expanded_parts_are_refused_at_once(layout: str) -> None:
    def part(size: bytes, stride: bytes) -> bytes:
        storage = (
            b"(X\x07\x00\x00\x00storagectorch\nLongStorage\nX\x01\x00\x00\x000"
            b"X\x03\x00\x00\x00cpuK\x01tQ"
        )
        rest = b"K\x00" + size + stride + b"\x89NtR"
        return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + rest

    many, none = b"\x8a\x05\x00\x00\x00\x00\x10", b"K\x00"  # 2^36 entries of one number
    row, line = b"K\x01" + many + b"\x86", many + b"\x85"
    if layout == "coo":
        parts = part(row, none + none + b"\x86") + part(line, none + b"\x85") + b"K\x05\x85"
    else:
        parts = (part(line, none + b"\x85") * 2) + part(line, none + b"\x85") + b"K\x05K\x05\x86"
    name = f"torch.sparse_{layout}".encode()
    data = (
        b"\x80\x02ctorch._utils\n_rebuild_sparse_tensor\nctorch.serialization\n_get_layout\nX"
        + len(name).to_bytes(4, "little") + name + b"\x85R(" + parts + b"t\x86R."
    )  # fmt: skip
    refuse(data, "computes far more than its storages hold", **{"0": bytes(8)})


def test_expanded_values_of_a_small_sparse_tensor_load() -> None:
    indices = tritorch.tensor([[0, 1, 2]])
    made = tritorch.sparse_coo_tensor(indices, tritorch.ones(1).expand(3), (4,))
    file = io.BytesIO()
    tritorch.save(made, file)
    file.seek(0)
    assert tritorch.load(file).to_dense().tolist() == [1, 1, 1, 0]
