"""The passes: each takes calls and gives calls that come to the same bits."""
