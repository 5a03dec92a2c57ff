"""From recorded calls to programs of functions of arrays."""
