"""A change by a short name waits for every region: one that can't be read may have another of the name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tui.backends.interface import NotFound, Unavailable
from tui.backends.serving import RegionResults
from tui.verbs.lists.lookup import Noun, one_of
from tui.verbs.resources.verbs import RESOURCE
from tui.verbs.run import VerbFailure
from tui.verbs.schedules.verbs import SCHEDULE
from tui.verbs.serving.verbs import ENDPOINT, MODEL

NAME = "projects/p/locations/us-central1/things/7"
ITEM = SimpleNamespace(name=NAME, id="7", display_name="nightly", region="us-central1")
OTHER = SimpleNamespace(
    name=NAME.replace("central1", "east4"), id="7", display_name="nightly", region="us-east4"
)
DOWN = {"europe-west4": Unavailable("europe-west4 is not reached")}
BACKEND = SimpleNamespace(info=SimpleNamespace(name="here"))


def look(reference: str, noun: Noun, *items: SimpleNamespace, down: bool = False) -> object:
    return one_of(BACKEND, RegionResults(items, DOWN if down else {}), reference, noun)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("noun", "short"), [(SCHEDULE, "nightly"), (MODEL, "nightly"), (ENDPOINT, "nightly"), (RESOURCE, "7")]
)
def test_a_short_name_means_one_only_where_all_regions_answer(noun: Noun, short: str) -> None:
    assert look(short, noun, ITEM) is ITEM
    assert look(NAME, noun, ITEM, OTHER, down=True) is ITEM
    with pytest.raises(Unavailable, match="not reached"):
        look(short, noun, ITEM, down=True)
    with pytest.raises(Unavailable, match="not reached"):
        look("other", noun, ITEM, down=True)
    with pytest.raises(NotFound, match=f"The {noun.singular} other does not exist in the context here"):
        look("other", noun, ITEM)
    with pytest.raises(
        VerbFailure, match=f"2 {noun.singular}s are named {short}:\n.*us-central1.*\n.*us-east4"
    ):
        look(short, noun, ITEM, OTHER)


def test_an_id_that_the_service_gave_is_sure() -> None:
    assert look("7", SCHEDULE, ITEM, down=True) is ITEM
    with pytest.raises(NotFound):
        look("nightly", RESOURCE, ITEM)
