"""Mistakes that type checkers must find: each line that ends with `# wrong`."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(4, 8)
target = torch.zeros(4, dtype=torch.long)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = TensorDataset(x, target)
loss = F.cross_entropy(model(x), target)

# names that are not there
x.summ()  # wrong
x.to("cpu").nope  # wrong
x.backwards()  # wrong
x.shape.nope  # wrong
x.permute(1, 0).relu().nope  # wrong
x.max(dim=0).value  # wrong
torch.topk(x, 2).vals  # wrong
x.device.kind  # wrong
x.dtype.nope  # wrong
x[0].nope  # wrong
(x + 1).nope  # wrong
(1 - x).nope  # wrong
x.numpy().nope  # wrong
x.size(0).nope  # wrong
torch.no_grads()  # wrong
torch.nn.functional.relu7(x)  # wrong
torch.cuda.is_availabel()  # wrong
torch.optim.Adan(model.parameters())  # wrong
nn.Linear(2, 2).weight.nope  # wrong
optimizer.zerograd()  # wrong
loss.item().nope  # wrong
for p in model.parameters():
    p.grads  # wrong
F.relu(x).nope  # wrong
torch.linalg.svd(x).nope  # wrong
torch.fft.fft(x).nope  # wrong
torch.special.erf(x).nope  # wrong
torch.float33  # wrong

# arguments by names that are not theirs, too few, too many
x.sum(dims=1)  # wrong
torch.zeros(2, 3, divice="cpu")  # wrong
torch.optim.Adam(model.parameters(), learning_rate=1e-3)  # wrong
torch.optim.SGD(model.parameters(), lr=0.1, momentun=0.9)  # wrong
nn.Linear(8)  # wrong
nn.Conv2d(3, 8)  # wrong
nn.Dropout(q=0.1)  # wrong
F.relu(x, inplac=True)  # wrong
F.cross_entropy(x)  # wrong
F.conv2d(x, x, strides=2)  # wrong
torch.matmul(x)  # wrong
torch.arange(0, 10, stp=2)  # wrong
loss.backward(retain=True)  # wrong
x.masked_fill(x > 0)  # wrong
x.split(2, dims=1)  # wrong
DataLoader(data, batchsize=2)  # wrong
torch.optim.lr_scheduler.StepLR(optimizer)  # wrong
torch.save(x)  # wrong
nn.MultiheadAttention(8, head=2)  # wrong
x.add_(1, beta=2)  # wrong
x.clamp(minimum=0)  # wrong
x.unsqueeze()  # wrong
torch.softmax(x)  # wrong

# arguments of other types
x.view("a")  # wrong
x.reshape(2, "3")  # wrong
torch.zeros(2, dtype="float32")  # wrong
torch.cat(x, 0)  # wrong
torch.cat([x, 1])  # wrong
torch.stack([x, x], dim="a")  # wrong
x @ "a"  # wrong
x + "a"  # wrong
x["a"]  # wrong
x[0] = "a"  # wrong
nn.Linear("a", 3)  # wrong
torch.manual_seed("a")  # wrong
nn.Sequential(1)  # wrong
x.to(1.5)  # wrong
x.transpose(0, "a")  # wrong
F.cross_entropy(x, target, reduction=1)  # wrong
torch.where(x > 0, x, "a")  # wrong
nn.Parameter(3)  # wrong
torch.sin("a")  # wrong
x.requires_grad_("yes", 2)  # wrong
torch.maximum(x, 1)  # wrong

# results of other types
number: int = torch.sum(x)  # wrong
text: str = x.shape  # wrong
whole: Tensor = x.tolist  # wrong
value: str = loss.item()  # wrong
both: Tensor = x.sort()  # wrong
least: int = x.min(dim=0)  # wrong
size: str = x.size(0)  # wrong
