"""Least absolute relative error with lower bounds, and predictions by fits that never saw a group."""

from collections.abc import Sequence

import numpy as np


def solve(a: np.ndarray, y: np.ndarray, low: np.ndarray, rounds: int = 40) -> np.ndarray:
    """Coefficients: reweighted least squares, each by coordinate descent."""
    weights = np.ones(len(y))
    x = low.astype(float).copy()
    for _ in range(rounds):
        x = _descend(a, y, low, np.sqrt(weights) / y, x)
        weights = 1 / np.maximum(np.abs(a @ x - y) / y, 0.005)
    return x


def solve_rate(a: np.ndarray, y: np.ndarray, low: np.ndarray, rounds: int = 40) -> np.ndarray:
    """The same where the error that counts is that of 1 / time: relative to the prediction, damped."""
    weights, beside = np.ones(len(y)), y.copy()
    x = low.astype(float).copy()
    for _ in range(rounds):
        x = _descend(a, y, low, np.sqrt(weights) / beside, x)
        predicted = np.maximum(a @ x, 1e-12)
        weights = 1 / np.maximum(np.abs(predicted - y) / predicted, 0.005)
        beside = np.sqrt(predicted * y)
    return x


def _descend(a: np.ndarray, y: np.ndarray, low: np.ndarray, scale: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Weighted least squares within lower bounds."""
    scaled, target = a * scale[:, None], scale * y
    gram, right = scaled.T @ scaled, scaled.T @ target
    diagonal = np.diag(gram) + 1e-300
    for _ in range(200):
        before = x.copy()
        for j in range(len(x)):
            x[j] = max(low[j], x[j] + (right[j] - gram[j] @ x) / diagonal[j])
        if np.allclose(x, before, rtol=1e-9, atol=0.0):
            break
    return x


def left_out_by_rate(a: np.ndarray, y: np.ndarray, low: np.ndarray, groups: Sequence[str]) -> np.ndarray:
    """Predictions of each group by a fit of rates that never saw it."""
    labels, predicted = np.array(groups), np.full(len(y), np.nan)
    for label in sorted(set(groups)):
        test = labels == label
        predicted[test] = a[test] @ solve_rate(a[~test], y[~test], low)
    return predicted


def best(grid: Sequence[np.ndarray], y: np.ndarray, low: np.ndarray, rows: np.ndarray) -> tuple[int, np.ndarray]:
    """Of several sets of columns the one that explains `rows` best, and its coefficients."""
    found = [solve(a[rows], y[rows], low) for a in grid]
    errors = [float(np.mean(np.abs(a[rows] @ x - y[rows]) / y[rows])) for a, x in zip(grid, found, strict=True)]
    at = int(np.argmin(errors))
    return at, found[at]


def left_out(grid: Sequence[np.ndarray], y: np.ndarray, low: np.ndarray, groups: Sequence[str]) -> np.ndarray:
    """Predictions of each group by a fit that never saw it; NaN where nothing else was measured."""
    labels, predicted = np.array(groups), np.full(len(y), np.nan)
    for label in sorted(set(groups)):
        test = labels == label
        if not test.all():
            at, x = best(grid, y, low, ~test)
            predicted[test] = grid[at][test] @ x
    return predicted
