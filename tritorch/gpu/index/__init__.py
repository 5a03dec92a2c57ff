"""Indexing, gathering, scattering, sorting, launched on a GPU."""
