"""Orthogonal polynomials by their recurrences, declared once for CPU and GPU; needs no Triton.

    p_0 = 1,  p_1 = FIRST * (x, 1)
    p_(k+1) = ((X + KX k) x + ONE + K k) p_k - (LAST + KLAST k) p_(k-1), divided by 1 + DIVIDE k

Chebyshev's are closed forms between -1 and 1 from some degree on: `wave` says which.
"""

from typing import NamedTuple


class Recurrence(NamedTuple):
    """The numbers above, as a kernel takes them."""

    first_x: float
    first_one: float
    x: float
    kx: float
    one: float
    k: float
    last: float
    klast: float
    divide: float
    wave: str
    is_hermite: bool


def _chebyshev(first_x: float, first_one: float, wave: str) -> Recurrence:
    return Recurrence(first_x, first_one, 2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, wave, False)


CHEBYSHEV_T = _chebyshev(1.0, 0.0, "t")  # cos(n a), x = cos(a)
CHEBYSHEV_U = _chebyshev(2.0, 0.0, "u")  # sin((n + 1) a) / sin(a)
CHEBYSHEV_V = _chebyshev(2.0, -1.0, "v")  # cos((n + 1/2) a) / cos(a / 2)
CHEBYSHEV_W = _chebyshev(2.0, 1.0, "w")  # sin((n + 1/2) a) / sin(a / 2)
HERMITE_H = Recurrence(2.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, "", True)
HERMITE_HE = Recurrence(1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, "", True)
LAGUERRE_L = Recurrence(-1.0, 1.0, -1.0, 0.0, 1.0, 2.0, 0.0, 1.0, 1.0, "", False)
LEGENDRE_P = Recurrence(1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 1.0, 1.0, "", False)
WAVE_FROM = {"t": 7, "u": 9, "v": 9, "w": 9}  # as PyTorch's
# Beyond, a Hermite polynomial is NaN: nearly all its values pass the range.
HERMITE_LIMIT = {4: 128, 8: 512}  # by the bytes of a float

PUBLIC = {
    "chebyshev_polynomial_t": (CHEBYSHEV_T, False),
    "chebyshev_polynomial_u": (CHEBYSHEV_U, False),
    "chebyshev_polynomial_v": (CHEBYSHEV_V, False),
    "chebyshev_polynomial_w": (CHEBYSHEV_W, False),
    "hermite_polynomial_h": (HERMITE_H, False),
    "hermite_polynomial_he": (HERMITE_HE, False),
    "laguerre_polynomial_l": (LAGUERRE_L, False),
    "legendre_polynomial_p": (LEGENDRE_P, False),
    "shifted_chebyshev_polynomial_t": (CHEBYSHEV_T, True),  # of 2 x - 1
    "shifted_chebyshev_polynomial_u": (CHEBYSHEV_U, True),
    "shifted_chebyshev_polynomial_v": (CHEBYSHEV_V, True),
    "shifted_chebyshev_polynomial_w": (CHEBYSHEV_W, True),
}
