"""Indexing, gathering, scattering, sorting, declared as operators."""
