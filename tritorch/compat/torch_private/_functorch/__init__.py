"""Names of what was the package functorch, for programs that import them."""
