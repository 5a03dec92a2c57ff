"""How tensors lie over meshes: what PyTorch's values say, print and cut."""

import copy
import pickle

import pytest

import tritorch
from tritorch.distributed.tensor import Partial, Placement, Replicate, Shard
from tritorch.distributed.tensor.placement_types import _StridedShard

ALL = [Shard(0), Shard(1), Shard(-1), Replicate(), Partial(), Partial("avg"),
       _StridedShard(0, split_factor=2), _StridedShard(0, split_factor=4)]  # fmt: skip


def test_values_compare_by_what_they_say():
    assert len(set(ALL)) == len(ALL)
    for placement in ALL:
        for other in (copy.deepcopy(placement), pickle.loads(pickle.dumps(placement))):
            assert other == placement and hash(other) == hash(placement)


def test_what_they_print():
    assert [str(p) for p in ALL] == ["S(0)", "S(1)", "S(-1)", "R", "P(sum)", "P(avg)",
                                     "_S(0, 2)", "_S(0, 4)"]  # fmt: skip
    assert [repr(p) for p in ALL[2:7]] == [
        "Shard(dim=-1)", "Replicate()", "Partial(sum)", "Partial(avg)",
        "_StridedShard(dim=0, sf=2)",
    ]  # fmt: skip


def test_what_they_are():
    kinds = [(p.is_shard(), p.is_replicate(), p.is_partial()) for p in ALL]
    assert kinds == [(i in (0, 1, 2, 6, 7), i == 3, i in (4, 5)) for i in range(8)]
    assert Shard(1).is_shard(1) and not Shard(1).is_shard(0)
    assert Partial("max").is_partial("max") and not Partial("max").is_partial("sum")
    with pytest.raises(TypeError):
        Placement()
    with pytest.raises(AttributeError):
        Shard(1).dim = 2


@pytest.mark.parametrize("size", range(8))
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_chunks_are_those_of_chunk(size, n):
    x = tritorch.arange(size)
    chunks, lacking = Shard(0)._split_tensor(x, n, with_padding=False)
    assert len(chunks) == n and not lacking
    theirs = [part.tolist() for part in x.chunk(n)] if size else []
    assert [c.tolist() for c in chunks] == theirs + [[]] * (n - len(theirs))
    starts = [Shard.local_shard_size_and_offset(size, n, rank) for rank in range(n)]
    assert [x[start : start + length].tolist() for length, start in starts] == [
        c.tolist() for c in chunks
    ]
    padded, lacking = Shard(0)._split_tensor(x, n)
    for chunk, zeros, whole in zip(chunks, lacking, padded, strict=True):
        assert whole.tolist() == chunk.tolist() + [0] * zeros


def test_a_dim_that_is_not_there():
    with pytest.raises(AssertionError, match="greater than tensor ndim"):
        Shard(3)._split_tensor(tritorch.ones(2), 2)
