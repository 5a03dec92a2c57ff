"""Launching from Python, as torch.distributed.launcher does."""

from tritorch.distributed.launcher.api import LaunchConfig, elastic_launch, launch_agent

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]
