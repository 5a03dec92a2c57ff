"""Placeholder."""

FAMILIES: dict[str, list[str]] = {}
