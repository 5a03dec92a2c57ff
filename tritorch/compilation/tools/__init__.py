"""Backends of others, graphs, logs and explanations of compiled programs."""
