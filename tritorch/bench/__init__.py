"""`python -m tritorch bench`: benchmarks declared once, measured beside the peers there are.

# Note [A benchmark]
`cases/` has one file a family.  A case says what its inputs are (`declare.Array`), what is called
(one source for every library with PyTorch's names; JAX and CuPy get their own), how many operations
it does and how many bytes it moves.  All else is derived: `supply.py` makes the inputs,
`contestants.py` one callable for each library, `workbench.py` times them, `run.py` checks their
results against each other first and takes turns, `report.py` prints, `compare.py` holds two runs
against each other, `roofline.py` draws, `goals.py` fills the table of goals.

On a GPU all libraries run in one process and share the inputs' memory.  Without one each has a
process of its own, stopped while another is timed (`beside.py`), and `kernels.py` compiles what the
benchmarks would launch and reports registers, stack, shared memory and instructions.
"""
