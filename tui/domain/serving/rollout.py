"""How a version takes over an endpoint's requests: its next step, and the split with its new share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.domain.core.text import plain
from tui.domain.serving.traffic import Deployed, ServingEndpoint, SplitError

STEPS = (10, 25, 50, 100)
"""Percent of the requests, one after the other."""
NEW = "0"
"""Id of the model that is being deployed, in the split of its deployment."""


def next_step(percent: int) -> int | None:
    """The step after this share; `None` where it has all."""
    return next((step for step in STEPS if step > percent), None)


def split_with(deployed: Sequence[Deployed], chosen: str, percent: int) -> dict[str, int]:
    """The split in which the deployed model `chosen` has `percent`; the others share the rest as they do now.

    Raises:
        SplitError: for a percentage that can't be, or where it is open who gets the rest.
    """
    if not 0 <= percent <= 100:
        raise SplitError(f"{percent}: a percentage is from 0 to 100.")
    rest = 100 - percent
    others = [each for each in deployed if each.id != chosen]
    weights = {each.id: each.percent for each in others}
    if rest and not any(weights.values()):
        if len(others) != 1:
            who = "Nothing else is deployed" if not others else "None of the others has requests now"
            raise SplitError(f"{who}: say who gets the other {rest} %, or give it 100 %.")
        weights = {others[0].id: 1}
    return {**_shared(rest, weights), chosen: percent}


def split_with_new(deployed: Sequence[Deployed], percent: int) -> dict[str, int]:
    """Return the split for a model that is not deployed yet; its id is `NEW`. Raises SplitError."""
    return split_with([*deployed, Deployed(NEW, "", "", "", 0)], NEW, percent)


def _shared(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """`total` in whole parts, in proportion to the weights; the largest remainders are rounded up."""
    whole = sum(weights.values()) or 1
    exact = {key: total * weight / whole for key, weight in weights.items()}
    found = {key: int(part) for key, part in exact.items()}
    left = total - sum(found.values())
    for key in sorted(exact, key=lambda key: found[key] - exact[key])[:left]:
        found[key] += 1
    return found


def shares(percents: Mapping[str, int]) -> dict[str, int]:
    """A split without those that get nothing: what two splits are compared by."""
    return {key: percent for key, percent in percents.items() if percent}


def percents_of(endpoint: ServingEndpoint) -> dict[str, int]:
    """The split of an endpoint now, by id."""
    return {each.id: each.percent for each in endpoint.deployed}


def split_before(endpoint: ServingEndpoint, before: Mapping[str, int]) -> dict[str, int]:
    """An earlier split for what is deployed now.

    Raises:
        SplitError: where a deployed model of it is gone.
    """
    now = percents_of(endpoint)
    gone = [key for key in shares(before) if key not in now]
    if gone:
        raise SplitError(
            f"The split before can't be restored: {', '.join(gone)} had requests in it and is not deployed "
            "any more."
        )
    return {key: before.get(key, 0) for key in now}


def called(each: Deployed, deployed: Sequence[Deployed]) -> str:
    """`version 2` among these; with its model or its id where that does not say which one."""
    same = [other for other in deployed if other.version == each.version]
    if len(same) == 1:
        return f"version {each.version}"
    alone = [other for other in same if other.display_name == each.display_name]
    if len(alone) == 1:
        return f"{plain(each.display_name)} version {each.version}"
    return f"{plain(each.display_name)} version {each.version} ({each.id})"


def moves(endpoint: ServingEndpoint, percents: Mapping[str, int]) -> str:
    """`version 1 100 → 90 %, version 2 0 → 10 %`: those whose share changes."""
    changed = [each for each in endpoint.deployed if percents.get(each.id, 0) != each.percent]
    return ", ".join(
        f"{called(each, endpoint.deployed)} {each.percent} → {percents.get(each.id, 0)} %" for each in changed
    )
