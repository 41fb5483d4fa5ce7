"""Compare representations, scikit-learn style: activations of neural networks, or any matrices over the same rows."""

from sklearn_cka._backends import array_backend, backend_names, register_backend
from sklearn_cka._bandwidth_curve import BandwidthDisplay, bandwidth_curve
from sklearn_cka._bandwidths import bandwidth_rule_names, median_distance
from sklearn_cka._layer_matching import benchmark_indexes, layer_matching
from sklearn_cka._line_display import LineDisplay
from sklearn_cka.compose import PairedTransformer
from sklearn_cka.display import SimilarityDisplay
from sklearn_cka.exceptions import (
    ChanceLevelWarning,
    DegenerateSimilarityWarning,
    SimilarityWarning,
    ToleranceWarning,
    UndefinedSimilarityWarning,
)
from sklearn_cka.extract import extract_layers, iter_layers
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._properties import IndexProperties
from sklearn_cka.indexes._registry import get_index, index_names, index_table, register_index, similarity
from sklearn_cka.indexes._weighted import WeightedIndex
from sklearn_cka.indexes.angular_cka import AngularCKA
from sklearn_cka.indexes.bures import NormalizedBuresSimilarity, normalized_bures_similarity
from sklearn_cka.indexes.cca import SVCCA, CanonicalCorrelation, EigenspaceOverlap, cca, svcca
from sklearn_cka.indexes.cka import CKA, KernelAlignment, cka, kernel_alignment
from sklearn_cka.indexes.cknna import CKNNA, cknna
from sklearn_cka.indexes.correlation_match import CorrelationMatch, correlation_match
from sklearn_cka.indexes.deconfounded import DeconfoundedCKA, deconfounded_cka
from sklearn_cka.indexes.descriptors import ConcentricityDifference, MagnitudeDifference, UniformityDifference
from sklearn_cka.indexes.distance_correlation import DistanceCorrelation, distance_correlation
from sklearn_cka.indexes.gulp import GULP
from sklearn_cka.indexes.hsic import HSIC, hsic
from sklearn_cka.indexes.imd import IMD
from sklearn_cka.indexes.jensen_shannon import JensenShannonSimilarity
from sklearn_cka.indexes.neighbor_similarities import (
    RankSimilarity,
    SecondOrderCosine,
    rank_similarity,
    second_order_cosine,
)
from sklearn_cka.indexes.neighbors import CycleKNN, JaccardKNN, MutualKNN, cycle_knn, jaccard_knn, mutual_knn
from sklearn_cka.indexes.predictions import ErrorConsistency, PredictionAgreement
from sklearn_cka.indexes.procrustes import Procrustes, ShapeMetric, procrustes_distance, procrustes_similarity
from sklearn_cka.indexes.pwcca import PWCCA, pwcca
from sklearn_cka.indexes.rdm_difference import RDMDifference
from sklearn_cka.indexes.regression import CanonicalRidge, LinearPredictivity, linear_predictivity
from sklearn_cka.indexes.riemannian import RiemannianSimilarity
from sklearn_cka.indexes.rsa import RSA, rdm, rsa
from sklearn_cka.indexes.rtd import RTD
from sklearn_cka.indexes.unit_matching import (
    PermutationProcrustes,
    SoftMatching,
    permutation_procrustes,
    soft_matching,
)
from sklearn_cka.inference import bootstrap, compare_similarities, jackknife, permutation_test
from sklearn_cka.kernels import kernel_names, pairwise_kernel, register_kernel
from sklearn_cka.layers import Layers
from sklearn_cka.models import compare_models
from sklearn_cka.pairwise import SimilarityTable, compare_layers
from sklearn_cka.probes import probe_layers
from sklearn_cka.selection import LayerMatcher, permutation_z_scorer
from sklearn_cka.spectrum import cka_spectrum, effective_dimension, within_class
from sklearn_cka.streaming import LayerAccumulator, accumulate_layers

__version__ = "0.1.0"

__all__ = [
    "CKA",
    "CKNNA",
    "GULP",
    "HSIC",
    "IMD",
    "PWCCA",
    "RSA",
    "RTD",
    "SVCCA",
    "AngularCKA",
    "BandwidthDisplay",
    "BaseIndex",
    "CanonicalCorrelation",
    "CanonicalRidge",
    "ChanceLevelWarning",
    "ConcentricityDifference",
    "CorrelationMatch",
    "CycleKNN",
    "DeconfoundedCKA",
    "DegenerateSimilarityWarning",
    "DistanceCorrelation",
    "EigenspaceOverlap",
    "ErrorConsistency",
    "IndexProperties",
    "JaccardKNN",
    "JensenShannonSimilarity",
    "KernelAlignment",
    "LayerAccumulator",
    "LayerMatcher",
    "Layers",
    "LineDisplay",
    "LinearPredictivity",
    "MagnitudeDifference",
    "MutualKNN",
    "NormalizedBuresSimilarity",
    "PairedTransformer",
    "PermutationProcrustes",
    "PredictionAgreement",
    "Procrustes",
    "RDMDifference",
    "RankSimilarity",
    "RiemannianSimilarity",
    "SecondOrderCosine",
    "ShapeMetric",
    "SimilarityDisplay",
    "SimilarityTable",
    "SimilarityWarning",
    "SoftMatching",
    "ToleranceWarning",
    "UndefinedSimilarityWarning",
    "UniformityDifference",
    "WeightedIndex",
    "accumulate_layers",
    "array_backend",
    "backend_names",
    "bandwidth_curve",
    "bandwidth_rule_names",
    "benchmark_indexes",
    "bootstrap",
    "cca",
    "cka",
    "cka_spectrum",
    "cknna",
    "compare_layers",
    "compare_models",
    "compare_similarities",
    "correlation_match",
    "cycle_knn",
    "deconfounded_cka",
    "distance_correlation",
    "effective_dimension",
    "extract_layers",
    "get_index",
    "hsic",
    "index_names",
    "index_table",
    "iter_layers",
    "jaccard_knn",
    "jackknife",
    "kernel_alignment",
    "kernel_names",
    "layer_matching",
    "linear_predictivity",
    "median_distance",
    "mutual_knn",
    "normalized_bures_similarity",
    "pairwise_kernel",
    "permutation_procrustes",
    "permutation_test",
    "permutation_z_scorer",
    "probe_layers",
    "procrustes_distance",
    "procrustes_similarity",
    "pwcca",
    "rank_similarity",
    "rdm",
    "register_backend",
    "register_index",
    "register_kernel",
    "rsa",
    "second_order_cosine",
    "similarity",
    "soft_matching",
    "svcca",
    "within_class",
]
