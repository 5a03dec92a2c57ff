"""The fuser: kernels that are written for several calls of a program on a GPU.

# Note [Fusing]
Calls become *definitions* of how an element of their result is computed (`definitions.py`), those
of fused records by way of their parts (`parts.py`).  Definitions that share a space of rows and
columns (`spaces.py`) make a group (`groups.py`, `grouping.py`).  A group is written as one Triton
kernel that composes the functions of `kernels/` (`writing.py`) and launched as one call
(`kernels.py`), or goes into the kernel of the product that it follows (`endings.py`).
"""
