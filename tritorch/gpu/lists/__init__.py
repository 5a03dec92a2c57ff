"""Functions of lists of arrays, launched on a GPU."""
