"""Index expressions, read and written, against NumPy; and what PyTorch refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import tritorch as torch

shapes = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@st.composite
def keys(draw, shape, advanced=True):
    """An index expression for a shape, with tensors where NumPy has arrays: two tuples."""
    items, dim = [], 0
    index_shape = draw(array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=3))
    ellipsis = False
    while dim < len(shape) and draw(st.integers(0, 9)):
        size = shape[dim]
        kinds = ["slice", "slice", "none"]
        kinds += ["int", "int"] if size else []
        if advanced:
            kinds += ["mask", "list mask"] + (["tensor", "list", "ndarray", "0-d"] if size else [])
        if not ellipsis:
            kinds += ["ellipsis"]
        kind = draw(st.sampled_from(kinds))
        index = st.integers(-size, size - 1)
        if kind == "slice":
            bound = st.one_of(st.none(), st.integers(-size - 1, size + 1))
            items.append(
                ("same", slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3]))))
            )
            dim += 1
        elif kind == "none":
            if len(items) < 6:
                items.append(("same", None))
        elif kind == "int":
            items.append(("same", draw(index)))
            dim += 1
        elif kind == "0-d":
            items.append(("int tensor", draw(index)))
            dim += 1
        elif kind == "ellipsis":
            ellipsis = True
            skipped = draw(st.integers(0, len(shape) - dim))
            dim += skipped
            items.append(("ellipsis", skipped))
        elif kind in ("mask", "list mask"):
            # Masks only meet other indices that broadcast with them: so they are alone.
            if any(k not in ("same", "ellipsis", "int tensor") for k, _ in items):
                break
            rank = draw(st.integers(1, min(2, len(shape) - dim))) if kind == "mask" else 1
            mask = draw(arrays(bool, shape[dim : dim + rank]))
            items.append((kind, mask))
            dim += rank
            index_shape = None
        else:
            if index_shape is None:
                break
            keep = draw(
                st.lists(st.booleans(), min_size=len(index_shape), max_size=len(index_shape))
            )
            mine = tuple(n if k else 1 for n, k in zip(index_shape, keep))
            mine = mine[draw(st.integers(0, len(mine) - 1)) :] if kind == "tensor" else mine
            items.append((kind, draw(arrays(np.int64, mine, elements=index))))
            dim += 1
    if ellipsis and dim < len(shape):
        # What the ellipsis stands for must not change with the dims that are left.
        items.extend([("same", slice(None))] * (len(shape) - dim))
    return items


def both_keys(items, device):
    ours, theirs = [], []
    for kind, value in items:
        if kind == "same":
            ours.append(value)
            theirs.append(value)
        elif kind == "ellipsis":
            ours.append(Ellipsis)
            theirs.append(Ellipsis)
        elif kind == "int tensor":
            # A 0-d tensor acts as an int: the result is a view.  (In NumPy it is an array.)
            ours.append(torch.tensor(value, device=device))
            theirs.append(value)
        else:
            theirs.append(value)
            if kind in ("list", "list mask"):
                ours.append(value.tolist())
            elif kind == "ndarray":
                ours.append(value)
            else:
                ours.append(torch.tensor(value, device=device))
    if len(ours) == 1 and not isinstance(ours[0], list):
        return ours[0], theirs[0]
    return tuple(ours), tuple(theirs)


def is_advanced(items):
    return any(kind not in ("same", "ellipsis", "int tensor") for kind, _ in items)


def numpy_reading(a, items, theirs):
    """a[theirs] as PyTorch reads it: first ints, slices and None, then the index arrays.

    NumPy takes an int beside index arrays for an array, and arrays with an empty ellipsis between
    them for separated ones; both move the indexed dims to the front.
    """
    if not is_advanced(items):
        return a[theirs]
    plain, rest = [], []
    for kind, value in items:
        if kind == "ellipsis":
            plain.extend([slice(None)] * value)
            rest.extend([slice(None)] * value)
        elif kind == "int tensor" or (kind == "same" and isinstance(value, int)):
            plain.append(value)
        elif kind == "same":
            plain.append(value)
            rest.append(slice(None))
        else:
            plain.extend([slice(None)] * (value.ndim if value.dtype == bool else 1))
            rest.append(value)
    return a[tuple(plain)][tuple(rest)]


cases = shapes.flatmap(lambda shape: st.tuples(st.just(shape), keys(shape)))


def values_of(shape):
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def check_getitem(shape, items, device="cpu"):
    a = values_of(shape)
    x = torch.tensor(a, device=device)
    ours, theirs = both_keys(items, device)
    want = numpy_reading(a, items, theirs)
    got = x[ours]
    assert tuple(got.shape) == want.shape
    np.testing.assert_array_equal(got.cpu().numpy(), want)
    if is_advanced(items):
        assert got._base is None
    else:
        assert got._base is x
        assert got.untyped_storage() == x.untyped_storage()


def check_setitem(shape, items, data, device="cpu"):
    a = values_of(shape)
    x = torch.tensor(a, device=device)
    ours, theirs = both_keys(items, device)
    where = numpy_reading(np.arange(a.size).reshape(shape), items, theirs)
    # A value whose shape broadcasts to the place.
    cut = data.draw(st.integers(0, where.ndim))
    mine = tuple(1 if data.draw(st.booleans()) else n for n in where.shape[cut:])
    value = -1 - np.arange(int(np.prod(mine)), dtype=np.float32).reshape(mine)
    spread = np.broadcast_to(value, where.shape)
    want = a.copy().reshape(-1)
    want[where.reshape(-1)] = spread.reshape(-1)
    number = value.size == 1 and data.draw(st.booleans())
    version = x._version
    x[ours] = value.item() if number else torch.tensor(value, device=device)
    got = x.cpu().numpy().reshape(-1)
    assert x._version > version
    flat = where.reshape(-1)
    once = np.ones(a.size, bool)
    unique, counts = np.unique(flat, return_counts=True)
    once[unique[counts > 1]] = False
    np.testing.assert_array_equal(got[once], want[once])
    for place in np.flatnonzero(~once):  # written several times: any of the values
        assert got[place] in spread.reshape(-1)[flat == place]


@settings(max_examples=400)
@given(cases)
def test_getitem(case):
    check_getitem(*case)


@settings(max_examples=300)
@given(cases, st.data())
def test_setitem(case, data):
    check_setitem(*case, data)


@pytest.mark.device
@settings(max_examples=30)
@given(cases, st.data())
def test_on_a_gpu(case, data):
    check_getitem(*case, "cuda")
    check_setitem(*case, data, "cuda")


@settings(max_examples=100)
@given(cases)
def test_gradients_gather_where_the_index_looked(case):
    shape, items = case
    a = values_of(shape).astype(np.float64)
    x = torch.tensor(a, requires_grad=True)
    ours, theirs = both_keys(items, "cpu")
    where = numpy_reading(np.arange(a.size).reshape(shape), items, theirs)
    out = x[ours]
    weights = np.arange(1.0, where.size + 1).reshape(where.shape)
    (out * torch.tensor(weights)).sum().backward()
    want = np.zeros(a.size)
    np.add.at(want, where.reshape(-1), weights.reshape(-1))
    np.testing.assert_allclose(x.grad.numpy().reshape(-1), want)


@settings(max_examples=100)
@given(cases, st.booleans())
def test_index_put_accumulates(case, accumulate):
    shape, items = case
    indices = [value for kind, value in items if kind in ("tensor", "ndarray", "list")]
    if not indices or len(indices) > len(shape):
        return
    indices = [np.abs(index) % max(n, 1) for index, n in zip(indices, shape)]
    if 0 in shape:
        return
    a = values_of(shape).astype(np.float64)
    x = torch.tensor(a)
    place = a[tuple(indices)]
    values = np.arange(1.0, place.size + 1).reshape(place.shape)
    if not accumulate:
        values[...] = 5.0
    x.index_put_([torch.tensor(i) for i in indices], torch.tensor(values), accumulate=accumulate)
    if accumulate:
        np.add.at(a, tuple(indices), values)
    else:
        a[tuple(indices)] = values
    np.testing.assert_allclose(x.numpy(), a)


# ---- single rules --------------------------------------------------------------------------------


def test_true_and_false_are_masks_of_no_dims():
    x = torch.arange(6).reshape(2, 3)
    a = x.numpy()
    assert tuple(x[True].shape) == a[True].shape == (1, 2, 3)
    assert tuple(x[False].shape) == a[False].shape == (0, 2, 3)
    assert tuple(x[torch.tensor(True)].shape) == (1, 2, 3)
    assert tuple(x[..., True].shape) == a[..., True].shape
    x[torch.tensor(False)] = 9
    assert 9 not in x.tolist()[0]
    x[x > 3] = -1
    assert x.tolist() == [[0, 1, 2], [3, -1, -1]]


def test_uint8_is_a_mask():
    x = torch.arange(4)
    assert x[torch.tensor([1, 0, 0, 1], dtype=torch.uint8)].tolist() == [0, 3]
    assert x[torch.tensor(1, dtype=torch.uint8)].shape == (1, 4)


def test_what_an_ellipsis_stands_for():
    x = torch.arange(24).reshape(2, 3, 4)
    assert torch.equal(x[..., 0], x[:, :, 0]) and torch.equal(x[1, ...], x[1])
    assert torch.equal(x[0, ..., 1], x[0, :, 1]) and torch.equal(x[0, 1, 2, ...], x[0, 1, 2])
    assert torch.equal(x[..., 0, ...], x[..., 0])  # NumPy refuses the second one


# PyTorch takes int32 and int64 only.
@pytest.mark.parametrize("kind", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers_of_every_width_index(kind):
    x = torch.arange(5) * 10
    assert x[torch.tensor([-1, 0, 2], dtype=kind)].tolist() == [40, 0, 20]
    assert x[torch.tensor(3, dtype=kind)].item() == 30
    x[torch.tensor([1, 1], dtype=kind)] = 7
    assert x.tolist() == [0, 7, 20, 30, 40]


def test_lists_as_indices():
    x = torch.arange(12).reshape(3, 4)
    assert x[[[0, 1]], :].shape == (1, 2, 4)
    for sequence in ([[0, 1], [2, 0]], [torch.tensor([0, 1]), np.array([2, 0])]):
        with pytest.warns(UserWarning, match="non-tuple sequence for multidimensional indexing"):
            assert x[sequence].tolist() == [2, 4]
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[torch.tensor([True, False, True])]].shape == (2, 4)
    assert x[[0, 1], [2, 0]].tolist() == [2, 4]
    assert x[range(2)].shape == (2, 4)
    assert x[[]].shape == (0, 4)
    assert x[:, []].shape == (3, 0)
    assert x[np.int64(1), np.array(2)].item() == 6


def test_dims_go_first_when_a_slice_separates_the_indices():
    x = torch.arange(24).reshape(2, 3, 4)
    i = torch.tensor([0, 1, 0, 1, 1])
    assert x[i, :, i].shape == (5, 3)
    assert x[:, i, i].shape == (2, 5)
    assert x[i, None, :, i].shape == (5, 1, 3)
    # An int beside tensors is a slice that loses its dim, not an index of the group as in NumPy.
    assert x[0, :, i].shape == (3, 5) != np.zeros((2, 3, 4))[0, :, i.numpy()].shape
    assert x[..., i].shape == (2, 3, 5)


def test_values_lose_leading_dims_of_size_1():
    x = torch.zeros(2, 3)
    x[0] = torch.arange(3.0).reshape(1, 1, 3)
    x[torch.tensor([1])] = torch.arange(3.0).reshape(1, 1, 3)
    assert x.tolist() == [[0, 1, 2]] * 2


def test_values_are_converted():
    x = torch.zeros(3, dtype=torch.int64)
    x[0] = 2.9
    x[1:] = torch.tensor([1.7, -1.7])
    assert x.tolist() == [2, 1, -1]
    y = torch.zeros(2, dtype=torch.bool)
    y[1] = 3
    assert y.tolist() == [False, True]
    z = torch.zeros(3)
    for key in ([0, 1], (torch.tensor([0, 1]),), torch.tensor([True, True, False])):
        with pytest.raises(RuntimeError, match="Float for the destination and Long"):
            z[key] = torch.tensor([1, 2])
    z[torch.tensor([True, False, True])] = torch.tensor(7)  # a masked fill converts
    assert z.tolist() == [7, 0, 7]
    z[:2] = torch.tensor([1, 2])
    z[2] = np.float64(4)
    assert z.tolist() == [1, 2, 4]
    z[z > 1] = np.array([8.0, 9.0])
    assert z.tolist() == [1, 8, 9]


@pytest.mark.parametrize(("key", "message"), [
    (2, "index 2 is out of bounds for dimension 0 with size 2"),
    (-3, "index -3 is out of bounds for dimension 0 with size 2"),
    ((0, 3), "index 3 is out of bounds for dimension"),
    ((slice(None), -4), "index -4 is out of bounds for dimension 1 with size 3"),
    ((0, 0, 0), "too many indices for tensor of dimension 2"),
    ((slice(0, 1), None, 0.5), "only integers, slices (`:`), ellipsis (`...`), None and long"),
    ([0, 2], "index 2 is out of bounds for dimension 0 with size 2"),
    ((slice(None), [0, -4]), "index -4 is out of bounds for dimension 1 with size 3"),
    (([0, 1], [0, 1, 2]), "could not be broadcast together with shapes [2], [3]"),
    ([True, False, True], "The shape of the mask [3] at index 0 does not match the shape of the"),
    ([0.5, 1.5], "tensors used as indices must be long, int, byte or bool tensors"),
])  # fmt: skip
def test_what_indexing_refuses(key, message):
    x = torch.zeros(2, 3)
    with pytest.raises(IndexError) as caught:
        x[key]
    assert message in str(caught.value)
    with pytest.raises(IndexError) as caught:
        x[key] = 1.0
    assert message in str(caught.value)
    assert not x.any()


def test_more_that_indexing_refuses():
    x = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="step must be greater than zero"):
        x[::-1]
    with pytest.raises(ValueError, match="step must be greater than zero"):
        x[0, ::-1] = 1
    with pytest.raises(TypeError, match="slice indices must be integers"):
        x[0:1.5]
    with pytest.raises(IndexError, match="only integers"):
        x["name"]
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        torch.tensor(1)[0]
    with pytest.raises(
        RuntimeError,
        match="value tensor of shape .4. cannot be broadcast to indexing result",
    ):
        x[torch.tensor([0, 1])] = torch.zeros(4)
    with pytest.raises(
        RuntimeError, match="expanded size of the tensor .3. must match the existing size .4."
    ):
        x[0] = torch.zeros(4)
    with pytest.raises(IndexError, match="too many indices"):
        x[torch.zeros(2, 3, 1, dtype=torch.bool)]


@pytest.mark.device
def test_bad_indices_on_a_gpu():
    x = torch.zeros(2, 3, device="cuda")
    with pytest.raises(IndexError, match="out of bounds"):
        x[torch.tensor([0, 2], device="cuda")].cpu()
    with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 0 with size 2"):
        x[2]
    with pytest.raises(IndexError, match="The shape of the mask"):
        x[torch.zeros(3, dtype=torch.bool, device="cuda")]


# ---- indices of the CPU for tensors of a GPU, indices of a batch ---------------------------------

KEYS = {
    "list of places": lambda i, m, other: i,
    "mask": lambda i, m, other: m,
    "mask of all dims": lambda i, m, other: m[:, None] & torch.tensor([True, False, True, True]),
    "beside one on the device": lambda i, m, other: (i, other(i)),
    "beside a number": lambda i, m, other: (m, 1),
    "after a slice": lambda i, m, other: (slice(1, None), i),
    "after an ellipsis": lambda i, m, other: (..., i),
    "after None": lambda i, m, other: (None, i),
    "number": lambda i, m, other: torch.tensor(1),
    "number beside places": lambda i, m, other: (torch.tensor(1), i),
    "truth": lambda i, m, other: torch.tensor(True),
}


@pytest.mark.device
@pytest.mark.parametrize("name", KEYS)
def test_indices_of_the_cpu(name):
    places, mask = torch.tensor([2, 0]), torch.tensor([True, False, True])
    plain = torch.arange(12.0).reshape(3, 4)
    there = plain.cuda()
    of_host = KEYS[name](places, mask, lambda index: index)
    key = KEYS[name](places, mask, lambda index: index.cuda())
    assert there[key].cpu().equal(plain[of_host])
    assert torch.compile(lambda x: x[key] * 2)(there).cpu().equal(plain[of_host] * 2)
    leaf, expected = there.clone().requires_grad_(), plain.clone().requires_grad_()
    leaf[key].sum().backward()
    expected[of_host].sum().backward()
    assert leaf.grad.cpu().equal(expected.grad)
    for value in (5.0, torch.tensor(6.0)):
        written, wanted = there.clone(), plain.clone()
        written[key] = value
        wanted[of_host] = value
        assert written.cpu().equal(wanted)


@pytest.mark.device
def test_index_put_with_indices_of_the_cpu():
    places = torch.tensor([2, 0, 2])
    plain, there = torch.ones(3), torch.ones(3, device="cuda")
    for indices in ((places,), (torch.tensor([True, False, True]),)):
        for accumulate in (False, True):
            value = torch.tensor(4.0)
            expected = plain.index_put(indices, value, accumulate)
            assert there.index_put(indices, value.cuda(), accumulate).cpu().equal(expected)
            assert there.clone().index_put_(indices, value.cuda(), accumulate).cpu().equal(expected)


@pytest.mark.device
def test_other_indices_stay_on_their_tensor_s_device():
    there, places = torch.ones(3, 3, device="cuda"), torch.tensor([1, 0])
    with pytest.raises(RuntimeError, match="either on cpu or on the same device as the indexed"):
        torch.ones(3)[places.cuda()]
    with pytest.raises(RuntimeError, match="same device"):
        there.index_select(0, places)
    with pytest.raises(RuntimeError, match="same device"):
        there.gather(0, places[:, None])


@pytest.mark.device
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_indices_of_a_batch_without_dims(device):
    x = torch.arange(12.0, device=device).reshape(3, 4)
    places = torch.tensor([2, 0, 1], device=device)
    reads = (
        lambda i: x[i],
        lambda i: x[i, 1],
        lambda i: x[:, i],
        lambda i: x[i, :2],
        lambda i: x[i, i],
        lambda i: x[i, None],
        lambda i: x[..., i],
    )
    for read in reads:
        expected = torch.stack([read(i) for i in places])
        assert torch.vmap(read)(places).equal(expected)
    grid = torch.stack([places, places.flip(0)])
    assert torch.vmap(torch.vmap(reads[0]))(grid).equal(x[grid])
    assert torch.vmap(lambda row, i: row[i])(x, places).equal(x[range(3), places])

    def written(row, i):
        row = row.clone()
        row[i] = 7.0
        return row

    assert torch.vmap(written)(x, places).equal(x.scatter(1, places[:, None], 7.0))
    total = torch.func.grad(lambda z: torch.vmap(lambda i: z[i])(places[:2]).sum())(x)
    assert total.sum(1).tolist() == [4, 0, 4]
    with pytest.raises(RuntimeError, match="indexing with a boolean mask"):
        torch.vmap(lambda i: x[i > 0])(places)
