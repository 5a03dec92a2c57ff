"""Losses, computed on ndarrays."""
