"""The fields of a model's version, for the models' list, `vxtui models` and its `--json`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from tui.domain.core.formatting import pieces, rfc3339
from tui.domain.core.job import Job
from tui.domain.fields.cell import Cell, Tone, age_cell, muted
from tui.domain.fields.field import Field
from tui.domain.serving.traffic import Model


class ModelRow(NamedTuple):
    """A row of the models list: a version at a point in time, with the values that the list adds."""

    model: Model
    now: datetime
    newest: bool = True
    """Whether this is the newest listed version of its model."""
    hidden: Sequence[Model] = ()
    """Older versions of the model that are hidden."""
    made_by: str = ""
    """Name of the job that created the version."""
    job: Job | None = None
    """The job that created the version, if the job is listed."""


def _name(row: ModelRow) -> Cell:
    hidden = muted(f"  +{len(row.hidden):,}" if row.hidden else "")
    name = row.model.display_name or row.model.id
    tone = Tone.NORMAL if row.newest else Tone.MUTED
    return Cell(name, tone, strong=row.newest, more=(hidden,), long=row.model.display_name)


def _endpoints(row: ModelRow) -> Cell:
    names = {name for version in (row.model, *row.hidden) for name in version.endpoints}
    ids = " ".join(name.rpartition("/")[2] for name in row.model.endpoints)
    return Cell(pieces(len(names), "endpoint") if names else "", long=ids)


def _made_by(row: ModelRow) -> Cell:
    made_by = row.made_by or row.model.made_by
    name = made_by.rpartition("/")[2]
    return Cell(row.job.display_name) if row.job is not None else muted(name)


def _labels(row: ModelRow) -> Cell:
    return muted("  ".join(f"{key}={value}" for key, value in sorted(row.model.labels.items())))


MODEL_FIELDS: tuple[Field[ModelRow], ...] = (
    Field("resource_name", json=lambda row: row.model.name, json_key="name", help="Full resource name"),
    Field("name", "MODEL", 14, max_width=40,
        cell=_name, json=lambda row: row.model.display_name, json_key="display_name", help="Display name"),
    Field("id", "ID", only="verb",
        cell=lambda row: Cell(row.model.id), json=lambda row: row.model.id,
        help="Last part of the resource name"),
    Field("version", "VER", 3, max_width=6, right=True,
        cell=lambda row: Cell(row.model.version), json=lambda row: row.model.version,
        help="Number of the version"),
    Field("aliases", "ALIASES", 8, max_width=30, rank=1,
        cell=lambda row: Cell(" ".join(row.model.aliases)),
        json=lambda row: list(row.model.aliases), help="Aliases of the version"),
    Field("age", "AGE", 5, max_width=6, right=True,
        cell=lambda row: age_cell(row.model.create_time, row.now),
        json=lambda row: rfc3339(row.model.create_time), json_key="create_time",
        help="Time of creation"),
    Field("endpoints", "ENDPOINTS", 9, max_width=30, rank=3,
        cell=_endpoints, json=lambda row: list(row.model.endpoints),
        help="Names of the endpoints with this version"),
    Field("job", "MADE BY", 14, max_width=50, flex=True,
        cell=_made_by, json=lambda row: row.model.made_by or None, json_key="made_by",
        help="Name of the pipeline that created the version"),
    Field("labels", "LABELS", 10, max_width=40, rank=4, only="screen",
        cell=_labels,
        json=lambda row: dict(row.model.labels), help="Labels"),
    Field("region", "REGION", 10, max_width=20, rank=2, whole=True,
        cell=lambda row: muted(row.model.region), json=lambda row: row.model.region, help="Region"),
    Field("context", json=lambda row: row.model.context, help="Name of the context"),
    Field("image", json=lambda row: row.model.image or None, help="Image of the container"),
    Field("artifacts", json=lambda row: row.model.artifacts or None, help="URI of the artifacts"),
)  # fmt: skip
