"""Expressions whose values and errors are compared with PyTorch's, as text; by family.

tools/record/expressions.py writes down what they give with the real torch.
"""

import copy
import pickle
import warnings

import numpy as np

from . import sparse_cases

FAMILIES = dict(sparse_cases.FAMILIES)

FAMILIES["fft"] = """
    fft.fft(t, norm="x")
    fft.fft(t, n=0)
    fft.fft(t, dim=5)
    fft.fft(t, dim=(0, 1))
    fft.fft(scalar)
    fft.fftn(scalar)
    fft.rfftn(scalar)
    fft.irfftn(scalar)
    fft.hfftn(scalar)
    fft.ihfftn(scalar)
    fft.fft2(scalar)
    fft.rfft(z)
    fft.rfftn(z)
    fft.rfft2(z)
    fft.ihfft(z)
    fft.ihfftn(z)
    fft.irfft(t[:, :1])
    fft.irfftn(t[:, :1])
    fft.irfft(t, n=0)
    fft.fftn(t, s=(1, 2, 3))
    fft.fftn(t, s=(1, 2), dim=(0,))
    fft.fftn(t, dim=(0, 0))
    fft.fftn(t, dim=(0, 2))
    fft.fftn(t, s=(0,))
    fft.irfftn(t, s=(0,))
    fft.irfftn(t, s=(3, -1)).shape
    fft.fftn(t, s=(-1,)).shape
    fft.rfftn(t, dim=())
    fft.fftn(t, dim=())
    fft.fft2(t, s=3)
    fft.fftn(t, dim=0).shape
    fft.fft(t.half())
    fft.rfft(t.bfloat16())
    fft.fft(t.int()).dtype, fft.rfft(t.bool()).dtype, fft.irfft(t.int()).dtype, fft.hfft(z).dtype
    fft.fft(t.double()).dtype, fft.irfft(z.to(torch.complex128)).dtype
    fft.fft([1.0])
    fft.fft(torch.ones(3, 0))
    fft.fft(torch.ones(3, 0), n=2)
    fft.rfft(t, out=torch.empty(0))
    fft.rfft(t, out=torch.empty(0, dtype=torch.complex128)).dtype
    fft.irfft(t, out=torch.empty(0, dtype=torch.complex64))
    fft.hfft(t, out=torch.empty(0, dtype=torch.complex64))
    fft.fft2(t, out=torch.empty(0))
    fft.fft(t, norm="ortho")
    fft.fft2(t, norm="forward")
    fft.ifft(t, n=5)
    fft.ifftn(t, s=(2, 3))
    fft.rfft(t, n=3)
    fft.rfft2(t)
    fft.rfftn(t, dim=(1, 0), norm="forward")
    fft.irfft(z, norm="ortho")
    fft.irfft2(z, s=(2, 5))
    fft.irfftn(z, dim=(1, 0))
    fft.hfft(z, n=5)
    fft.hfft2(z)
    fft.hfftn(z, s=(2, 4), norm="ortho")
    fft.ihfft(t)
    fft.ihfft2(t, norm="forward")
    fft.ihfftn(t, s=(2, 3))
    fft.fftfreq(5), fft.fftfreq(6, 0.25), fft.fftfreq(0), fft.fftfreq(1, dtype=torch.float64)
    fft.rfftfreq(5, 2.0), fft.rfftfreq(6)
    fft.fftfreq(-1)
    fft.fftfreq(4.5)
    fft.fftfreq(5, dtype=torch.int32)
    fft.fftshift(t), fft.ifftshift(t, 1), fft.fftshift(t, (0, 0))
    fft.fftshift(t, 5)
    fft.fftshift(scalar)
    """

FAMILIES["stft"] = """
    x.stft(16)
    x.stft(16, return_complex=True, window=w)[0, :3, :2]
    x.stft(16, return_complex=False, window=w).shape
    x.stft(16, hop_length=0, return_complex=True, window=w)
    x.stft(0, return_complex=True, window=w)
    x.stft(300, return_complex=True, window=w, center=False)
    x.stft(16, win_length=17, return_complex=True)
    x.stft(16, win_length=0, return_complex=True)
    x.stft(16, win_length=8, window=w, return_complex=True)
    torch.stft(torch.ones(2, 3, 100), 16, return_complex=True)
    x.int().stft(16, return_complex=True)
    x.stft(16, window=w.double(), return_complex=True).dtype
    x.stft(16, window=w + 0j, return_complex=True).shape
    x.stft(16, window=w + 0j, return_complex=True, onesided=True)
    (x + 0j).stft(16, pad_mode="constant", normalized=True)[0, :2, :2]
    (x + 0j).stft(16, pad_mode="bad")
    x.stft(16, pad_mode="circular", return_complex=True)[0, :2, 0]
    x.stft(16, align_to_window=True, return_complex=True)
    x.stft(16, align_to_window=True, center=False, win_length=8, return_complex=True).shape
    x.stft(16, align_to_window=False, center=False, win_length=8, return_complex=True).shape
    x[0].stft(16, 3, window=w, return_complex=True).shape
    x.stft(16, window=w[None], return_complex=True)
    s.istft(16, window=w)[0, :5]
    s.istft(16, hop_length=0)
    s.istft(16, hop_length=20)
    s.istft(16, win_length=20)
    torch.view_as_real(s).istft(16)
    s.istft(18)
    s.istft(16, onesided=False)
    s[:, :0].istft(16)
    s[None].istft(16)
    s.istft(16, length=50, window=w).shape
    s.istft(16, length=120, window=w)[0, 98:]
    s.istft(16, center=False, window=w)[0, :5]
    s.istft(16, return_complex=True, window=w)
    s.istft(16, window=w + 0j)
    (x + 0j).stft(16, window=w).istft(16, window=w, return_complex=True, onesided=False)[0, 40:43]
    s.istft(16, window=w[:8])
    s.istft(16, window=w * 0)
    x.istft(16)
    s.istft(16, window=w.double()).dtype
    """

_REDUCTION = """
    masked.{0}(t, mask=m)
    masked.{0}(t, 1, mask=m)
    masked.{0}(t, dim=0, keepdim=True, mask=m)
    masked.{0}(t, (0, 1), mask=m)
    masked.{0}(t, (), mask=m)
    masked.{0}(t, 5, mask=m)
    masked.{0}(t.int(), 0, mask=m[:1])
    masked.{0}(t, 1, dtype=torch.float64, mask=m)
    masked.{0}(t, 1)
    masked.{0}(t, 1, mask=m[0])
    masked.{0}(t, 1, mask=m.int())
    masked.{0}(t, 1, mask=m[None])
    """
_SCAN = """
    masked.{0}(t, {1}1, mask=m)
    masked.{0}(t, {1}(0, 1), mask=m)
    masked.{0}(t, {1}-3, mask=m)
    masked.{0}(t, {1}0, dtype=torch.float64, mask=m)
    masked.{0}(t, {1}1)
    masked.{0}(t.bool(), {1}1, mask=m)
    """
FAMILIES["masked"] = (
    "".join(
        _REDUCTION.format(name)
        for name in ["sum", "prod", "mean", "var", "std", "amax", "amin", "logsumexp"]
    )
    + "".join(
        line + "\n"
        for name in ("argmax", "argmin")
        for line in _REDUCTION.format(name).splitlines()
    )
    + "".join(
        _SCAN.format(name, "")
        for name in ["cumsum", "cumprod", "softmax", "log_softmax", "softmin"]
    )
    + _SCAN.format("normalize", "2.0, ")
    + """
    masked.median(t, 1, mask=m), masked.median(t, mask=m), masked.median(t.int(), 1)
    masked.median(t.int(), 1, mask=m)
    masked.norm(t, mask=m), masked.norm(t, 1, 1, mask=m), masked.norm(t, 0, 1, mask=m)
    masked.norm(t, float("inf"), 1, mask=m), masked.norm(t, float("-inf"), 1, mask=m)
    masked.norm(t, "fro", 1)
    masked.norm(t.int())
    masked.logaddexp(t, t, input_mask=m, other_mask=~m), masked.logaddexp(t, t + 1)
    masked.logaddexp(t, t, input_mask=m)
    masked.var(t, unbiased=True, mask=m), masked.var(t, 1, False, mask=m)
    masked.std(t, 1, correction=0, mask=m)
    masked.var(t, 1, unbiased=False, correction=0)
    masked.mean(t.int(), 1)
    masked.mean(t, 1, dtype=torch.int32)
    masked.amax(t.bool(), 1, mask=m)
    masked.sum(t.half(), 1, mask=m), masked.mean(t.half(), 1, mask=m)
    """
)

FAMILIES["masked_tensor"] = """
    mt
    masked.masked_tensor(t.int(), m), masked.masked_tensor(t.bool(), m)
    masked.masked_tensor(t[0, 0], m[0, 0]), masked.masked_tensor(t[0, 1], m[0, 1])
    masked.masked_tensor(t.reshape(1, 2, 3), m.reshape(1, 2, 3))
    masked.masked_tensor(t + 0j, m)
    masked.masked_tensor(t, m.int())
    masked.masked_tensor(t, m[0])
    masked.masked_tensor(t, m[:1])
    masked.masked_tensor([1.0], m)
    masked.masked_tensor(t, [True])
    masked.masked_tensor(mt, m)
    masked.as_masked_tensor(t, m)
    masked.is_masked_tensor(mt), masked.is_masked_tensor(t), isinstance(mt, torch.Tensor)
    mt.get_data(), mt.get_mask(), mt.to_tensor(-1)
    mt.shape, mt.dtype, mt.ndim, mt.size(), mt.dim(), mt.numel(), len(mt), mt.requires_grad
    mt + mt, mt + 1, 1 + mt, mt * 2, mt + t, t + mt, mt - mt, mt / (mt + 1)
    mt + mt2
    mt == mt, mt > 1, mt.eq(mt), -mt, abs(mt), mt**2, mt // 2, mt % 2
    ~(mt > 1), (mt > 1) & (mt > 0)
    mt.sin(), torch.sin(mt), mt.exp(), mt.round(), mt.isnan(), mt.clamp(0, 1), mt.square()
    torch.maximum(mt, mt), torch.atan2(mt, mt), torch.logaddexp(mt, mt)
    mt.clone().sin_(), mt.clone().add_(mt)
    mt.sum(), mt.sum(1), mt.sum(dim=1, keepdim=True), mt.sum((0, 1))
    mt.mean(1), mt.amax(1), mt.amax(), mt.amin(0), mt.prod(1), mt.argmax(1), mt.var(1), mt.std()
    mt.all(), mt.softmax(1)
    masked.sum(mt, 1), masked.softmax(mt, 1), masked.norm(mt)
    mt[0], mt[0, 1], mt[:, 1], mt[m], mt.view(3, 2), mt.reshape(-1), mt.t(), mt.transpose(0, 1)
    mt.unsqueeze(0), mt.expand(2, 2, 3), mt.detach(), mt.contiguous(), mt.double(), mt.int()
    mt.split(1), mt.chunk(2), torch.stack([mt, mt]), torch.cat([mt, mt]), torch.flatten(mt)
    torch.where(m, mt, mt), torch.where(m, mt, t), torch.ones_like(mt)
    mt[0, 0].item(), float(mt[0, 0]), bool(mt[0, 2]), str(mt)
    copy.deepcopy(mt), copy.copy(mt), pickle.loads(pickle.dumps(mt))
    grad_of(masked.masked_tensor(t, m, requires_grad=True), lambda x: x.sum())
    grad_of(masked.masked_tensor(t, m, requires_grad=True), lambda x: (x * x).sum(1).sum())
    grad_of(masked.masked_tensor(t, m, requires_grad=True), lambda x: x.amax(1).sum())
    """

FAMILIES["quasirandom"] = """
    Sobol(3)
    Sobol(3, scramble=True, seed=7)
    Sobol(0)
    Sobol(21202)
    Sobol(3).draw(5)
    Sobol(40).draw(7)[:, ::9]
    Sobol(21201).draw(3)[:, ::3000]
    Sobol(2).draw_base2(3)
    Sobol(2).fast_forward(3).draw(4, dtype=torch.float64)
    Sobol(2).fast_forward(3).fast_forward(2).draw(2)
    Sobol(2).fast_forward(3).reset().draw(2)
    Sobol(2).fast_forward(3).draw_base2(3)
    Sobol(3, True, 7).draw(4)
    Sobol(30, scramble=True, seed=2**33 + 5).fast_forward(9).draw(2)[:, ::7]
    Sobol(2).draw(3, out=torch.empty(0))
    Sobol(2).MAXBIT, Sobol.MAXDIM, Sobol(2).num_generated, Sobol(2).sobolstate[:, :4]
    """

FAMILIES["testing"] = """
    close(a, a)
    close(a, b)
    close(a, b, rtol=0, atol=0)
    close(a, b, rtol=0)
    close(a, b, atol=0.1, rtol=0)
    close(a.int(), b.int() + 1)
    close(a.bool(), b > 2)
    close(a, a.double())
    close(a, a.double(), check_dtype=False)
    close(a, a[:2])
    close(a[0], b[1])
    close(a[0].int(), b[1].int())
    close(1.0, 2.0)
    close(1, 2)
    close(1, 1.0)
    close(True, False)
    close(1j, 2j)
    close("a", "a")
    close(None, None)
    close(None, a)
    close([a, b], [a, a])
    close([a], [a, a])
    close({"x": a, "y": b}, {"x": a, "y": a})
    close({"x": a}, {"y": a})
    close([[a], [b]], [[a], [a]])
    close({"x": [1, 2.5]}, {"x": [1, 2.0]})
    close(a, [1.0, 2.0, 3.0])
    close(a.numpy(), b.numpy())
    close(a.numpy(), a)
    close(torch.nn.Parameter(a), a)
    close(a * float("nan"), a * float("nan"))
    close(a * float("nan"), a * float("nan"), equal_nan=True)
    close(float("nan"), float("nan"))
    close(a / 0, a)
    close(a, b, msg="hello")
    close([a], [b], msg=lambda m: "hello " + m)
    close(a + 0j, b + 0j)
    close(a.bfloat16(), b.bfloat16())
    close(torch.zeros(2, 3).t(), torch.zeros(3, 2), check_stride=True)
    close(torch.zeros(2, 3, 4), torch.ones(2, 3, 4))
    close(1, 3, rtol=0, atol=1)
    close(3.0, 0.0)
    close(a, a.to(torch.int64))
    allclose(a, b)
    allclose(a, [1.0, 2.0, 3.0])
    make(3, dtype=torch.float32, device="cpu").shape
    make((2, 3), dtype=torch.float64, device="cpu").dtype
    make((2,), dtype=torch.float32, device="cpu", low=6, high=5)
    make((2,), dtype=torch.bool, device="cpu", low=3, high=5)
    make((2,), dtype=torch.int8, device="cpu", low=3, high=4)
    make((2,), dtype=torch.uint8, device="cpu", low=-3, high=-1)
    make((2,), dtype=torch.float32, device="cpu", low=float("nan"), high=1)
    make((2,), dtype=torch.float16, device="cpu", low=70000, high=80000)
    make((4,), dtype=torch.float32, device="cpu", noncontiguous=True).stride()
    make((2, 3, 4, 5), dtype=torch.int64, device="cpu", memory_format=torch.channels_last).stride()
    make((2,), dtype=torch.int32, device="cpu", requires_grad=True)
    make((2,), dtype=torch.complex64, device="cpu", requires_grad=True).requires_grad
    make((2,), dtype=torch.float8_e5m2, device="cpu").dtype
    make((400,), dtype=torch.int64, device="cpu").max()
    make((400,), dtype=torch.uint8, device="cpu").min()
    (make((400,), dtype=torch.int64, device="cpu", exclude_zero=True) == 0).any()
    """

FAMILIES["foreach"] = """
    each_add(l, short)
    each_add(l, [1.0])
    each_add(l, [1.0, 2.0])
    each_add(l, 1), each_add(l, l, alpha=2), each_add(l, l[0][0]), each_add(l, l[0][0], alpha=3)
    each_add(l, l[0])
    each_add([], 1)
    each_add(l, [])
    each_add(l, [l[1], l[0]])
    each_add([x.int() for x in l], 1.5)
    torch._foreach_add_([x.int() for x in l], 1.5)
    torch._foreach_add_([x.clone() for x in l], 1)
    each_add([1.0], 1)
    torch._foreach_sub(l, l, alpha=2), torch._foreach_mul(l, 3), torch._foreach_div(l, l)
    torch._foreach_addcmul(l, l, l, 2), torch._foreach_addcmul(l, l, l, scalars=[1, 2])
    torch._foreach_addcmul(l, l, l, [1])
    torch._foreach_addcmul(l, l, l, l[0][:1])
    torch._foreach_addcmul(l, l, short)
    torch._foreach_addcdiv(l, l, l, value=0.5)
    torch._foreach_lerp(l, l, l), torch._foreach_lerp(l, l, 0.5)
    torch._foreach_lerp(l, l, [0.5, 0])
    torch._foreach_lerp(l, short, 0.5)
    torch._foreach_norm(l), torch._foreach_norm(l, 1), torch._foreach_norm(l, float("inf"))
    torch._foreach_norm(l, ord=2, dtype=torch.float64)
    torch._foreach_max(l), torch._foreach_powsum(l, 3)
    torch._foreach_max([torch.ones(0)])
    torch._foreach_pow(l, 2), torch._foreach_pow(2, l), torch._foreach_pow(l, l)
    torch._foreach_copy_([x.clone() for x in l], l), torch._foreach_zero_([x.clone() for x in l])
    torch._foreach_copy_(l, short)
    torch._foreach_clamp_min(l, 1.5), torch._foreach_minimum(l, [1, 3])
    torch._foreach_maximum(l, l)
    torch._foreach_exp(l), torch._foreach_sigmoid([x.int() for x in l]), torch._foreach_clone(l)
    torch._foreach_mm([torch.ones(2, 3)], [torch.ones(3, 2)])
    sorted(name for name in dir(torch) if name.startswith("_foreach_"))
    """


FAMILIES["gradients at edges"] = """
    at_edges(lambda x: F.hardtanh(x)), at_edges(lambda x: F.relu6(x)), at_edges(F.leaky_relu)
    at_edges(lambda x: F.leaky_relu(x, 0.1, inplace=True)), at_edges(F.elu)
    at_edges(lambda x: F.elu(x, inplace=True)), at_edges(F.selu), at_edges(F.celu)
    at_edges(lambda x: F.celu(x, 2.0, inplace=True)), at_edges(F.hardswish)
    at_edges(F.hardsigmoid), at_edges(F.mish), at_edges(F.softplus), at_edges(F.softshrink)
    at_edges(F.hardshrink), at_edges(lambda x: F.threshold(x, 0.5, 0.1)), at_edges(F.rrelu)
    at_edges(lambda x: F.rrelu(x, 0.2, 0.2, training=True)), at_edges(F.relu)
    at_edges(lambda x: F.mse_loss(x, x.detach() + 1)), at_edges(lambda x: F.huber_loss(x, x * 0))
    at_edges(lambda x: F.smooth_l1_loss(x, x.detach() * 0, beta=0.5, reduction="sum"))
    at_edges(lambda x: F.soft_margin_loss(x, x.sign().detach()))
    at_edges(lambda x: F.binary_cross_entropy_with_logits(x, x.sigmoid()))
    at_edges(lambda x: F.binary_cross_entropy_with_logits(x, x.detach(), pos_weight=x.detach()))
    at_edges(torch.max), at_edges(torch.min), at_edges(torch.median), at_edges(torch.nanmedian)
    at_edges(torch.nansum), at_edges(torch.nanmean), at_edges(torch.amax)
    at_edges(lambda x: torch.maximum(x, x.flip(0))), at_edges(lambda x: torch.minimum(x, x * 0))
    at_edges(lambda x: torch.fmax(x, x.flip(0))), at_edges(lambda x: torch.nextafter(x, x * 0))
    at_edges(lambda x: torch.atan2(x, x.detach() * 0)), at_edges(torch.acosh), at_edges(torch.logit)
    at_edges(lambda x: torch.logit(x, 0.1)), at_edges(torch.special.i1)
    at_edges(torch.special.i1e), at_edges(lambda x: x // 0.3), at_edges(lambda x: x.floor_divide(2))
    at_edges(lambda x: torch.heaviside(x, x)), at_edges(lambda x: x.div(0.3, rounding_mode="floor"))
    """


def _at_edges(torch):
    """A function's gradient where functions have edges, poles and limits; PyTorch's vectors are
    longer than four elements."""

    def gradient(function):
        found = []
        for values in (
            [1.0, np.nan, 2.0, np.nan], [np.nan] * 4, [0.0, -0.5, 0.0, 2.0],
            [np.inf, -np.inf, 0.5, -1.0], [1.0, 1.0, 3.0, 6.0], [-1.0, 1.0, -3.0, -1.0],
            [0.5, -0.5, 0.3, -0.3],
        ):  # fmt: skip
            x = torch.tensor(values * 8, requires_grad=True)
            try:
                function(x * 1).sum().backward()
                found.append([f"{g + 0:.3g}" for g in x.grad[:4].tolist()])
            except Exception as error:
                found.append(str(error))
        return found

    return gradient


def _grad_of(x, function):
    function(x).backward()
    return x.grad


def world(torch):
    """What the expressions see."""
    import importlib

    module = lambda name: importlib.import_module(f"{torch.__name__}.{name}")
    testing, masked = module("testing"), module("masked")
    tensor = lambda values: torch.tensor(np.asarray(values).tolist())
    t = tensor([[0.0, 1.5, -2.0, 3.0], [0.5, -1.0, 4.0, 2.5]])
    space = {
        "torch": torch, "fft": module("fft"), "masked": masked, "close": testing.assert_close,
        "allclose": testing.assert_allclose, "make": testing.make_tensor, "grad_of": _grad_of,
        "at_edges": _at_edges(torch), "F": torch.nn.functional, "copy": copy, "pickle": pickle,
        "Sobol": module("quasirandom").SobolEngine, "each_add": torch._foreach_add,
        "scalar": tensor(1.0), "z": t * (1 + 0.5j), "w": tensor(np.hanning(18)[1:-1]),
        "x": tensor(np.sin(np.arange(200) ** 1.3)).reshape(2, 100).float(),
        "a": tensor([1.0, 2.0, 3.0]), "b": tensor([1.0, 2.25, 3.5]),
        "l": [tensor([1.0, 2.0]), tensor([2.0, 2.0, 3.0])], "short": [tensor([3.0, 3.0])],
    }  # fmt: skip
    space["s"] = space["x"].stft(16, window=space["w"], return_complex=True)
    m = tensor([[True, False, True], [False, False, False]])
    sparse = dict.fromkeys(sparse_cases.FAMILIES, sparse_cases.names(torch))
    return space, {
        **sparse,
        "masked": {"t": tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]), "m": m},
        "masked_tensor": {
            "t": tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]), "m": m,
            "mt": masked.masked_tensor(tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]), m),
            "mt2": masked.masked_tensor(tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]), ~m),
        },
    }.get, t  # fmt: skip


def expressions(family):
    return [line.strip() for line in FAMILIES[family].splitlines() if line.strip()]


ROUNDED = ("fft", "stft")  # whose last digits depend on the order of additions


def _rounded(value):
    if isinstance(value, tuple):
        return tuple(map(_rounded, value))
    if not hasattr(value, "stride"):
        return value
    return (value.dtype, (np.round(value.resolve_conj().numpy().astype(complex), 3) + 0).tolist())


def run(torch, family):
    """(expression, what it gives or raises) of a family."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space, special, t = world(torch)
        space |= {"t": t} | (special(family) or {})
        for expression in expressions(family):
            try:
                value = eval(expression, dict(space))
                text = repr(_rounded(value) if family in ROUNDED else value)
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
            yield expression, text.replace("tritorch.", "torch.")
