"""scikit-learn's estimator checks and ours, over every index in several configurations."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cka import CKA, HSIC, DistanceCorrelation, KernelAlignment, PairedTransformer
from sklearn_cka.testing import index_checks

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn_cka.SimilarityWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)


class SquaredProduct:
    """A kernel of one's own; its representation, part of the names of tests, is the same in every process."""

    def __call__(self, X, Y):
        return (X @ Y.T) ** 2

    def __repr__(self):
        return "SquaredProduct()"


GRAM_FAMILY = [
    CKA(),
    CKA(debiased=True),
    CKA(form="gram"),
    CKA("rbf", bandwidth=0.5),
    CKA("rbf", debiased=True, bandwidth_rule="mean"),
    CKA("rbf", bandwidth_rule="none", bandwidth=2.0),
    CKA("rbf", gamma=0.5),
    CKA("laplacian", bandwidth_rule="median_nonzero"),
    CKA("polynomial", kernel_params={"degree": 2}),
    CKA("sigmoid", gamma=0.01),
    CKA("cosine"),
    CKA("chi2"),
    CKA("additive_chi2"),
    CKA("distance"),
    CKA(kernel_y="rbf"),
    CKA(SquaredProduct()),
    CKA(RBF(2.0)),
    HSIC(),
    HSIC(debiased=True),
    HSIC("rbf"),
    HSIC("distance", debiased=True),
    KernelAlignment(),
    KernelAlignment("rbf"),
    KernelAlignment("distance"),
    KernelAlignment("polynomial"),
    DistanceCorrelation(),
    DistanceCorrelation(squared=True),
    DistanceCorrelation(debiased=True),
]
SPECIAL = [
    CKA("precomputed", kernel_y="linear"),
    CKA(kernel_y="delta"),
    PairedTransformer(CKA(), PCA(1)),
    PairedTransformer(CKA("rbf", debiased=True), PCA(1, svd_solver="full"), y_transformer=None),
]


@parametrize_with_checks(GRAM_FAMILY + SPECIAL)
def test_sklearn_estimator_checks(estimator, check):
    check(estimator)


def _all_index_checks():
    for index in GRAM_FAMILY:
        for name, check in index_checks(index):
            yield pytest.param(check, id=f"{index}-{name}")
    for name, check in index_checks(CKA("precomputed"), make_pair=_gram_pair):
        yield pytest.param(check, id=f"precomputed-{name}")
    for name, check in index_checks(CKA(kernel_y="delta"), make_pair=_label_pair):
        yield pytest.param(check, id=f"delta-{name}")


def _gram_pair(rng, n):
    X = rng.standard_normal((n, 4))
    Y = X[:, :2] + rng.standard_normal((n, 2))
    return X @ X.T, Y @ Y.T


def _label_pair(rng, n):
    X = rng.standard_normal((n, 4))
    return X, np.where(X[:, 0] > 0, "up", "down")


@pytest.mark.parametrize("check", _all_index_checks())
def test_index_checks(check):
    check()
