"""Marks for other profilers: NVTX and ITT."""
