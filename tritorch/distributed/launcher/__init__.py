"""Launching from Python, as torch.distributed.launcher does."""

from typing import TYPE_CHECKING

from tritorch.distributed.launcher.api import LaunchConfig, elastic_launch, launch_agent

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.distributed.launcher import api as api


__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]
