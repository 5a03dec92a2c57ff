"""A training step of each example, traced by make_fx: its graph gives eager's bits."""

import numpy as np
import pytest

import tritorch as torch
from tests.programs import curves
from tritorch import fx, nn
from tritorch.fx.experimental.proxy_tensor import make_fx
from tritorch.nn import functional as F
from tritorch.utils import _pytree as pytree


def char_gpt(example, rng):
    model = example.GPT(20, 8, 16, 2, 2)
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
    chosen = {id(p) for p in matrices}
    muon = torch.optim.Muon(matrices, lr=0.02, weight_decay=0.0)
    adam = torch.optim.AdamW([p for p in model.parameters() if id(p) not in chosen], lr=2e-3)
    pieces = torch.from_numpy(rng.integers(20, size=(3, 9)))

    def loss(x, y):
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    return model, [muon, adam], loss, (pieces[:, :-1], pieces[:, 1:])


def cnn(example, rng):
    model = example.CNN(8, 4)
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    images = torch.from_numpy(rng.random((3, 3, 16, 16), np.float32))
    labels = torch.from_numpy(rng.integers(8, size=3))
    return model, [adam], lambda x, y: F.cross_entropy(model(x), y), (images, labels)


def resnet(example, rng):
    model = example.ResNet(8, 4, 2)
    sgd = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    images = torch.from_numpy(rng.random((3, 3, 16, 16), np.float32))
    labels = torch.from_numpy(rng.integers(8, size=3))

    def loss(x, y):
        return F.cross_entropy(model(x), y, label_smoothing=0.05)

    return model, [sgd], loss, (images, labels)


def vae(example, rng):
    model = example.VAE(8, 4, 3)
    adam = torch.optim.Adam(model.parameters(), lr=3e-3)
    x = torch.from_numpy(example.draw(rng, 3, 8))
    noise = torch.from_numpy(rng.standard_normal((3, 3), np.float32))

    def loss(x, noise):
        logits, mean, log_variance = model(x, noise)
        misfit = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
        return (misfit + divergence) / len(x)

    return model, [adam], loss, (x, noise)


def lstm_tagger(example, rng):
    model = example.Tagger(len(example.VOCABULARY), len(example.TAGS), 6, 1)
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    words, tags, lengths = example.batch(rng, 4)

    def loss(words, tags):  # how long sentences are decides what runs: no input of the graph
        logits = model(words, lengths)
        return F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=example.IGNORED)

    return model, [adam], loss, (words, tags)


def diffusion(example, rng):
    model = example.Denoiser(8, 2)
    noise = example.Noise(10, torch.device("cpu"))
    adam = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    points = torch.from_numpy(example.spirals(rng, 5))
    target = torch.from_numpy(rng.standard_normal((5, 2), np.float32))
    time = torch.from_numpy(rng.integers(10, size=5))

    def loss(points, target, time):
        return F.mse_loss(model(noise.add(points, target, time), (time + 1) / 10), target)

    return model, [adam], loss, (points, target, time)


def reinforce(example, rng):
    model = example.Policy(8)
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    states, actions, going = example.play(model, rng, 3, 12, torch.device("cpu"))
    weights = example.advantages(going, 0.98)
    given = (torch.from_numpy(a.astype(np.float32)[going]) for a in (states, actions, weights))

    def loss(states, actions, weights):
        losses = F.binary_cross_entropy_with_logits(model(states), actions, reduction="none")
        return (losses * weights).mean()

    return model, [adam], loss, tuple(given)


EXAMPLES = [char_gpt, cnn, resnet, vae, lstm_tagger, diffusion, reinforce]


def state_of(model, optimizers):
    """Every tensor that a step may write."""
    kept = [*model.parameters(), *model.buffers()]
    for optimizer in optimizers:
        leaves = pytree.tree_leaves(optimizer.state_dict())
        kept += [x for x in leaves if isinstance(x, torch.Tensor)]
    return kept


@pytest.mark.parametrize("build", EXAMPLES, ids=lambda build: build.__name__)
def test_a_step_of_an_example(build):
    torch.manual_seed(0)
    model, optimizers, loss, batch = build(curves.load(build.__name__), np.random.default_rng(0))

    def step(*batch):
        value = loss(*batch)
        for optimizer in optimizers:
            optimizer.zero_grad()
        value.backward()
        if build is lstm_tagger:
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        for optimizer in optimizers:
            optimizer.step()
        return value.detach()

    step(*batch)  # optimizers make their state
    state = state_of(model, optimizers)
    before = [x.detach().clone() for x in state]
    want = step(*batch)
    after = [x.detach().clone() for x in state]
    assert not all(x.equal(y) for x, y in zip(before, after))

    def back():
        with torch.no_grad():
            for x, y in zip(state, before):
                x.copy_(y)

    back()
    traced = make_fx(step)(*batch)
    traced.graph.lint()
    for run in (traced, fx.Interpreter(traced).run):
        back()
        with torch.no_grad():  # gradients are in the graph
            found = run(*batch)
        assert found.equal(want)
        for x, y in zip(state, after):
            assert x.detach().equal(y)
