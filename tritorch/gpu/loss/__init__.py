"""Losses, launched on a GPU."""
