"""The tables of docs/JSON.md are those of the fields; `--snapshot-update` writes them anew."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tui.domain.fields.attempts import ATTEMPT_FIELDS
from tui.domain.fields.endpoints import DEPLOYED_FIELDS, ENDPOINT_FIELDS
from tui.domain.fields.field import Field
from tui.domain.fields.jobs import JOB_FIELDS
from tui.domain.fields.models import MODEL_FIELDS
from tui.domain.fields.profiles import PROFILE_FIELDS
from tui.domain.fields.quotas import QUOTA_FIELDS
from tui.domain.fields.replicas import REPLICA_FIELDS
from tui.domain.fields.resources import POOL_FIELDS, RESOURCE_FIELDS
from tui.domain.fields.schedules import SCHEDULE_FIELDS
from tui.domain.fields.tasks import TASK_FIELDS
from tui.kinds.registry import kinds

PAGE = Path(__file__).parents[2] / "docs" / "JSON.md"
TABLES: dict[str, Sequence[Field[Any]]] = {
    "job": JOB_FIELDS,
    "replica": REPLICA_FIELDS,
    "task": TASK_FIELDS,
    "attempt": ATTEMPT_FIELDS,
    "model": MODEL_FIELDS,
    "endpoint": ENDPOINT_FIELDS,
    "deployed model": DEPLOYED_FIELDS,
    "schedule": SCHEDULE_FIELDS,
    "persistent resource": RESOURCE_FIELDS,
    "pool": POOL_FIELDS,
    "quota": QUOTA_FIELDS,
    "profile": PROFILE_FIELDS,
}


def table(fields: Sequence[Field[Any]]) -> str:
    """The table of the fields with a JSON value."""
    rows = [f"| `{field.name}` | {field.help} | {field.title} |\n" for field in fields if field.json]
    return "| Key | Meaning | Column |\n|---|---|---|\n" + "".join(rows)


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_table_of_the_fields(name: str, request: pytest.FixtureRequest) -> None:
    page, fields = PAGE.read_text(), TABLES[name]
    block = re.search(rf"(?<=<!-- fields of a {name} -->\n)(?:\|.*\n)*", page)
    assert block is not None, f"docs/JSON.md has no mark for the fields of a {name}"
    if request.config.getoption("--snapshot-update"):
        PAGE.write_text(page[: block.start()] + table(fields) + page[block.end() :])
    else:
        assert block[0] == table(fields), "--snapshot-update writes the page anew"


def test_the_page_lists_the_kinds_of_work(request: pytest.FixtureRequest) -> None:
    page, line = PAGE.read_text(), ", ".join(f"`{kind.key}`" for kind in kinds()) + "."
    block = re.search(r"(?<=<!-- kinds of work -->\n).*", page)
    assert block is not None
    if request.config.getoption("--snapshot-update"):
        PAGE.write_text(page[: block.start()] + line + page[block.end() :])
    else:
        assert block[0] == line, "--snapshot-update writes the page anew"


@pytest.mark.parametrize("name", TABLES)
def test_a_key_is_unique_and_says_what_it_means(name: str) -> None:
    fields = TABLES[name]
    keys = [field.name for field in fields if field.json]
    assert len(set(keys)) == len(keys) and len({field.key for field in fields}) == len(fields)
    assert all(field.help for field in fields if field.json)
