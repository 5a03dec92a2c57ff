"""torch._refs.nn: a place for its functional module."""
