"""Programs of view operators, run on tensors and on ndarrays side by side.

Each step is applied to both.  They agree in values, strides, offset and contiguity; whatever is
written through the last view shows in the base, and the version counters of all grow together.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import array_shapes

import tritorch as torch

ITEM = 8

# ---- steps: (name, arguments) drawn for a shape; then on a tensor, and on an ndarray -------------


@st.composite
def a_step(draw, shape):
    ndim = len(shape)
    names = ["unsqueeze", "none", "view_flat", "expand_new", "squeeze_all", "movedim", "as_strided"]
    if ndim:
        names += ["slice", "select", "narrow", "squeeze", "permute", "transpose", "unfold", "split"]
    if ndim >= 2:
        names += ["diagonal"]
    if 1 in shape:
        names += ["expand"]
    name = draw(st.sampled_from(names))
    dim = draw(st.integers(-ndim, ndim - 1)) if ndim else 0
    size = shape[dim] if ndim else 1
    if name in ("unsqueeze",):
        return name, (draw(st.integers(-ndim - 1, ndim)),)
    if name == "slice":
        part = st.one_of(st.none(), st.integers(-size - 2, size + 2))
        return name, (dim % ndim, draw(part), draw(part), draw(st.integers(1, 3)))
    if name == "select":
        if not size:
            return "none", ()
        return name, (dim, draw(st.integers(-size, size - 1)))
    if name == "narrow":
        start = draw(st.integers(0, size))
        return name, (dim, start, draw(st.integers(0, size - start)))
    if name == "squeeze":
        return name, (dim,)
    if name == "permute":
        order = draw(st.permutations(range(ndim)))
        return name, (tuple(d - ndim if draw(st.booleans()) else d for d in order),)
    if name in ("transpose", "diagonal"):
        other = draw(st.integers(0, ndim - 1))
        if name == "transpose":
            return name, (dim, other)
        if other == dim % ndim:
            return "none", ()
        return name, (draw(st.integers(-3, 3)), dim, other)
    if name == "unfold":
        window = draw(st.integers(0, size))
        return name, (dim % ndim, window, draw(st.integers(1, 3)))
    if name == "split":
        part = draw(st.integers(1, max(size, 1)))
        count = max(-(-size // part), 1)
        return name, (part, dim % ndim, draw(st.integers(0, count - 1)))
    if name == "expand":
        return name, (tuple(draw(st.integers(0, 3)) if n == 1 else n for n in shape),)
    if name == "expand_new":
        return name, ((draw(st.integers(0, 2)), *shape),)
    if name == "movedim":
        order = draw(st.permutations(range(ndim)))
        count = draw(st.integers(0, ndim))
        to = draw(st.permutations(range(ndim)))
        return name, (tuple(order[:count]), tuple(to[:count]))
    if name == "view_flat":
        return name, (draw(st.booleans()),)
    return name, ()


def slice_key(dim, start, stop, step):
    return (slice(None),) * dim + (slice(start, stop, step),)


def on_tensor(t, name, args):
    if name == "slice":
        return t[slice_key(*args)]
    if name == "none":
        return t[None]
    if name == "squeeze_all":
        return t.squeeze()
    if name == "expand_new":
        return t.expand(*args)
    if name == "view_flat":
        return t.view(-1) if args[0] else t.view(*t.shape, 1)
    if name == "split":
        part, dim, which = args
        return t.split(part, dim)[which]
    if name == "as_strided":
        return t.as_strided(t.shape, t.stride())
    return getattr(t, name)(*args)


def np_strided(a, shape, strides):
    return np.lib.stride_tricks.as_strided(a, shape, strides)


def on_array(a, name, args):
    """The NumPy counterpart; RuntimeError where there is no view."""
    ndim = a.ndim
    if name == "slice":
        return a[slice_key(*args)]
    if name == "none":
        return a[None]
    if name == "squeeze_all":
        return a.squeeze()
    if name == "unsqueeze":
        return np.expand_dims(a, args[0])
    if name in ("expand", "expand_new"):
        return np.broadcast_to(a, args[0])
    if name == "view_flat":
        out = a.reshape((-1 if a.size else a.size,) if args[0] else (*a.shape, 1))
        if a.size and not np.shares_memory(out, a):
            raise RuntimeError
        return out
    if name == "split":
        part, dim, which = args
        return a[slice_key(dim, which * part, (which + 1) * part, None)]
    if name == "as_strided":
        return a
    if name == "select":
        return np.moveaxis(a, args[0], 0)[args[1], ...]
    if name == "narrow":
        dim, start, length = args
        return a[slice_key(dim % ndim, start, start + length, None)]
    if name == "squeeze":
        return a.squeeze(args[0]) if a.shape[args[0]] == 1 else a
    if name == "permute":
        return a.transpose(*args)
    if name == "transpose":
        return a.swapaxes(*args)
    if name == "movedim":
        return np.moveaxis(a, *args)
    if name == "diagonal":
        return a.diagonal(*args)
    if name == "unfold":
        dim, window, step = args
        count = (a.shape[dim] - window) // step + 1
        shape, strides = [*a.shape, window], [*a.strides, a.strides[dim]]
        shape[dim], strides[dim] = count, strides[dim] * step
        return np_strided(a, shape, strides)
    raise AssertionError(name)


@st.composite
def programs(draw, max_steps=5, max_dims=4):
    shape = draw(array_shapes(min_dims=0, max_dims=max_dims, min_side=0, max_side=4))
    steps = []
    model = np.zeros(shape)
    for _ in range(draw(st.integers(1, max_steps))):
        step = draw(a_step(model.shape))
        try:
            model = on_array(model, *step)
        except RuntimeError:
            steps.append(step)
            break
        if model.ndim > 6:
            break
        steps.append(step)
    return shape, steps


def strides_of(a):
    return tuple(stride // a.itemsize for stride in a.strides)


def significant(strides, shape):
    """Strides of the dims that are walked along: of dims of size 1 they mean nothing."""
    return [stride for stride, n in zip(strides, shape) if n > 1]


def compare(view, mirror, base_address):
    host = view.cpu().numpy() if view.is_cuda else view.numpy()
    assert tuple(view.shape) == mirror.shape
    np.testing.assert_array_equal(host, mirror)
    assert view.is_contiguous() == mirror.flags.c_contiguous
    if mirror.size:
        assert significant(view.stride(), view.shape) == significant(
            strides_of(mirror), mirror.shape
        )
        assert view.storage_offset() == (mirror.ctypes.data - base_address) // ITEM


def run_program(shape, steps, device="cpu"):
    values = np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)
    base = torch.tensor(values, device=device)
    mirror_base = values.copy()
    address = mirror_base.ctypes.data
    view, mirror = base, mirror_base
    for name, args in steps:
        try:
            mirror = on_array(mirror, name, args)
        except RuntimeError:
            with pytest.raises(RuntimeError, match="view size is not compatible"):
                on_tensor(view, name, args)
            break
        view = on_tensor(view, name, args)
        compare(view, mirror, address)
        assert view.untyped_storage() == base.untyped_storage()
        assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
        assert view._is_view() and view._base is base
    # What is written to the base shows in the view...
    before = view._version
    base.mul_(-1)
    mirror_base *= -1
    compare(view, mirror, address)
    assert view._version == base._version == before + 1
    # ...and what is written through the view shows in the base.
    view.fill_(7)
    if mirror.size:  # NumPy's broadcasts and diagonals cannot be written: the same view, writeable
        offset = mirror.ctypes.data - address
        np.ndarray(mirror.shape, float, mirror_base, offset, mirror.strides)[...] = 7
    np.testing.assert_array_equal(base.cpu().numpy(), mirror_base)
    assert view._version == base._version == before + 2
    assert base[...]._version == before + 2


@settings(max_examples=300)
@given(programs())
def test_view_programs(program):
    run_program(*program)


@pytest.mark.device
@settings(max_examples=40)
@given(programs(max_steps=4, max_dims=3))
def test_view_programs_on_a_gpu(program):
    run_program(*program, "cuda")


# ---- as_strided, view, reshape -------------------------------------------------------------------


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=3),
    st.integers(0, 6),
    st.integers(0, 30),
    st.booleans(),
)
def test_as_strided_looks_anywhere_in_the_storage(dims, offset, length, through_a_view):
    size, stride = tuple(n for n, _ in dims), tuple(s for _, s in dims)
    values = np.arange(length, dtype=np.float64)
    base = torch.tensor(values)
    source = base[length // 2 :] if through_a_view else base
    needed = offset + sum((n - 1) * s for n, s in dims) + 1
    if 0 not in size and needed > length:
        with pytest.raises(RuntimeError, match="out of bounds for storage of size"):
            source.as_strided(size, stride, offset)
        return
    out = source.as_strided(size, stride, offset)  # the offset is the storage's, not the view's
    assert tuple(out.shape) == size
    if 0 in size:
        return
    assert significant(out.stride(), size) == significant(stride, size)
    assert out.storage_offset() == offset
    want = np_strided(values[offset:], size, tuple(s * ITEM for s in stride))
    np.testing.assert_array_equal(out.numpy(), want)
    assert out.untyped_storage() == base.untyped_storage()


def factors(n):
    found = [(n,), (1, n), (n, 1)]
    for a in range(1, n + 1):
        if n % a == 0:
            found.append((a, n // a))
            found.extend((a, b, n // a // b) for b in range(1, n + 1) if (n // a) % b == 0)
    return found


@settings(max_examples=150)
@given(
    array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4).flatmap(
        lambda shape: st.tuples(
            st.just(shape),
            st.permutations(range(len(shape))),
            st.sampled_from(factors(int(np.prod(shape)))),
            st.booleans(),
        )
    )
)
def test_reshape_is_a_view_where_strides_allow(case):
    shape, order, target, infer = case
    values = np.arange(int(np.prod(shape))).reshape(shape)
    x, a = torch.tensor(values).permute(*order), values.transpose(order)
    asked = (-1, *target[1:]) if infer else target
    want = a.reshape(target)
    out = x.reshape(asked)
    np.testing.assert_array_equal(out.numpy(), want)
    shares = np.shares_memory(want, values)
    assert (out.untyped_storage() == x.untyped_storage()) == shares
    if shares:
        np.testing.assert_array_equal(x.view(asked).numpy(), want)
        assert significant(out.stride(), target) == significant(strides_of(want), target)
    else:
        assert out.is_contiguous()
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            x.view(asked)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.view(4), "shape '[4]' is invalid for input of size 6"),
        (lambda x: x.view(-1, -1), "only one dimension can be inferred"),
        (lambda x: x.view(-1, 4), "shape '[-1, 4]' is invalid for input of size 6"),
        (lambda x: x.view(-2, 3), "invalid shape dimension -2"),
        (lambda x: x[:0].view(-1, 0), "is ambiguous"),
        (lambda x: x.narrow(0, 1, 2), "start (1) + length (2) exceeds dimension size (2)"),
        (lambda x: x.unfold(0, 3, 1), "maximum size for tensor at dimension 0 is 2 but size is 3"),
        (lambda x: x.unfold(0, 1, 0), "step is 0 but must be > 0"),
        (lambda x: x.diagonal(0, 1, 1), "diagonal dimensions cannot be identical 1, 1"),
        (lambda x: x.permute(0, 0), "duplicate dims are not allowed"),
        (lambda x: x.movedim((0, 1), 0), "should contain the same number of dims"),
        (lambda x: x.as_strided((2,), (-1,)), "Negative strides are not supported"),
    ],
)  # fmt: skip
def test_what_views_refuse(function, message):
    with pytest.raises((RuntimeError, TypeError)) as caught:
        function(torch.arange(6.0, dtype=torch.float64).reshape(2, 3))
    assert message in str(caught.value)


@pytest.mark.parametrize("call", [
    lambda x: x.select(2, 0), lambda x: x.transpose(0, 2), lambda x: x.unsqueeze(4),
    lambda x: x.squeeze(2), lambda x: x.select(0, 2), lambda x: x.select(0, -3),
    lambda x: x.narrow(2, 0, 1), lambda x: x.size(2), lambda x: x.stride(-3),
])  # fmt: skip
def test_dims_and_indices_out_of_range(call):
    with pytest.raises(IndexError, match="out of range"):
        call(torch.zeros(2, 3))


# ---- what is no view -----------------------------------------------------------------------------


@settings(max_examples=100)
@given(
    array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4).flatmap(
        lambda shape: st.tuples(
            st.just(shape), st.sets(st.integers(0, len(shape) - 1)), st.integers(-5, 5)
        )
    )
)
def test_flip_and_roll_are_copies(case):
    # In NumPy flip is a view with negative strides, which tensors do not have.
    shape, dims, shift = case
    values = np.arange(int(np.prod(shape))).reshape(shape)
    x = torch.tensor(values)
    flipped = x.flip(tuple(dims))
    np.testing.assert_array_equal(flipped.numpy(), np.flip(values, tuple(dims)))
    rolled = x.roll(shift, 0)
    np.testing.assert_array_equal(rolled.numpy(), np.roll(values, shift, 0))
    for out in (flipped, rolled):
        assert out.untyped_storage() != x.untyped_storage()
        assert out._base is None
        out.fill_(-1)
    np.testing.assert_array_equal(x.numpy(), values)


def test_versions_of_detached_and_data():
    x = torch.zeros(3)
    shared, apart = x.detach(), x.data
    x.add_(1)
    # detach() shares the version counter, .data does not
    assert (x._version, shared._version, apart._version) == (1, 1, 0)
    assert shared.tolist() == apart.tolist() == [1, 1, 1]


def test_views_of_views_have_the_first_base():
    x = torch.zeros(4, 4)
    y = x[1:][:, 2].unsqueeze(0)
    assert y._base is x and not x._is_view() and x._base is None
    assert x.detach()._base is None


@pytest.mark.parametrize(
    ("narrow", "wide"), [(torch.int16, torch.int32), (torch.float32, torch.complex64)]
)
def test_view_as_another_dtype(narrow, wide):
    x = torch.arange(8).to(narrow).reshape(2, 4)
    as_wide = x.view(wide)
    assert tuple(as_wide.shape) == (2, 2) and as_wide.stride() == (2, 1)
    assert torch.equal(as_wide.view(narrow), x)
    assert x[:, 2:].view(wide).storage_offset() == 1
    as_wide.zero_()
    assert not x.any()
    with pytest.raises(RuntimeError, match="self.size\\(-1\\) must be divisible by 2"):
        x[:, :3].view(wide)
    with pytest.raises(RuntimeError, match="self.storage_offset\\(\\) must be divisible by 2"):
        x[:, 1:3].view(wide)
    with pytest.raises(RuntimeError, match="self.stride\\(-1\\) must be 1"):
        x[:, ::2].view(wide)
    with pytest.raises(RuntimeError, match="self.dim\\(\\) cannot be 0"):
        x[0, 0].view(wide)


# ---- the order of dims of results ----------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.device)])
@pytest.mark.parametrize("call", [
    lambda x: torch.cat([x, x]), lambda x: torch.cat([x, x], 1), lambda x: torch.stack([x, x], 1),
    lambda x: x.roll(1, 0), lambda x: x.cumsum(1), lambda x: x.cumprod(0),
    lambda x: x.cummax(0)[0], lambda x: x.logcumsumexp(0),
    lambda x: x.gather(0, torch.zeros_like(x, dtype=torch.int64)), lambda x: x.sum(1),
    lambda x: x.mean(1, keepdim=True), lambda x: x.amax(1), lambda x: x.max(1)[0],
    lambda x: x.argmax(1), lambda x: x.var(1), lambda x: x.logsumexp(1), lambda x: (x > 0).any(1),
    lambda x: torch.nn.functional.one_hot(x.long()), lambda x: x.repeat(2, 1, 1),
    lambda x: x.index_select(1, torch.tensor([0, 1], device=x.device)),
])  # fmt: skip
def test_results_are_contiguous_whatever_the_operand(call, device):
    """So that view() takes them as in PyTorch; pointwise results keep the operand's order."""
    x = torch.arange(24.0, device=device).reshape(2, 3, 4).permute(2, 0, 1)
    assert not x.is_contiguous() and not (x + 1).is_contiguous()
    out = call(x)
    assert out.is_contiguous()
    out.view(-1)


def test_dims_of_size_1_have_strides_as_if_they_were_walked():
    x = torch.ones(2, 3)
    assert x[:, None].stride() == x.unsqueeze(1).stride() == (3, 3, 1)
    assert x.T.unsqueeze(1).stride() == (1, 6, 3) and x.T.unsqueeze(0).stride() == (3, 1, 3)
    assert torch.ones(3).expand(1, 3).stride() == (3, 1)
    assert torch.ones(3).expand(2, 1, 3).stride() == (0, 3, 1)


def test_cat_keeps_channels_last():
    x = torch.ones(1, 3, 4, 4).to(memory_format=torch.channels_last)
    assert torch.cat([x, x], 1).is_contiguous(memory_format=torch.channels_last)


def test_magnitudes_of_complex_numbers_lie_as_a_copy():
    x = torch.ones(3, 1, 3, dtype=torch.complex64)
    for shape, steps in (((3, 1, 3), (3, 1, 1)), ((1, 4), (1, 1)), ((1, 2, 1), (2, 1, 6))):
        for device in ("cpu", "meta"):
            view = x.to(device).as_strided(shape, steps)
            assert view.abs().stride() == abs(view).stride() == steps
    assert x.real.as_strided((3, 1, 3), (3, 1, 1)).abs().stride() == (3, 3, 1)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_storage_that_grows_takes_all_its_tensors_along(device):
    x = torch.ones(3, 3, dtype=torch.int8, device=device)
    x[:3].resize_(4, 3, 3, 2).zero_()
    assert x.tolist() == [[0] * 3] * 3
    y = torch.arange(6.0, device=device)
    tail, same = y[3:], y.detach()
    tail.resize_(8).fill_(7)
    assert y.tolist() == same.tolist() == [0, 1, 2, 7, 7, 7]
    assert y.untyped_storage().nbytes() == tail.untyped_storage().nbytes() == 44
