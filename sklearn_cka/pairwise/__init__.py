"""Tables of the similarities of all pairs of layers."""

from sklearn_cka.pairwise.table import SimilarityTable

__all__ = ["SimilarityTable"]
