"""Products and decompositions of matrices, launched on a GPU."""
