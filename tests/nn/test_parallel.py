"""nn.parallel over two GPUs, simulated in a process of their own."""

import os
import subprocess
import sys
import textwrap

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.nn.parallel import parallel_apply, replicate, scatter

pytestmark = pytest.mark.simulated
PROGRAM = """
    import tritorch as torch
    from tritorch import nn
    from tritorch.nn.parallel import gather, parallel_apply, replicate, scatter
    from tritorch.cuda import comm

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).cuda()
    x = torch.randn(6, 3)
    out = nn.DataParallel(net)(x)
    assert out.device == torch.device("cuda", 0) and out.shape == (6, 2)
    out.sum().backward()
    found = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    alone = torch.cat([net(half.cuda()) for half in x.chunk(2)])
    alone.sum().backward()
    assert torch.equal(out, alone)
    for got, p in zip(found, net.parameters()):
        assert torch.allclose(got, p.grad, atol=1e-6)

    first, second = replicate(net, [0, 1])
    assert second[0].weight.device.index == 1 and not list(second.parameters())
    second[0].weight.sum().backward()
    pieces = scatter({"a": (x, 3)}, [0, 1])
    assert [p["a"][0].device.index for p in pieces] == [0, 1] and pieces[1]["a"][1] == 3
    on_each = [torch.ones(2, device=f"cuda:{i}") for i in (0, 1)]
    assert gather(on_each, "cpu").tolist() == [1, 1, 1, 1]
    assert comm.reduce_add(on_each, 1).tolist() == [2, 2]
    assert [t.device.index for t in comm.broadcast(torch.ones(1), [1, 0])] == [1, 0]
    try:
        parallel_apply([nn.Linear(2, 1).cuda(1)] * 2, [on_each[1], torch.ones(3, device="cuda:1")],
                       devices=[1, 1])
    except RuntimeError as error:
        assert "Caught RuntimeError in replica 1 on device 1" in str(error)
    else:
        raise AssertionError("the failing replica went unnoticed")
    assert isinstance(torch.Stream("cuda:1"), torch.cuda.Stream)
    assert isinstance(torch.Event("cuda", enable_timing=True), torch.cuda.Event)
"""


def test_a_batch_over_two_gpus():
    environment = {**os.environ, "TRITORCH_SIMULATE_CUDA": "devices=2", "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_one_gpu_and_what_does_not_fit():
    net = nn.Linear(2, 1)
    assert replicate(net, []) == [] and scatter([], [0]) == [[]]
    with pytest.raises(AssertionError, match="The number of modules 1 is not equal"):
        parallel_apply([net], [torch.ones(2), torch.ones(2)])
