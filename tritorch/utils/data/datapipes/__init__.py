"""Datapipes (deprecated in PyTorch): the base classes, registration and checks; no pipes."""

from tritorch.utils.data.datapipes import datapipe as datapipe
