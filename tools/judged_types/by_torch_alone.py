"""Sound lines that only programs of PyTorch have: modules whose contents tritorch keeps elsewhere."""

import torch
import torch.distributed as dist
import torch.nn.modules.batchnorm
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import Conv2d
from torch.nn.modules.loss import BCELoss
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer
from torch.utils.data.dataloader import default_collate
from torch.utils.data.dataset import Dataset
from torch.utils.data.sampler import Sampler

isinstance(torch.nn.BatchNorm2d(3), (torch.nn.modules.batchnorm._BatchNorm, _BatchNorm, Conv2d))
model: torch.nn.Module = torch.nn.modules.batchnorm.BatchNorm1d(3)
loss: torch.nn.BCELoss = BCELoss()
optimizer: Optimizer = torch.optim.SGD(model.parameters())
schedule: LRScheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
data: torch.utils.data.Dataset = torch.utils.data.TensorDataset(torch.ones(3))
torch.__version__.split("+"), torch.version.cuda, dist.is_initialized(), default_collate([1])
