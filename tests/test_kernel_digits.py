"""Gram matrices whose entries are nearly alike: what distinguishes the rows must not drown in what they share."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from sklearn_cka import CKA, CKNNA, HSIC, DeconfoundedCKA, KernelAlignment, cka, hsic, pairwise_kernel

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")

rng = np.random.default_rng


def u_centred(K):
    """Return the U-centred matrix of numbers of any kind."""
    n = len(K)
    sums = [sum(K[i][j] for j in range(n) if j != i) for i in range(n)]
    grand = sum(sums)
    return [
        [K[i][j] - (sums[i] + sums[j]) / (n - 2) + grand / ((n - 1) * (n - 2)) if i != j else 0 for j in range(n)]
        for i in range(n)
    ]


def double_centred(K):
    """Return the doubly centred matrix of numbers of any kind."""
    n = len(K)
    means = [sum(row) / n for row in K]
    grand = sum(means) / n
    return [[K[i][j] - means[i] - means[j] + grand for j in range(n)] for i in range(n)]


def inner(A, B):
    return sum(a * b for left, right in zip(A, B, strict=True) for a, b in zip(left, right, strict=True))


def cosine_of(K, L, debiased):
    """Return CKA, exact until its root."""
    A, B = (u_centred(M) if debiased else double_centred(M) for M in (K, L))
    return float(inner(A, B)) / float(inner(A, A)) ** 0.5 / float(inner(B, B)) ** 0.5


def dot(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def gram(X, number, kernel):
    rows = [[number(float(value)) for value in row] for row in X]
    return [[kernel(x, y) for y in rows] for x in rows]


def related(n=10, p=3, q=2, offset=0.0, dtype=np.float64):
    X = rng(0).standard_normal((n, p))
    y = X[:, :q] + rng(1).standard_normal((n, q))
    return (X + offset).astype(dtype), (y - offset).astype(dtype)


OFFSETS = [(0.0, np.float64, 1e-12), (1e4, np.float64, 1e-11), (1e8, np.float64, 1e-7), (1e3, np.float32, 1e-5)]


@pytest.mark.parametrize(("offset", "dtype", "tolerance"), OFFSETS)
@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize(("degree", "gamma", "coef0"), [(1, None, 1), (2, None, 1), (3, 0.5, 0), (4, 0.25, 2)])
def test_polynomial_kernels_of_rows_far_from_the_origin(degree, gamma, coef0, debiased, offset, dtype, tolerance):
    X, y = related(offset=offset, dtype=dtype)

    def kernel(x, z):
        rate = Fraction(1, len(x)) if gamma is None else Fraction(gamma)
        return (rate * dot(x, z) + coef0) ** degree

    expected = cosine_of(gram(X, Fraction, kernel), gram(y, Fraction, kernel), debiased)
    params = {"degree": degree, "coef0": coef0}
    seen = cka(X, y, kernel="polynomial", gamma=gamma, kernel_params=params, debiased=debiased)
    assert seen == pytest.approx(expected, abs=tolerance)


def test_hsic_of_a_polynomial_kernel_is_that_of_the_kernel():
    X, y = related(offset=30.0)

    def kernel(x, z):
        return (dot(x, z) / 2 + 1) ** 2

    K, L = (double_centred(gram(Z, Fraction, kernel)) for Z in (X, y))
    seen = hsic(X, y, kernel="polynomial", gamma=0.5, kernel_params={"degree": 2})
    assert seen == pytest.approx(float(inner(K, L)) / 81, rel=1e-10)


@pytest.mark.parametrize("degree", [0, 2.5])
def test_other_powers_are_those_of_the_kernel(degree):
    X, y = np.abs(related(12)[0]), np.abs(related(12)[1])
    K, L = ((Z @ Z.T * 0.5 + 1) ** degree for Z in (X, y))
    seen = hsic(X, y, kernel="polynomial", gamma=0.5, kernel_params={"degree": degree})
    assert seen == pytest.approx(inner(double_centred(K), double_centred(L)) / 121, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize(("offset", "dtype", "tolerance"), OFFSETS)
@pytest.mark.parametrize("debiased", [False, True])
def test_the_cosine_kernel_of_rows_far_from_the_origin(debiased, offset, dtype, tolerance):
    X, y = related(offset=offset, dtype=dtype)
    with localcontext() as context:
        context.prec = 60

        def kernel(x, z):
            return dot(x, z) / (dot(x, x) * dot(z, z)).sqrt()

        expected = cosine_of(gram(X, Decimal, kernel), gram(y, Decimal, kernel), debiased)
    assert cka(X, y, kernel="cosine", debiased=debiased) == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("debiased", [False, True])
def test_rows_of_zeros_have_cosine_0_with_all_rows(debiased):
    X, y = related(12)
    X[[2, 7]] = 0.0
    expected = [pairwise_kernel(Z, kernel="cosine").tolist() for Z in (X, y)]
    assert expected[0][2] == [0.0] * 12
    assert cka(X, y, kernel="cosine", debiased=debiased) == pytest.approx(cosine_of(*expected, debiased), abs=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("bandwidth", [0.02, 0.05, 0.1, 0.3])
def test_debiased_estimates_keep_the_digits_of_narrow_kernels(kernel, bandwidth):
    X, y = related(15, 8, 6)
    # Only entries off the diagonal count, and these are small numbers with all their digits.
    expected = cosine_of(*(pairwise_kernel(Z, kernel=kernel, bandwidth=bandwidth).tolist() for Z in (X, y)), True)
    assert CKA(kernel, bandwidth=bandwidth, debiased=True).similarity(X, y) == pytest.approx(expected, rel=1e-10)


def test_narrow_kernels_of_weighted_rows_are_those_of_repeated_rows():
    X, y = related(15, 8, 6)
    weights = rng(2).integers(1, 4, 15)
    index = CKA("rbf", bandwidth=0.05, bandwidth_rule="mean", debiased=True)
    repeated = [np.repeat(Z, weights, axis=0) for Z in (X, y)]
    assert index.similarity(X, y, sample_weight=weights) == pytest.approx(index.similarity(*repeated), rel=1e-10)


def test_a_narrow_kernel_can_be_deconfounded():
    X, y = related(15, 8, 6)
    Z = rng(3).standard_normal((15, 7))
    K, L, C = (u_centred(pairwise_kernel(A, kernel="rbf", bandwidth=0.1).tolist()) for A in (X, y, Z))
    residuals = [np.array(A) - inner(A, C) / inner(C, C) * np.array(C) for A in (K, L)]
    expected = np.vdot(*residuals) / np.linalg.norm(residuals[0]) / np.linalg.norm(residuals[1])
    index = DeconfoundedCKA("rbf", bandwidth=0.1, debiased=True)
    assert index.similarity(X, y, confound=Z) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("rows", [12, 40])
def test_a_huge_row_leaves_debiased_cka_its_digits(rows):
    X, y = related(rows)
    X[3] *= 1e6
    expected = cosine_of(gram(X, Fraction, dot), gram(y, Fraction, dot), True)
    assert cka(X, y, debiased=True) == pytest.approx(expected, abs=1e-10)


def test_the_sigmoid_kernel_of_numbers_whose_products_overflow_is_saturated():
    X = (rng(0).standard_normal((8, 3)) * 1e25).astype(np.float32)
    products = X.astype(np.float64) @ X.T.astype(np.float64)
    assert np.array_equal(pairwise_kernel(X, kernel="sigmoid"), np.sign(products))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-30, 1e-15, 1e15, 1e30])
@pytest.mark.parametrize("params", [{"coef0": 0}, {"degree": 2, "coef0": 0}, {"degree": 1}])
@pytest.mark.parametrize("kind", [CKA, KernelAlignment])
def test_homogeneous_polynomial_kernels_at_any_scale(kind, params, scale, dtype):
    if kind is KernelAlignment and params.get("coef0") != 0:
        pytest.skip("the constant counts where nothing is centred")
    X, y = related()
    index = kind("polynomial", kernel_params=params)
    seen = index.similarity((X * scale).astype(dtype), y.astype(dtype))
    assert seen == pytest.approx(index.similarity(X, y), abs=1e-6 if dtype is np.float32 else 1e-12)


def test_hsic_of_homogeneous_polynomial_kernels_follows_the_scale():
    X, y = related()
    index = HSIC("polynomial", kernel_params={"degree": 2, "coef0": 0})
    assert index.similarity(X * 1e30, y) == pytest.approx(index.similarity(X, y) * 1e120, rel=1e-10)


@pytest.mark.parametrize(("offset", "dtype", "tolerance"), OFFSETS)
def test_cosines_of_common_neighbours_far_from_the_origin(offset, dtype, tolerance):
    X, y = related(12, offset=offset, dtype=dtype)
    k, sides = 4, []
    with localcontext() as context:
        context.prec = 60
        for Z in (X, y):
            K = gram(Z, Decimal, lambda x, z: dot(x, z) / (dot(x, x) * dot(z, z)).sqrt())
            near = [sorted((j for j in range(12) if j != i), key=lambda j: -K[i][j])[:k] for i in range(12)]
            sides.append({(i, j): K[i][j] - sum(K[i]) / 12 for i in range(12) for j in near[i]})
    K, L = ({pair: float(value) for pair, value in side.items()} for side in sides)
    aligned = sum(K[pair] * L[pair] for pair in K.keys() & L.keys())
    expected = aligned / dot(K.values(), K.values()) ** 0.5 / dot(L.values(), L.values()) ** 0.5
    assert CKNNA(k, metric="cosine").similarity(X, y) == pytest.approx(expected, abs=tolerance)
