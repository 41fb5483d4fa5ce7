"""Table 2 of the paper: how often every index finds the same layer in a network of another seed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.replication.experiments import Architecture, Setting, accuracies, layers_of
from sklearn_cka import (
    CKA,
    HSIC,
    PWCCA,
    SVCCA,
    CanonicalCorrelation,
    LinearPredictivity,
    benchmark_indexes,
)

# Of the paper, in per cent: Table 2.
PAPER = {
    "CCA (mean)": 1.4,
    "CCA (R2)": 10.6,
    "SVCCA (mean)": 9.9,
    "SVCCA (R2)": 15.1,
    "PWCCA": 11.1,
    "linear regression": 45.4,
    "linear HSIC": 22.2,
    "linear CKA": 99.3,
    "RBF CKA 0.2": 80.6,
    "RBF CKA 0.4": 99.1,
    "RBF CKA 0.8": 99.3,
}
KERNELS = {
    "linear HSIC": HSIC(),
    "linear CKA": CKA(),
    "RBF CKA 0.2": CKA("rbf", bandwidth=0.2),
    "RBF CKA 0.4": CKA("rbf", bandwidth=0.4),
    "RBF CKA 0.8": CKA("rbf", bandwidth=0.8),
}
MAPS = {
    "CCA (mean)": CanonicalCorrelation(),
    "CCA (R2)": CanonicalCorrelation(statistic="mean_squared"),
    "SVCCA (mean)": SVCCA(),
    "SVCCA (R2)": SVCCA(statistic="mean_squared"),
    "PWCCA": PWCCA(),
    "linear regression": LinearPredictivity(),
}


def main(setting: Setting) -> pd.DataFrame:
    """Match the layers of all pairs of networks, flattened and averaged over positions."""
    plain = Architecture()
    recipes = [setting.recipe(seed) for seed in range(setting.seeds)]
    setting.train([(plain, recipe) for recipe in recipes])
    networks = [setting.network(plain, recipe) for recipe in recipes]
    tables = []
    for how, n_test, indexes in (
        ("flatten", setting.n_test, KERNELS),
        ("mean", setting.n_test_averaged, MAPS | {name: KERNELS[name] for name in ("linear HSIC", "linear CKA")}),
        ("mean", setting.n_test, {name: index for name, index in KERNELS.items() if name.startswith("RBF")}),
    ):
        # Every part is kept, so that a run that was stopped goes on after the last one.
        kept = setting.part(f"matching-{how}-{n_test}-{len(indexes)}")
        if not kept.exists():
            pixels, _ = setting.test_images(n_test)
            models = [layers_of(network, pixels, how) for network in networks]
            table = benchmark_indexes(models, indexes, n_jobs=setting.n_jobs)
            table.insert(0, "activations", {"flatten": "flattened", "mean": "averaged"}[how])
            table.insert(1, "rows", n_test)
            table.to_csv(kept, index=False)
        tables.append(pd.read_csv(kept))
    found = accuracies(networks, *setting.test_images())
    frame = pd.concat(tables, ignore_index=True)
    frame["paper"] = frame["index"].map(PAPER) / 100
    setting.write("matching", frame, _figure(frame), accuracy=[round(value, 4) for value in found])
    return frame


def _figure(frame: pd.DataFrame):
    import matplotlib.pyplot as plt

    names = list(PAPER)
    figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    for shift, how, hatch, shade in ((-0.2, "flattened", "", "0.35"), (0.2, "averaged", "///", "0.85")):
        part = frame[frame["activations"] == how]
        places = np.array([names.index(name) for name in part["index"]])
        ax.barh(
            places + shift,
            100 * part["accuracy"],
            height=0.38,
            xerr=100 * part["standard_error"],
            color=shade,
            edgecolor="black",
            hatch=hatch,
            label=f"here, {how}",
            error_kw={"capsize": 2},
        )
    ax.plot(list(PAPER.values()), np.arange(len(names)), "D", color="black", markersize=5, label="the paper")
    ax.set_yticks(np.arange(len(names)), labels=names)
    ax.invert_yaxis()
    ax.set_xlabel("layers that find their counterpart, %")
    ax.legend(loc="center right")
    return figure
