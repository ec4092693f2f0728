"""Traffic splits: the percentage of an endpoint's requests that each deployed model gets."""

from __future__ import annotations

from collections.abc import Mapping

from tui.emulator.rpc.methods import failed_precondition, refuse
from tui.emulator.serving.validate import NEW, split_problems


def after_deployment(
    current: Mapping[str, int], requested: Mapping[str, int], deployed: set[str], new: str
) -> dict[str, int]:
    """Return the split with the model `new` beside the `deployed` models; unchanged if nothing is requested.

    Raises WireError: INVALID_ARGUMENT.
    """
    if not requested:
        return dict(current)
    _check(requested, {*deployed, NEW})
    return {new if key == NEW else key: value for key, value in requested.items()}


def after_removal(
    endpoint: str, current: Mapping[str, int], requested: Mapping[str, int], deployed: set[str], gone: str
) -> dict[str, int]:
    """Return the split without `gone`, which may have no traffic unless it is the last of `deployed`.

    Raises WireError: INVALID_ARGUMENT, FAILED_PRECONDITION.
    """
    if requested:
        _check(requested, deployed)
    split = dict(requested or current)
    if deployed == {gone}:
        return {}
    if split.get(gone, 0):
        raise failed_precondition(
            endpoint,
            f"The deployed model {gone} gets {split[gone]}% of the traffic of {endpoint}; give its traffic "
            "to others with traffic_split, then undeploy it.",
        )
    split.pop(gone, None)
    return split


def _check(split: Mapping[str, int], known: set[str]) -> None:
    refuse(split_problems(split, known))


class Chooser:
    """Chooses a deployed model for each request so that the shares are as exact as possible.

    Smooth weighted round robin: each choice adds every model's percentage to its credit, and the model with
    the highest credit pays the sum. The service's own method is not documented.
    """

    def __init__(self) -> None:
        self._credit: dict[str, int] = {}

    def choose(self, split: Mapping[str, int]) -> str | None:
        """Return the id of a deployed model, or `None` if there is no traffic."""
        weights = {key: value for key, value in split.items() if value > 0}
        if not weights:
            return None
        self._credit = {key: self._credit.get(key, 0) + value for key, value in weights.items()}
        best = max(self._credit, key=lambda key: self._credit[key])
        self._credit[best] -= sum(weights.values())
        return best
