"""The layers of a model that tensor parallelism divides, and their styles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TensorPlan:
    """The plan of a model for tensor parallelism. `styles` maps patterns of module names to transformers'
    styles.

    `sizes` are quantities that the number of ranks must divide, by their name for the user. `heads` are
    patterns of modules in which each rank computes different heads, with dropout.
    """

    styles: Mapping[str, str]
    sizes: Mapping[str, int]
    heads: tuple[str, ...] = field(default=())


def plan_of(model: Any, prefix: str) -> TensorPlan | None:
    """Return the plan of a Hugging Face model; `prefix` is its name in our wrapper. Embeddings and the output
    layer are left to FSDP, because their weights may be tied."""
    styles = {name: style for name, style in (model.tp_plan or {}).items() if ".*." in name}
    if not styles:
        return None
    config = model.config.get_text_config(decoder=True)
    named = {
        "attention heads": "num_attention_heads",
        "heads of keys and values": "num_key_value_heads",
        "hidden units": "intermediate_size",
    }
    sizes = {label: getattr(config, field, None) for label, field in named.items()}
    attention = {name.rpartition(".")[0] for name in styles if name.endswith(".q_proj")}
    dropout = getattr(config, "attention_dropout", 0.0)
    return TensorPlan(
        {f"{prefix}{name}": style for name, style in styles.items()},
        {label: size for label, size in sizes.items() if isinstance(size, int)},
        tuple(f"{prefix}{name}" for name in sorted(attention)) if dropout else (),
    )
