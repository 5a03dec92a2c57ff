"""Former names, vendor names and ATen internals that programs still call."""
