"""What the node of a compiled segment gives when it is asked for gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

import tritorch as torch
from tritorch._functorch import config
from tritorch.compilation.backward import joint, segments
from tritorch.compilation.plan import plans
from tritorch.utils._python_dispatch import TorchDispatchMode

EXACT = [[-0.03305785357952118, -0.04958677664399147], [-0.04958678036928177, -0.07438016682863235]]
ROUGH = [[-0.033447265625, -0.050048828125], [-0.0498046875, -0.07470703125]]
EXACT_TWICE = [
    [-0.001937274937517941, -0.004681747406721115],
    [-0.004681746941059828, -0.009686373174190521],
]
ROUGH_TWICE = [
    [-0.0019989013671875, -0.0047607421875],
    [-0.004730224609375, -0.00970458984375],
]


def _gradients(
    compiled: object, autocast: tuple[bool, bool], twice: bool
) -> tuple[list[list[float]], ...]:
    """The gradient of an inverse, whose formula has products, and the gradient of its square;
    autocast: in the forward pass, in the backward pass."""
    modes = [torch.autocast("cpu", torch.bfloat16, enabled=each) for each in autocast]
    w = torch.tensor([[4.0, 1.0], [1.0, 3.0]], requires_grad=True)
    with modes[0]:
        y = compiled(w)  # type: ignore[operator]
    with modes[1]:
        (once,) = torch.autograd.grad(y.sum(), w, create_graph=twice)
        if twice:
            once.square().sum().backward()
    return once.tolist(), *([w.grad.tolist()] if twice else [])


def test_autocast_is_that_of_the_backward_pass() -> None:
    """PyTorch 2.13's numbers: whether the forward pass ran under autocast, which inv is no matter
    of, says nothing of a backward pass, and a later pass may run otherwise than the first."""
    for twice in (True, False):
        fast = torch.compile(torch.linalg.inv)
        for forward, backward in sorted([(True, False), (False, True), (False, False)] * 4):
            found = _gradients(fast, (forward, backward), twice)
            expected = (ROUGH, ROUGH_TWICE) if backward else (EXACT, EXACT_TWICE)
            assert found == expected[: len(found)], (twice, forward, backward)


def test_a_failed_gradient_of_gradients_leaves_modes_and_generators() -> None:
    fails = [False]

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x * 2, 0.5).square().sum()

    class Failing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if fails[0] and "mul" in str(func):
                raise ValueError("a mode refuses this")
            return func(*args, **(kwargs or {}))

    fast = torch.compile(function)
    for _ in range(5):
        x = torch.ones(8, requires_grad=True)
        loss = fast(x)
        state = torch.get_rng_state()
        fails[0] = True
        with Failing(), contextlib.suppress(ValueError):
            torch.autograd.grad(loss, x, create_graph=True)
        fails[0] = False
        assert torch.equal(torch.get_rng_state(), state) and torch.is_grad_enabled()


def test_only_what_an_output_hangs_on_is_asked() -> None:
    """A segment is one node, and what leads to one of its outputs need not lead to all its inputs:
    hooks on the way to an input that nobody asked for are not called."""

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, w * 3

    for compiled in (function, torch.compile(function)):
        for _ in range(4):
            called: list[str] = []
            x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
            a, b = compiled(x, w)
            way = a * 1
            way.register_hook(lambda g, called=called: called.append("hook"))
            total = way.sum() + b.sum()
            found = torch.autograd.grad(way.sum(), w, allow_unused=True, retain_graph=True)
            found += torch.autograd.grad(total, w, retain_graph=True)
            assert found[0] is None and found[1].tolist() == [3, 3]
            assert torch.autograd.grad(total, b, retain_graph=True)[0].tolist() == [1, 1]
            total.backward(inputs=[w], retain_graph=True)
            assert not called and x.grad is None
            total.backward()
            assert called == ["hook"] and x.grad.tolist() == [2, 2] and w.grad.tolist() == [6, 6]


def test_outputs_that_share_a_cast_run_backward_one_by_one() -> None:
    """Only a node that keeps more than shapes is freed; autocast keeps its casts of leaves."""

    def function(y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        m = y * w
        (y @ w).tanh().sum().backward()
        loss = (m @ w).sum()
        loss.backward(retain_graph=True)
        return loss

    fast = torch.compile(function)
    for seed in range(4):
        grads = []
        for run in (function, fast):
            torch.manual_seed(seed)
            y, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
            with torch.autocast("cpu", torch.bfloat16):
                run(y, w)
            grads.append(w.grad)
        assert torch.equal(*grads)


def test_nodes_that_no_region_follows_come_after_deferred_calls() -> None:
    """Gradients of a leaf are added up in the order of nodes, that of the calls: vmap makes some by
    itself."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = x.cumsum(0).sum(0)
        dots = torch.func.vmap(lambda r, q: (r * q).sum(), in_dims=(0, None))(x, rows)
        return dots, rows, x * 1

    fast = torch.compile(function)
    for seed in range(8):
        grads = []
        for run in (function, fast):
            torch.manual_seed(seed)
            x = torch.randn(3, 4, requires_grad=True)
            torch.stack([each.double().sum() for each in run(x)]).sum().backward()
            grads.append(x.grad)
        assert torch.equal(*grads)


def test_a_view_that_may_not_be_used_is_an_input_or_held() -> None:
    def function(y: torch.Tensor, w: torch.Tensor, log: list[str]) -> torch.Tensor:
        m = (y @ w).tanh() * 1
        views = m.unbind(1)
        m[y > 0] = 0.25
        found = views[3].detach() * 2
        try:
            views[0] * 2
        except RuntimeError as error:
            log.append(str(error).partition(" and ")[0])
        return found + m[0]

    fast = torch.compile(function)
    for seed in range(5):
        results, logs = [], []
        for run in (function, fast):
            torch.manual_seed(seed)
            logs.append([])
            y, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
            result = run(y, w, logs[-1])
            result.sum().backward()
            results.append((result.tolist(), w.grad.tolist()))
        assert results[0] == results[1]
        assert logs == [["Output 0 of Unbind is a view"]] * 2


def test_evaluation_with_gradients_is_noted_once_until_a_pass_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noted: list[int] = []
    run_noted = plans.run_noted
    monkeypatch.setattr(plans, "run_noted", lambda *given: noted.append(1) or run_noted(*given))
    layer = torch.nn.Linear(4, 4)
    fast = torch.compile(lambda x: layer(x).tanh())
    x = torch.randn(3, 4)
    for _ in range(20):
        assert torch.equal(fast(x), layer(x).tanh())
    assert len(noted) == 1
    for _ in range(4):
        fast(x).sum().backward()
    assert len(noted) == 2
    assert type(fast(x).grad_fn).__name__ == "CompiledFunctionBackward"


def test_gradients_are_values_of_their_own() -> None:
    """Two outputs get one array as their gradients in one pass, and two in another; or what the
    forward pass made."""

    def function(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        negative = -w
        return torch.sigmoid(negative), negative

    def passes(compiled: Callable[..., Any], how: str) -> list[float]:
        w = torch.linspace(-1, 1, 5).requires_grad_()
        a, b = compiled(w)
        grads = {"one": (torch.ones(5),) * 2, "two": (torch.ones(5), torch.full((5,), 3.0))}
        given = grads[how] if how in grads else (a.detach(), b.detach())
        torch.autograd.backward((a, b), given)
        return w.grad.tolist()

    for first in ("one", "two", "made"):
        fast = torch.compile(function)
        for how in (*[first] * 4, "one", "two", "made", "two"):
            assert passes(fast, how) == passes(function, how), (first, how)


def _in_two_passes(compiled: Callable[..., Any], times: int) -> list[Any]:
    """A step of training on one output, and then the gradient of the other one, whose inputs that
    step has written; each time."""
    w = torch.tensor([0.5, -1.25], requires_grad=True)
    optimizer, seen = torch.optim.SGD([w], 0.1), []
    for time in range(times):
        optimizer.zero_grad()
        y = torch.tensor([[1.0, 2.0], [3.0, time + 0.5]])
        near, far = compiled(y, w)
        near.backward()
        optimizer.step()
        seen.append((w.tolist(), w.grad.tolist()))
        far.backward()
        seen.append(w.grad.tolist())
    return seen


def test_each_set_of_outputs_has_a_backward_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def outputs(y: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scaled = y * w.sum()
        return (w * y[0]).sum(), torch.nn.functional.mse_loss(scaled, y)

    expected = _in_two_passes(outputs, 5)
    again = []
    followed = segments.Segment.followed
    monkeypatch.setattr(
        segments.Segment, "followed", lambda *args: again.append(args) or followed(*args)
    )
    assert _in_two_passes(torch.compile(outputs), 5) == expected
    assert not again  # the calls do not run again: what is read was saved


def test_a_graph_of_gradients_reads_no_inputs_that_eager_does_not() -> None:
    """`create_graph=True` after a program has written an input that no node keeps."""

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = (x + 1) * w
        return torch.tanh(y)

    fast = torch.compile(function)
    fast(torch.ones(2), torch.ones(2, requires_grad=True))  # a plain run
    for compiled in (function, *[fast] * 4):
        x, w = torch.tensor([0.5, -1.0]), torch.tensor([0.25, 2.0], requires_grad=True)
        y = compiled(x, w)
        x.zero_()
        (once,) = torch.autograd.grad(y, w, torch.ones(2), create_graph=True)
        assert once.requires_grad and once.tolist() == pytest.approx([1.30737, 0.0])
        (twice,) = torch.autograd.grad(once.sum(), w)
        assert twice.tolist() == pytest.approx([-1.40551, 0.0], abs=1e-5)
    linear = torch.compile(lambda x, w: x * 2 * w)
    for _ in range(4):
        x, w = torch.ones(2), torch.ones(2, requires_grad=True)
        y = linear(x, w)
        x.zero_()
        (once,) = torch.autograd.grad(y, w, torch.ones(2), create_graph=True)
        assert once.tolist() == [2, 2] and not once.requires_grad


def test_a_backward_pass_is_noted_whenever_the_first_one_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until then the calls are made without asking anybody."""
    planned = []
    whole = segments.Backward.__call__
    monkeypatch.setattr(
        segments.Backward, "__call__", lambda self, *a: planned.append(0) or whole(self, *a)
    )
    w = torch.tensor([3.0, -2.0], requires_grad=True)
    fast = torch.compile(lambda w: (w * w).sum())
    asked = []
    wait = joint.Draft.__call__
    monkeypatch.setattr(joint.Draft, "__call__", lambda self, *a: asked.append(0) or wait(self, *a))
    assert [fast(w).item() for _ in range(7)] == [13.0] * 7
    assert len(asked) == 1
    for _ in range(5):
        w.grad = None
        fast(w).backward()
        assert w.grad.tolist() == [6.0, -4.0]
    assert planned


def test_a_leaf_waits_for_those_gradients_alone_that_can_come() -> None:
    """A leaf's hooks run when its last gradient has come: an edge to it from outputs that a pass
    does not reach is none to wait for, whether the segment's own or that of what lies before."""

    class Noted(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            called.append("noted")
            return g * 2

    def function(
        x: torch.Tensor, w: torch.Tensor, before: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return x * 2, w * 3, before * 4

    for compiled in (function, torch.compile(function)):
        for run in range(5):
            called: list[str] = []
            x, w = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
            w.register_post_accumulate_grad_hook(lambda w, called=called: called.append("leaf"))
            first, *others = compiled(x, w, w * 1)
            loss = (Noted.apply(first) * w.sum()).sum()
            for each in others[: run % 3]:  # in the first run none is reached
                loss = loss + each.sum()
            loss.backward()
            assert called == (["noted", "leaf"] if run % 3 else ["leaf", "noted"]), run
            assert w.grad.tolist() == [[16.0] * 4, [19.0] * 4, [23.0] * 4][run % 3]


def test_a_gradient_reads_the_data_that_its_input_has_by_then() -> None:
    """PyTorch 2.13's numbers without compile: a node keeps an input, not its memory, and what was
    computed of that before stays as it was.  Calls that run again would not know that."""

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x * w
        return y * y * w

    for plain in (5, 2, 1):  # runs, of which the third becomes a program
        fast = torch.compile(function)
        for run in range(8):
            x = torch.full((3,), 2.0, requires_grad=True)
            w = torch.full((3,), 3.0, requires_grad=True)
            out = fast(x, w).sum()
            if run < plain:
                out.backward()
                assert (x.grad[0].item(), w.grad[0].item()) == (108, 108), run
                continue
            w.data = torch.full((3,), 100.0)
            out.backward(retain_graph=True)
            assert (x.grad[0].item(), w.grad[0].item()) == (120000, 2436), run
            g = torch.autograd.grad(out, x, create_graph=True)[0]
            assert g[0].item() == 120000
            try:
                g.sum().backward()
            except RuntimeError as error:
                assert "running its calls again" in str(error)
            else:
                assert (x.grad[0].item(), w.grad[0].item()) == (2120000, 2436 + 42400)


def test_data_that_replaces_what_was_computed_of_is_refused() -> None:
    """Half of the activations rematerialised: a gradient reads the input and what is made of it."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return (torch.nn.functional.gelu(x) * x).tanh()

    fast, refused = torch.compile(function), 0
    with config.patch(activation_memory_budget=0.0):
        for run in range(8):
            results: list[torch.Tensor | None] = []
            for compiled in (function, fast):
                x = torch.linspace(-2, 2, 64).requires_grad_()
                out = compiled(x).sum()
                if run > 3:
                    x.data = torch.linspace(-3, 1, 64)
                try:
                    out.backward()
                except RuntimeError as error:
                    assert "given other data" in str(error)
                    refused += 1
                results.append(x.grad)
            assert results[1] is None or results[1].equal(results[0])
    assert refused


def test_calls_made_again_give_results_what_is_in_their_memory() -> None:
    """A gradient that no pass was noted of reads a result that was written through `.data`."""

    def function(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tanh(w * 0.5), w * 2

    for compiled in (function, torch.compile(function)):
        for run in range(6):
            w = torch.ones(4, requires_grad=True)
            y, other = compiled(w)
            other.sum().backward()
            y.data.mul_(0.5)
            if run > 2:  # no program does it
                found = torch.autograd.grad(y.sum(), w, create_graph=True)[0]
            else:
                found = torch.autograd.grad(y.sum(), w)[0]
            assert found[0].item() == pytest.approx(0.5 * (1 - y[0].item() ** 2), abs=1e-7), run


@pytest.mark.device
def test_events_come_after_what_was_called_before() -> None:
    """A stream that waits for another waits for calls of that one that were not made yet."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, float]:
        y = torch.tanh(x * 2 + 1)
        side, event = torch.cuda.Stream(), torch.cuda.Event()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            z = y.detach() * 2
            event.record()
        event.wait()
        return y + 1, z.sum().item()

    fast = torch.compile(function)
    for run in range(40):
        x = torch.full((4, 4), 0.01 * run)
        expected = (torch.tanh(x * 2 + 1) * 2).sum().item()
        assert fast(x.cuda())[1] == pytest.approx(expected, rel=1e-5), run


def _unkept(kind: str, device: str) -> tuple[Any, list[torch.Tensor], Any]:
    """A function of tensors, those that want gradients first, and what writes some of them that no
    node of eager's keeps for a gradient of its second result."""
    torch.manual_seed(7)
    x, w, b = (torch.randn(n, 4).to(device) for n in (6, 4, 1))
    functional = torch.nn.functional
    if kind == "a bias":

        def function(w: Any, b: Any, x: Any) -> Any:
            y = torch.tanh(x @ w + b)
            return (y * y).sum(), functional.gelu(y @ w)

        return function, [w, b, x], lambda w, b, x: b.add_(1)
    if kind == "weights in autocast":

        def function(w: Any, b: Any, x: Any) -> Any:
            with torch.autocast(device, torch.bfloat16):
                y = functional.gelu(functional.linear(x, w, b[0]))
                return (w * b).sum(), functional.linear(y, w)

        return function, [w, b, x], lambda w, b, x: (w.mul_(2), b.add_(1))
    if kind == "an input of another sum":

        def function(w: Any, x: Any) -> Any:
            y = (x + 1) * w
            return w.sum(), torch.tanh(y[:, :2]) + torch.zeros_like(x)[:, :2]

        return function, [w[0], x], lambda w, x: x.zero_()
    if kind == "written with a history":

        def function(w: Any, b: Any, x: Any) -> Any:
            y = functional.layer_norm(x * 3 + 1, (4,), w[0] + w[0] * 0.125)
            return w.square().sum(), y

        return function, [w, b, x], lambda w, b, x: x.addcmul_(x.detach(), b)
    assert kind == "a mask"

    def function(w: Any, x: Any) -> Any:
        y = functional.dropout(torch.where(x > 0, w * 2, w.exp()), 0.5)
        return w.cos().sum(), y.sigmoid()

    return function, [w[0], x], lambda w, x: x.neg_()


UNKEPT = [
    "a bias", "weights in autocast", "an input of another sum", "written with a history", "a mask"
]  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.device)])
@pytest.mark.parametrize("kind", UNKEPT)
@pytest.mark.parametrize("asked", ["late", "graph", "retained"])
@pytest.mark.parametrize("since", [0, 4])
def test_an_input_that_no_node_keeps_may_be_written_before_a_backward_pass(
    kind: str, asked: str, device: str, since: int
) -> None:
    """The first result's gradients become a program; those of the second are asked for, since a
    run, when its inputs were written, or with a graph, or are retained: eager's numbers."""
    function, given, write = _unkept(kind, device)

    def once(compiled: Any, run: int) -> list[Any]:
        torch.manual_seed(run)
        tensors = [x.clone() for x in given]
        leaves = [x.requires_grad_() for x in tensors[: len(tensors) - 1]]
        first, second = compiled(*tensors)
        first.backward(retain_graph=True)
        with torch.set_grad_enabled(kind == "written with a history"):
            write(*tensors)
        if run < since:
            return [x.grad for x in leaves if x.grad is not None]
        if asked == "retained":
            second.retain_grad()
        found = torch.autograd.grad(
            second.float().square().sum(), leaves, create_graph=asked == "graph",
            retain_graph=True, allow_unused=True,
        )  # fmt: skip
        if asked == "graph":
            total = sum(g.square().sum() for g in found if g is not None and g.requires_grad)
            try:
                found += torch.autograd.grad(total, leaves, allow_unused=True)
            except (
                RuntimeError
            ) as error:  # what a gradient's gradient reads is not what was written
                found += (str(error).partition(":")[0],)
        return [*found, first, second]

    fast = torch.compile(function)
    for run in range(7):
        for mine, eager in zip(once(fast, run), once(function, run), strict=True):
            if not isinstance(eager, torch.Tensor):
                assert mine == eager, run
            elif device == "cpu":
                assert torch.equal(mine, eager), run
            else:  # written kernels round less often
                near = 0.02 * eager.abs().max().item()
                assert torch.allclose(mine, eager, rtol=0, atol=near), run


def test_an_output_sees_what_comes_by_others() -> None:
    """y is an output on which another one hangs: its gradient, hooks and those of the graph of
    gradients are as without compile, where PyTorch's compiled functions have outputs side by side.
    """

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        return y, y * y

    fast = torch.compile(function)
    for run in range(6):
        x = torch.full((3,), 2.0, requires_grad=True)
        y, z = fast(x)
        seen: list[float] = []
        if run % 2:
            assert torch.autograd.grad(z.sum(), y, retain_graph=True)[0].tolist() == [8] * 3
        y.register_hook(lambda g, seen=seen: seen.append(g[0].item()))
        y.retain_grad()
        (z + y).sum().backward(retain_graph=True)
        assert seen == [9] and y.grad.tolist() == [9] * 3 and x.grad.tolist() == [18] * 3, run
        (g,) = torch.autograd.grad(z.sum(), y, create_graph=True)
        assert torch.autograd.grad(g.sum(), [x, y])[0].tolist() == [4] * 3
        assert seen == [9, 8, 2], seen
    for _ in range(6):  # calls that run again do not read what x is by then
        x = torch.full((3,), 2.0, requires_grad=True)
        y, z = fast(x)
        with torch.no_grad():
            x.add_(1)
        y.retain_grad()
        (z + y).sum().backward()
        assert x.grad.tolist() == [18] * 3 and y.grad.tolist() == [9] * 3


def test_gradients_of_gradients_are_added_up_as_without_compile() -> None:
    """In bfloat16 another order of sums is seen; w's gradient is a sum of five, from two segments
    and their gradients."""

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x * 2 + w.sum()) @ w
        if y.isfinite().all():
            y = torch.softmax(y * w, -1) * 8
        return torch.autograd.grad((y @ w).tanh().sum(), w, create_graph=True)[0]

    fast = torch.compile(function)
    for run in range(8):
        torch.manual_seed(run)
        x, w = torch.randn(4, 4).bfloat16(), torch.randn(4, 4).bfloat16()
        found = []
        for compiled in (function, fast):
            w = w.detach().requires_grad_()
            compiled(x, w).square().sum().backward()
            found.append(w.grad)
        assert torch.equal(*found), run


@pytest.mark.parametrize("held", [False, True])
def test_a_freed_output_leaves_others_as_without_compile(held: bool) -> None:
    """The gradient inside frees what only the loss came by: the other output is differentiated
    twice, its gradients of gradients added up in eager's order, and the loss refused."""

    def function(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        y = (w * 2 + 1).tanh()
        loss = (w * w).sum() * 0.125
        torch.autograd.grad(loss, w)
        return y, loss if held else None

    fast = torch.compile(function)
    for run in range(8):
        torch.manual_seed(run)
        data = torch.randn(4, 4)
        found = []
        for compiled in (function, fast):
            w = data.clone().requires_grad_()
            y, loss = compiled(w)
            total = y.double().sum()
            (g,) = torch.autograd.grad(total, w, create_graph=True)
            (total + (g.double() ** 2).sum()).backward()
            found.append(w.grad)
            if loss is not None:
                with pytest.raises(RuntimeError, match="a second time"):
                    loss.backward()
        assert torch.equal(*found), run


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.device)])
def test_calls_made_again_have_the_modes_and_memory_that_they_had(device: str) -> None:
    """A call in inference mode writes buffers, which its copy in the calls that run again does
    too; that an input of it is written later concerns no gradient."""

    def results(compiler: Callable) -> list[Any]:
        torch.manual_seed(0)
        norm = torch.nn.BatchNorm1d(4).to(device)

        def function(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            hidden = (y * w).tanh()
            with torch.inference_mode():
                norm(x)
            out: torch.Tensor = norm(hidden) * 2
            if out.detach().sum().item() < 1e9:  # what follows is another segment
                x.add_(1)
            return out

        fast, found = compiler(function), []
        for _ in range(5):
            w = torch.ones(4, 4, device=device, requires_grad=True)
            x, y = torch.randn(4, 4).to(device), torch.randn(4, 4).to(device)
            out = fast(x, y, w)
            total = (out * torch.arange(4.0, device=device)).pow(2).sum()
            (g,) = torch.autograd.grad(total, w, create_graph=True)
            (g * g).sum().backward()
            assert w.grad is not None and norm.running_mean is not None
            found.append((w.grad.tolist(), norm.running_mean.tolist()))
        return found

    assert results(lambda f: torch.compile(f, mode="exact")) == results(lambda f: f)


def test_outputs_whose_inputs_are_as_they_were_are_expanded() -> None:
    """One input of two is written after the call: gradients of gradients by the other are added up
    in eager's order; the written one's are what they were, and so are second derivatives."""

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        row = torch.sigmoid(w.mean(0))
        a, b = torch.outer(row, w[0] * 1), torch.sigmoid(x).sin()
        if a.detach().sum().item() < 1e9:  # what follows is another segment
            x.detach().add_(0.125)
        return a, b

    def by_w(a: torch.Tensor, w: torch.Tensor) -> None:
        (g,) = torch.autograd.grad(a.square().sum(), w, create_graph=True)
        (a.square().sum() + g.square().sum()).backward(retain_graph=True)

    fast = torch.compile(function)
    for run in range(6):
        torch.manual_seed(run)
        given = torch.randn(5, 4), torch.randn(4, 4)
        found = []
        for compiled in (function, fast):
            x, w = (each.clone().requires_grad_() for each in given)
            a, b = compiled(x, w)
            by_w(a, w)
            assert w.grad is not None and x.grad is None
            found.append([w.grad, *torch.autograd.grad(b.sum() * 3, x, retain_graph=True)])
            if run % 2:
                (g,) = torch.autograd.grad(b.sum(), x, create_graph=True)
                found[-1] += torch.autograd.grad(g.sum(), x)
        assert all(map(torch.equal, *found)), run
