"""Compare representations, scikit-learn style: activations of neural networks, or any two matrices over the same rows."""

from sklearn_cka.exceptions import (
    ChanceLevelWarning,
    DegenerateSimilarityWarning,
    SimilarityWarning,
    UndefinedSimilarityWarning,
)
from sklearn_cka.indexes._base import BaseIndex, IndexProperties, WeightedIndex
from sklearn_cka.indexes._registry import get_index, index_names, register_index, similarity
from sklearn_cka.indexes.cka import CKA, KernelAlignment, cka, kernel_alignment
from sklearn_cka.indexes.distance_correlation import DistanceCorrelation, distance_correlation
from sklearn_cka.indexes.hsic import HSIC, hsic
from sklearn_cka.kernels import (
    bandwidth_rule_names,
    kernel_names,
    median_distance,
    pairwise_kernel,
    register_kernel,
)

__version__ = "0.1.0"
