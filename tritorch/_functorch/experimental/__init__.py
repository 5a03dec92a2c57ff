"""functorch.experimental: control flow."""
