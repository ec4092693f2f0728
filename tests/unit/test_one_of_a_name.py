"""A change by a short name waits for every region: one that can't be read may have another of the name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tui.backends.interface import Unavailable
from tui.verbs.resources import verbs as resources
from tui.verbs.schedules import verbs as schedules

NAME = "projects/p/locations/us-central1/things/7"
FOUND = SimpleNamespace(name=NAME, id="7", display_name="nightly", region="us-central1")
DOWN = {"europe-west4": Unavailable("europe-west4 is not reached")}
BACKEND = SimpleNamespace(info=SimpleNamespace(name="here"))


@pytest.mark.parametrize(("verbs", "short"), [(schedules, "nightly"), (resources, "7")])
def test_a_short_name_means_one_only_where_all_regions_answer(verbs: Any, short: str) -> None:
    assert verbs._one(BACKEND, [FOUND], {}, short) is FOUND
    assert verbs._one(BACKEND, [FOUND], DOWN, NAME) is FOUND
    with pytest.raises(Unavailable, match="not reached"):
        verbs._one(BACKEND, [FOUND], DOWN, short)
