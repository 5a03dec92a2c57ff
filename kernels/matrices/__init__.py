"""Products, decompositions and sparse products of matrices."""
