"""bitsandbytes imports, and says what its compiled library lacks."""

import bitsandbytes as bnb
import torch

layer = bnb.nn.Linear8bitLt(4, 4)
assert isinstance(layer, torch.nn.Linear)
optimizer = bnb.optim.AdamW8bit([torch.nn.Parameter(torch.zeros(4))], lr=0.1)
assert isinstance(optimizer, torch.optim.Optimizer)
print("ok")
