"""Products and decompositions of matrices, computed on ndarrays."""
