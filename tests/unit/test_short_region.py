"""Names of regions where room is short, figures that are never cut, and how a free quota is said."""

from __future__ import annotations

import pytest

from tui.domain.core.formatting import short_region
from tui.domain.core.quota import Quota
from tui.domain.fields.field import columns
from tui.domain.fields.jobs import job_fields
from tui.domain.vertex import catalog
from tui.domain.vertex.quota_fit import Line
from tui.widgets.table.columns import place


@pytest.mark.parametrize("room", [8, 10, 13, 15, 20, 24])
def test_no_two_regions_look_the_same(room: int) -> None:
    regions = catalog.regions()
    shown = [short_region(region, room) for region in regions]
    assert len(set(shown)) == len(regions) and not any("…" in name for name in shown)
    if room >= 15:
        assert all(len(name) <= room for name in shown)


def test_the_longest_form_that_fits_is_shown() -> None:
    assert short_region("northamerica-northeast1", 24) == "northamerica-northeast1"
    assert short_region("northamerica-northeast2", 15) == "na-northeast2"
    assert short_region("northamerica-northeast2", 8) == "na-ne2"
    assert short_region("prod/europe-west4", 12) == "prod/eu-w4"
    assert short_region("global", 3) == "global"


def test_a_figure_is_shown_whole_or_not_at_all() -> None:
    natural = {"step": len("512,000/10,000,000"), "name": 30, "progress": 40, "replicas": 11}
    seen = set()
    for room in range(40, 260):
        widths = {
            each.column.key: each.width
            for each in place(columns(job_fields((), contexts=False, ids=False)), natural, room)
        }
        seen |= {(key, widths[key]) for key in ("step", "replicas") if key in widths}
    assert seen == {("step", 18), ("replicas", 11)}


def test_what_is_free_is_said_as_need_and_room() -> None:
    metric = "custom_model_training_cpus"
    line = Line(metric, 8, Quota(metric, "us-central1", limit=2_300, used=100))
    assert line.sentence == "CPUs: needs 8, 2,200 free of 2,300"
