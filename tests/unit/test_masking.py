"""Secrets in a specification never reach the screen unless asked for."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.domain.masking import MASK, looks_secret, mark_declared, mask_text, masked, remember
from tui.domain.masking import text as masking_text


@pytest.mark.parametrize(
    "name",
    ["WANDB_API_KEY", "HF_TOKEN", "hf-token", "password", "DB_PASSWD", "apiKey", "AWS_SECRET_ACCESS_KEY"],
)
def test_names_of_secrets(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "TOKENIZER",
        "MAX_TOKENS_PER_BATCH",
        "EPOCHS",
        "KEYBOARD",
        "monkey",
        "outputParameterKey",
        "outputArtifactKey",
    ],
)
def test_other_names(name: str) -> None:
    assert not looks_secret(name)


def test_secrets_are_hidden_wherever_they_stand() -> None:
    spec = {
        "env": [
            {"name": "WANDB_API_KEY", "value": "abc"},
            {"name": "EPOCHS", "value": "3"},
            {"name": "EMPTY_TOKEN", "value": ""},
        ],
        "args": ["--steps=4", "--hf-token=abc", "--api-key", "abc", "--verbose", "--token", "--next"],
        "command": ["curl", "https://ana:pw@host/x"],
        "note": "use hf_abcdefghijklmnop",
        "count": 3,
    }
    before = copy.deepcopy(spec)
    safe, hidden = masked(spec)
    assert spec == before
    assert (
        safe["env"][0]["value"] == MASK and safe["env"][1]["value"] == "3" and safe["env"][2]["value"] == ""
    )
    assert safe["args"] == [
        "--steps=4", f"--hf-token={MASK}", "--api-key", MASK, "--verbose", "--token", "--next",
    ]  # fmt: skip
    assert safe["command"][1] == f"https://ana:{MASK}@host/x"
    assert safe["note"] == f"use {MASK}" and safe["count"] == 3
    assert hidden == 5


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["name", "value", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=200)
@given(json_values)
def test_the_shape_stays_and_masking_twice_changes_nothing(value: Any) -> None:
    safe, _ = masked(value)
    assert type(safe) is type(value)
    assert masked(safe)[0] == safe


def test_text_without_secrets_stays() -> None:
    assert mask_text("gs://bucket/path?x=1") == "gs://bucket/path?x=1"


def test_a_second_launch_names_its_secrets_as_the_first_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking_text, "_remembered", {})
    task = {"args": ["--db=correct horse", "--lr=0.1"], "env": [{"name": "A", "value": "correct horse"}]}
    job = {"jobSpec": {"workerPoolSpecs": [{"containerSpec": task}]}}
    first = mark_declared(job, ["correct horse"])
    remember(["correct horse"])
    assert mark_declared(job, ["correct horse"]) == first
    env = first["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["env"]
    assert env[-1] == {"name": "VXTUI_SECRETS", "value": "args:0 env:A"}
