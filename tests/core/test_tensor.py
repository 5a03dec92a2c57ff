"""Tensors as Python objects: numbers, NumPy, DLPack, copies, pickles, storages, `to`."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import array_shapes

import tritorch as torch

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
]  # fmt: skip
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.device)]
name_of = str


def through_pickle(value, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(value, protocol))


COPIES = [through_pickle, copy.deepcopy]


def same_memory(a, b):
    return a.untyped_storage() == b.untyped_storage()


# ---- pickle and deepcopy -------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("duplicate", COPIES)
@pytest.mark.parametrize("kind", DTYPES, ids=name_of)
def test_copies_keep_values_dtype_and_device(kind, duplicate, device):
    x = (torch.arange(6).reshape(2, 3) - 2).to(kind).to(device)
    y = duplicate(x)
    assert type(y) is torch.Tensor and y.dtype is kind and y.device == x.device
    assert y.tolist() == x.tolist() and not same_memory(x, y)
    y.zero_()
    assert x.cpu().bool().any()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_protocol(protocol):
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(through_pickle(x, protocol), x)


@settings(max_examples=60)
@given(
    array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3), st.data(), st.sampled_from(COPIES)
)
def test_copies_keep_strides_and_offset(shape, data, duplicate):
    x = torch.arange(int(np.prod(shape)) * 8).reshape(*shape, 8)
    x = x[..., data.draw(st.integers(0, 3)) :: data.draw(st.integers(1, 2))]
    x = x.permute(*data.draw(st.permutations(range(x.ndim))))
    y = duplicate(x)
    assert torch.equal(y, x) and y.shape == x.shape
    if x.numel():
        assert y.stride() == x.stride() and y.storage_offset() == x.storage_offset()
        assert y.untyped_storage().nbytes() == x.untyped_storage().nbytes()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("duplicate", COPIES)
def test_views_of_one_storage_stay_views_of_one(duplicate, device):
    x = torch.arange(6.0, device=device)
    for parts in ([x, x[1:3], x], [x[1:3], x, x.reshape(2, 3).T]):
        new = duplicate(parts)
        assert same_memory(new[0], new[1]) and same_memory(new[0], new[2])
        want = new[1].clone().fill_(7) if len(parts[0]) == 6 else None
        new[0].fill_(7)
        assert new[1].tolist()[1:3] == [7, 7] if want is None else torch.equal(new[1], want)
        assert not same_memory(new[0], x)
    twice = duplicate({"a": x, "b": x})
    assert twice["a"] is twice["b"]
    apart = [duplicate(x), duplicate(x)]
    assert not same_memory(*apart)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("duplicate", COPIES)
def test_expanded_tensors_stay_small(duplicate):
    y = duplicate(torch.ones(2).expand(1000, 2))
    assert y.stride() == (0, 1) and y.untyped_storage().nbytes() == 8


def test_requires_grad_and_grad():
    x = torch.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    y = copy.deepcopy(x)
    assert y.requires_grad and y.is_leaf and y.grad.tolist() == [3, 3] and y.grad is not x.grad
    z = through_pickle(x)
    assert z.requires_grad and z.is_leaf and z.grad is None  # as in PyTorch, no gradients
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)
    shallow = copy.copy(x)
    assert shallow.requires_grad and same_memory(shallow, x)


class Tagged(torch.Tensor):
    def new_empty(self, size, **options):  # as PyTorch wants it of what is copied deeply
        return super().new_empty(size, **options).as_subclass(Tagged)


class Untagged(torch.Tensor):
    pass


def test_a_deep_copy_needs_new_empty_of_the_class():
    with pytest.raises(RuntimeError, match="non-wrapper subclasses only works"):
        copy.deepcopy(torch.ones(2).as_subclass(Untagged))


@pytest.mark.parametrize("duplicate", COPIES)
def test_subclasses_and_attributes(duplicate):
    x = torch.ones(2).as_subclass(Tagged)
    x.tag = ["a"]
    y = duplicate(x)
    assert type(y) is Tagged and y.tag == ["a"] and y.tag is not x.tag


def test_types_are_pickled_by_name():
    for value in (torch.float32, torch.bool, torch.device("cuda", 1), torch.Size([2, 3])):
        again = through_pickle(value)
        assert again == value and type(again) is type(value)
    assert through_pickle(torch.float32) is torch.float32
    assert through_pickle(torch.channels_last) is torch.channels_last


# ---- NumPy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DTYPES, ids=name_of)
def test_array_is_the_same_memory(kind):
    x = torch.arange(4).to(kind)
    a = np.asarray(x)
    assert a.dtype == kind.numpy and np.shares_memory(a, x.numpy())
    a[0] = 1
    assert x[0] == 1
    back = torch.from_numpy(a)
    assert back.dtype is kind and back.data_ptr() == x.data_ptr()
    copied = np.array(x)
    copied[1] = 0
    assert x[1] == 1


def test_array_converts_and_refuses():
    x = torch.tensor([1.5, 2.5])
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.asarray(x, dtype=np.int8).tolist() == [1, 2]
    assert x.__array__(np.float64).dtype == np.float64
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(x.requires_grad_())
    assert x.numpy(force=True).tolist() == [1.5, 2.5]
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(np.zeros(3)[::-1])
    with pytest.raises(TypeError, match="expected np.ndarray"):
        torch.from_numpy([1])
    with pytest.raises(
        TypeError, match=r"can't convert np.ndarray of type numpy.str_\. The only supp"
    ):
        torch.from_numpy(np.array(["a"]))


def test_arrays_that_lie_as_no_tensor_can():
    fields = np.zeros(4, dtype=[("f", "<f4"), ("g", "<i8"), ("h", "i1")])
    for make in (
        torch.from_numpy,
        torch.tensor,
        torch.as_tensor,
        torch.Tensor,
        torch.ones(1).new_tensor,
    ):
        for field, wrong in (("f", "strides not a multiple of the element byte size"), ("h", "")):
            for array in fields[field], fields[field][:0]:
                if wrong:
                    with pytest.raises(ValueError, match=f"^given numpy array {wrong}"):
                        make(array)
                else:
                    assert make(array).tolist() == array.tolist()
        with pytest.raises(
            TypeError, match="type numpy.void. The only supported types are: float64,"
        ):
            make(fields)
        with pytest.raises(
            ValueError, match="byte order different from the native byte order. Conv"
        ):
            make(np.arange(3, dtype=">f4"))
    with pytest.raises(
        ValueError, match="^At least one stride in the given numpy array is negative"
    ):
        torch.tensor(np.arange(4.0)[::-1])


@pytest.mark.device
def test_arrays_of_a_gpu_must_be_asked_for():
    x = torch.ones(2, device="cuda")
    with pytest.raises(TypeError, match="Use Tensor.cpu\\(\\) to copy the tensor to host memory"):
        np.asarray(x)
    assert x.numpy(force=True).tolist() == [1, 1]


def test_ufuncs_of_tensors_give_tensors():
    x = torch.tensor([0.0, 1.0])
    for out in (np.add(x, np.ones(2)), np.add(np.ones(2), x), x + np.ones(2)):
        assert type(out) is torch.Tensor and out.dtype is torch.float64 and out.tolist() == [1, 2]
    sine = np.sin(x)
    assert type(sine) is torch.Tensor and sine.dtype is torch.float32
    assert torch.allclose(sine, x.sin())
    assert np.multiply(x, x).dtype is torch.float32
    assert np.exp(torch.tensor([0, 1])).dtype is torch.float64  # NumPy's rule, not ours
    assert type(np.maximum(x, 0.5)) is torch.Tensor
    with pytest.raises(RuntimeError, match="requires grad"):
        np.sqrt(x.clone().requires_grad_())


def test_operators_with_arrays_and_numpy_numbers():
    x = torch.tensor([1.0, 2.0])
    # PyTorch refuses an ndarray on the left of all but "/" and "=="; here it is a tensor.
    for out in (np.ones(2) + x, np.ones(2) * x + 1):
        assert type(out) is torch.Tensor and out.tolist() == [2, 3]
    assert (np.ones(2) / x).tolist() == [1, 0.5]
    assert (x == np.array([1.0, 3.0])).tolist() == [True, False]
    assert (np.array([1.0, 3.0]) == x).tolist() == [True, False]
    for compare in (lambda: x < np.ones(2), lambda: np.ones(2) >= x):
        with pytest.raises(TypeError, match="not supported between instances"):
            compare()
    for number in (np.float64(2), np.float32(2), np.int64(2)):
        for out in (x * number, number * x, x + number, number - x, number > x, x <= number):
            assert type(out) is torch.Tensor and out.dtype in (torch.float32, torch.bool)
    assert (np.int64(2) + torch.ones(2, dtype=torch.int8)).dtype is torch.int8


def test_numpy_functions_take_tensors():
    x = torch.arange(4.0)
    assert np.concatenate([x, np.zeros(1)]).shape == (5,)
    assert np.stack([x, x]).shape == (2, 4)
    assert np.allclose(x, np.arange(4)) and np.linalg.norm(torch.ones(4)) == 2
    assert np.arange(5)[torch.tensor([1, 3])].tolist() == [1, 3]
    assert np.arange(5)[torch.tensor(2)] == 2
    assert np.arange(3)[torch.tensor([True, False, True])].tolist() == [0, 2]
    assert np.array([torch.tensor(1.0), torch.tensor(2.0)]).tolist() == [1, 2]


def test_tensor_takes_arrays_and_numbers():
    assert torch.tensor(np.arange(2, dtype=np.int16)).dtype is torch.int16
    assert torch.tensor([np.float32(1), np.float32(2)]).dtype is torch.float32
    assert torch.tensor([np.arange(2), np.arange(2)]).tolist() == [[0, 1]] * 2
    assert torch.tensor([torch.tensor(1), torch.tensor(2)]).tolist() == [1, 2]
    a = np.zeros(2)
    shared, own = torch.as_tensor(a), torch.tensor(a)
    a[0] = 1
    assert shared.tolist() == [1, 0] and own.tolist() == [0, 0]


# ---- DLPack --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [k for k in DTYPES if k is not torch.bfloat16], ids=name_of)
def test_dlpack_with_numpy_shares_memory(kind):
    x = torch.arange(6).to(kind).reshape(2, 3)
    for t in (x, x.T, x[:, 1:]):
        a = np.from_dlpack(t)
        assert a.dtype == kind.numpy and np.array_equal(a, t.numpy())
        assert np.shares_memory(a, x.numpy())
    a = np.arange(6).astype(kind.numpy).reshape(2, 3).T
    t = torch.from_dlpack(a)
    assert t.dtype is kind and t.stride() == (1, 3)
    t[0, 0] = 1
    assert a[0, 0] == 1
    assert x.__dlpack_device__() == (1, 0)
    assert torch.from_dlpack(x).data_ptr() == x.data_ptr()


def test_dlpack_refuses_gradients():
    with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
        np.from_dlpack(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="from_dlpack"):
        torch.from_dlpack([1])


@pytest.mark.device
def test_dlpack_on_a_gpu():
    x = torch.arange(4.0, device="cuda")

    class Foreign:  # another library's object
        def __dlpack__(self, **options):
            return x.__dlpack__(**options)

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    y = torch.from_dlpack(Foreign())
    assert y.is_cuda and y.data_ptr() == x.data_ptr() and y.tolist() == [0, 1, 2, 3]


# ---- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", DTYPES, ids=name_of)
def test_item_and_tolist_give_python_numbers(kind, device):
    x = torch.tensor([[1, 0]], device=device).to(kind)
    want = bool if kind is torch.bool else float if kind.is_floating_point else int
    want = complex if kind.is_complex else want
    values = [x[0, 0].item(), x[:, :1].item(), x[0, 0].tolist(), x.tolist()[0][1]]
    assert [type(value) for value in values] == [want] * 4
    assert values == [1, 1, 1, 0]


@pytest.mark.parametrize("shape", [(0,), (2,), (2, 0)])
def test_only_one_element_is_a_number(shape):
    x = torch.zeros(shape)
    with pytest.raises(RuntimeError, match=f"a Tensor with {x.numel()} elements cannot be conv"):
        x.item()
    for convert in (int, float, complex):
        with pytest.raises(ValueError, match="only one element tensors can be converted"):
            convert(x)
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with .* is ambiguous"):
        bool(x)
    with pytest.raises(TypeError, match="only integer tensors of a single element"):
        range(5)[x.long()]


def test_numbers():
    assert (int(torch.tensor(-2.7)), float(torch.tensor([[2]])), complex(torch.tensor(2j))) == (
        -2, 2.0, 2j,
    )  # fmt: skip
    assert float(torch.tensor(1 + 0j)) == 1
    for convert, name in ((int, "int64_t"), (float, "double")):
        with pytest.raises(RuntimeError, match=f"type {name} without overflow"):
            convert(torch.tensor(1j))
    truths = [bool(torch.tensor(v)) for v in (0.0, -0.0, 0j, float("nan"), 2)]
    assert truths == [False, False, False, True, True]
    with pytest.raises(OverflowError):
        int(torch.tensor(float("inf")))
    assert range(5)[torch.tensor(2)] == 2 and [5, 6][torch.tensor([1])] == 6
    with pytest.raises(TypeError):
        range(5)[torch.tensor(2.0)]
    assert f"{torch.tensor(1.25):.1f}" == "1.2"
    assert torch.tensor([1.0]).is_nonzero() and not torch.tensor(0).is_nonzero()


def test_sequences():
    x = torch.arange(6).reshape(3, 2)
    assert len(x) == 3 and [row.tolist() for row in x] == x.tolist()
    assert [row.tolist() for row in reversed(x)] == x.tolist()[::-1]
    assert 5 in x and 9 not in x and torch.tensor(3) in x
    assert list(torch.zeros(0)) == [] and len(torch.zeros(0, 3)) == 0
    with pytest.raises(RuntimeError, match="__contains__ only supports Tensor or scalar"):
        "a" in x  # noqa: B015
    for call, message in (
        (len, "len\\(\\) of a 0-d tensor"),
        (iter, "iteration over a 0-d tensor"),
    ):
        with pytest.raises(TypeError, match=message):
            call(torch.tensor(1))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        x.nothing  # noqa: B018
    a, b, _ = x
    a.fill_(9)  # the parts are views
    assert x[0].tolist() == [9, 9] and same_memory(x, b)


def test_comparison_with_none_and_text_and_hash():
    x = torch.ones(2)
    assert (x == None) is False and (x != None) is True and (x == "a") is False  # noqa: E711
    with pytest.raises(TypeError):
        x < None  # noqa: B015
    assert len({x, x, torch.ones(2)}) == 2
    with pytest.raises(TypeError):
        x + None
    with pytest.raises(TypeError):
        x + "a"


def test_python_functions_over_elements():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.T.apply_(lambda v: v + 1).tolist() == [[2, 4], [3, 5]]
    assert x.map_(torch.tensor([10.0, 20.0]), lambda a, b: a * b).tolist() == [[20, 60], [40, 100]]


# ---- storages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_untyped_storage(device):
    x = torch.arange(4, dtype=torch.int16, device=device)
    storage = x[2:].untyped_storage()
    assert storage.nbytes() == len(storage) == storage.size() == 8
    assert storage.tolist() == [0, 0, 1, 0, 2, 0, 3, 0] and storage.data_ptr() == x.data_ptr()
    assert storage == x.untyped_storage() != torch.zeros(4).untyped_storage()
    assert storage.device == x.device and str(storage.device).startswith(device)
    storage.fill_(1)
    assert x.tolist() == [257] * 4
    other = storage.clone()
    other.fill_(0)
    assert x[0] == 257 and other.nbytes() == 8
    assert x.storage().dtype is torch.int16 and x.storage().tolist() == [257] * 4
    assert x[1:].storage_offset() == 1 and x[1:].data_ptr() == x.data_ptr() + 2


@pytest.mark.parametrize("device", DEVICES)
def test_set(device):
    x, source = torch.ones(2, device=device), torch.arange(6.0, device=device)
    assert x.set_(source) is x and x.shape == (6,) and same_memory(x, source)
    x.set_(source.untyped_storage(), 1, (2, 2), (2, 1))
    assert x.tolist() == [[1, 2], [3, 4]] and x.storage_offset() == 1
    x[0, 0] = 9
    assert source[1] == 9
    x.set_(source, 0, (2,), (3,))
    assert x.tolist() == [0, 3]
    x.set_(source.untyped_storage(), 5, (2, 2), (2, 1))  # grows the storage
    assert x[0, 0] == 5 and x.untyped_storage().nbytes() == 9 * 4
    assert x.set_().shape == (0,)
    with pytest.raises(RuntimeError, match="Could not set tensor of type"):
        x.set_(torch.zeros(2, dtype=torch.int64, device=device))


@pytest.mark.parametrize("device", DEVICES)
def test_resizing_a_storage_takes_its_tensors_along(device):
    x = torch.arange(12.0, device=device).reshape(3, 4)
    row, column, bits = x[1], x[:, 2], x.view(torch.int32)
    storage = x.untyped_storage()
    storage.resize_(0)
    assert storage.nbytes() == len(storage) == x.untyped_storage().nbytes() == 0
    assert x.shape == (3, 4) and x.stride() == (4, 1) and column.stride() == (4,)
    storage.resize_(48)
    x.copy_(torch.arange(12.0).reshape(3, 4))
    assert row.tolist() == [4, 5, 6, 7] and column.tolist() == [2, 6, 10]
    assert bits.view(torch.float32).tolist() == x.tolist() and same_memory(x, row)
    assert row.storage_offset() == 4 and row.untyped_storage().nbytes() == 48
    storage.resize_(32)  # the last row is gone
    assert x[:2].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]] and storage.nbytes() == 32
    del storage
    x.untyped_storage().resize_(64)
    assert row.tolist() == [4, 5, 6, 7] and column.untyped_storage().nbytes() == 64
    row.fill_(1)
    assert x[1].tolist() == [1, 1, 1, 1]


@pytest.mark.simulated
def test_an_emptied_storage_is_freed():
    x = torch.ones(1 << 20, device="cuda")
    kept = x[3:5]
    before = torch.cuda.memory_allocated()
    x.untyped_storage().resize_(0)
    assert torch.cuda.memory_allocated() == before - (4 << 20)
    x.untyped_storage().resize_(4 << 20)
    assert torch.cuda.memory_allocated() == before
    x.fill_(2)
    assert kept.tolist() == [2, 2]


def test_an_emptied_storage_is_freed_on_the_cpu():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    x = torch.ones(64 << 20)  # 256 MiB, which no allocator keeps
    before = resident()
    x.untyped_storage().resize_(0)
    assert resident() < before - (200 << 20)


@pytest.mark.parametrize("device", DEVICES)
def test_resize(device):
    x = torch.arange(6.0, device=device)
    assert x.resize_(2, 2) is x and x.tolist() == [[0, 1], [2, 3]]
    assert x.resize_((6,)).tolist() == [0, 1, 2, 3, 4, 5]  # the storage did not shrink
    assert x.resize_(8)[:6].tolist() == [0, 1, 2, 3, 4, 5] and x.untyped_storage().nbytes() == 32
    part = torch.arange(6.0, device=device)[2:]
    assert part.resize_(3).tolist() == [2, 3, 4] and part.storage_offset() == 2
    turned = torch.arange(6.0, device=device).reshape(2, 3).T
    assert turned.resize_(2, 2).tolist() == [[0, 1], [2, 3]]  # by the storage's order
    assert x.resize_(0).shape == (0,) and x.resize_as_(part).shape == (3,)
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        torch.ones(2, requires_grad=True, device=device).resize_(3)
    with pytest.raises(RuntimeError):
        x.resize_(-1)


# ---- to, type, data, detach ----------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    lambda x: x.to(torch.float32), lambda x: x.to("cpu"), lambda x: x.to(torch.device("cpu")),
    lambda x: x.to("cpu", torch.float32), lambda x: x.to(torch.ones(1)), lambda x: x.to(None),
    lambda x: x.to(dtype=torch.float32, device="cpu"), lambda x: x.to(torch.float32, True),
    lambda x: x.float(), lambda x: x.cpu(), lambda x: x.type_as(torch.ones(1)),
    lambda x: x.type(torch.float32), lambda x: x.type(torch.FloatTensor), lambda x: x.contiguous(),
    lambda x: x.to(memory_format=torch.preserve_format), lambda x: x.detach().to(x),
])  # fmt: skip
def test_conversions_to_what_it_is_are_the_tensor_itself(call):
    x = torch.ones(2)
    assert call(x).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("call", [
    lambda x: x.to(torch.float32, copy=True), lambda x: x.to("cpu", copy=True),
    lambda x: x.to(torch.float32, False, True), lambda x: x.to(x, copy=True), lambda x: x.clone(),
])  # fmt: skip
def test_copies_are_copies(call):
    x = torch.ones(2)
    assert call(x).data_ptr() != x.data_ptr()


@pytest.mark.parametrize("call", [
    lambda x: x.to(torch.int32), lambda x: x.to("cpu", torch.int32), lambda x: x.int(),
    lambda x: x.to(None, torch.int32), lambda x: x.to(torch.device("cpu"), torch.int32, True),
    lambda x: x.to(dtype=torch.int32), lambda x: x.to(torch.ones(1, dtype=torch.int32)),
    lambda x: x.type(torch.int32), lambda x: x.type("torch.IntTensor"),
    lambda x: x.type("tritorch.IntTensor"), lambda x: x.type(torch.IntTensor),
    lambda x: x.to(device="cpu", dtype=torch.int32, non_blocking=True, copy=True),
])  # fmt: skip
def test_all_forms_of_a_conversion(call):
    out = call(torch.tensor([1.7, -1.7]))
    assert out.dtype is torch.int32 and out.tolist() == [1, -1]
    assert isinstance(out, torch.IntTensor) and not isinstance(out, torch.FloatTensor)
    assert out.type() == "tritorch.IntTensor"


@pytest.mark.device
def test_to_a_gpu_and_back():
    x = torch.tensor([1.7, -1.7])
    there = [
        x.to("cuda"), x.cuda(), x.to(0), x.to(torch.device("cuda", 0)), x.cuda(0), x.to("cuda:0"),
        x.to("cuda", torch.float32), x.to(device="cuda"), x.type("torch.cuda.FloatTensor"),
    ]  # fmt: skip
    for y in there:
        assert y.is_cuda and y.get_device() == 0 and y.type() == "tritorch.cuda.FloatTensor"
        assert torch.equal(y.cpu(), x) and y.to("cuda").data_ptr() == y.data_ptr()
    assert there[0].to("cpu", torch.int32).tolist() == [1, -1]
    assert there[0].to(x).device == x.device and x.type_as(there[0]).is_cuda
    with pytest.raises(RuntimeError, match="at least two devices"):
        x + there[0]
    assert (there[0] + torch.tensor(1.0)).is_cuda  # but 0-dim tensors are numbers


def test_to_keeps_gradients_and_formats():
    x = torch.ones(2, requires_grad=True)
    x.to(torch.float64).sum().backward()
    assert x.grad.dtype is torch.float32 and x.grad.tolist() == [1, 1]
    assert not x.to(torch.int64).requires_grad
    y = torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last)
    assert y.stride() == (24, 1, 8, 2) and y.is_contiguous(memory_format=torch.channels_last)
    assert y.to(torch.float64).stride() == y.stride()


def test_what_to_and_type_refuse():
    x = torch.ones(2)
    for call in (lambda: x.to("float32"), lambda: x.to(torch.float16, bad=1), lambda: x.to([])):
        with pytest.raises((RuntimeError, TypeError)):
            call()
    with pytest.raises(ValueError, match="invalid type: 'nonsense'"):
        x.type("nonsense")
    with pytest.raises(RuntimeError, match="can require gradients|can require grad"):
        torch.ones(2, dtype=torch.int64).requires_grad_(True)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_casts_wrap_and_cut_as_in_c():
    assert torch.tensor([300, -1]).to(torch.uint8).tolist() == [44, 255]
    assert torch.tensor([1.9, -1.9]).int().tolist() == [1, -1]
    assert torch.tensor([0.5, 0.0, float("nan")]).bool().tolist() == [True, False, True]
    assert torch.tensor([1 + 2j]).real.tolist() == [1]
    assert torch.tensor([1e30]).half().tolist() == [float("inf")]


def test_data_and_detach():
    x = torch.ones(2, requires_grad=True)
    for apart in (x.data, x.detach()):
        assert not apart.requires_grad and apart.is_leaf and same_memory(apart, x)
    x.data.add_(1)  # not seen by autograd
    assert x.tolist() == [2, 2] and x._version == 0
    saved = (x * x).sum()
    x.data.mul_(2)
    saved.backward()  # PyTorch, too, uses what is there now
    assert x.grad.tolist() == [8, 8]
    x.data = torch.zeros(3)
    assert x.shape == (3,) and x.requires_grad and x.is_leaf
    y = torch.ones(2, requires_grad=True) * 2
    assert y.detach_() is y and not y.requires_grad and y.is_leaf and y.grad_fn is None
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        whole = torch.ones(2, requires_grad=True) * 2
        whole[:1].detach_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z = torch.ones(2, requires_grad=True)
        out = z.exp()
        out.detach().add_(1)  # detach shares the version counter
        out.sum().backward()


def test_geometry():
    x = torch.ones(2, 3, dtype=torch.float64)
    assert (x.numel(), x.nelement(), torch.numel(x), x.dim(), x.ndimension(), x.ndim) == (
        6, 6, 6, 2, 2, 2,
    )  # fmt: skip
    assert (x.element_size(), x.itemsize, x.nbytes, x.get_device()) == (8, 8, 48, -1)
    assert x.size(-1) == 3 and x.size() == x.shape == (2, 3) and x.stride(0) == 3
    assert x.layout is torch.strided and x.is_set_to(x) and not x.is_set_to(x.clone())
    assert torch.is_tensor(x) and torch.is_floating_point(x) and not torch.is_complex(x)
    assert x.share_memory_().is_shared() and not torch.ones(1).is_shared()


def test_negative_integers_wrap_also_among_floats():
    assert torch.tensor([1.5, -2], dtype=torch.uint8).tolist() == [1, 254]
    assert torch.tensor([[1.5], [-3]], dtype=torch.uint8).tolist() == [[1], [253]]
    for values in ([-2.0], [1, -2.5], [300, 1.5], [1.5, -300]):
        with pytest.raises(RuntimeError, match="without overflow"):
            torch.tensor(values, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("data", "values", "dtype"),
    [
        (lambda t: [t(1), 1.5], [1, 1.5], "float32"),
        (lambda t: [2, t(1.5, dtype=torch.float64)], [2, 1.5], "float64"),
        (lambda t: [t(1, dtype=torch.uint8), t(-2, dtype=torch.int8)], [1, -2], "int16"),
        (lambda t: [[t(True), 2], (3, t([[4]]))], [[1, 2], [3, 4]], "int64"),
        (lambda t: (1, t(2.0, requires_grad=True)), [1, 2], "float32"),
        (lambda t: [t(1 + 2j), t([2.0])], [1 + 2j, 2], "complex64"),
    ],
)
def test_tensors_among_numbers_are_numbers(data, values, dtype):
    made = torch.tensor(data(torch.tensor))
    assert made.tolist() == values and made.dtype is getattr(torch, dtype)


def test_tensors_that_are_no_numbers():
    t = torch.tensor
    index = "only integer tensors of a single element can be converted to an index"
    scalar = "only one element tensors can be converted to Python scalars"
    for data, dtype, error, said in (
        ([t([1, 2])], None, TypeError, index),
        ([1, t([1, 2])], None, TypeError, index),
        ([1, t(1.5)], torch.int64, TypeError, index),
        ([torch.ones(2)], None, ValueError, scalar),
        ([1.5, torch.ones(0)], None, ValueError, scalar),
        ([t(1j)], torch.float32, RuntimeError, "cannot be converted to type double without ov"),
        ([t(300)], torch.uint8, RuntimeError, "cannot be converted to type uint8 without overf"),
        ([t(1), "a"], None, TypeError, "invalid data type 'str'"),
    ):
        with pytest.raises(error, match=said):
            torch.tensor(data, dtype=dtype)
