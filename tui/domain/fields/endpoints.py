"""The fields of an endpoint and of its deployed models, for their list, `vxtui endpoints` and its
`--json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from tui.domain.core.formatting import bar, rfc3339
from tui.domain.fields.cell import UNKNOWN, Cell, Tone, age_cell, muted, optional
from tui.domain.fields.field import Field, json_object
from tui.domain.serving.load import Load, latency_text, rate_text
from tui.domain.serving.traffic import Deployed, ServingEndpoint

BAD_SHARE = 0.05
"""Fraction of failed requests at which the value turns red."""
BAR = 9
"""Width of a traffic bar, in cells."""
Loads = Mapping[tuple[str, str], Load]
"""Load by the endpoint's name and the deployed model's id."""


class DeployedRow(NamedTuple):
    """A row for a deployed version; without `deployed` the first row of its endpoint."""

    endpoint: ServingEndpoint
    deployed: Deployed | None
    now: datetime
    load: Load | None = None
    cost: str = ""
    """Cost in USD per hour, as text."""
    bar: int = BAR


class EndpointRow(NamedTuple):
    """An endpoint with the load of its deployed models."""

    endpoint: ServingEndpoint
    loads: Loads
    now: datetime

    @property
    def versions(self) -> list[DeployedRow]:
        """The rows of the endpoint's deployed versions."""
        return [
            DeployedRow(self.endpoint, deployed, self.now, self.loads.get((self.endpoint.name, deployed.id)))
            for deployed in self.endpoint.deployed
        ]


def _name(row: DeployedRow) -> Cell:
    if row.deployed is None:
        return Cell(row.endpoint.display_name or row.endpoint.id, strong=True)
    return Cell(f"  {row.deployed.display_name}")


def _traffic(row: DeployedRow) -> Cell:
    if row.deployed is None:
        return Cell() if row.endpoint.deployed else muted("· nothing")
    percent = row.deployed.percent
    drawn = bar(percent / 100, row.bar)
    return Cell(
        drawn,
        Tone.GOOD if percent else Tone.MUTED,
        more=(Cell(f" {percent:>3} %"),),
        long=f"{percent} %",
    )


def _figure(text: Callable[[Load], str]) -> Callable[[DeployedRow], Cell]:
    def cell(row: DeployedRow) -> Cell:
        if row.deployed is None:
            return Cell()
        return optional(text(row.load) or None if row.load is not None else None)

    return cell


def _errors(row: DeployedRow) -> Cell:
    cell = _figure(lambda load: load.error_text)(row)
    if cell is UNKNOWN or row.load is None:
        return cell
    share = row.load.error_share or 0.0
    return Cell(cell.text, Tone.BAD if share >= BAD_SHARE else Tone.WARNING if share else Tone.NORMAL)


def _of_version(text: Callable[[Deployed], str]) -> Callable[[DeployedRow], Cell]:
    return lambda row: muted(text(row.deployed)) if row.deployed is not None else Cell()


def _replicas(deployed: Deployed) -> str:
    least, most = deployed.replicas or (0, 0)
    return "" if not most else str(most) if least == most else f"{least}-{most}"


def _json(value: Callable[[Deployed], Any]) -> Callable[[DeployedRow], Any]:
    return lambda row: value(row.deployed) if row.deployed is not None else None


def _load_json(row: DeployedRow) -> dict[str, Any] | None:
    load = row.load
    if load is None:
        return None
    return {
        "requests": load.requests,
        "seconds": load.seconds,
        "errors": dict(load.errors),
        "p50_ms": load.p50,
        "p95_ms": load.p95,
    }


DEPLOYED_FIELDS: tuple[Field[DeployedRow], ...] = (
    Field("name", "ENDPOINT", 16, max_width=40, flex=True, only="screen", cell=_name),
    Field("display_name", "MODEL", only="verb",
        cell=lambda row: Cell(row.deployed.display_name if row.deployed else "nothing deployed"),
        json=_json(lambda deployed: deployed.display_name), help="Display name"),
    Field("model", json=_json(lambda deployed: deployed.model), help="Name of the model"),
    Field("version", "VER", 3, max_width=6, right=True,
        cell=lambda row: Cell(row.deployed.version if row.deployed else ""),
        json=_json(lambda deployed: deployed.version), help="Version of the model"),
    Field("id", "DEPLOYED", only="verb",
        cell=_of_version(lambda deployed: deployed.id),
        json=_json(lambda deployed: deployed.id), help="Id of the deployed model"),
    Field("traffic", "TRAFFIC", 15, max_width=36,
        cell=_traffic, json=_json(lambda deployed: deployed.percent), json_key="percent",
        help="Share of the requests in percent"),
    Field("rate", "REQ/S", 5, max_width=8, right=True,
        cell=_figure(rate_text), json=_load_json, json_key="load",
        help="Requests of the last five minutes, see below"),
    Field("errors", "ERRORS", 9, max_width=10, right=True, cell=_errors),
    Field("p50", "P50", 6, max_width=8, right=True, rank=1,
        cell=_figure(lambda load: latency_text(load.p50))),
    Field("p95", "P95", 6, max_width=8, right=True, cell=_figure(lambda load: latency_text(load.p95))),
    Field("machine", "MACHINE", 13, max_width=24, rank=3,
        cell=_of_version(lambda deployed: deployed.machine),
        json=_json(lambda deployed: deployed.machine or None), help="Machine type"),
    Field("replicas", "REPL", 4, max_width=6, right=True, rank=5,
        cell=_of_version(_replicas),
        json=_json(lambda deployed: list(deployed.replicas) if deployed.replicas else None),
        help="Minimum and maximum number of replicas"),
    Field("cost", "$/H", 7, max_width=12, right=True, rank=4, only="screen",
        cell=lambda row: muted(row.cost)),
    Field("region", "REGION", 10, max_width=20, rank=6, only="screen",
        cell=lambda row: muted(row.endpoint.region if row.deployed is None else "")),
    Field("age", "AGE", 5, max_width=6, right=True, rank=2,
        cell=lambda row: age_cell((row.deployed or row.endpoint).create_time, row.now),
        json=_json(lambda deployed: rfc3339(deployed.create_time)), json_key="create_time",
        help="Time of the deployment"),
)  # fmt: skip
ENDPOINT_FIELDS: tuple[Field[EndpointRow], ...] = (
    Field("resource_name", json=lambda row: row.endpoint.name, json_key="name", help="Full resource name"),
    Field("name", "NAME",
        cell=lambda row: Cell(row.endpoint.display_name),
        json=lambda row: row.endpoint.display_name, json_key="display_name", help="Display name"),
    Field("id", "ID",
        cell=lambda row: Cell(row.endpoint.id), json=lambda row: row.endpoint.id,
        help="Last part of the resource name"),
    Field("region", "REGION",
        cell=lambda row: Cell(row.endpoint.region), json=lambda row: row.endpoint.region, help="Region"),
    Field("context", json=lambda row: row.endpoint.context, help="Name of the context"),
    Field("create_time", json=lambda row: rfc3339(row.endpoint.create_time), help="Time of creation"),
    Field("deployed", json=lambda row: [json_object(DEPLOYED_FIELDS, version) for version in row.versions],
        help="Deployed models, each with the fields below"),
)  # fmt: skip
