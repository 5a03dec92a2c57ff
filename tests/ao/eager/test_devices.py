"""Observers and training on a GPU, beside the CPU."""

import copy

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.ao import quantization as q

pytestmark = [pytest.mark.device, pytest.mark.filterwarnings("ignore")]


def test_observers_stay_with_their_module():
    linear = nn.Linear(4, 3).cuda()
    linear.qconfig = q.get_default_qconfig("x86")
    prepared = q.prepare(nn.Sequential(linear))
    prepared(torch.randn(5, 4, device="cuda"))
    observer = prepared[0].activation_post_process
    assert observer.histogram.is_cuda and observer.min_val.is_cuda
    assert all(t.is_cuda for t in observer.calculate_qparams())


@pytest.mark.parametrize("version", [0, 1])
def test_training_is_that_of_the_cpu(version):
    model = nn.Sequential(q.QuantStub(), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    model.qconfig = q.get_default_qat_qconfig("x86", version)
    x = torch.randn(7, 6)
    results = []
    for device in ("cpu", "cuda"):
        prepared = q.prepare_qat(copy.deepcopy(model).to(device).train())
        optimizer = torch.optim.SGD(prepared.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = (prepared(x.to(device)) ** 2).mean()
            loss.backward()
            optimizer.step()
        results.append([loss.item(), *(t.cpu() for t in prepared.state_dict().values())])
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
