"""Passes for graphs of functions."""
