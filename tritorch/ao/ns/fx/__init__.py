"""Comparison of graphs: what corresponds, and what passes through."""
