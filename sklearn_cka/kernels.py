"""Pairwise kernels by name, and the bandwidth rules that go with them.

Names and parameters are those of :mod:`sklearn.metrics.pairwise`, whose registry is read and never changed; two
kernels of the field are added, ``"distance"`` (minus the Euclidean distance) and ``"delta"`` (equal labels). The
Gaussian and Laplacian kernels take a `bandwidth` in units of a typical distance within the representation itself:
``sigma = bandwidth * m``, with m by one of the rules of :mod:`sklearn_cka._bandwidths`. Two representations
therefore each get their own sigma.

To add a kernel, write a function ``f(X, Y, **params) -> (n_x, n_y)`` and call :func:`register_kernel`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sklearn_cka import _arrays, _bandwidths, _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka._product_kernels import cosine_differences, normalize_rows, polynomial_differences
from sklearn_cka._radial import Gram, RadialDistances, rate_of, scaled, sigma_of
from sklearn_cka._sklearn import GaussianProcessKernel

__all__ = ["kernel_names", "pairwise_kernel", "register_kernel"]

# Of any multiple of a number that is not tiny the hyperbolic tangent is 1 in size.
_SATURATED = 1e30
_ALIASES = {"poly": "polynomial", "gaussian": "rbf"}


@dataclass(frozen=True)
class _Kernel:
    """A kernel and what the package may assume of it."""

    function: Callable[..., Array] | None
    params: tuple[str, ...] = ()
    has_bandwidth: bool = False
    positive_only: bool = False
    invariances: frozenset[str] = field(default_factory=frozenset)


def _linear(X: Array, Y: Array) -> Array:
    return X @ _arrays.namespace(X).matrix_transpose(Y)


def _default_gamma(X: Array, gamma: float | None) -> float:
    return 1.0 / X.shape[1] if gamma is None else gamma


def _polynomial(X: Array, Y: Array, *, degree: float = 3, gamma: float | None = None, coef0: float = 1) -> Array:
    return (_linear(X, Y) * _default_gamma(X, gamma) + coef0) ** degree


def _sigmoid(X: Array, Y: Array, *, gamma: float | None = None, coef0: float = 1) -> Array:
    (A, exponent_x), (B, exponent_y) = _linalg.scale(X), _linalg.scale(Y)  # products of large numbers stay finite
    rate = _default_gamma(X, gamma) * _linalg.power_of_two(exponent_x + exponent_y)
    return _arrays.namespace(X).tanh(_linear(A, B) * min(rate, _SATURATED) + coef0)


def _cosine(X: Array, Y: Array) -> Array:
    return _linear(normalize_rows(X), normalize_rows(Y))


def _additive_chi2(X: Array, Y: Array) -> Array:
    _check_non_negative(X, Y, kernel="additive_chi2")
    return -_linalg.chi2_distances(X, Y)


def _chi2(X: Array, Y: Array, *, gamma: float = 1.0) -> Array:
    _check_non_negative(X, Y, kernel="chi2")
    return _arrays.namespace(X).exp(_linalg.chi2_distances(X, Y) * -gamma)


def _check_non_negative(*arrays: Array, kernel: str) -> None:
    for X in arrays:
        if bool(_arrays.namespace(X).any(X < 0)):
            raise ValueError(f"Negative values in data passed to the {kernel} kernel, which takes counts or shares.")


_UNITS = frozenset({"permutation"})
_NO_MEAN = frozenset({"translation"})
_ROTATION = frozenset({"orthogonal"}) | _UNITS

_KERNELS: dict[str, _Kernel] = {
    "linear": _Kernel(_linear, invariances=_NO_MEAN | _ROTATION | {"isotropic_scaling"}),
    "rbf": _Kernel(None, ("gamma",), has_bandwidth=True, invariances=_NO_MEAN | _ROTATION),
    "laplacian": _Kernel(None, ("gamma",), has_bandwidth=True, invariances=_NO_MEAN | _UNITS),
    "polynomial": _Kernel(_polynomial, ("degree", "gamma", "coef0"), invariances=_ROTATION),
    "sigmoid": _Kernel(_sigmoid, ("gamma", "coef0"), invariances=_ROTATION),
    "cosine": _Kernel(_cosine, invariances=_ROTATION | {"isotropic_scaling"}),
    "chi2": _Kernel(_chi2, ("gamma",), positive_only=True, invariances=_UNITS),
    "additive_chi2": _Kernel(_additive_chi2, positive_only=True, invariances=_UNITS | {"isotropic_scaling"}),
    "distance": _Kernel(None, invariances=_NO_MEAN | _ROTATION | {"isotropic_scaling"}),
    "delta": _Kernel(None),
    "precomputed": _Kernel(None),
}
_BUILT_IN = frozenset(_KERNELS)
_POSITIVE_DEFINITE = frozenset({"linear", "rbf", "laplacian", "cosine", "chi2", "delta"})
_POSITIVE_DEFINITE_CENTERED = frozenset({"distance", "additive_chi2"})


def kernel_names() -> list[str]:
    """Return the names of all kernels, sorted.

    Examples
    --------
    >>> from sklearn_cka import kernel_names
    >>> "rbf" in kernel_names()
    True
    """
    return sorted(_KERNELS)


def register_kernel(name: str, function: Callable[..., Array], *, overwrite: bool = False) -> None:
    """Make a kernel of your own available by name wherever a kernel is asked for.

    Parameters
    ----------
    name : str
        The name. Names of the package's own kernels cannot be taken.
    function : callable
        ``function(X, Y, **params)`` returns the (n_x, n_y) matrix of kernel values between the rows of `X`
        (n_x, n_features) and `Y` (n_y, n_features). It must be symmetric in its arguments.
    overwrite : bool, default=False
        Whether a kernel registered earlier under this name may be replaced.

    Raises
    ------
    ValueError
        If the name is taken.
    TypeError
        If `function` is not callable or `name` is not a string.

    Examples
    --------
    >>> from sklearn_cka import cka, register_kernel
    >>> register_kernel("quadratic", lambda X, Y: (X @ Y.T) ** 2, overwrite=True)
    >>> round(cka([[0.0], [1.0], [2.0], [4.0]], [[0.0], [1.0], [2.0], [4.0]], kernel="quadratic"), 6)
    1.0
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}.")
    if not callable(function):
        raise TypeError(f"function must be callable as f(X, Y), got {function!r}.")
    if name in _BUILT_IN or name in _ALIASES:
        raise ValueError(f"The kernel {name!r} belongs to the package and cannot be replaced; choose another name.")
    if name in _KERNELS and not overwrite:
        raise ValueError(f"A kernel {name!r} is registered already; pass overwrite=True to replace it.")
    try:
        params = tuple(list(inspect.signature(function).parameters)[2:])
    except ValueError:  # functions written in C may not tell
        params = ()
    _KERNELS[name] = _Kernel(function, params)


def check_kernel(kernel: Any, argument: str = "kernel") -> Any:
    """Return the canonical name of a kernel, or the callable itself.

    Raises
    ------
    ValueError
        If the name is unknown; the message lists the valid ones.
    TypeError
        If `kernel` is neither a name nor a callable.
    """
    if isinstance(kernel, str):
        name = _ALIASES.get(kernel, kernel)
        if name not in _KERNELS:
            raise ValueError(f"Unknown {argument} {kernel!r}. Valid kernels are {', '.join(kernel_names())}.")
        return name
    if callable(kernel):
        return kernel
    raise TypeError(f"{argument} must be a name or a callable f(X, Y), got {kernel!r}.")


def canonical(name: str) -> str:
    """Return the registered name that an alias such as "poly" stands for."""
    return _ALIASES.get(name, name)


def takes(name: str, parameter: str) -> bool:
    """Whether the kernel of this name has the parameter; unknown kernels are assumed to."""
    return name not in _KERNELS or parameter in _KERNELS[name].params


def common_params(name: str) -> list[str]:
    """Return which of the parameters that every index has are to be read for this kernel by the package."""
    own = _KERNELS[name].params if name in _KERNELS else ()
    gamma = ["gamma"] if "gamma" in own else []
    return gamma + [parameter for parameter in ("bandwidth", "bandwidth_rule") if parameter not in own]


def kernel_invariances(
    kernel: Any, bandwidth_rule: str, gamma: float | None, params: Mapping[str, Any], *, centered: bool = True
) -> frozenset[str] | None:
    """Return what a (centred) Gram matrix of this kernel is unchanged by, up to a factor; None if not known."""
    if not isinstance(kernel, str) or canonical(kernel) not in _BUILT_IN:
        return None
    entry = _KERNELS[canonical(kernel)]
    found = set(entry.invariances)
    if entry.has_bandwidth and bandwidth_rule != "none" and gamma is None:
        found.add("isotropic_scaling")
    if canonical(kernel) == "polynomial":
        is_affine = centered and params.get("degree", 3) == 1
        found |= {"isotropic_scaling"} if is_affine or params.get("coef0", 1) == 0 else set()
        found |= {"translation"} if is_affine else set()
    return frozenset(found if centered or canonical(kernel) != "linear" else found - {"translation"})


def is_positive_definite(kernel: str, params: Mapping[str, Any], centered: bool) -> bool:
    """Whether (centred) Gram matrices of the kernel are known to have no negative eigenvalue."""
    if kernel == "polynomial":
        return params.get("coef0", 1) >= 0 and float(params.get("degree", 3)).is_integer()
    return kernel in _POSITIVE_DEFINITE or (centered and kernel in _POSITIVE_DEFINITE_CENTERED)


def is_positive_only(kernel: Any) -> bool:
    """Whether the kernel takes non-negative data only."""
    return isinstance(kernel, str) and _KERNELS[check_kernel(kernel)].positive_only


def pairwise_kernel(
    X: Array,
    Y: Array | None = None,
    kernel: str | Callable[..., Array] = "linear",
    *,
    bandwidth: float = 1.0,
    bandwidth_rule: str = "median",
    gamma: float | None = None,
    **params: Any,
) -> Array:
    """Compute the kernel between the rows of X and of Y.

    Parameters
    ----------
    X : array of shape (n_x, n_features)
        Rows; for ``kernel="delta"`` labels of shape (n_x,) or (n_x, 1).
    Y : array of shape (n_y, n_features), default=None
        Further rows; None means `X`.
    kernel : str or callable, default="linear"
        A name of :func:`kernel_names`, a callable ``f(X, Y) -> (n_x, n_y)`` on whole matrices, or a kernel object
        of :mod:`sklearn.gaussian_process.kernels`.
    bandwidth : float, default=1.0
        For ``"rbf"`` and ``"laplacian"``: sigma in units of m, the typical distance between the rows of `X`
        (Euclidean for rbf, sum of absolute differences for laplacian).
    bandwidth_rule : str, default="median"
        How m is found, see :func:`~sklearn_cka.bandwidth_rule_names`; ``"none"`` makes `bandwidth` sigma itself.
    gamma : float, default=None
        scikit-learn's parameter: ``exp(-gamma d^2)`` for rbf, ``exp(-gamma d)`` for laplacian, where it overrides
        `bandwidth`; for other kernels as in :mod:`sklearn.metrics.pairwise`.
    **params
        Further parameters of the kernel, such as `degree` and `coef0`.

    Returns
    -------
    K : array of shape (n_x, n_y)
        Kernel values, in the namespace and on the device of `X`.

    Raises
    ------
    ValueError
        If a name or parameter is unknown, the data are not finite or the shapes do not fit.

    References
    ----------
    SPEC of the rules: Gretton et al. (2012), "A kernel two-sample test", JMLR 13 (the median heuristic).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import pairwise_kernel
    >>> p = np.arange(3.0)[:, None]
    >>> pairwise_kernel(p, kernel="rbf", bandwidth=1.0, bandwidth_rule="none")[0].round(6)
    array([1.      , 0.606531, 0.135335])
    >>> pairwise_kernel(p, kernel="rbf", gamma=1.0)[0].round(6)
    array([1.      , 0.367879, 0.018316])
    """
    kernel = check_kernel(kernel)
    _bandwidths.check_bandwidth(bandwidth, bandwidth_rule)
    options = dict(params) if gamma is None else {**params, "gamma": gamma}
    check_kernel_params(kernel, options)
    if kernel == "delta" and Y is not None:
        return equal_labels(*_validation.check_labels_of_both(X, Y))
    X = _validation.check_labels(X, "X") if kernel == "delta" else _validation.check_matrix(X, "X")
    if Y is None:
        gram = gram_matrix(
            X, kernel, bandwidth=bandwidth, bandwidth_rule=bandwidth_rule, gamma=gamma, params=params, exact=True
        )
        return gram.matrix if gram.scale == 1.0 else gram.matrix * gram.scale
    if kernel == "precomputed":
        raise ValueError('kernel="precomputed" takes the Gram matrix as X and no Y.')
    X, Y = _arrays.same_precision(X, _arrays.like(_validation.check_matrix(Y, "Y"), X))
    if X.shape[1] != Y.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features and Y has {Y.shape[1]}; a kernel compares rows of one width.")
    return _cross_kernel(X, Y, kernel, bandwidth, bandwidth_rule, gamma, params)


def _cross_kernel(
    X: Array,
    Y: Array,
    kernel: Any,
    bandwidth: float,
    rule: str,
    gamma: float | None,
    params: Mapping[str, Any],
) -> Array:
    """Return kernel values between two sets of rows, sigma taken from `X`."""
    xp = _arrays.namespace(X)
    if kernel != "distance" and not (isinstance(kernel, str) and _KERNELS[kernel].has_bandwidth):
        return evaluate(kernel, X, Y, gamma, params)
    both = _linalg.center(xp.concat([X, Y], axis=0))
    n = X.shape[0]
    A, B = both.values[:n, :], both.values[n:, :]
    rows, columns = both.unshifted[:n, :], both.unshifted[n:, :]
    squared = kernel != "laplacian"
    if squared:
        distances = _linalg.cross_squared_distances(A, B, rows, columns)
    else:
        distances = _linalg.manhattan_distances(A, B)
    if kernel == "distance":
        return xp.sqrt(distances) * -_linalg.power_of_two(both.exponent)
    if gamma is not None:
        log2_sigma = math.log2(sigma_of(gamma, squared)) - both.exponent
    elif rule == "none":
        log2_sigma = math.log2(bandwidth) - both.exponent
    else:
        sample = _bandwidths.subset_rows(n)
        if sample is not None:
            chosen = xp.asarray(sample, device=_arrays.device(X))
            A, rows = xp.take(A, chosen, axis=0), xp.take(rows, chosen, axis=0)
        own = _linalg.squared_distances(A, rows) if squared else _linalg.manhattan_distances(A, A)
        typical = _bandwidths.typical_distance(own, rule, squared=squared)
        if typical == 0.0:
            raise ValueError(
                "All rows of X are equal, so that there is no typical distance between them to take the bandwidth"
                ' from; give gamma, or sigma as bandwidth with bandwidth_rule="none".'
            )
        log2_sigma = math.log2(bandwidth) + math.log2(typical)
    return xp.exp(distances * -rate_of(log2_sigma, squared, X))


def evaluate(kernel: Any, X: Array, Y: Array, gamma: float | None, params: Mapping[str, Any]) -> Array:
    """Evaluate a kernel that is a function of two matrices, and check the shape of what comes back."""
    if isinstance(kernel, GaussianProcessKernel):
        # These objects compute in NumPy only: data of other libraries makes the way there and back.
        K = kernel(_arrays.to_numpy(X), None if X is Y else _arrays.to_numpy(Y))
        return _arrays.like(K, X)
    function = _KERNELS[kernel].function if isinstance(kernel, str) else kernel
    assert function is not None  # kernels without a function are handled by their callers
    options = dict(params) if gamma is None else {**params, "gamma": gamma}
    K = function(X, Y, **options)
    if getattr(K, "shape", None) != (X.shape[0], Y.shape[0]):
        raise ValueError(
            f"kernel {kernel!r} returned {getattr(K, 'shape', type(K).__name__)} for {X.shape[0]} and {Y.shape[0]}"
            f" rows; it must take two whole matrices and return an array of shape ({X.shape[0]}, {Y.shape[0]})."
        )
    return K


def check_kernel_params(kernel: Any, params: Mapping[str, Any]) -> None:
    """Raise ValueError if a kernel of the package is given a parameter that it does not have."""
    if isinstance(kernel, str) and kernel in _BUILT_IN:
        known = _KERNELS[kernel].params
        unknown = sorted(set(params) - set(known))
        if unknown:
            takes = ", ".join(known) if known else "no further parameters"
            raise ValueError(f"The {kernel} kernel has no parameter {', '.join(unknown)}; it takes {takes}.")
        if params.get("gamma") is not None:
            _validation.check_positive("gamma", params["gamma"])
        for name in ("degree", "coef0"):
            _validation.check_real(name, params.get(name, 1))
    elif isinstance(kernel, GaussianProcessKernel) and params:
        raise ValueError(f"The kernel {kernel!r} holds its own parameters and takes no {', '.join(sorted(params))}.")


def gram_matrix(
    X: Array,
    kernel: Any,
    *,
    bandwidth: float = 1.0,
    bandwidth_rule: str = "median",
    gamma: float | None = None,
    sigma: float | None = None,
    params: Mapping[str, Any] | None = None,
    weights: Array | None = None,
    exact: bool = False,
) -> Gram:
    """Return the Gram matrix of validated `X`, with the bandwidth that was used.

    Unless `exact`, the matrix may differ from the kernel by an additive constant, which centring removes: the rbf
    and laplacian kernels are then computed as their difference from the value at the typical distance, which keeps
    the digits at any bandwidth. `sigma` overrides the rule by a bandwidth learned earlier.
    """
    params = params or {}
    if kernel == "precomputed":
        return scaled(_validation.check_gram(X))
    if kernel == "delta":
        return Gram(equal_labels(X, X))
    if kernel == "distance":
        centered = _linalg.center(X)
        xp = _arrays.namespace(X)
        K = xp.sqrt(_linalg.squared_distances(centered.values, centered.unshifted))
        K *= -1.0
        return Gram(K, scale=_linalg.power_of_two(centered.exponent), is_constant=centered.is_constant)
    if isinstance(kernel, str) and _KERNELS[kernel].has_bandwidth:
        return RadialDistances(X, kernel).gram(
            bandwidth, bandwidth_rule, gamma=gamma, sigma=sigma, weights=weights, exact=exact, overwrite=True
        )
    if kernel == "cosine" and not exact:
        return cosine_differences(X)
    scale = 1.0
    is_power = kernel == "polynomial" and float(params.get("degree", 3)).is_integer()
    if is_power and params.get("coef0", 1) == 0:  # the size of the data is but a factor
        X, exponent = _linalg.scale(X)
        scale = _linalg.power_of_two(2 * exponent * int(params.get("degree", 3)))
    with np.errstate(over="ignore", invalid="ignore"):  # looked into below
        if is_power and not exact:
            differences = polynomial_differences(X, gamma, **params)
            K, scale = differences.matrix, differences.scale * scale
        else:
            K = evaluate(kernel, X, X, gamma, params)
    if isinstance(kernel, str) and kernel in _BUILT_IN:
        if not _validation.is_finite(K):
            raise ValueError(
                f"The Gram matrix of the {kernel} kernel with parameters {dict(params)!r} contains NaN or infinity: its"
                f" values are not defined for these data, or too large for {_arrays.dtype_name(K)}."
            )
    else:
        K = _validation.check_gram(K, f"The Gram matrix of kernel {kernel!r}")
    gram = scaled(K)
    return gram if scale == 1.0 else replace(gram, scale=gram.scale * scale)


def has_bandwidth(kernel: Any) -> bool:
    """Whether `bandwidth` changes the kernel."""
    return isinstance(kernel, str) and _KERNELS[check_kernel(kernel)].has_bandwidth


def equal_labels(a: Array, b: Array) -> Array:
    """Return 1.0 where two labels are equal and 0.0 elsewhere, shape (n_a, n_b)."""
    xp = _arrays.namespace(a)
    return xp.astype(a[:, None] == b[None, :], xp.float64)
