"""Schedulers of sparsity levels."""
