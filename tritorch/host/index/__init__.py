"""Indexing, gathering, scattering, sorting, computed on ndarrays."""
