"""Who moves data between the members of a group, behind the interface of `interface.py`."""
