"""Every GPU kernel of tritorch, in Triton, one family a file."""
