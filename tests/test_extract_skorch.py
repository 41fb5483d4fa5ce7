"""Layers of nets of skorch: those of the module, alone and at the end of a pipeline."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_cka import extract_layers

torch = pytest.importorskip("torch", reason="torch is not installed")
skorch = pytest.importorskip("skorch", reason="skorch is not installed")


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(4, 8)
        self.drop = torch.nn.Dropout(0.5)
        self.logits = torch.nn.Linear(8, 3)

    def forward(self, X):
        return self.logits(self.drop(torch.tanh(self.hidden(X))))


def test_layers_are_those_of_the_module():
    X, y = load_iris(return_X_y=True)
    X = X.astype(np.float32)
    torch.manual_seed(0)
    net = skorch.NeuralNetClassifier(Module, criterion=torch.nn.CrossEntropyLoss, max_epochs=2, verbose=0)
    with pytest.raises(NotFittedError):
        extract_layers(net, X)
    net.fit(X, y)
    layers = extract_layers(net, X)
    assert layers.names == ["hidden", "drop", "logits"]
    logits = net.forward(X).numpy()
    np.testing.assert_allclose(layers["logits"], logits, rtol=1e-5, atol=1e-6)
    model = make_pipeline(StandardScaler(), net).fit(X, y)
    found = extract_layers(model, X)
    name = "neuralnetclassifier"
    assert found.names == ["standardscaler", f"{name}.hidden", f"{name}.drop", f"{name}.logits"]
    expected = model[-1].module_.hidden(torch.from_numpy(model[0].transform(X))).detach()
    np.testing.assert_allclose(found[f"{name}.hidden"], expected, rtol=1e-5, atol=1e-6)
