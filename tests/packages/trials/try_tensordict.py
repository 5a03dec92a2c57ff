"""tensordict: dictionaries of tensors that are indexed, stacked, mapped, saved; modules of keys."""

import tempfile

import torch
from tensordict import LazyStackedTensorDict, TensorDict, tensorclass
from tensordict.nn import TensorDictModule, TensorDictSequential

torch.manual_seed(0)
data = TensorDict(
    {"a": torch.arange(6.0).reshape(3, 2), "b": {"c": torch.ones(3, 4)}}, batch_size=[3]
)
assert data[1]["a"].tolist() == [2, 3] and data["b", "c"].shape == (3, 4)
assert data.reshape(3, 1).shape == (3, 1) and torch.stack([data, data]).shape == (2, 3)
assert torch.cat([data, data]).shape == (6,) and (data + 1)["a"].sum() == 21
assert data.apply(lambda t: t * 2)["a"].sum() == 30 and len(data.split(1)) == 3
assert data.flatten_keys(".").keys() == {"a", "b.c"} and data.to_tensordict().is_contiguous()
data[0] = data[1].clone()
assert data["a"][0].tolist() == [2, 3]
lazy = LazyStackedTensorDict.lazy_stack([data, data], 1)
assert lazy.shape == (3, 2) and lazy["a"].shape == (3, 2, 2)
net = TensorDictSequential(
    TensorDictModule(torch.nn.Linear(2, 4), ["a"], ["h"]),
    TensorDictModule(torch.relu, ["h"], ["out"]),
)
out = net(data)
out["out"].sum().backward()
params = TensorDict.from_module(net)
with params.data.apply(torch.zeros_like).to_module(net):
    assert net(data.clone())["out"].abs().sum() == 0
assert net(data.clone())["out"].abs().sum() > 0
with tempfile.TemporaryDirectory() as folder:
    data.select("a").memmap(folder)
    assert TensorDict.load_memmap(folder)["a"].tolist() == data["a"].tolist()


@tensorclass
class Point:
    x: torch.Tensor
    name: str


p = Point(x=torch.zeros(4, 2), name="p", batch_size=[4])
assert p[:2].x.shape == (2, 2) and p[0].name == "p"
print("ok")
