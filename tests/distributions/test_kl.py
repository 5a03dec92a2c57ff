"""Divergences that users register."""

import pytest

from tritorch.distributions import Normal, kl_divergence, register_kl


def test_any_classes_can_be_registered():
    class Mine:
        pass

    @register_kl(Mine, Mine)
    def _both(p, q):
        return 7

    @register_kl(Mine, Normal)
    def _one(p, q):
        return 8

    assert kl_divergence(Mine(), Mine()) == 7 and kl_divergence(Mine(), Normal(0.0, 1.0)) == 8
    for pair in ((3, Mine), (Mine, 3)):
        with pytest.raises(TypeError, match="must be a class"):
            register_kl(*pair)
