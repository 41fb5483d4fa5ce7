"""Tables of the similarities of all pairs of layers."""

from sklearn_cka.pairwise.compare import compare_layers
from sklearn_cka.pairwise.table import SimilarityTable

__all__ = ["SimilarityTable", "compare_layers"]
