"""Objects among the members of a group.

They are pickled: whoever receives one runs what it says, so the members of a group trust each
other.  Strangers cannot become members (src/distributed/meeting.cpp).  With `weights_only`, which
all members say, objects travel as `save` writes them, and are read as `load` reads them with it:
tensors, numbers, texts and what holds them, and no code.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from tritorch.core.dtype import int64, uint8
from tritorch.distributed.collectives import (
    _validate_output_list_for_rank,
    all_gather,
    broadcast,
    gather,
    scatter,
)
from tritorch.distributed.groups import (
    _canonicalize_group_rank,
    _get_object_coll_device,
    _group_or_default_group,
    _rank_not_in_group,
    _warn_not_in_group,
    get_global_rank,
)
from tritorch.distributed.messages import recv, send
from tritorch.ops.shape.factory import empty, frombuffer, tensor
from tritorch.serialization import load, save

_pickler = pickle.Pickler
_unpickler = pickle.Unpickler


def _object_to_tensor(
    obj: Any, device: Any, group: Any, weights_only: bool = False
) -> tuple[Any, Any]:
    """An object's bytes, and their number."""
    file = io.BytesIO()
    if weights_only:
        save(obj, file)
    else:
        _pickler(file).dump(obj)
    data = frombuffer(bytearray(file.getvalue()), dtype=uint8).to(device)
    return data, tensor([data.numel()], dtype=int64, device=device)


def _tensor_to_object(data: Any, size: Any, group: Any, weights_only: bool = False) -> Any:
    """The object whose bytes these are."""
    file = io.BytesIO(data.cpu().numpy().tobytes()[: int(size)])
    return load(file, weights_only=True) if weights_only else _unpickler(file).load()


def _gathered(obj: Any, group: Any, weights_only: bool) -> tuple[Any, list[int], list[Any], Any]:
    """An object's bytes, as many as the longest of all has; the lengths; room for all."""
    device = _get_object_coll_device(group)
    data, size = _object_to_tensor(obj, device, group, weights_only)
    sizes = [empty(1, dtype=int64, device=device) for _ in range(group.size())]
    all_gather(sizes, size, group=group)
    lengths = [int(each) for each in sizes]
    longest = max(lengths)
    padded = empty(longest, dtype=uint8, device=device)
    padded[: data.numel()] = data
    return padded, lengths, [empty(longest, dtype=uint8, device=device) for _ in lengths], device


def all_gather_object(
    object_list: list[Any], obj: Any, group: Any = None, weights_only: bool = False
) -> None:
    """Gives all members the objects of all, in a list that is there already."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_object")
    group = _group_or_default_group(group)
    data, lengths, room, _ = _gathered(obj, group, weights_only)
    all_gather(room, data, group=group)
    for i, (each, length) in enumerate(zip(room, lengths, strict=True)):
        object_list[i] = _tensor_to_object(each, length, group, weights_only)
    return None


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
    group: Any = None, group_dst: int | None = None, weights_only: bool = False,
) -> None:  # fmt: skip
    """Gives one member the objects of all."""
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("gather_object")
    if dst is None and group_dst is None:
        dst = 0
    root = _canonicalize_group_rank(group, dst, group_dst)
    mine = group.rank() == root
    _validate_output_list_for_rank(group.rank(), root, object_gather_list)
    data, lengths, room, _ = _gathered(obj, group, weights_only)
    gather(data, room if mine else None, group_dst=root, group=group)
    if mine and object_gather_list is not None:
        for i, (each, length) in enumerate(zip(room, lengths, strict=True)):
            object_gather_list[i] = _tensor_to_object(each, length, group, weights_only)
    return None


def _packed(objects: list[Any], device: Any, group: Any, weights_only: bool) -> tuple[Any, Any]:
    """The bytes of several objects, one behind the other, and how many each has."""
    parts = [_object_to_tensor(obj, "cpu", group, weights_only)[0] for obj in objects]
    together = b"".join(part.numpy().tobytes() for part in parts)
    data = frombuffer(bytearray(together), dtype=uint8).to(device)
    sizes = tensor([part.numel() for part in parts], dtype=int64, device=device)
    return data, sizes


def _unpack(objects: list[Any], data: Any, sizes: Any, group: Any, weights_only: bool) -> None:
    start = 0
    for i, size in enumerate(sizes.tolist()):
        objects[i] = _tensor_to_object(data[start : start + size], size, group, weights_only)
        start += size


def _check_objects(objects: Any) -> None:
    if not isinstance(objects, list) or not objects:
        raise ValueError("object_list must be a list with at least one object")


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None, weights_only: bool = False,
) -> None:  # fmt: skip
    """Gives all members the objects of one, in place of those in their lists."""
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("broadcast_object_list")
    if src is None and group_src is None:
        src = 0
    root = _canonicalize_group_rank(group, src, group_src)
    _check_objects(object_list)
    where = device or _get_object_coll_device(group)
    if group.rank() == root:
        data, sizes = _packed(object_list, where, group, weights_only)
    else:
        sizes = empty(len(object_list), dtype=int64, device=where)
    broadcast(sizes, group_src=root, group=group)
    if group.rank() != root:
        data = empty(int(sizes.sum()), dtype=uint8, device=where)
    broadcast(data, group_src=root, group=group)
    if group.rank() != root:
        _unpack(object_list, data, sizes, group, weights_only)
    return None


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
    src: int | None = None, group: Any = None, group_src: int | None = None,
    weights_only: bool = False,
) -> None:  # fmt: skip
    """Gives each member one of the objects that one member has: the first of its list is that."""
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("scatter_object_list")
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    if src is None and group_src is None:
        src = 0
    root = _canonicalize_group_rank(group, src, group_src)
    mine = group.rank() == root
    where = _get_object_coll_device(group)
    parts = []
    longest = empty(1, dtype=int64, device=where)
    if mine:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        parts = [
            _object_to_tensor(obj, where, group, weights_only) for obj in scatter_object_input_list
        ]
        longest.fill_(max(data.numel() for data, _ in parts))
    broadcast(longest, group_src=root, group=group)
    room = empty(int(longest), dtype=uint8, device=where)
    size = empty(1, dtype=int64, device=where)
    padded = []
    for data, _ in parts:
        padded.append(empty(int(longest), dtype=uint8, device=where))
        padded[-1][: data.numel()] = data
    scatter(room, padded if mine else None, group_src=root, group=group)
    scatter(size, [each for _, each in parts] if mine else None, group_src=root, group=group)
    scatter_object_output_list[0] = _tensor_to_object(room, size, group, weights_only)
    return None


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None,
    group_dst: int | None = None, use_batch: bool = False, weights_only: bool = False,
) -> None:  # fmt: skip
    """Sends objects to one member."""
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("send_object_list")
    peer = _canonicalize_group_rank(group, dst, group_dst)
    _check_objects(object_list)
    if peer == group.rank():
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of the "
            "current process."
        )
    where = device or _get_object_coll_device(group)
    data, sizes = _packed(object_list, where, group, weights_only)
    send(sizes, group_dst=peer, group=group)
    send(data, group_dst=peer, group=group)
    return None


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None, use_batch: bool = False, weights_only: bool = False,
) -> int:  # fmt: skip
    """Receives objects in place of those in the list; gives who sent them."""
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        _warn_not_in_group("recv_object_list")
        return -1
    _check_objects(object_list)
    where = device or _get_object_coll_device(group)
    sizes = empty(len(object_list), dtype=int64, device=where)
    sender = recv(sizes, src=src, group=group, group_src=group_src)
    data = empty(int(sizes.sum()), dtype=uint8, device=where)
    recv(data, src=sender, group=group)
    _unpack(object_list, data, sizes, group, weights_only)
    return sender if src is None else get_global_rank(group, _canonicalize_group_rank(group, src))
