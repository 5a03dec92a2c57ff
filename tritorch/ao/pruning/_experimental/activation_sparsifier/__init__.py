"""Masks of activations."""
