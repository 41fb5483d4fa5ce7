"""The peers: what each computes and the calls that its own documentation gives for it.

A job takes the layers of a workload and returns its value: the whole table where the package makes tables, and a
`PairLoop` where it compares two arrays at a time. Packages are imported inside the jobs, so that this module can be
read without any of them.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.peers.workloads import BATCH

Job = Callable[..., Any]


@dataclass(frozen=True)
class PairLoop:
    """A job for two arrays, which a table calls once a pair."""

    job: Job


@dataclass(frozen=True)
class Peer:
    """A package: its distribution, its module, what it computes, and a job for every task that it knows."""

    name: str
    module: str
    computes: str
    jobs: dict[str, Job | PairLoop] = field(default_factory=dict)
    compares_models: bool = False
    note: str = ""

    @property
    def is_installed(self) -> bool:
        """Whether the module can be found."""
        return importlib.util.find_spec(self.module) is not None

    @property
    def version(self) -> str:
        """The version installed, or why there is none."""
        if not self.is_installed:
            return "not installed here"
        try:
            return importlib.metadata.version(self.name)
        except importlib.metadata.PackageNotFoundError:
            return "unknown version"


# ours


def _ours_table(index: str = "cka", **fixed: Any) -> Job:
    def job(layers: list[np.ndarray], **params: Any) -> np.ndarray:
        from sklearn_cka import compare_layers

        return compare_layers(layers, index=index, verbose=0, **fixed, **params).values

    return job


def _ours_pair(name: str, **fixed: Any) -> Job:
    def job(layers: list[np.ndarray]) -> float:
        import sklearn_cka

        return float(getattr(sklearn_cka, name)(*layers, **fixed))

    return job


def _ours_stream(layers: list[np.ndarray]) -> float:
    from sklearn_cka import CKA

    X, Y = layers
    index = CKA()
    for start in range(0, len(X), BATCH):
        index.partial_fit(X[start : start + BATCH], Y[start : start + BATCH])
    return float(index.similarity_)


def _ours_permutations(layers: list[np.ndarray]) -> float:
    from sklearn_cka import permutation_test

    return float(permutation_test("cka", *layers, n_resamples=1000, random_state=0).statistic)


# NumPy


def _numpy_table(layers: list[np.ndarray]) -> np.ndarray:
    from benchmarks import bare

    return bare.linear_cka_table(layers)


def _numpy_pair(layers: list[np.ndarray]) -> float:
    from benchmarks import bare

    X, Y = layers
    if len(X) > X.shape[1] + Y.shape[1]:
        return float(bare.linear_cka(X, Y))
    return float(bare.linear_cka_table([X, Y])[0, 1])


def _numpy_permutations(layers: list[np.ndarray]) -> float:
    K, L = (Z @ Z.T for Z in (X - X.mean(axis=0) for X in layers))
    rng = np.random.default_rng(0)
    for _ in range(1000):
        order = rng.permutation(len(K))
        np.vdot(K, L[order][:, order])
    return float(np.vdot(K, L) / np.linalg.norm(K) / np.linalg.norm(L))


# ckatorch: cka_base(x, y) for two matrices; the class for models


def _ckatorch_pair(X: np.ndarray, Y: np.ndarray, *, bandwidth: float | None = None, unbiased: bool = False) -> float:
    import torch
    from ckatorch.core import cka_base

    # Its threshold multiplies the median distance, as our bandwidth does.
    options = {"kernel": "linear"} if bandwidth is None else {"kernel": "rbf", "threshold": bandwidth}
    return float(cka_base(torch.from_numpy(X), torch.from_numpy(Y), unbiased=unbiased, **options))


# pytorch-cka: cka_from_features(list, list)


def _pytorch_cka_table(layers: list[np.ndarray]) -> np.ndarray:
    import torch
    from cka import cka_from_features

    features = [torch.from_numpy(X) for X in layers]
    return cka_from_features(features, features).numpy()


# minibatch classes: the models are the two halves of the columns, so that the forward pass costs nothing


def _halves(layers: list[np.ndarray]) -> tuple[Any, Any, Any]:
    """Return two models and a loader that make these layers, batch by batch, in order."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    class Rows:
        def __len__(self) -> int:
            return len(layers[0])

        def __getitems__(self, rows: list[int]) -> list[Any]:
            part = slice(rows[0], rows[-1] + 1)
            return [torch.from_numpy(np.stack([X[part] for X in layers], axis=1))]

    class Half(nn.Module):
        def __init__(self, which: int) -> None:
            super().__init__()
            self.which, self.out = which, nn.Identity()
            self.unused = nn.Parameter(torch.zeros(1))

        def forward(self, x: Any) -> Any:
            return self.out(x[:, self.which])

    loader = DataLoader(Rows(), batch_size=BATCH, collate_fn=lambda parts: [parts[0], parts[0][:, 0, 0]])  # type: ignore[arg-type]
    return Half(0), Half(1), loader


def _quiet(job: Job) -> Job:
    """Return the job without its progress bars."""

    def silent(*args: Any, **kwargs: Any) -> Any:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            return job(*args, **kwargs)

    return silent


@_quiet
def _torch_cka_stream(layers: list[np.ndarray]) -> float:
    import torch
    from torch_cka import CKA

    first, second, loader = _halves(layers)
    cka = CKA(first, second, "X", "Y", model1_layers=["out"], model2_layers=["out"])
    with torch.no_grad():
        cka.compare(loader, loader)
    return float(cka.export()["CKA"][0, 0])


@_quiet
def _pytorch_cka_stream(layers: list[np.ndarray]) -> float:
    from cka import compute_cka

    first, second, loader = _halves(layers)
    return float(compute_cka(first, second, loader, layers=["out"], model2_layers=["out"], progress=False)[0][0, 0])


@_quiet
def _cka_pytorch_stream(layers: list[np.ndarray]) -> float:
    from cka_pytorch.cka import CKACalculator

    first, second, loader = _halves(layers)
    calculator = CKACalculator(first, second, ["out"], ["out"], verbose=False)
    return float(calculator.calculate_cka_matrix(loader, num_epochs=1)[0, 0])


# rsatoolbox: "cosine_cov" without a covariance is linear CKA by its documentation


def _rsatoolbox(layers: list[np.ndarray]) -> np.ndarray:
    import rsatoolbox

    rdms = rsatoolbox.rdm.calc_rdm([rsatoolbox.data.Dataset(X) for X in layers], method="euclidean")
    return rsatoolbox.rdm.compare(rdms, rdms, method="cosine_cov")


# repsim: tables over a list of arrays


def _repsim(name: str, **options: Any) -> Job:
    def job(layers: list[np.ndarray]) -> np.ndarray:
        import repsim

        return np.asarray(getattr(repsim, name)(layers, **options))

    return job


# hyppo


def _hyppo_rv(X: np.ndarray, Y: np.ndarray) -> float:
    from hyppo.independence import RV

    return float(RV().statistic(X, Y))


def _hyppo_hsic(X: np.ndarray, Y: np.ndarray) -> float:
    from hyppo.independence import Hsic

    return float(Hsic(compute_kernel="linear", bias=True).statistic(X, Y))


def _hyppo_permutations(layers: list[np.ndarray]) -> float:
    from hyppo.independence import Hsic

    test = Hsic(compute_kernel="linear", bias=True)
    return float(test.test(*layers, reps=1000, workers=1, auto=False)[0])


# dcor


def _dcor(X: np.ndarray, Y: np.ndarray) -> float:
    import dcor

    return float(dcor.distance_correlation(X, Y))


# CCA


def _cca_zoo(X: np.ndarray, Y: np.ndarray) -> float:
    from cca_zoo.linear import CCA
    from cca_zoo.metrics import average_pairwise_correlations, pairwise_correlations

    scores = CCA(n_components=min(X.shape[1], Y.shape[1])).fit_transform([X, Y])
    return float(np.mean(average_pairwise_correlations(pairwise_correlations(scores))))


def _scikit_learn_cca(X: np.ndarray, Y: np.ndarray) -> float:
    from sklearn.cross_decomposition import CCA

    k = min(X.shape[1], Y.shape[1])
    a, b = CCA(n_components=k, max_iter=5000).fit_transform(X, Y)
    return float(np.mean([np.corrcoef(a[:, i], b[:, i])[0, 1] for i in range(k)]))


OURS = Peer(
    "sklearn_cka",
    "sklearn_cka",
    "every row",
    {
        "linear table": _ours_table(),
        "debiased table": _ours_table(debiased=True),
        "rbf table": _ours_table(kernel="rbf"),
        "cca table": _ours_table("cca"),
        "svcca table": _ours_table("svcca"),
        "pwcca table": _ours_table("pwcca"),
        "procrustes table": _ours_table("procrustes"),
        "linear pair": _ours_pair("cka"),
        "distance correlation": _ours_pair("distance_correlation"),
        "stream": _ours_stream,
        "permutations": _ours_permutations,
    },
    compares_models=True,
)

PEERS = [
    Peer(
        "numpy",
        "numpy",
        "the formula by hand: nothing checked, nothing but the number returned",
        {"linear table": _numpy_table, "linear pair": _numpy_pair, "permutations": _numpy_permutations},
    ),
    Peer(
        "torch-cka",
        "torch_cka",
        "two torch models, minibatch estimate, linear kernel",
        {"stream": _torch_cka_stream},
        compares_models=True,
        note="averages the unbiased HSIC over batches",
    ),
    Peer(
        "ckatorch",
        "ckatorch",
        "CKA of two arrays (linear, RBF) in float64; two torch models batch by batch",
        {
            "linear table": PairLoop(_ckatorch_pair),
            "debiased table": PairLoop(lambda X, Y: _ckatorch_pair(X, Y, unbiased=True)),
            "rbf table": PairLoop(_ckatorch_pair),
            "linear pair": PairLoop(_ckatorch_pair),
        },
        compares_models=True,
        note="its model class keeps the last batch only, so it has no row in the stream",
    ),
    Peer(
        "pytorch-cka",
        "cka",
        "two torch models, minibatch estimate; debiased linear CKA of lists of arrays",
        {"debiased table": _pytorch_cka_table, "stream": _pytorch_cka_stream},
        compares_models=True,
        note="its arrays function is the unbiased estimate clamped to [0, 1]; it offers no biased CKA",
    ),
    Peer(
        "cka-pytorch",
        "cka_pytorch",
        "two torch models, minibatch estimate, linear kernel",
        {"stream": _cka_pytorch_stream},
        compares_models=True,
        note="run with num_epochs=1: the same batches in the same order add nothing in a second epoch",
    ),
    Peer(
        "netrep",
        "netrep",
        "shape metrics and linear CCA of arrays",
        {
            "procrustes table": PairLoop(lambda X, Y: _netrep(X, Y, 1.0)),
            "cca table": PairLoop(lambda X, Y: _netrep_cca(X, Y)),
        },
        note="written from its documentation; not run",
    ),
    Peer(
        "rsatoolbox",
        "rsatoolbox",
        "RDMs and their comparison; 'cosine_cov' is linear CKA",
        {"linear table": _rsatoolbox, "linear pair": lambda layers: float(_rsatoolbox(layers)[0, 1])},
    ),
    Peer(
        "repsim",
        "repsim",
        "tables of CKA, HSIC, CCA, SVCCA, PWCCA",
        {
            "linear table": _repsim("cka", kernel_type="linear", estimator="gretton"),
            "debiased table": _repsim("cka", kernel_type="linear", estimator="song"),
            "cca table": _repsim("cca"),
            "svcca table": _repsim("svcca"),
            "pwcca table": _repsim("pwcca"),
            "linear pair": lambda layers: float(
                _repsim("cka", kernel_type="linear", estimator="gretton")(layers)[0, 1]
            ),
        },
        note="its CCA and SVCCA summarise by squared correlations (Yanai), a different number from the mean",
    ),
    Peer(
        "hyppo",
        "hyppo",
        "independence tests; normalised HSIC with a linear kernel",
        {
            "linear table": PairLoop(_hyppo_hsic),
            "linear pair": PairLoop(_hyppo_hsic),
            "permutations": _hyppo_permutations,
        },
    ),
    Peer("dcor", "dcor", "distance correlation of two arrays", {"distance correlation": PairLoop(_dcor)}),
    Peer("cca-zoo", "cca_zoo", "linear and regularised CCA", {"cca table": PairLoop(_cca_zoo)}),
    Peer("scikit-learn", "sklearn", "CCA by deflation", {"cca table": PairLoop(_scikit_learn_cca)}),
]


def _netrep(X: np.ndarray, Y: np.ndarray, alpha: float) -> float:
    """Return the similarity whose arc cosine netrep's metric gives (`alpha` 1: rotations, 0: linear maps)."""
    from netrep.metrics import LinearMetric

    return float(np.cos(LinearMetric(alpha=alpha, center_columns=True, score_method="angular").fit_score(X, Y)))


def _netrep_cca(X: np.ndarray, Y: np.ndarray) -> float:
    return _netrep(X, Y, 0.0)


def peer(name: str) -> Peer:
    """Return the peer of this distribution name, ours among them."""
    return next(found for found in [OURS, *PEERS] if found.name == name)


def absent() -> list[Peer]:
    """Return the peers that cannot be imported here."""
    return [found for found in PEERS if not found.is_installed]
