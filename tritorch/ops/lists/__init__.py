"""Functions of lists of arrays, declared as operators."""
