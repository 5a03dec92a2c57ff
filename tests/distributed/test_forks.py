"""Forked children of members use nothing of their groups, and wait for nobody."""

import pytest

from tests.distributed.processes import Ranks


@pytest.mark.parametrize("transport", ["memory", "tcp"])
def test_children_of_members(transport):
    variables = {"TRITORCH_GLOO_TRANSPORT": "tcp"} if transport == "tcp" else {}
    Ranks("forks_program.py", 2, **variables).succeed()
