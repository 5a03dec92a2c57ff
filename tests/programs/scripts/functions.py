"""Gradients of all kinds: own functions, hooks, penalties, Hessians, per-sample by vmap."""

import torch
import torch.nn as nn
from seedless import set_weights, waves
from torch.autograd import Function, gradcheck
from torch.autograd.function import once_differentiable
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacrev,
    stack_module_state,
    vmap,
)
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


class LegendrePolynomial3(Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return 0.5 * (5 * input**3 - 3 * input)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input**2 - 1)


class Clamp(Function):
    @staticmethod
    def forward(ctx, x, low, high):
        ctx.mark_dirty(x)
        ctx.set_materialize_grads(False)
        ctx.mask = (x >= low) & (x <= high)
        return x.clamp_(low, high)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        assert ctx.needs_input_grad == (True, False, False)
        return None if g is None else g * ctx.mask, None, None


def polynomial():
    x = torch.linspace(-3.1, 3.1, 200)
    y = torch.sin(x)
    a, b, c, d = (torch.full((), v, requires_grad=True) for v in (0.0, -1.0, 0.0, 0.3))
    for t in range(40):
        loss = (a + b * LegendrePolynomial3.apply(c + d * x) - y).pow(2).sum()
        if t % 10 == 9:
            print(t, f"{loss.item():.4f}")
        loss.backward()
        with torch.no_grad():
            for p in (a, b, c, d):
                p -= 5e-6 * p.grad
                p.grad = None
    inputs = (waves(4, 3).double().requires_grad_(),)
    print(
        gradcheck(LegendrePolynomial3.apply, inputs),
        gradcheck(lambda x: Clamp.apply(x * 2, -1, 1), inputs),
    )


def hooks():
    model = set_weights(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
    seen = {}
    handles = [
        model[0].register_forward_hook(lambda m, i, o: seen.update(activation=o.detach())),
        model[1].register_full_backward_hook(lambda m, gi, go: seen.update(grad=go[0])),
        model[2].weight.register_hook(lambda g: g * 2),
        model.register_forward_pre_hook(lambda m, args: (args[0] * 0.5,)),
    ]
    x = waves(5, 4).requires_grad_()
    out = model(x).square().mean()
    (gx,) = torch.autograd.grad(out, x, create_graph=True)
    penalty = (gx.flatten(1).norm(2, dim=1) - 1).pow(2).mean()
    (out + 10 * penalty).backward()
    for handle in handles:
        handle.remove()
    print(*(f"{k} {v.abs().sum().item():.6f}" for k, v in seen.items()), f"penalty {penalty:.6f}")
    print(
        "grads", *(f"{p.grad.norm().item():.5f}" for p in model.parameters() if p.grad is not None)
    )


def per_sample():
    model = set_weights(nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)))
    params = {k: v.detach() for k, v in model.named_parameters()}
    x, y = waves(6, 3), torch.arange(6) % 2

    def loss(params, sample, target):
        out = functional_call(model, params, (sample.unsqueeze(0),))
        return nn.functional.cross_entropy(out, target.unsqueeze(0))

    grads = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
    print(
        "per sample",
        *(f"{k} {v.flatten(1).norm(dim=1).sum().item():.6f}" for k, v in grads.items()),
    )
    one, value = grad_and_value(loss)(params, x[0], y[0])
    print(f"{value.item():.6f}", torch.allclose(one["0.weight"], grads["0.weight"][0], atol=1e-6))
    f = lambda v: (v.sin() * v.roll(1)).sum()
    print(
        "hessian",
        f"{hessian(f)(x[0]).trace().item():.6f}",
        f"{jacrev(torch.cumsum)(x[0], 0).sum():.3f}",
    )
    ensemble = [set_weights(nn.Linear(3, 2)) for _ in range(3)]
    stacked, buffers = stack_module_state(ensemble)
    out = vmap(lambda p, b: functional_call(ensemble[0], (p, b), (x,)))(stacked, buffers)
    print("ensemble", tuple(out.shape), f"{out.sum().item():.5f}")


def recomputed():
    layers = set_weights(
        nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.GELU()) for _ in range(4)))
    )
    results = []
    for how in ("plain", "checkpoint", "sequential"):
        layers.zero_grad()
        x = waves(3, 6).requires_grad_()
        if how == "plain":
            out = layers(x)
        elif how == "checkpoint":
            out = x
            for layer in layers:
                out = checkpoint(layer, out, use_reentrant=False)
        else:
            out = checkpoint_sequential(layers, 2, x, use_reentrant=False)
        out.sum().backward()
        results.append(
            torch.cat([x.grad.flatten(), *(p.grad.flatten() for p in layers.parameters())])
        )
    print(
        "recomputed", all(torch.equal(results[0], r) for r in results), f"{results[0].norm():.6f}"
    )


polynomial()
hooks()
per_sample()
recomputed()
