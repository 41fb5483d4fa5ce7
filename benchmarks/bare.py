"""The formulas as one writes them by hand in NumPy: nothing checked, nothing returned but the numbers.

These are what the timings of the package are held against. They are plain, not naive: no loop over rows, the
cheapest exact form for the shapes at hand, and every Gram matrix built once.
"""

import numpy as np


def linear_cka(X, Y):
    """Linear CKA of (n, p) and (n, q) from features, for n > p + q."""
    Xc = X - X.mean(axis=0)
    Yc = Y - Y.mean(axis=0)
    cross = np.linalg.norm(Xc.T @ Yc) ** 2
    return cross / (np.linalg.norm(Xc.T @ Xc) * np.linalg.norm(Yc.T @ Yc))


def rbf_gram(X, bandwidth):
    """RBF Gram matrix at `bandwidth` times the median distance between different rows."""
    gram = X @ X.T
    squares = np.diagonal(gram)
    distances = squares[:, None] + squares[None, :] - 2 * gram
    np.maximum(distances, 0, out=distances)
    median = np.median(distances[np.triu_indices_from(distances, k=1)])
    return np.exp(-distances / (2 * bandwidth**2 * median))


def centered(gram):
    """HKH: the matrix without its row means and column means."""
    means = gram.mean(axis=0)
    return gram - means[:, None] - means[None, :] + means.mean()


def rbf_cka(X, Y, bandwidth):
    """CKA with an RBF kernel on each side."""
    K = centered(rbf_gram(X, bandwidth))
    L = centered(rbf_gram(Y, bandwidth))
    return np.vdot(K, L) / (np.linalg.norm(K) * np.linalg.norm(L))


def linear_cka_table(layers):
    """Linear CKA of all pairs of a list of (n, p_i): one Gram matrix per layer, one product of them all."""
    n = layers[0].shape[0]
    grams = np.empty((len(layers), n * n), dtype=layers[0].dtype)
    for row, X in zip(grams, layers, strict=True):
        Xc = X - X.mean(axis=0)
        np.matmul(Xc, Xc.T, out=row.reshape(n, n))
        row /= np.linalg.norm(row)
    return grams @ grams.T
