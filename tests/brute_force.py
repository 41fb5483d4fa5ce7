"""The definitions written out: explicit matrices, loops over entries, all permutations. Slow and plain on purpose.

Everything takes lists of lists of Python numbers. With the rows of :func:`exact` (fractions) the linear quantities
are free of rounding, whatever the offset or the scale of the data; with the rows of :func:`floats` they are double
precision. Nothing here is shared with the package, and nothing here is vectorised.
"""

import itertools
import math
from fractions import Fraction

import numpy as np


def exact(X):
    """Return the rows of `X` as fractions that equal its stored numbers."""
    return [[Fraction(float(value)) for value in row] for row in _rows(X)]


def floats(X):
    """Return the rows of `X` as Python floats."""
    return [[float(value) for value in row] for row in _rows(X)]


def _rows(X):
    X = np.asarray(X)
    return X[:, None] if X.ndim == 1 else X


def repeated(X, counts):
    """Return `X` with row i written down ``counts[i]`` times."""
    return [row for row, count in zip(X, counts, strict=True) for _ in range(count)]


# Kernels between two rows.


def linear(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def squared_distance(x, y):
    return sum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def euclidean(x, y):
    return math.hypot(*(float(a - b) for a, b in zip(x, y, strict=True)))


def manhattan(x, y):
    return math.fsum(abs(float(a - b)) for a, b in zip(x, y, strict=True))


def rbf(sigma):
    return lambda x, y: math.exp(-(euclidean(x, y) ** 2) / (2.0 * sigma**2))


def laplacian(sigma):
    return lambda x, y: math.exp(-manhattan(x, y) / sigma)


def minus_distance(x, y):
    return -euclidean(x, y)


def gram(X, kernel, Y=None):
    return [[kernel(x, y) for y in (X if Y is None else Y)] for x in X]


# Bandwidth rules: m of ``sigma = bandwidth * m``.


def median(values):
    values = sorted(values)
    n = len(values)
    return values[n // 2] if n % 2 else (values[n // 2 - 1] + values[n // 2]) / 2


def typical_distance(X, rule, distance=euclidean):
    n = len(X)
    pairs = [distance(X[i], X[j]) for i in range(n) for j in range(n) if i < j]
    everything = [distance(X[i], X[j]) for i in range(n) for j in range(n)]
    if rule == "none":
        return 1.0
    if rule == "mean":
        return math.sqrt(math.fsum(d**2 for d in pairs) / len(pairs))
    if rule == "median_nonzero":
        return math.sqrt(median([d**2 for d in pairs if d > 0]))
    m = median(pairs) if rule == "median" else math.sqrt(median([d**2 for d in everything]))
    return m if m > 0 else median([d for d in pairs if d > 0])


# Matrices.


def product(A, B):
    columns = list(zip(*B, strict=True))
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in A]


def trace(A):
    return sum(A[i][i] for i in range(len(A)))


def total(A):
    return sum(sum(row) for row in A)


def entrywise(A, B):
    """Return the inner product of two matrices, the sum over all entries of ``A_ij * B_ij``."""
    return sum(A[i][j] * B[i][j] for i in range(len(A)) for j in range(len(A[0])))


def centering_matrix(n, one=1.0):
    """Return H = I - 11'/n; `one` as a Fraction makes it exact."""
    return [[(one if i == j else one - one) - one / n for j in range(n)] for i in range(n)]


def double_centered(K):
    H = centering_matrix(len(K), _one_of(K))
    return product(product(H, K), H)


def without_diagonal(K):
    return [[K[i][j] - K[i][j] if i == j else K[i][j] for j in range(len(K))] for i in range(len(K))]


def u_centered(K):
    """Return the U-centred matrix of Székely & Rizzo (2014), entry by entry, with zero diagonal."""
    n = len(K)
    rest = without_diagonal(K)
    sums = [sum(row) for row in rest]
    A = [[None] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            if i == j:
                A[i][j] = rest[i][j]
            else:
                A[i][j] = rest[i][j] - sums[i] / (n - 2) - sums[j] / (n - 2) + sum(sums) / ((n - 1) * (n - 2))
    return A


def permuted(K, order):
    return [[K[i][j] for j in order] for i in order]


def _one_of(K):
    return Fraction(1) if isinstance(K[0][0], Fraction) else 1.0


# Indexes.


def hsic_biased(K, L):
    """Return tr(KHLH) / (n - 1)^2."""
    n = len(K)
    H = centering_matrix(n, _one_of(K))
    return trace(product(product(K, H), product(L, H))) / (n - 1) ** 2


def hsic_unbiased(K, L):
    """Return the estimator of Song et al. (2012), in matrices with zero diagonals."""
    n = len(K)
    K, L = without_diagonal(K), without_diagonal(L)
    KL = product(K, L)
    bracket = trace(KL) + total(K) * total(L) / _of(K, (n - 1) * (n - 2)) - 2 * total(KL) / _of(K, n - 2)
    return bracket / (n * (n - 3))


def _of(K, number):
    return Fraction(number) if isinstance(K[0][0], Fraction) else float(number)


def hsic_u_statistic(K, L):
    """Return the same as a mean over all quadruples of different rows."""
    n = len(K)
    terms = [K[i][j] * (L[i][j] + L[q][r] - 2 * L[i][q]) for i, j, q, r in itertools.permutations(range(n), 4)]
    return sum(terms) / len(terms)


def hsic(K, L, debiased=False):
    return hsic_unbiased(K, L) if debiased else hsic_biased(K, L)


def cka(K, L, debiased=False):
    return ratio(hsic(K, L, debiased), hsic(K, K, debiased), hsic(L, L, debiased))


def kernel_alignment(K, L):
    return ratio(entrywise(K, L), entrywise(K, K), entrywise(L, L))


def ratio(xy, xx, yy):
    """Return ``xy / sqrt(xx * yy)``, rounded once where the arguments are fractions; NaN for 0/0."""
    if xx == 0 or yy == 0:
        return math.nan
    if isinstance(xy, Fraction):
        squared = xy * xy / (xx * yy)
        # An integer root keeps far more digits than a float has.
        scale = 1 << 200
        root = Fraction(math.isqrt(squared.numerator * scale * scale // squared.denominator), scale)
        return math.copysign(float(root), xy)
    return xy / math.sqrt(xx) / math.sqrt(yy)


def distance_correlation(X, Y, squared=False):
    """Return dCor by its definition: products of doubly centred distances, averaged (Székely et al. 2007)."""
    n = len(X)

    def centered(Z):
        d = [[euclidean(a, b) for b in Z] for a in Z]
        means = [math.fsum(row) / n for row in d]
        grand = math.fsum(means) / n
        return [[d[i][j] - means[i] - means[j] + grand for j in range(n)] for i in range(n)]

    A, B = centered(X), centered(Y)

    def covariance(P, Q):
        return math.fsum(P[i][j] * Q[i][j] for i in range(n) for j in range(n)) / n**2

    value = ratio(covariance(A, B), covariance(A, A), covariance(B, B))
    return value if squared else math.sqrt(max(value, 0.0))


def distance_correlation_debiased(X, Y):
    """Return the bias-corrected dCor^2 of Székely & Rizzo (2014): the cosine of U-centred distance matrices."""
    A, B = (u_centered([[euclidean(a, b) for b in Z] for a in Z]) for Z in (X, Y))
    return ratio(entrywise(A, B), entrywise(A, A), entrywise(B, B))


# All permutations of the rows of one side.


def permutation_values(K, L, value):
    """Return ``value(K, P L P')`` for all n! permutations P."""
    return [value(K, permuted(L, order)) for order in itertools.permutations(range(len(L)))]


def mean_and_variance(values):
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values) / len(values)


# From data matrices to a value, the shape that the tests mostly need.


def linear_cka(X, Y, debiased=False):
    """Return linear CKA of the stored numbers, exactly rounded."""
    return cka(gram(exact(X), linear), gram(exact(Y), linear), debiased)


def linear_hsic(X, Y, debiased=False):
    """Return linear HSIC of the stored numbers, exactly rounded."""
    return float(hsic(gram(exact(X), linear), gram(exact(Y), linear), debiased))


def linear_alignment(X, Y):
    """Return uncentred linear kernel alignment of the stored numbers, exactly rounded."""
    return kernel_alignment(gram(exact(X), linear), gram(exact(Y), linear))


def rbf_gram(X, bandwidth=1.0, rule="median"):
    rows = floats(X)
    return gram(rows, rbf(bandwidth * typical_distance(rows, rule)))


def rbf_cka(X, Y, bandwidth=1.0, rule="median", debiased=False):
    return cka(rbf_gram(X, bandwidth, rule), rbf_gram(Y, bandwidth, rule), debiased)
