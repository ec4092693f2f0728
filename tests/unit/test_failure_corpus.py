"""The corpus of failed runs is whole, and its scorer tells right from wrong."""

from __future__ import annotations

import json

import pytest

from tests.corpus.failures.score import HERE, folders, judge

FAMILIES = {
    "code",
    "package",
    "data",
    "config-flag",
    "memory-host",
    "memory-gpu",
    "disk",
    "storage-gcs",
    "permission",
    "image",
    "quota-capacity",
    "preemption",
    "network",
    "nccl-desync",
    "hardware-gpu",
    "timeout",
    "checkpoint",
    "launcher",
    "dependency-service",
    "user-cancel",
    "unknown",
    "none",
}
TRUTH = {
    "family": ["package", "image"],
    "replica": ["workerpool1-2"],
    "line": [40, 44],
    "cause_contains": ["flash_attn"],
    "retry": ["no"],
    "tells": True,
}
RIGHT = {
    "family": "image",
    "replica": "workerpool1-2",
    "line": 44,
    "cause": "Flash_attn is not in the image",
    "retry": "no",
    "confidence": 0.9,
}


@pytest.mark.parametrize("half", ["open", "blind"])
def test_each_case_is_whole_and_in_its_half(half: str) -> None:
    drawn = json.loads((HERE / "assignment.json").read_text())
    for folder in folders(half):
        expect = json.loads((folder / "expect.json").read_text())
        job = json.loads((folder / "job.json").read_text())
        families = expect["family"] if isinstance(expect["family"], list) else [expect["family"]]
        assert drawn[folder.name] == half
        assert set(families) <= FAMILIES, folder.name
        assert expect["tells"] == (families[0] != "unknown"), folder.name
        assert job.keys() == {"state", "error", "error_code", "replicas"}
        assert len(list(folder.glob("log.*"))) == 1
        named = {r["name"] for r in job["replicas"]} | {"service", ""}
        assert set(expect["replica"] or ()) <= named, folder.name


def test_a_right_answer_is_right() -> None:
    row = judge("x", TRUTH, RIGHT)
    assert row.right and row.cause and row.retry and not row.wrong_and_confident


@pytest.mark.parametrize(
    "change",
    [{"family": "code"}, {"replica": "workerpool0-0"}, {"line": 41}],
)
def test_a_wrong_answer_is_wrong_and_counts_where_it_is_sure(change: dict[str, object]) -> None:
    assert judge("x", TRUTH, RIGHT | change).wrong_and_confident
    assert not judge("x", TRUTH, RIGHT | change | {"confidence": 0.4}).wrong_and_confident


def test_a_cause_without_its_name_is_right_but_counted() -> None:
    row = judge("x", TRUTH, RIGHT | {"cause": "A package is missing"})
    assert row.right and not row.cause and not row.wrong_and_confident


def test_a_log_that_does_not_tell_wants_not_known() -> None:
    truth = TRUTH | {"family": "unknown", "replica": None, "line": None, "cause_contains": [], "tells": False}
    assert judge("x", truth, RIGHT).wrong_and_confident
    assert judge("x", truth, {"family": "unknown", "cause": "", "confidence": 0.1}).right


def test_a_cause_that_no_entry_shows_has_no_line() -> None:
    truth = TRUTH | {"line": [None]}
    assert not judge("x", truth, RIGHT).right
    assert judge("x", truth, RIGHT | {"line": None}).right
