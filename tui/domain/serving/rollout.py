"""Rollout of a version: the next step of its traffic, and the split with its new share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.domain.core.text import plain
from tui.domain.serving.traffic import Deployed, ServingEndpoint, SplitError

STEPS = (10, 25, 50, 100)
"""Percentages of the requests, in the order of a rollout."""
NEW = "0"
"""Id that stands for the model to deploy in the traffic split of its deployment."""


def next_step(percent: int) -> int | None:
    """Return the next step after this share; `None` if the model has all requests."""
    return next((step for step in STEPS if step > percent), None)


def split_with(deployed: Sequence[Deployed], chosen: str, percent: int) -> dict[str, int]:
    """Return the split with `percent` for the deployed model `chosen`. The other models share the remaining
    percentage in their current proportion. Raises SplitError for an impossible percentage, or if it is
    unclear which model gets the remaining percentage."""
    if not 0 <= percent <= 100:
        raise SplitError(f"{percent}: a percentage must be from 0 to 100.")
    rest = 100 - percent
    others = [other for other in deployed if other.id != chosen]
    weights = {other.id: other.percent for other in others}
    if rest and not any(weights.values()):
        if len(others) != 1:
            reason = "No other model is deployed" if not others else "No other deployed model gets requests"
            raise SplitError(f"{reason}: name the model for the other {rest} %, or set 100 %.")
        weights = {others[0].id: 1}
    return {**_shared(rest, weights), chosen: percent}


def split_with_new(deployed: Sequence[Deployed], percent: int) -> dict[str, int]:
    """Return the traffic split that gives a model to be deployed, with the id `NEW`, this share. Raises
    SplitError."""
    return split_with([*deployed, Deployed(NEW, "", "", "", 0)], NEW, percent)


def _shared(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Divide `total` into integers in proportion to the weights; the largest remainders are rounded up."""
    whole = sum(weights.values()) or 1
    exact = {key: total * weight / whole for key, weight in weights.items()}
    parts = {key: int(part) for key, part in exact.items()}
    left = total - sum(parts.values())
    for key in sorted(exact, key=lambda key: parts[key] - exact[key])[:left]:
        parts[key] += 1
    return parts


def shares(percents: Mapping[str, int]) -> dict[str, int]:
    """Return the split without the models that get no requests, so that splits can be compared."""
    return {key: percent for key, percent in percents.items() if percent}


def percents_of(endpoint: ServingEndpoint) -> dict[str, int]:
    """Return the current split of an endpoint, by id."""
    return {model.id: model.percent for model in endpoint.deployed}


def split_before(endpoint: ServingEndpoint, before: Mapping[str, int]) -> dict[str, int]:
    """Return an earlier split, for the models deployed now. Raises SplitError if one of its models is no
    longer deployed."""
    now = percents_of(endpoint)
    gone = [key for key in shares(before) if key not in now]
    if gone:
        raise SplitError(
            f"The previous split can't be restored: {', '.join(gone)} received requests in that "
            "split, but is no longer deployed."
        )
    return {key: before.get(key, 0) for key in now}


def called(model: Deployed, deployed: Sequence[Deployed]) -> str:
    """Return a deployed model's name: `version 2`, with its display name or id if ambiguous."""
    same = [other for other in deployed if other.version == model.version]
    if len(same) == 1:
        return f"version {model.version}"
    alone = [other for other in same if other.display_name == model.display_name]
    if len(alone) == 1:
        return f"{plain(model.display_name)} version {model.version}"
    return f"{plain(model.display_name)} version {model.version} ({model.id})"


def moves(endpoint: ServingEndpoint, percents: Mapping[str, int]) -> str:
    """Return the changed shares in words: `version 1 100 → 90 %, version 2 0 → 10 %`."""
    changed = [model for model in endpoint.deployed if percents.get(model.id, 0) != model.percent]
    return ", ".join(
        f"{called(model, endpoint.deployed)} {model.percent} → {percents.get(model.id, 0)} %"
        for model in changed
    )
