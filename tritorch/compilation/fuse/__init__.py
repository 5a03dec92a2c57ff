"""The fuser: kernels that are written for several calls of a program on a GPU.

# Note [Fusion]
Calls become *definitions* of an element of their result (`definitions.py`), those of fused records
by way of their parts (`parts.py`).  Definitions that share a space of rows and columns
(`spaces.py`) make a group (`groups.py`, `grouping.py`).  A group is written as one Triton kernel
that composes the functions of `kernels/` (`writing.py`) and launched as one call (`kernels.py`), or
becomes the epilogue or a prologue of a product (`epilogues.py`).
"""
