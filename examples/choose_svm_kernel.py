"""Choose the kernel of a support vector machine by its alignment with the labels, before any machine is trained.

On handwritten digits, with few of them to train on::

    python examples/choose_svm_kernel.py --splits 20 --plot choice.png

Three choices are compared on the digits left over: scikit-learn's default, the kernel of greatest debiased CKA with
the labels (centred kernel-target alignment), and a grid search by cross-validated accuracy.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC

from sklearn_cka import CKA

RATES = 2.0 ** np.arange(-6, 4)  # in units of scikit-learn's default, 1 / (n_features * variance)


def candidates(X: np.ndarray) -> list[dict]:
    """Return the parameters of the kernels to choose from."""
    scale = 1 / (X.shape[1] * X.var())
    rbf = [{"kernel": "rbf", "gamma": float(rate * scale)} for rate in RATES]
    return [*rbf, *({"kernel": "poly", "gamma": float(scale), "coef0": 1.0, "degree": d} for d in (2, 3, 4))]


def alignment(X: np.ndarray, y: np.ndarray, kernel: str, gamma: float | None = None, **params: float) -> float:
    """Return the debiased CKA of a kernel with that of equal labels."""
    index = CKA(kernel, gamma=gamma, kernel_params=params or None, kernel_y="delta", debiased=True)
    return index.similarity(X, y)


def compare_choices(n_splits: int, n_train: int = 300) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return accuracy and seconds of every choice, and alignment and accuracy of every kernel, over random splits."""
    X, y = load_digits(return_X_y=True)
    choices, kernels = [], []
    for split in range(n_splits):
        X_fit, X_held, y_fit, y_held = train_test_split(X, y, train_size=n_train, stratify=y, random_state=split)
        grid = candidates(X_fit)
        start = time.perf_counter()
        aligned = [alignment(X_fit, y_fit, **params) for params in grid]
        between = time.perf_counter()
        search = GridSearchCV(SVC(), [{k: [v] for k, v in params.items()} for params in grid]).fit(X_fit, y_fit)
        end = time.perf_counter()
        held = [SVC(**params).fit(X_fit, y_fit).score(X_held, y_held) for params in grid]
        kernels += [(k, *both) for k, both in enumerate(zip(aligned, held, strict=True))]
        choices += [
            (split, "default", SVC().fit(X_fit, y_fit).score(X_held, y_held), 0.0),
            (split, "alignment", held[int(np.argmax(aligned))], between - start),
            (split, "grid search", search.score(X_held, y_held), end - between),
        ]
    by_kernel = pd.DataFrame(kernels, columns=["kernel", "alignment", "accuracy"]).groupby("kernel").mean()
    return pd.DataFrame(choices, columns=["split", "choice", "accuracy", "seconds"]), by_kernel


def draw(choices: pd.DataFrame, kernels: pd.DataFrame, path: str) -> None:
    """Draw alignment and accuracy over gamma, and the accuracy of the three choices split by split."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
    for name, style in (("alignment", "k-o"), ("accuracy", "k--s")):
        left.plot(RATES, kernels[name][: len(RATES)], style, markerfacecolor="white", label=name)
    left.set_xscale("log", base=2)
    left.set(xlabel="gamma of the RBF kernel, in units of the default", ylabel="mean over splits")
    left.legend()
    wide = choices.pivot(index="split", columns="choice", values="accuracy")[["default", "alignment", "grid search"]]
    right.plot(wide.T, color="0.7", linewidth=0.8)
    right.plot(wide.mean(), "k-o", label="mean over splits")
    right.set(ylabel="accuracy on the digits left over", xlim=(-0.3, 2.3))
    right.legend()
    figure.savefig(path, dpi=120)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    """Run the script and return accuracy and seconds of every choice."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--splits", type=int, default=20, help="number of random splits (default: 20)")
    parser.add_argument("--plot", help="draw the comparison to this file")
    args = parser.parse_args(argv)
    choices, kernels = compare_choices(args.splits)
    print(choices.groupby("choice", sort=False)[["accuracy", "seconds"]].mean().round(4).to_string())
    if args.plot is not None:
        draw(choices, kernels, args.plot)
    return choices


if __name__ == "__main__":
    main()
