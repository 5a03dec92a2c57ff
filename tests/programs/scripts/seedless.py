"""Weights and noise without a generator, whose numbers differ between torch and tritorch."""

import math

import torch


def waves(*shape, speed=1.0):
    """Numbers in [-1, 1] that look random enough."""
    count = torch.arange(1, math.prod(shape) + 1, dtype=torch.float64)
    return torch.sin(count * count * 0.37 * speed + count).float().reshape(shape)


def set_weights(model):
    """Weights by their shapes alone, as large as the usual initial ones; norms' scales near 1."""
    with torch.no_grad():
        for number, p in enumerate(model.parameters()):
            values = waves(*p.shape, speed=1 + 0.01 * number)
            if p.ndim > 1:
                p.copy_(values * math.sqrt(2 / p[0].numel()))
            else:
                p.copy_((1.0 if bool((p == 1).all()) else 0.0) + 0.1 * values)
    return model
