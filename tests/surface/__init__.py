"""What PyTorch's source shows of itself: names, storages, devices, warnings, as expressions.

`cases/` has families of expressions, `recorded.json` what they give with torch 2.13 (CPU), and
`coverage.toml` which family holds what.  `tools/record/surface.py` records and compares.
"""
