"""CKA as a loss: the same value as the function, and gradients that agree with finite differences."""

import numpy as np
import pytest

from sklearn_cka import UndefinedSimilarityWarning, cka

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")

CASES = [
    {},
    {"debiased": True},
    {"kernel": "rbf"},
    {"kernel": "rbf", "debiased": True, "bandwidth": 0.5},
    {"kernel": "rbf", "bandwidth": 2.0, "bandwidth_rule": "none"},
    {"kernel": "rbf", "gamma": 0.1},
    {"kernel": "polynomial", "kernel_params": {"degree": 2}},
    {"kernel": "cosine"},
    {"kernel_y": "rbf"},
    {"kernel": lambda X, Y: (X @ Y.T) ** 2},
]


def pair(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((9, 4))
    return torch.tensor(X, requires_grad=True), torch.tensor(X[:, :3] + rng.standard_normal((9, 3)), requires_grad=True)


@pytest.mark.parametrize("params", CASES)
def test_value_is_that_of_the_function(params):
    X, Y = pair()
    value = cka(X, Y, as_tensor=True, **params)
    assert value.ndim == 0
    assert value.requires_grad
    assert value.item() == pytest.approx(cka(X, Y, **params), abs=1e-12)
    assert value.item() == pytest.approx(cka(X.detach().numpy(), Y.detach().numpy(), **params), abs=1e-12)


def follows_the_data(params):
    """Whether a bandwidth is found from the data: a constant to the gradient, but not to finite differences."""
    has_rbf = "rbf" in (params.get("kernel"), params.get("kernel_y"))
    return has_rbf and "gamma" not in params and params.get("bandwidth_rule") != "none"


@pytest.mark.parametrize("params", [case for case in CASES if not follows_the_data(case)])
def test_gradients_agree_with_finite_differences(params):
    X, Y = pair(1)
    assert torch.autograd.gradcheck(lambda a, b: cka(a, b, as_tensor=True, **params), (X, Y))


def test_following_the_gradient_raises_the_similarity():
    X, Y = pair(2)
    before = cka(X, Y, debiased=True)
    optimizer = torch.optim.SGD([X], lr=0.5)
    for _ in range(100):
        optimizer.zero_grad()
        loss = 1 - cka(X, Y, debiased=True, as_tensor=True)
        loss.backward()
        optimizer.step()
    assert cka(X, Y, debiased=True) > before + 0.2


def test_without_as_tensor_a_tensor_that_requires_gradients_gives_a_float():
    X, Y = pair()
    assert type(cka(X, Y)) is float


def test_a_constant_representation_gives_nan_with_a_warning():
    X, Y = pair()
    with pytest.warns(UndefinedSimilarityWarning, match="constant"):
        assert torch.isnan(cka(torch.ones_like(X), Y, as_tensor=True))


def test_what_is_not_offered_says_so():
    X, Y = pair()
    with pytest.raises(TypeError, match=r"takes torch tensors, but X is a numpy\.ndarray"):
        cka(X.detach().numpy(), Y.detach().numpy(), as_tensor=True)
    with pytest.raises(ValueError, match=r"offered for the kernels rbf, linear, .* not for 'chi2'"):
        cka(X.abs(), Y.abs(), kernel="chi2", as_tensor=True)
    with pytest.raises(ValueError, match="takes no sample_weight"):
        cka(X, Y, sample_weight=np.ones(9), as_tensor=True)
    with pytest.raises(ValueError, match="NaN"):
        cka(X * torch.nan, Y, as_tensor=True)
