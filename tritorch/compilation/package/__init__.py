"""Packages: programs that were compiled ahead of time, as plans, weights and kernels.

# Note [Packages]
A package says what a program's records are called with, in the order in which a run of it noted
them (`compilation/follow/tape.py`): names of records, numbers of values, plain data.  Loading makes
of that what a compiled function makes of a tape, by the same functions and passes; no program runs
for it, so neither the model's source nor, with the package's kernels, Triton is imported.

A file holds data: `compilation/plan/coding.py` knows the few kinds there are, `checking.py` asks
every record for the form of its results and compares, before anything is computed.  Nothing that a
package names is imported or called but records.
"""
