"""The passes: each takes calls and gives calls that compute the same bits."""
