"""Tools for networks, as in torch.nn.utils."""

from tritorch.nn.utils import rnn
