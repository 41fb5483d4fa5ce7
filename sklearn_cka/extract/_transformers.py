"""Layers of the models of the transformers library: the hidden states, or modules by name, reduced over real tokens.

A model of that library is a torch module, and everything of :mod:`sklearn_cka.extract._torch` holds. Two things are
added: the layers are the hidden states unless others are named, and a sequence becomes one row by the attention mask.
"""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from sklearn_cka.extract._torch import prepare


class HiddenStates(nn.Module):
    """A model that hands each of its hidden states to a module of its own, so that they are layers like others.

    The states are called ``hidden_states.0`` (the embeddings), ``hidden_states.1``, ..., those of an encoder and
    decoder ``encoder_hidden_states.0``, ...; the names of all other modules are the model's.
    """

    transparent = "model"  # layers are called as if this one were not around the model

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self._accepted = inspect.signature(model.forward).parameters
        self.counts = _state_counts(model.config)
        for name, count in self.counts.items():
            self.add_module(name, nn.ModuleList(nn.Identity() for _ in range(count)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model, and its hidden states through their modules."""
        kwargs["output_hidden_states"] = True
        if "use_cache" in self._accepted:
            kwargs.setdefault("use_cache", False)
        if "token_type_ids" not in self._accepted:  # tokenizers give them to models that have no use for them
            kwargs.pop("token_type_ids", None)
        output = self.model(*args, **kwargs)
        for name, count in self.counts.items():
            states = getattr(output, name, None) or ()
            if states and len(states) != count:
                raise ValueError(
                    f"{type(self.model).__name__} returned {len(states)} {name} where its configuration says {count}; "
                    "name modules of it with layers=..., without its hidden states."
                )
            for module, state in zip(getattr(self, name), states, strict=False):
                module(state)
        return output


def _state_counts(config: Any) -> dict[str, int]:
    """Return how many hidden states a model of this configuration returns, under which names."""
    sizes = (getattr(config, name, None) for name in ("num_hidden_layers", "num_layers", "encoder_layers", "n_layer"))
    n_layers = next((int(size) for size in sizes if size), 0) or len(getattr(config, "depths", ()))
    if not getattr(config, "is_encoder_decoder", False):
        return {"hidden_states": n_layers + 1}
    n_decoder: Any = getattr(config, "num_decoder_layers", None) or getattr(config, "decoder_layers", n_layers)
    return {"encoder_hidden_states": n_layers + 1, "decoder_hidden_states": int(n_decoder) + 1}


@prepare.register(PreTrainedModel)
def _with_states(model: PreTrainedModel, layers: Any, options: dict[str, Any]) -> tuple[nn.Module, Any, dict[str, Any]]:
    """Make layers of the hidden states, and one row of every text."""
    wrapped = HiddenStates(model)
    if layers is None:
        layers = [f"{name}.*" for name in wrapped.counts]
    return wrapped, layers, {"tokens": "mean", **options}
