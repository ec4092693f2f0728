"""What several tests share with test_profile_edit."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tui.domain.document.document_edit import Edit, edited
from tui.domain.document.source import read
from tui.domain.profile.edit import apply, same
from tui.domain.profile.parameters import fill

POOLS = ("jobSpec", "workerPoolSpecs")


def after(text: str, *edits: Edit) -> str:
    """The edited text; its values are those of the mechanical edit, once filled in."""
    changed = apply(text, "f.yaml", edits)
    assert same(filled(read(changed, "")), edited(filled(read(text, "")), edits)), changed
    return changed


def filled(document: Any) -> Any:
    parameters = document.value.get("parameters") or {}
    values = {k: v["default"] if isinstance(v, dict) else v for k, v in parameters.items()}
    return {k: fill(v, values) if k != "parameters" else None for k, v in document.value.items()}


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    old, new = before.splitlines(), after.splitlines()
    return [x for x in old if x not in new], [x for x in new if x not in old]


TASK = """\
jobSpec:
  workerPoolSpecs:
    - replicaCount: 1
      containerSpec: &task
        imageUri: a/b:1
        # What it runs.
        command: [python, -m, train]
        args:
          - --one
          - --two
          - --three
        env:
          - {name: A, value: "1"}
    - replicaCount: 2
      containerSpec: *task
    - replicaCount: 3
      containerSpec: *task
"""


words = st.text(st.characters(codec="utf-8", exclude_characters="$"), max_size=12) | st.sampled_from(
    [
        "yes",
        "1e3",
        "0x1f",
        "1:30",
        "- a",
        "a: b",
        "a #b",
        "#",
        "~",
        "2020-01-01",
        "<<",
        "=",
        "a\nb",
        "[x]",
        "é😀",
    ]
)
scalars = st.none() | st.booleans() | st.integers(-99, 10**18) | st.floats(allow_nan=False) | words
keys = st.sampled_from(["a", "b", "c", "d e", "1"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)
