"""Programs that were compiled ahead of time: packages of plans, weights and kernels.

# Note [Packages]
A package says what a program's records are called with, in the order in which a run of it noted
them (`compilation/follow/tape.py`): names of records, numbers of values, plain data.  Who loads it
makes of
that what a compiled function makes of a tape, by the same functions and passes; no program runs
for it, so neither the model's source nor, with the package's kernels, Triton is imported.

What a file says is data: `compilation/plan/coding.py` knows the few kinds there are, `checking.py`
asks every record what it gives for arrays without memory and compares, before anything is computed.
Nothing that a package names is imported or called but records.
"""
