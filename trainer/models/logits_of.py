"""Determine how a Hugging Face model computes logits from the last hidden state of its body.

In transformers this step is code: the `forward` of each class calls the output layer, and some classes then
scale or cap the logits. Most classes contain literally the same code, which this module recognizes.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from dataclasses import dataclass
from typing import Any

from torch import nn

_HIDDEN = re.compile(r"\w+\.last_hidden_state|\w+\[0\]|slice_logits_to_keep\(hidden_states, logits_to_keep\)")
_LAYER = "self.lm_head(hidden_states)"
_CAP = "self.config.final_logit_softcapping"
_CAPPED = [f"logits / {_CAP}", "torch.tanh(logits)", f"logits * {_CAP}"]


@dataclass(frozen=True, slots=True)
class LogitsOf:
    """The logits are `scale` times the output layer's result, or `cap · tanh(logits / cap)` for a `cap` above
    0."""

    scale: float = 1.0
    cap: float = 0.0


def logits_of(model: Any) -> LogitsOf | None:
    """Return the computation of the logits in a causal language model of transformers, or None if the result
    is unknown."""
    if type(getattr(model, "lm_head", None)) is not nn.Linear or model.base_model is model:
        return None
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(type(model).forward)))
    except (OSError, TypeError):
        return None
    assigned = _assigned(ast.parse(source), "logits", "hidden_states")
    hidden, (layer, *after) = assigned["hidden_states"], assigned["logits"] or [""]
    if layer != _LAYER or not hidden or not all(map(_HIDDEN.fullmatch, hidden)):
        return None
    if not after:
        return LogitsOf()
    if after == _CAPPED:
        return LogitsOf(cap=float(model.config.final_logit_softcapping or 0.0))
    if after == ["logits / self.config.logits_scaling"]:
        return LogitsOf(scale=1.0 / model.config.logits_scaling)
    if after == ["logits * self.logit_scale"]:
        return LogitsOf(scale=float(model.logit_scale))
    return None


def _assigned(tree: ast.AST, *names: str) -> dict[str, list[str]]:
    """Return the source of each assignment to these names, in order; an augmented assignment as a
    statement."""
    assigned: dict[str, list[str]] = {name: [] for name in names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets, value = node.targets, ast.unparse(node.value).removesuffix(".float()")
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets, value = [node.target], ast.unparse(node)
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name) and target.id in assigned:
                assigned[target.id].append(value)
    return assigned
