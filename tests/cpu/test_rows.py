"""Functions of rows that make columns of them (Note [Rows] in chain_rows.cpp)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritorch as torch
from tritorch import _C
from tritorch.host.chains import rowwise as R
from tritorch.host.reduce import softmax as S

KINDS = [np.dtype(np.float32), np.dtype(np.float64)]
REDUCTIONS = {"total": R.total, "largest": R.largest, "smallest": R.smallest}
LENGTHS = [1, 7, 8, 15, 16, 31, 63, 64, 65, 100, 1023, 1024, 1025, 5000]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("n", LENGTHS)
def test_reductions(name: str, n: int, kind: Any) -> None:
    function = REDUCTIONS[name]
    x = np.random.default_rng(n).standard_normal((3, 5, n)).astype(kind)
    column = np.empty((3, 5, 1), kind)
    R.rowwise(function, "a", kind)(x, column)
    expected = function(x.astype(np.float64))
    if name == "total":  # rounding grows slower than a row's length
        np.testing.assert_allclose(column, expected, atol=np.finfo(kind).eps * 4 * np.sqrt(n))
    else:
        np.testing.assert_array_equal(column, expected)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("n", LENGTHS)
def test_extremes_of_special_numbers_are_numpys(n: int, kind: Any) -> None:
    for special in (np.nan, np.inf, -np.inf):
        for at in {0, n // 2, n - 1}:
            x = np.random.default_rng(0).standard_normal((2, n)).astype(kind)
            x[1, at] = special
            for function in REDUCTIONS.values():
                column = np.empty((2, 1), kind)
                R.rowwise(function, "a", kind)(x, column)
                exact = column if function is not R.total else column * 0
                expected = function(x) if function is not R.total else function(x) * 0
                np.testing.assert_array_equal(exact, expected)


def test_long_rows_are_added_in_strips() -> None:
    x = np.full((1, 1 << 20), 0.1, "f4")
    column = np.empty((1, 1), "f4")
    R.rowwise(R.total, "a")(x, column)
    assert abs(column.item() / x.sum(dtype=np.float64) - 1) < 1e-6


def _columns(x: Any, column: Any, row: Any) -> Any:
    """Columns that are given, and made, and made of both; a sum of what was computed."""
    top = R.largest(x)
    scaled = np.exp((x - top) * column)
    whole = R.total(scaled) + column
    return np.sqrt(whole), scaled / whole + row * top, R.total(scaled * row)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 700, 3), (1, 3, 3000), (6, 40, 129)], ids=str)
def test_rows_and_columns_broadcast(shape: tuple[int, ...], kind: Any) -> None:
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((*shape[:2], shape[2] + 3)).astype(kind)
    x = wide[..., 1:-2]  # rows are apart
    for columns in ((shape[0], shape[1], 1), (shape[1], 1), (1, 1)):
        column = rng.random(columns).astype(kind)
        row = rng.standard_normal(shape[2]).astype(kind)
        results = [np.empty((*shape[:2], n), kind) for n in (1, shape[2], 1)]
        R.rowwise(_columns, "aca", kind)(x, column, row, *results)
        for found, expected in zip(results, _columns(x, column, row)):
            np.testing.assert_allclose(found, expected, rtol=np.finfo(kind).eps * 64, atol=1e-6)


def test_a_result_over_what_it_was_made_of() -> None:
    x = np.random.default_rng(0).standard_normal((9, 300)).astype("f4")
    expected = S._row_softmax(x)
    R.rowwise(S._row_softmax, "a")(x, x)
    np.testing.assert_allclose(x, expected, rtol=1e-5)


@pytest.mark.parametrize("n", [16, 17, 60, 333])
def test_neither_threads_nor_neighbours_change_bits(n: int) -> None:
    x = np.random.default_rng(0).standard_normal((900, n)).astype("f4")
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(torch.softmax(torch.from_numpy(x), 1).numpy().tobytes())
    finally:
        torch.set_num_threads(before)
    alone = [torch.softmax(torch.from_numpy(x[i : i + 1].copy()), 1).numpy() for i in range(900)]
    assert set(found) == {np.concatenate(alone).tobytes()}


def test_rows_are_not_cut() -> None:
    run = R.rowwise(R.total, "a")
    chain = run.__self__  # type: ignore[attr-defined]
    x, column = np.ones((2, 3), "f4"), np.zeros((2, 1), "f4")
    for call in (lambda: chain(0, 6, x, column), lambda: chain.over(0, 6, [[x, column]], [])):
        with pytest.raises(TypeError, match="rows"):
            call()
    with pytest.raises(SystemError):
        run(x, np.zeros((2, 3), "f4"))
    run(np.ones((0, 3), "f4"), np.ones((0, 1), "f4"))
    place = (0, -1, None, 4, 4)
    with pytest.raises(ValueError, match="no step"):
        _C.Chain((place, place), (("reduce", ("add", "f"), (0, 1)),))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(1,), (3, 5), (8, 40), (21, 1000), (3, 1 << 17)], ids=str)
def test_running_sums(shape: tuple[int, ...], kind: Any) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(kind)
    if len(shape) > 1:
        x[-1, 2], x[0, -1] = np.inf, np.nan
    found = torch.cumsum(torch.from_numpy(x), -1).numpy()
    assert found.dtype == kind
    expected = np.add.accumulate(x, axis=-1, dtype=np.float64)
    np.testing.assert_allclose(found, expected, rtol=2 * np.finfo(kind).eps, atol=1e-12)
