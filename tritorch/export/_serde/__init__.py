"""Files of exported programs (`.pt2`), by the schema of PyTorch 2.13.

A program is JSON (`writing.py`, `reading.py`); its tensors are records of bytes beside it
(`archive.py`); symbols are expressions as sympy writes them (`expressions.py`).
"""

SCHEMA = {"major": 8, "minor": 20}
OPSET = {"aten": 10}
