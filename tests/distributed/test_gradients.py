"""Collectives with gradients, functional collectives and meshes in real processes."""

import pytest

from tests.distributed.processes import Ranks


@pytest.mark.parametrize("size", [1, 2, 4])
def test_gradients_functional_collectives_and_meshes(size):
    Ranks("gradients_program.py", size).succeed()
