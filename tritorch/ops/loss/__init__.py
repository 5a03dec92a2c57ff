"""Losses, declared as operators."""
