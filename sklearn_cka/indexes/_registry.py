"""Index names -> classes. To add an index, write its module and name its class here."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from sklearn_cka._arrays import Array
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._properties import TRANSFORMATIONS
from sklearn_cka.indexes._weighted import WeightedIndex
from sklearn_cka.indexes.angular_cka import AngularCKA
from sklearn_cka.indexes.bures import NormalizedBuresSimilarity
from sklearn_cka.indexes.cca import SVCCA, CanonicalCorrelation, EigenspaceOverlap
from sklearn_cka.indexes.cka import CKA, KernelAlignment
from sklearn_cka.indexes.cknna import CKNNA
from sklearn_cka.indexes.correlation_match import CorrelationMatch
from sklearn_cka.indexes.deconfounded import DeconfoundedCKA
from sklearn_cka.indexes.descriptors import ConcentricityDifference, MagnitudeDifference, UniformityDifference
from sklearn_cka.indexes.distance_correlation import DistanceCorrelation
from sklearn_cka.indexes.gulp import GULP
from sklearn_cka.indexes.hsic import HSIC
from sklearn_cka.indexes.imd import IMD
from sklearn_cka.indexes.jensen_shannon import JensenShannonSimilarity
from sklearn_cka.indexes.neighbor_similarities import RankSimilarity, SecondOrderCosine
from sklearn_cka.indexes.neighbors import CycleKNN, JaccardKNN, MutualKNN
from sklearn_cka.indexes.predictions import ErrorConsistency, PredictionAgreement
from sklearn_cka.indexes.procrustes import Procrustes, ShapeMetric
from sklearn_cka.indexes.pwcca import PWCCA
from sklearn_cka.indexes.rdm_difference import RDMDifference
from sklearn_cka.indexes.regression import CanonicalRidge, LinearPredictivity
from sklearn_cka.indexes.riemannian import RiemannianSimilarity
from sklearn_cka.indexes.rsa import RSA
from sklearn_cka.indexes.rtd import RTD
from sklearn_cka.indexes.unit_matching import PermutationProcrustes, SoftMatching

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["get_index", "index_names", "index_table", "register_index", "similarity"]

_INDEXES: dict[str, type[BaseIndex]] = {
    "cka": CKA,
    "hsic": HSIC,
    "kernel_alignment": KernelAlignment,
    "distance_correlation": DistanceCorrelation,
    "cca": CanonicalCorrelation,
    "svcca": SVCCA,
    "pwcca": PWCCA,
    "eigenspace_overlap": EigenspaceOverlap,
    "linear_predictivity": LinearPredictivity,
    "canonical_ridge": CanonicalRidge,
    "procrustes": Procrustes,
    "shape_metric": ShapeMetric,
    "rsa": RSA,
    "normalized_bures_similarity": NormalizedBuresSimilarity,
    "deconfounded_cka": DeconfoundedCKA,
    "gulp": GULP,
    "jensen_shannon_similarity": JensenShannonSimilarity,
    "prediction_agreement": PredictionAgreement,
    "error_consistency": ErrorConsistency,
    "angular_cka": AngularCKA,
    "riemannian_similarity": RiemannianSimilarity,
    "rdm_difference": RDMDifference,
    "magnitude_difference": MagnitudeDifference,
    "concentricity_difference": ConcentricityDifference,
    "uniformity_difference": UniformityDifference,
    "imd": IMD,
    "rtd": RTD,
    "permutation_procrustes": PermutationProcrustes,
    "soft_matching": SoftMatching,
    "correlation_match": CorrelationMatch,
    "mutual_knn": MutualKNN,
    "jaccard_knn": JaccardKNN,
    "cycle_knn": CycleKNN,
    "rank_similarity": RankSimilarity,
    "second_order_cosine": SecondOrderCosine,
    "cknna": CKNNA,
}
_BUILT_IN = frozenset(_INDEXES)


def index_names() -> list[str]:
    """Return the names of all similarity indexes, sorted.

    Examples
    --------
    >>> from sklearn_cka import index_names
    >>> "cka" in index_names()
    True
    """
    return sorted(_INDEXES)


def index_table() -> pd.DataFrame:
    """Return what every index declares of itself with its default parameters, one row an index.

    Returns
    -------
    table : DataFrame
        Indexed by name, sorted. Columns: ``class``; ``family`` (``"gram"``, ``"spectral"``, ``"units"``,
        ``"neighbors"``, ``"outputs"`` or ``"other"``); ``lowest`` and ``highest`` value; ``self_similarity``, the
        value of a representation with itself (NaN where it depends on the representation); ``symmetric``;
        ``metric``, the distance form that is a metric, of the similarity s (missing without one); whether
        ``translation``, ``isotropic_scaling``, ``permutation`` (of units), ``orthogonal`` and ``invertible_linear``
        maps of either side leave the value unchanged (missing where that is not known); ``min_samples``, the least
        number of rows; ``equal_widths``, whether both sides must have the same number of features;
        ``sample_weight``, whether rows may be weighted; ``cost`` of one pair of n rows, p and q features; and
        ``reference``. :func:`sklearn_cka.testing.check_index` verifies them.

    Examples
    --------
    >>> from sklearn_cka import index_table
    >>> table = index_table()
    >>> table.loc["cka", "metric"]
    'arccos(s)'
    >>> table.index[table["invertible_linear"].eq(True)].tolist()
    ['cca', 'eigenspace_overlap']
    """
    import pandas as pd

    rows = {name: _declared(_INDEXES[name]()) for name in index_names()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("index")


def _declared(index: BaseIndex) -> dict[str, Any]:
    """Return one row of the table of indexes."""
    properties = index.properties
    known = properties.invariances
    return {
        "class": type(index).__name__,
        "family": index.family,
        "lowest": properties.range[0],
        "highest": properties.range[1],
        "self_similarity": properties.self_similarity,
        "symmetric": properties.symmetric,
        "metric": properties.metric,
        **{name: None if known is None else name in known for name in TRANSFORMATIONS},
        "min_samples": properties.min_samples,
        "equal_widths": properties.equal_widths,
        "sample_weight": isinstance(index, WeightedIndex),
        "cost": properties.cost,
        "reference": properties.reference,
    }


def get_index(index: str | BaseIndex, **params: Any) -> BaseIndex:
    """Return an index by name, or a copy of one with some parameters changed.

    Parameters
    ----------
    index : str or BaseIndex
        A name of :func:`index_names`, or an index, which is cloned.
    **params
        Parameters of the index.

    Returns
    -------
    index : BaseIndex
        Not fitted.

    Raises
    ------
    ValueError
        If the name is unknown (the message lists the valid ones) or the index has no such parameter.
    TypeError
        If `index` is neither a name nor an index.

    Examples
    --------
    >>> from sklearn_cka import get_index
    >>> get_index("cka", debiased=True)
    CKA(debiased=True)
    """
    if isinstance(index, str):
        if index not in _INDEXES:
            close = difflib.get_close_matches(index, _INDEXES, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"Unknown index {index!r}.{hint} Valid indexes are {', '.join(index_names())}.")
        made = _INDEXES[index]()
    elif isinstance(index, BaseIndex):
        from sklearn.base import clone

        made = clone(index)
    else:
        raise TypeError(f"index must be a name or an index such as CKA(), got {index!r}.")
    unknown = sorted(set(params) - set(made.get_params(deep=False)))
    if unknown:
        valid = ", ".join(made.get_params(deep=False)) or "none"
        raise ValueError(f"{type(made).__name__} has no parameter {', '.join(unknown)}. Its parameters are {valid}.")
    return made.set_params(**params)


def index_name(index: BaseIndex) -> str:
    """Return the registered name of an index, its class name if it is not registered."""
    return next((name for name, kind in _INDEXES.items() if kind is type(index)), type(index).__name__)


def register_index(name: str, index: Any, *, overwrite: bool = False) -> None:
    """Make an index class of your own available by name.

    Parameters
    ----------
    name : str
        The name. Names of the package's own indexes cannot be taken.
    index : type
        A subclass of :class:`~sklearn_cka.BaseIndex` whose parameters all have defaults.
    overwrite : bool, default=False
        Whether a class registered earlier under this name may be replaced.

    Raises
    ------
    ValueError
        If the name is taken.
    TypeError
        If `index` is not a subclass of BaseIndex.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import BaseIndex, register_index, similarity
    >>> class MeanDirection(BaseIndex):
    ...     def embed(self, X):
    ...         return X.mean(axis=1) / np.linalg.norm(X.mean(axis=1))
    ...
    ...     def compare(self, a, b):
    ...         return float(a @ b)
    >>> register_index("mean_direction", MeanDirection, overwrite=True)
    >>> round(similarity([[1.0], [2.0]], [[2.0], [4.0]], index="mean_direction"), 6)
    1.0
    """
    if not (isinstance(index, type) and issubclass(index, BaseIndex)):
        raise TypeError(f"index must be a subclass of BaseIndex, got {index!r}.")
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}.")
    if name in _BUILT_IN:
        raise ValueError(f"The index {name!r} belongs to the package and cannot be replaced; choose another name.")
    if name in _INDEXES and not overwrite:
        raise ValueError(f"An index {name!r} is registered already; pass overwrite=True to replace it.")
    _INDEXES[name] = index


def similarity(X: Array, Y: Array, index: str | BaseIndex = "cka", **params: Any) -> float:
    """Compute the similarity of two representations by any index.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    index : str or BaseIndex, default="cka"
        A name of :func:`index_names`, or an index.
    **params
        Parameters of the index.

    Returns
    -------
    similarity : float
        Higher is more similar.

    Raises
    ------
    ValueError
        If the name or a parameter is unknown, or the data break the input contract.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import similarity
    >>> X = np.arange(5.0)[:, None]
    >>> round(similarity(X, X**2, index="cka", debiased=True), 6)
    0.962361
    """
    return get_index(index, **params).similarity(X, Y)
