"""Compilers that are wrong in one way each: what the comparison must find.

Each is what some real compiler did, or what one that follows calls and computes them late could do.
A compiler takes a function and gives one that is called in its place.
"""

from . import effects, results
from .table import COMPILERS
