"""Each option of gradcheck and gradgradcheck, on functions that are wrong in one way."""

import pytest

import tritorch as torch
from tritorch.autograd import Function, GradcheckError, gradcheck, gradgradcheck


def function(forward, backward, jvp=None):
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Custom", (Function,), body | ({"jvp": staticmethod(jvp)} if jvp else {})).apply


def squared(ctx, x):
    ctx.save_for_backward(x)
    return x * x


def silent(ctx, *outputs):
    ctx.set_materialize_grads(False)
    return outputs if len(outputs) > 1 else outputs[0]


def needs_all(*gradients):
    if any(g is None for g in gradients):
        raise RuntimeError("no gradient")
    return sum(gradients)


RIGHT = function(squared, lambda ctx, g: g * 2 * ctx.saved_tensors[0])
WRONG = function(squared, lambda ctx, g: g * 3 * ctx.saved_tensors[0])
WRONG_FORWARD = function(
    squared, lambda ctx, g: g * 2 * ctx.saved_tensors[0], jvp=lambda ctx, t: t * 3
)


def squared_for_both(ctx, x):
    ctx.save_for_forward(x)
    return squared(ctx, x)


WRONG_BACKWARD = function(
    squared_for_both,
    lambda ctx, g: g * 3 * ctx.saved_tensors[0],
    jvp=lambda ctx, t: t * 2 * ctx.saved_tensors[0],
)
CONSTANT = function(lambda ctx, x: x.sum() * 2, lambda ctx, g: torch.full((3,), 2.0).double())
ONE_UNDEFINED = function(lambda ctx, x: silent(ctx, x * 2), lambda ctx, g: needs_all(g) * 2)
LEAKING = function(
    lambda ctx, x: silent(ctx, x * 2, x * 3),
    lambda ctx, g, h: (
        torch.ones(3)
        if g is h is None
        else sum(t * n for t, n in ((g, 2), (h, 3)) if t is not None)
    ),
)
READING = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2 if g.sum().item() > -9 else g)


def drifting():
    calls = []

    def backward(ctx, g):
        calls.append(g)
        return g * (2 * ctx.saved_tensors[0] + 1e-7 * len(calls))

    return function(squared, backward)


def x():
    return torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)


def z():
    return torch.tensor([1 + 2j, 2 - 1j], dtype=torch.complex128, requires_grad=True)


# What PyTorch 2.13 says; True where it finds nothing.
MISMATCH = r"^Jacobian mismatch for output 0 with respect to input 0,\nnumerical:tensor\("
FORWARD = "^Jacobian computed with forward mode mismatch for output 0 with respect to input 0,\nnum"
CASES = {
    "right": (RIGHT, {}, True),
    "wrong": (WRONG, {}, MISMATCH + r"\[\[2.0000, 0.0000, 0.0000\]"),
    "no exception": (WRONG, {"raise_exception": False}, False),
    "fast": (RIGHT, {"fast_mode": True}, True),
    "fast, wrong": (
        WRONG, {"fast_mode": True},
        r"^Jacobian mismatch for output 0 with respect to input 0,\nnumerical:4.01153\d+\n"
        r"analytical:6.01729\d+\n[^@]*in slow mode:\n\nNumerical:\n tensor\(\[\[2.0000, [^@]*"
        r"element difference \(slow mode\) is: 2.99999",
    ),
    "constant": (CONSTANT, {}, "^backward not multiplied by grad_output$"),
    "not twice the same": (drifting, {}, "^Backward is not reentrant, i.e.*nondeterminism was 0.0"),
    "nearly the same": (drifting, {"nondet_tol": 1e-3}, True),
    "undefined": (ONE_UNDEFINED, {}, "^Expected backward function to handle undefined output grad"),
    "undefined, off": (ONE_UNDEFINED, {"check_undefined_grad": False}, True),
    "leaking": (LEAKING, {}, "^Expected all input grads to be undefined or zero when all output"),
    "forward": (torch.sin, {"check_forward_ad": True}, True),
    "forward, wrong": (WRONG_FORWARD, {"check_forward_ad": True}, FORWARD),
    "forward is not asked": (WRONG_FORWARD, {}, True),
    "forward alone": (
        WRONG_FORWARD, {"check_forward_ad": True, "check_backward_ad": False}, FORWARD,
    ),
    "backward is not asked": (
        WRONG_BACKWARD, {"check_forward_ad": True, "check_backward_ad": False}, True,
    ),
    "fast forward, wrong": (
        WRONG_FORWARD, {"check_forward_ad": True, "fast_mode": True},
        FORWARD + r"erical:tensor\(\[0.5499, 3.5899, 2.0693\], [^@]*in slow mode:\n\nNumerical:\n ",
    ),
    "batched": (torch.sin, {"check_batched_grad": True}, True),
    "not to be batched": (
        READING, {"check_batched_grad": True}, "^While computing batched gradients, got: ",
    ),
    "batched forward": (
        torch.sin, {"check_forward_ad": True, "check_batched_forward_grad": True}, True,
    ),
    "detached": (lambda x: x.detach(), {}, "^Numerical gradient for function expected to be zero$"),
    "detached, fast": (lambda x: x.detach(), {"fast_mode": True}, "^Numerical gradient for functi"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Backwards compatibility")
@pytest.mark.parametrize("name", CASES)
def test_options(name):
    func, options, expected = CASES[name]
    func = func() if func is drifting else func
    if isinstance(expected, bool):
        assert gradcheck(func, (x(),), **options) is expected
    else:
        with pytest.raises(GradcheckError, match=expected):
            gradcheck(func, (x(),), **options)
        assert gradcheck(func, (x(),), raise_exception=False, **options) is False


def test_undefined_gradients_come_with_a_warning():
    with (
        pytest.warns(UserWarning, match="^Backwards compatibility: New undefined gradient support"),
        pytest.raises(GradcheckError),
    ):
        gradcheck(ONE_UNDEFINED, (x(),))


@pytest.mark.parametrize("options", [{}, {"fast_mode": True}, {"check_forward_ad": True},
                                     {"check_forward_ad": True, "fast_mode": True}])  # fmt: skip
def test_complex_functions_are_two_real_ones(options):
    assert gradcheck(lambda z: z * z.conj() * z, (z(),), **options)
    assert gradcheck(lambda x, z: (x[:2] * z, x.sum()), (x(), z()), **options)
    if "check_forward_ad" not in options:
        part = "^While considering the imaginary part of complex outputs only, Jacobian mismatch f"
        with pytest.raises(GradcheckError, match=part):
            gradcheck(WRONG, (z(),), **options)


def test_second_gradients():
    for options in {}, {"fast_mode": True}, {"check_fwd_over_rev": True}, {
        "check_batched_grad": True}, {"gen_non_contig_grad_outputs": True}:  # fmt: skip
        assert gradgradcheck(torch.sin, (x(),), **options)
    assert gradgradcheck(lambda z: z * z * z, (z(),)) and gradgradcheck(lambda x: x * 2, (x(),))
    half = function(squared, lambda ctx, g: g * (2 * ctx.saved_tensors[0]).detach())
    assert gradcheck(half, (x(),))
    with pytest.raises(GradcheckError, match="with respect to input 0"):
        gradgradcheck(half, (x(),))
    assert not gradgradcheck(half, (x(),), fast_mode=True, raise_exception=False)


@pytest.mark.parametrize(
    ("check", "options", "message"),
    [
        (gradcheck, {"check_backward_ad": False}, "Expected at least one of check_forward"),
        (gradcheck, {"check_batched_grad": True, "check_backward_ad": False,
                     "check_forward_ad": True}, "Setting check_batched_grad=True requires"),
        (gradcheck, {"check_batched_forward_grad": True}, "requires check_forward_ad to be"),
        (gradgradcheck, {"check_rev_over_rev": False}, "Expected at least one of check_fwd_over_r"),
        (gradgradcheck, {"check_rev_over_rev": False, "check_fwd_over_rev": True},
         "^Setting check_undefined_grad=True requires check_rev_over_rev to be True$"),
    ],
)  # fmt: skip
def test_options_that_exclude_each_other(check, options, message):
    with pytest.raises(AssertionError, match=message):
        check(torch.sin, (x(),), **options)


def test_inputs_and_outputs_that_cannot_be_checked():
    with pytest.raises(ValueError, match=r"but none of them have requires_grad=True\.$"):
        gradcheck(torch.sin, (x().detach(),))
    with pytest.raises(RuntimeError, match="^The 0th input has a dimension with stride 0"):
        gradcheck(torch.sin, (x()[:1].expand(3),))
    with pytest.raises(ValueError, match="^Sparse output is not supported at gradcheck yet"):
        gradcheck(lambda x: x.to_sparse(), (x(),))
    with pytest.raises(AssertionError, match=r"perturbed on index \(0,\) by 1e-06, but"):
        gradcheck(lambda x: x[x > 1], (x(),))
    with pytest.warns(UserWarning, match="^Input #0 requires gradient and is not a double prec"):
        assert gradcheck(torch.sin, (x().detach().float().requires_grad_(),), eps=1e-2, atol=1e-2)
    assert not gradcheck(lambda x: (x - 1).sqrt(), (x(),), raise_exception=False)  # NaN


def test_a_custom_functions_own_forward_mode():
    from tritorch.autograd import forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x().detach(), torch.ones(3).double())
        value, tangent = forward_ad.unpack_dual(WRONG_FORWARD(dual))
    assert value.tolist() == [1, 4, 9] and tangent.tolist() == [3, 3, 3]
