"""Splits of an endpoint's traffic, as a person asks for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.domain.serving.traffic import Deployed, SplitError, traffic_split


def deployed(*versions: str) -> list[Deployed]:
    """A deployed model of each version, with the ids d0, d1, …"""
    return [Deployed(f"d{at}", "m", version, "m", 0) for at, version in enumerate(versions)]


def test_a_version_or_an_id_names_a_deployed_model_and_the_rest_gets_nothing() -> None:
    assert traffic_split(deployed("1", "2", "3"), {"2": 90, "d2": 10}) == {"d0": 0, "d1": 90, "d2": 10}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"9": 100}, r"No deployed model has the id or the version 9\. Deployed: d0 \(version 1\)"),
        ({"2": 100}, "2 deployed models have the version 2: write an id"),
        ({"1": 50, "d0": 50}, "1 and d0 are the same"),
        ({"1": 101}, "from 0 to 100"),
        ({"1": 60, "d1": 30}, "must add up to 100, not to 90"),
        ({}, "must add up to 100, not to 0"),
    ],
)
def test_a_split_that_can_t_be_is_refused(wanted: dict[str, int], words: str) -> None:
    with pytest.raises(SplitError, match=words):
        traffic_split(deployed("1", "2", "2"), wanted)


def test_nothing_deployed_takes_no_traffic() -> None:
    with pytest.raises(SplitError, match="Deployed: none"):
        traffic_split([], {"1": 100})


@given(st.lists(st.integers(0, 100), min_size=1, max_size=6), st.data())
def test_what_is_accepted_is_a_whole_split_of_what_was_asked(shares: list[int], data: st.DataObject) -> None:
    models = deployed(*(str(at) for at in range(len(shares))))
    keys = [data.draw(st.sampled_from([each.id, each.version])) for each in models]
    wanted = dict(zip(keys, shares, strict=True))
    if sum(shares) == 100:
        assert list(traffic_split(models, wanted).values()) == shares
    else:
        with pytest.raises(SplitError):
            traffic_split(models, wanted)
