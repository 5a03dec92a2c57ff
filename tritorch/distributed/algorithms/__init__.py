"""Ways to average gradients."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.distributed.algorithms import join as join
