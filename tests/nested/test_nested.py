"""What nested tensors are: how they are made, their sizes, memory, views, files and errors."""

import copy
import io
import pickle
import re
import warnings

import pytest

import tritorch as torch
from tests.nested.conftest import close, components
from tritorch.nested._internal.nested_tensor import (
    NestedTensor,
    ViewNestedFromBuffer,
    buffer_from_jagged,
    get_tensor_symint,
    jagged_from_list,
    nested_from_padded,
    nested_view_from_values_offsets,
)

warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")
VALUES = torch.arange(12.0).reshape(6, 2).clone()
OFFSETS = torch.tensor([0, 2, 6])


def jagged(*rest, **options):
    return torch.nested.nested_tensor(components(*rest), layout=torch.jagged, **options)


def strided(*rest, **options):
    return torch.nested.nested_tensor(components(*rest), **options)


def from_jagged(**options):
    return torch.nested.nested_tensor_from_jagged(VALUES.clone(), OFFSETS, **options)


# ---- what they are -------------------------------------------------------------------------------


def test_a_jagged_tensor_says_what_it_is(device):
    x = torch.nested.nested_tensor(components(3, device=device), layout=torch.jagged)
    assert type(x) is NestedTensor and isinstance(x, torch.Tensor)
    assert x.is_nested and x.layout is torch.jagged and x.device.type == device
    assert x.dim() == x.ndim == 3 and x.size(0) == len(x) == 4 and x.size(-1) == 3
    assert x.numel() == 24 and x.is_leaf and x.is_contiguous()
    assert x.offsets().tolist() == [0, 3, 4, 4, 8] and x.lengths() is None
    assert tuple(x.values().shape) == (8, 3) and x.dtype is torch.float64
    assert x._get_max_seqlen() == 4 and x._get_min_seqlen() == 0 and x._ragged_idx == 1
    assert str(x.shape).startswith("tritorch.Size([4, j")


def test_a_strided_one_is_a_plain_tensor():
    x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 5)])
    assert type(x) is torch.Tensor and x.is_nested and x.layout is torch.strided
    assert x.dim() == 3 and x.size(0) == 2 and x.numel() == 26
    assert x._nested_tensor_size().tolist() == [[2, 3], [4, 5]]
    assert x._nested_tensor_strides().tolist() == [[3, 1], [5, 1]]
    assert x._nested_tensor_storage_offsets().tolist() == [0, 6]
    swapped = x.transpose(1, 2)
    assert swapped._nested_tensor_strides().tolist() == [[1, 3], [1, 5]]
    assert swapped.data_ptr() == x.data_ptr() and not swapped.is_contiguous()
    assert swapped.contiguous()._nested_tensor_strides().tolist() == [[2, 1], [4, 1]]
    with pytest.raises(RuntimeError, match="Given dimension 1 is irregular"):
        x.size(1)


def test_dense_tensors_are_none():
    x = torch.ones(2, 3)
    assert not x.is_nested and x.layout is torch.strided
    assert torch.nested.nested_tensor([]).size(0) == 0
    assert repr(torch.jagged) == "tritorch.jagged" and pickle.loads(pickle.dumps(torch.jagged))


def test_nested_ints_are_equal_for_the_same_offsets_only():
    x = jagged(3)
    n = x.shape[1]
    assert isinstance(n, torch.SymInt) and n == x.size(1) and n is get_tensor_symint(x.offsets())
    assert (x * 2).shape == x.shape and x.transpose(1, 2).shape[2] == n
    assert x.shape != jagged(3).shape and n != 3 and (n == 3) is False
    assert x.float().shape == x.shape and torch.zeros_like(x).shape == x.shape
    assert n >= 2 and n > 1 and not n < 2
    for compare in (lambda: n >= 3, lambda: n < 5, lambda: n > jagged(3).shape[1]):
        with pytest.raises(ValueError, match="ge: relation is indeterminate"):
            compare()
    assert str(n * 3) == f"3*{n}" and 3 * n == n * 3 != n and hash(n) == hash(x.shape[1])
    for use in (lambda: int(n), lambda: n + 1, lambda: range(n)):
        with pytest.raises(RuntimeError, match="Trying to extract a concrete int"):
            use()


def test_a_moved_tensor_keeps_its_nested_int(device):
    x = jagged(3)
    there = x.to(device)
    assert there.shape == x.shape and there.offsets().device.type == device
    assert there.cpu().shape == x.shape
    close(there * 2, [2 * t for t in x.unbind()])


# ---- how they are made ---------------------------------------------------------------------------


def test_lists_are_copied_and_history_kept_where_it_is_asked_for():
    parts = [t.requires_grad_() for t in components(3)]
    for layout in (torch.jagged, torch.strided):
        leaf = torch.nested.nested_tensor(parts, layout=layout, requires_grad=True)
        assert leaf.is_leaf and leaf.requires_grad
        x = torch.nested.as_nested_tensor(parts, layout=layout)
        assert not x.is_leaf
        grads = torch.autograd.grad((x * 2).to_padded_tensor(0.0).sum(), parts)
        close(grads, [torch.full_like(t, 2.0) for t in parts])


def test_the_ragged_dim_is_found():
    x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(2, 5)], layout=torch.jagged)
    assert x._ragged_idx == 2 and x.shape[1] == 2 and tuple(x.values().shape) == (2, 8)
    same = torch.nested.as_nested_tensor(torch.ones(3, 4, 5), layout=torch.jagged)
    assert same._ragged_idx == 1 and same.offsets().tolist() == [0, 4, 8, 12]
    assert isinstance(same.shape[1], torch.SymInt)


def test_a_tensor_is_viewed():
    t = torch.arange(6.0).reshape(2, 3).clone()
    for layout in (torch.jagged, torch.strided):
        x = torch.nested.as_nested_tensor(t, layout=layout)
        assert x._is_view() and x._base is t and x.data_ptr() == t.data_ptr()
        assert torch.nested.as_nested_tensor(x, layout=layout) is x


def test_from_jagged():
    x = torch.nested.nested_tensor_from_jagged(VALUES, OFFSETS)
    close(x, [VALUES[:2], VALUES[2:]])
    assert x._base is VALUES
    close(torch.nested.nested_tensor_from_jagged(VALUES, lengths=torch.tensor([2, 4])), x.unbind())
    holes = torch.nested.nested_tensor_from_jagged(VALUES, OFFSETS, torch.tensor([1, 2]))
    close(holes, [VALUES[:1], VALUES[2:4]])
    assert not holes.is_contiguous() and holes.numel() == 6
    close(holes * 2, [VALUES[:1] * 2, VALUES[2:4] * 2])
    close(holes.contiguous(), holes.unbind())
    wide = torch.nested.nested_tensor_from_jagged(VALUES.t(), OFFSETS, jagged_dim=2)
    close(wide, [VALUES[:2].t(), VALUES[2:].t()])
    known = torch.nested.nested_tensor_from_jagged(VALUES, OFFSETS, min_seqlen=2, max_seqlen=4)
    assert known._maybe_max_seqlen == 4 and known._maybe_min_seqlen == 2
    assert x._maybe_max_seqlen is None


def test_narrow_has_a_place_for_each():
    t = torch.arange(30.0).reshape(3, 5, 2).clone()
    starts, lengths = torch.tensor([0, 1, 2]), torch.tensor([2, 3, 1])
    x = torch.nested.narrow(t, 1, starts, lengths, layout=torch.jagged)
    close(x, [t[0, :2], t[1, 1:4], t[2, 2:3]])
    assert x._base is t and not x.is_contiguous()
    close(torch.nested.narrow(t, 0, 1, 2), [t[1], t[2]])


def test_lengths_may_be_written():
    lengths = torch.tensor([1, 2])
    x = torch.nested.nested_tensor_from_jagged(VALUES, OFFSETS, lengths)
    close(x, [VALUES[:1], VALUES[2:4]])
    lengths.add_(1)  # one more token of each in a cache
    close(x, [VALUES[:2], VALUES[2:5]])
    assert x.transpose(1, 2)[1].shape == (2, 3) and x.numel() == 10


def test_what_is_reduced_first_is_padded_the_same():
    x = from_jagged()
    shape = x.to_padded_tensor(0.0).shape
    x.sum(1), x.softmax(1), x.amax(1)
    assert x.to_padded_tensor(0.0).shape == shape == (2, 6, 2)
    assert x._get_max_seqlen() == 4 and tuple(x.to_padded_tensor(0.0).shape) == (2, 4, 2)


def test_masked_select():
    t = torch.arange(8.0).reshape(2, 4)
    x = torch.nested.masked_select(t, t % 3 == 0)
    close(x, [torch.tensor([0.0, 3.0]), torch.tensor([6.0])])
    flat = torch.nested.nested_tensor_from_jagged(torch.arange(6.0), OFFSETS)
    close(flat.masked_select(flat > 1), [torch.tensor([]), torch.tensor([2.0, 3.0, 4.0, 5.0])])


def test_from_masks_and_padding():
    t = torch.arange(12.0).reshape(2, 3, 2)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    x = torch._nested_tensor_from_mask(t, mask)
    close(x, [t[0, :2], t[1, :1]])
    with pytest.raises(RuntimeError, match="Mask must be left-aligned without gaps"):
        torch._nested_tensor_from_mask(t, torch.tensor([[True, False, True], [True] * 3]))
    close(torch._nested_from_padded_and_nested_example(x.to_padded_tensor(9.0), x), x.unbind())
    fused = torch._nested_from_padded(t.reshape(1, 2, 3, 2), torch.tensor([[2, 4]]), True)
    close(fused, [t.transpose(0, 1)[:2].reshape(2, 4)])
    made = nested_from_padded(t, torch.tensor([0, 1, 4]), sum_S=4)
    close(made, [t[0, :1], t[1]])


def test_functions_of_buffers():
    values = VALUES.clone().requires_grad_()
    x = ViewNestedFromBuffer.apply(values, OFFSETS, {"max_seqlen": 4})
    assert x._max_seqlen == 4
    buffer_from_jagged(x * 3).sum().backward()
    close(values.grad, torch.full_like(VALUES, 3.0))
    found, offsets = jagged_from_list([VALUES[:1], VALUES[1:]], None)
    assert found.offsets() is offsets and offsets.tolist() == [0, 1, 6]
    names, context = found.__tensor_flatten__()
    inner = {name: getattr(found, name) for name in names}
    again = NestedTensor.__tensor_unflatten__(inner, context, found.shape, found.stride())
    close(again, found.unbind())


# ---- padding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool", "complex128"])
def test_padding_of_any_type(dtype, device):
    kind = getattr(torch, dtype)
    parts = [(t * 9).to(kind) for t in components(3, device=device)]
    for layout in (torch.jagged, torch.strided):
        x = torch.nested.nested_tensor(parts, layout=layout)
        found = x.to_padded_tensor(1, (4, 6, 3))
        assert tuple(found.shape) == (4, 6, 3) and found.dtype is kind
        for row, part in zip(found.unbind(), parts):
            n = part.shape[0]
            assert torch.equal(row[:n], part) and bool((row[n:] == 1).all())


def test_padding_of_integers_by_infinities_is_extreme():
    x = torch.nested.nested_tensor([torch.ones(1, dtype=torch.int8), torch.ones(2).char()])
    for layout in (torch.jagged, torch.strided):
        x = torch.nested.nested_tensor([t.clone() for t in x.unbind()], layout=layout)
        assert x.to_padded_tensor(float("-inf"))[0].tolist() == [1, -128]


def test_padding_cuts_and_refuses():
    x = jagged(3)
    assert tuple(torch.nested.to_padded_tensor(x, 0.0, (4, 2, 3)).shape) == (4, 2, 3)
    assert tuple(x.transpose(1, 2).to_padded_tensor(0.0).shape) == (4, 3, 4)
    with pytest.raises(RuntimeError, match="Truncation is not supported"):
        strided(3).to_padded_tensor(0.0, (4, 2, 3))


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [jagged, strided])
def test_views_share_memory_and_its_versions(make):
    x = make(3)
    x.unbind()[0].fill_(7.0)
    assert bool((x[0] == 7).all())
    version = x._version
    x.mul_(2)
    assert x._version == version + 1 and bool((x[0] == 14).all())
    assert bool((x.values() == x.detach().values()).all())
    x.zero_()
    assert not x.values().any()
    other = make(3)
    x.copy_(other)
    close(x, other.unbind())
    x.relu_()
    close(x, [t.relu() for t in other.unbind()])


def test_what_is_written_after_it_was_saved_is_noticed():
    x = jagged(3, requires_grad=True)
    y = x * 1
    z = y.sin()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        x.add_(1)  # a view of its values, as in PyTorch
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        strided(3, requires_grad=True).add_(1)


def test_writes_into_values_reach_the_history():
    x = jagged(3, requires_grad=True)
    y = x * 1
    y.values().mul_(3)
    y.sum().backward()
    close(x.grad, [torch.full_like(t, 3.0) for t in x.unbind()])


def test_gradients_add_up_and_hooks_see_them():
    x = jagged(3, requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g.shape == x.shape))
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    close(x.grad, [torch.full_like(t, 5.0) for t in x.unbind()])
    assert seen == [True, True] and x.grad.is_nested


@pytest.mark.parametrize("make", [jagged, strided])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_optimizers_take_them(make, optimizer):
    x = make(3, requires_grad=True)
    parts = [t.detach().clone().requires_grad_() for t in x.unbind()]
    for leaves in ([x], parts):
        step = optimizer(leaves, lr=0.1)
        for _ in range(2):
            step.zero_grad()
            flat = [t for leaf in leaves for t in (leaf.unbind() if leaf.is_nested else [leaf])]
            sum(t.square().sum() for t in flat).backward()
            step.step()
    close(x, parts)


@pytest.mark.parametrize("make", [jagged, strided])
def test_items_are_written(make):
    x = make(3)
    x[0] = 2.0
    x[1] = torch.tensor([[4.0, 5.0, 6.0]], dtype=torch.float64)
    assert bool((x[0] == 2).all()) and x[1].tolist() == [[4, 5, 6]]
    y = make(3, requires_grad=True) * 1
    y[0] = 0.0
    (y.sum() if make is jagged else y.to_padded_tensor(0.0).sum()).backward()


@pytest.mark.parametrize("make", [jagged, strided])
def test_triangles_are_of_each_component(make):
    x = make(3)
    close(x.tril(), [t.tril() for t in x.unbind()])


def test_a_component_that_is_written_has_no_gradient_there():
    x = jagged(3, requires_grad=True)
    y = x * 3
    y[0] = 0.0
    y.sum().backward()
    wanted = [torch.full_like(t, 3.0 * (i > 0)) for i, t in enumerate(x.unbind())]
    close(x.grad, wanted)


def test_images_of_several_numbers():
    images = components(2, 4, 4)
    w = torch.ones(3, 2, 2, 2, dtype=torch.float64)
    x = torch.nested.nested_tensor(images, layout=torch.jagged)
    close(torch.nn.functional.conv2d(x, w), [torch.nn.functional.conv2d(t, w) for t in images])


def test_index_put_counts_places_in_components():
    x = from_jagged()
    at = (torch.tensor([0, 1]), torch.tensor([1, 3]), torch.tensor([0, 1]))
    found = x.index_put(at, torch.tensor([-1.0, -2.0]))
    wanted = VALUES.clone()
    wanted[1, 0], wanted[5, 1] = -1, -2
    close(found.values(), wanted)
    close(x.values(), VALUES)
    x.index_put_((torch.tensor([1]),), torch.tensor(0.0))
    assert not x[1].any() and bool((x[0] == VALUES[:2]).all())
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.index_put_((torch.tensor([0]), torch.tensor([2])), torch.tensor(0.0))


# ---- text, copies, files -------------------------------------------------------------------------


def test_text():
    x = from_jagged()
    shown = f"NestedTensor(size=(2, {x.shape[1]}, 2), offsets=tensor([0, 2, 6]), contiguous=True)"
    assert repr(x) == shown
    assert "requires_grad=True, contiguous" in repr(from_jagged().requires_grad_())
    y = torch.nested.nested_tensor([torch.tensor([[1, 2]]), torch.tensor([[4, 5]])])
    assert repr(y) == "nested_tensor([\n  tensor([[1, 2]]),\n  tensor([[4, 5]])\n])"
    grad = repr(torch.nested.nested_tensor([torch.ones(1)], requires_grad=True))
    assert grad == "nested_tensor([\n  tensor([1.], requires_grad=True)\n], requires_grad=True)"


@pytest.mark.parametrize("make", [jagged, strided])
@pytest.mark.parametrize("turned", [False, True], ids=["dense", "transposed"])
def test_copies_and_files(make, turned):
    x = make(3, requires_grad=True)
    given = x.detach().transpose(1, 2).requires_grad_() if turned else x

    def saved(x, weights_only):
        file = io.BytesIO()
        torch.save({"x": x}, file)
        file.seek(0)
        return torch.load(file, weights_only=weights_only)["x"]

    ways = (
        copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), lambda x: saved(x, True),
        lambda x: saved(x, False),
    )  # fmt: skip
    for way in ways:
        found = way(given)
        assert type(found) is type(given) and found.requires_grad and found.is_leaf
        assert found.data_ptr() != given.data_ptr()
        close(found, given.unbind())
        assert found._nested_tensor_strides().tolist() == given._nested_tensor_strides().tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"offsets": torch.tensor([0, 2, 700])}, {"offsets": torch.tensor([0, -2, 6])},
        {"_ragged_idx": 9}, {"lengths": torch.tensor([2, 90])}, {"_metadata_cache": {"a": 1}},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_files_are_not_believed(change):
    function, (parts,) = from_jagged().__reduce_ex__(2)[1][0], from_jagged().__reduce_ex__(2)[1][2]
    assert torch.equal(function(parts).values(), VALUES)
    with pytest.raises(RuntimeError, match="nested tensor in checkpoint"):
        function(parts | change)


def test_strided_files_are_not_believed():
    function, parts = strided(3).__reduce_ex__(2)
    for at, wrong in ((1, parts[1] * 9), (2, parts[2] * 9), (3, parts[3] + 99), (3, -parts[3])):
        with pytest.raises(RuntimeError, match="nested tensor in checkpoint"):
            function(*parts[:at], wrong, *parts[at + 1 :])


@pytest.mark.parametrize("make", [jagged, strided])
def test_they_are_sent_to_processes(make):
    context = torch.multiprocessing.get_context("spawn")
    x, answers = make(3), context.SimpleQueue()
    sums = [float(t.sum()) for t in x.unbind()]
    process = context.Process(target=doubled, args=(x, answers))
    process.start()
    assert answers.get() == pytest.approx(sums)
    process.join()
    assert process.exitcode == 0
    close(x, [torch.zeros_like(t) for t in x.unbind()])  # written there: the memory is shared


def doubled(x, answers):
    answers.put([float(t.sum()) for t in x.unbind()])
    x.zero_()


# ---- what is refused -----------------------------------------------------------------------------

# As PyTorch 2.13 says it: (expression of a jagged x and a strided s of (4, .., 3), error, words).
REFUSED = [
    ("x + torch.ones(2, 3).double()", RuntimeError,
     "cannot call binary pointwise function add.Tensor with inputs of shapes"),
    ("x + x.clone().to('cpu') + J(3)", RuntimeError, "cannot call binary pointwise function"),
    ("x + torch.ones(1, 4, 1, 3)", NotImplementedError, "NYI: broadcasting NT with T with larger"),
    ("x.sum(0)", RuntimeError, "sum(): reducing along the batch dimension but not the ragged "
     "dimension is not supported for nested tensors"),
    ("x.sum((1, 2))", RuntimeError, "sum(): reducing along a ragged and non-batch dimension is not "
     "supported for nested tensors"),
    ("x.mean((1, 2))", AssertionError, "Cannot reduce on both ragged and non-batch dimensions"),
    ("x.softmax(0)", RuntimeError, "softmax(): not supported when reducing across the batch "
     "dimension for NestedTensor"),
    ("x.log_softmax(1)", RuntimeError, "log_softmax(): not supported when reducing along the "
     "ragged dimension"),
    ("x.transpose(0, 1)", ValueError, "Transpose is not supported on the batch dimension"),
    ("x.permute(1, 0, 2)", ValueError, "Permute is not supported on the batch dimension"),
    ("x.view(4, 8, 3)", RuntimeError, "view(): cannot view shape (4, "),
    ("x.unsqueeze(0)", RuntimeError, "unsqueeze(): not supported for NestedTensor on dim=0"),
    ("x.squeeze(1)", RuntimeError, "squeeze(): not supported for NestedTensor on ragged dim"),
    ("x.unbind(1)", RuntimeError, "unbind(): only supported for NestedTensor on dim=0"),
    ("x.split(2, 1)", RuntimeError, "split(): not supported for NestedTensor on ragged dim"),
    ("x.narrow(1, 0, 1)", RuntimeError, "narrow(): not supported for NestedTensor on ragged dim"),
    ("x.select(1, 0)", RuntimeError, "select(): not supported for NestedTensor on ragged dim"),
    ("torch.cat([x, x], 1)", RuntimeError, "cat(): not supported for NestedTensor on ragged dim"),
    ("x @ x", RuntimeError, "matmul(): not supported between inputs of shapes"),
    ("x.bmm(torch.ones(3, 2))", ValueError, "bmm(): mat2 must be 3D"),
    ("x.expand(4, 3, 3)", RuntimeError, "expand(): cannot expand shape"),
    ("F.rms_norm(x, (8, 3))", ValueError, "rms_norm(): Normalization over the ragged dim"),
    ("F.linear(x.transpose(1, 2), torch.ones(2, 3))", ValueError, "NestedTensor linear_default("),
    ("F.scaled_dot_product_attention(x, x, torch.ones(2, 3))", ValueError,
     "Expected query, key, and value to be nested tensors"),
    ("torch.nested.nested_tensor([], layout=torch.jagged)", RuntimeError,
     "Cannot construct a nested tensor from an empty tensor list"),
    ("torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(3, 2)], layout=torch.jagged)",
     RuntimeError, "the jagged layout only allows for a single ragged dimension"),
    ("torch.nested.nested_tensor([torch.ones(2)], layout=torch.sparse_coo)", RuntimeError,
     "Specified layout is unsupported for nested tensors"),
    ("torch.nested.nested_tensor(4.0)", TypeError, "Only lists (List[Tensor] and"),
    ("torch.nested.nested_tensor([torch.ones(2), torch.ones(2, 2)])", RuntimeError,
     "Found dimension 2 for Tensor at index 1 and dimension 1 for Tensor at index 0."),
    ("torch.nested.as_nested_tensor(torch.ones(2))", RuntimeError, "have dim() > 1"),
    ("torch.nested.as_nested_tensor(s, layout=torch.jagged)", RuntimeError,
     "Converting between nested tensor layouts is not supported"),
    ("torch.nested.nested_tensor_from_jagged(torch.ones(3))", RuntimeError,
     "At least one of offsets or lengths is required."),
    ("torch.nested.narrow(torch.ones(2, 3), 0, 1, 1, layout=torch.jagged)", RuntimeError,
     "jagged layout only supports dim=1"),
    ("s.size()", RuntimeError, "NestedTensorImpl doesn't support sizes"),
    ("s.stride()", RuntimeError, "NestedTensorImpl doesn't support strides"),
    ("s + torch.ones(3).double()", RuntimeError, "Expected both self and other to be nested, but "
     "got a nested self and non-nested other"),
    ("s.sum(1)", RuntimeError, "NestedTensor can only be reduced across the last dimension"),
    ("s.sum(-1)", RuntimeError, "NestedTensor always requires keepdim=True for now."),
    ("s.softmax(0)", RuntimeError, "Cannot apply softmax across nested dimension 0"),
    ("s.transpose(0, 1)", RuntimeError, "Nested tensor dimension 0 cannot be transposed"),
    ("s.transpose(1, 2).relu()", RuntimeError, "NestedTensor must be contiguous to get buffer."),
    ("s.view(4, 8, 3)", RuntimeError, "shape '[4, 8, 3]' is invalid for input of size 9"),
    ("s.view(-1, 3)", RuntimeError, "For now nested view cannot change or infer the implicit"),
    ("s[5]", IndexError, "index 5 is out of bounds for dimension 0 with size 4"),
    ("s[:]", NotImplementedError, "Could not run 'aten::slice.Tensor'"),
    ("s.chunk(2, 1)", RuntimeError, "only supported for the last dimension"),
    ("s.narrow(1, 0, 1)", RuntimeError, "narrow(): only dim=0 supported for nested tensors"),
    ("torch.cat([s, torch.ones(4, 2, 3)], 2)", RuntimeError, "expected each tensor in given list"),
    ("F.linear(s, torch.ones(2, 4))", RuntimeError, "Shape mismatch for NestedTensor Linear"),
    ("F.layer_norm(s, (2, 3))", RuntimeError, "normalized_shape extends into irregular"),
    ("s.copy_(S(2))", RuntimeError, "copy_ only supports tensors that are the same size"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[0])
def test_refusals_are_pytorchs(case):
    expression, error, words = case
    known = {"torch": torch, "F": torch.nn.functional, "x": jagged(3), "s": strided(3)}
    known |= {"J": jagged, "S": strided}
    with pytest.raises(error, match=re.escape(words)):
        eval(expression, known)


def test_an_encoder_fills_the_padding_with_zeros():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    assert encoder.use_nested_tensor
    x, padding = torch.randn(2, 3, 8), torch.tensor([[False, False, True], [False, True, True]])
    whole = encoder(x, src_key_padding_mask=padding)
    with torch.no_grad():
        packed = encoder(x, src_key_padding_mask=padding)
    torch.testing.assert_close(packed[~padding], whole.detach()[~padding])
    assert not packed[padding].any() and bool(whole[padding].any())
    with torch.no_grad():
        ragged = encoder(x, src_key_padding_mask=torch.tensor([[False, True, False]] * 2))
    assert bool(ragged[:, 1].any())
    assert not torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).use_nested_tensor


def test_operators_as_objects_take_nested_tensors():
    x = from_jagged()
    aten = torch.ops.aten
    close(aten.unbind.int(x), x.unbind())
    close(aten.matmul(x, torch.ones(2, 3)), [t @ torch.ones(2, 3) for t in x.unbind()])
    close(aten.view(x, [2, -1, 1, 2]), [t.unsqueeze(1) for t in x.unbind()])
    close(aten.zeros_like(x), [torch.zeros_like(t) for t in x.unbind()])
    assert aten.dim(x) == 3 and aten.numel(x) == 12 and aten.is_contiguous(x)
    with pytest.raises(RuntimeError, match=r"directly calling torch.ops.aten.size"):
        aten.size(x)


def test_modes_see_functions_and_operators():
    x = from_jagged()
    seen = []

    class Functions(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Functions():
        found = torch.nn.functional.linear(x, torch.ones(3, 2))
    assert seen == ["ones", "linear"] and found.is_nested


def test_values_that_are_padded_too_far_keep_their_gradient():
    values = VALUES.clone().requires_grad_()
    x = nested_view_from_values_offsets(values, OFFSETS)
    assert tuple(x.to_padded_tensor(0.0).shape) == (2, 6, 2)  # nobody knows the longest
    x.to_padded_tensor(5.0).square().sum().backward()
    close(values.grad, 2 * VALUES)
