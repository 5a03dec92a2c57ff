"""Methods and properties of tensors that are answered natively say what Python's functions say."""

import copy
import inspect
import pickle
import warnings

import numpy as np
import pytest

import tritorch as torch
from tritorch import _C
from tritorch.core.gates import GATES

METHODS = {
    name: gate
    for name, gate in GATES["tritorch.Tensor"].items()
    if gate.answer(gate.__wrapped__.__name__)
}
PROPERTIES = {n: p for n, p in vars(torch.Tensor).items() if type(p) is _C.Property}

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.device)]


def tensors(device):
    base = torch.arange(24.0, device=device).reshape(2, 3, 4)
    leaf = torch.ones(3, 2, device=device, requires_grad=True)
    graded = torch.ones(2, device=device, requires_grad=True)
    (graded * 2).sum().backward()
    written = torch.zeros(4, device=device)
    view = written[1:3]
    written.mul_(torch.ones(4, device=device, requires_grad=True))  # of which view learns late
    yield from (base, base[:, 1:, ::2], base.transpose(0, 2), base[0, 0, 0], base[:0])
    yield from (leaf, leaf * 2, leaf.detach(), leaf[0], graded, view, torch.nn.Parameter(base))
    for kind in (torch.bool, torch.int16, torch.bfloat16, torch.float8_e5m2, torch.complex64):
        yield torch.ones(2, 3, device=device).to(kind)
    if device == "cuda":
        return
    yield torch.empty(3, dtype=torch.complex32)
    yield from (torch.ones(2, 3, device="meta"), base.to_sparse(), torch.ones(2, 2).to_sparse_csr())
    yield torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])


ARGUMENTS = [
    (), (0,), (-1,), (2,), (3,), (-4,), (True,), (None,), (1.0,), ("x",), (10**30,), (0, 0),
    (torch.channels_last,),
]  # fmt: skip


def outcome(function, *args, **kwargs):
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            result = function(*args, **kwargs)
        return type(result), result, [str(w.message) for w in warned]
    except Exception as error:
        return type(error), str(error)


def test_what_is_answered():
    assert METHODS.keys() == {
        "size", "stride", "dim", "ndimension", "numel", "nelement", "__len__", "is_contiguous",
        "data_ptr", "const_data_ptr", "element_size", "is_floating_point", "is_complex",
    }  # fmt: skip
    assert PROPERTIES.keys() == {
        "device", "is_cuda", "is_cpu", "is_meta", "is_nested", "is_sparse", "is_sparse_csr",
        "layout", "itemsize", "requires_grad", "is_leaf", "grad",
    }  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", METHODS)
def test_methods_agree_with_their_functions(name, device):
    gate = METHODS[name]
    # What another gate's function says is what Python's says; errors of arguments are the gates'.
    plain = _C.Gate(gate.__wrapped__, gate.__name__, gate.__qualname__, "tritorch")
    plain.shown, plain.nested = gate.shown, gate.nested
    assert not plain.answer("no such")
    for x in tensors(device):
        for args in ARGUMENTS:
            assert outcome(gate, x, *args) == outcome(plain, x, *args), (x, args)
        assert outcome(gate, x, dim=0) == outcome(plain, x, dim=0)
    for args in ((), (1,), ([1, 2],)):
        assert outcome(gate, *args) == outcome(plain, *args), args
    assert inspect.signature(gate) == inspect.signature(gate.__wrapped__)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PROPERTIES)
def test_properties_agree_with_their_functions(name, device):
    made = PROPERTIES[name]
    for x in tensors(device):
        native, plain = outcome(getattr, x, name), outcome(made.fget, x)
        assert native[0] is plain[0] and (native[1] is plain[1] or native[1] == plain[1]), x
        assert native[2:] == plain[2:]
    assert isinstance(made, property) and made.__doc__ == made.fget.__doc__
    assert getattr(torch.Tensor, name) is made


def test_modes_and_classes_are_asked_first():
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    class Sub(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    class Shaped(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl
        shape = property(lambda self: "mine")

    x = torch.ones(2, 3)
    with Mode():
        assert (x.size(), x.dim(), len(x)) == ((2, 3), 2, 2)
    assert seen == ["size", "dim", "__len__"]
    seen.clear()
    sub = x.as_subclass(Sub)
    assert (sub.size(0), sub.device, sub.requires_grad) == (2, torch.device("cpu"), False)
    assert seen == [
        torch.Tensor.size, torch.Tensor.device.__get__, torch.Tensor.requires_grad.__get__,
    ]  # fmt: skip
    assert x.as_subclass(Shaped).shape == "mine"


def test_properties_are_set_and_deleted():
    x = torch.ones(2)
    x.requires_grad = True
    assert x.requires_grad and x.is_leaf and x.grad is None
    x.grad = torch.ones(2)
    assert x.grad.tolist() == [1, 1]
    del x.grad
    assert x.grad is None
    with pytest.raises(AttributeError):
        x.device = torch.device("cpu")
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert (x * 2).grad is None


def test_sizes():
    x = torch.ones(2, 3, 4)
    for size in (x.shape, x.size(), x.shape[:], torch.Size((2, 3, 4))):
        assert type(size) is torch.Size and size == (2, 3, 4) and hash(size) == hash((2, 3, 4))
        assert type(size[1:]) is torch.Size and size[1:] == (3, 4) and size[::-1] == (4, 3, 2)
        assert (size[0], size[-1], size[True], size.numel()) == (2, 4, 3, 24)
        assert repr(size[1:]) == "tritorch.Size([3, 4])"
    for given in ([2, 3, 4], (n for n in (2, 3, 4)), (2, np.int64(3), torch.tensor(4)), size):
        made = torch.Size(given)
        assert type(made) is torch.Size and made == (2, 3, 4) and set(map(type, made)) == {int}
    assert torch.Size() == torch.Size(()) == torch.Size([]) == () and torch.Size([True]) == (1,)
    assert pickle.loads(pickle.dumps(size)) == copy.copy(size) == size + torch.Size(())
    with pytest.raises(
        TypeError, match=r"Size\(\) takes an iterable of 'int' \(item 1 is 'float'\)"
    ):
        torch.Size([1, 2.0])
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        torch.Size(3)
    with pytest.raises(IndexError, match="tuple index out of range"):
        size[3]
    with pytest.raises(TypeError, match="tuple indices must be integers or slices, not str"):
        size["x"]
    big = torch.empty(0, 2**40, 3)
    assert big.shape == (0, 2**40, 3) and big.stride() == (3 * 2**40, 3, 1)
