"""Models: every version with its aliases, labels and endpoints, and the job that made it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from textual import on
from textual.content import Content

from tui.actions.registry import Action, bindings
from tui.domain.formatting import age, pieces
from tui.domain.resources.regional import with_kept
from tui.domain.serving.origin import candidates, made_by, output_folder
from tui.domain.serving.traffic import Model
from tui.domain.text import plain
from tui.screens.dialogs.link import show_resource
from tui.screens.serving import changes
from tui.screens.serving.base import AT_ONCE, ServingScreen, muted
from tui.session import BackendError, Session
from tui.widgets.filter_bar import FilterBar
from tui.widgets.table.table import Cells, Column, Table

COLUMNS = (
    Column("name", "MODEL", 14, max_width=40),
    Column("version", "VER", 3, max_width=6, right=True),
    Column("aliases", "ALIASES", 8, max_width=30, rank=1),
    Column("age", "AGE", 5, max_width=6, right=True),
    Column("endpoints", "ENDPOINTS", 9, max_width=30, rank=3),
    Column("job", "MADE BY", 14, max_width=50, flex=True),
    Column("labels", "LABELS", 10, max_width=40, rank=4),
    Column("region", "REGION", 10, max_width=20, rank=2, whole=True),
)
MOST_JOBS = 20
"""Jobs that are asked for their output folder to find the one that made a version."""


class ModelsScreen(ServingScreen):
    """One row for each version, those of a model together, the newest first."""

    SCOPE = "models"
    HEADING = "Models"
    PLACEHOLDER = "name, alias, label or region"
    BINDINGS = bindings("models")
    WHAT = "models"
    # The versions are a call for each model.
    EVERY = (60.0, 5.0)
    EMPTY = (
        "No models here yet.",
        "A training pipeline with modelToUpload makes one, and so does the SDK's Model.upload.",
    )

    def __init__(self) -> None:
        super().__init__()
        self._models: Sequence[Model] = ()
        self._versions: dict[str, Sequence[Model]] = {}
        self._outputs: dict[str, str] = {}
        """Output folders by the job's name, "" where it has none."""
        self._shown: dict[str, Model] = {}
        self._wanted = ""
        """The version to put the cursor on once it is read."""

    def make_table(self) -> Table:
        return Table(COLUMNS)

    def forget(self) -> None:
        self._models, self._versions, self._outputs = (), {}, {}

    @property
    def has_rows(self) -> bool:
        return bool(self._models)

    def point_at(self, version: str) -> None:
        """Put the cursor on this version, MODEL@VERSION, now or when it is read."""
        self._wanted = version
        if self.has_widgets:
            self.clear_filter()
            self._go_there()

    def _go_there(self) -> None:
        if self._wanted in self._shown:
            self.table.move_to(self._wanted)
            self._wanted = ""

    async def read_now(self, session: Session) -> Mapping[str, BackendError]:
        found = await session.backend.serving.models()
        self._models = with_kept(found.items, found.errors, self._models)
        errors = dict(found.errors)
        self.reload()
        gate = asyncio.Semaphore(AT_ONCE)

        async def read(model: Model) -> None:
            async with gate:
                try:
                    self._versions[model.name] = await session.backend.serving.versions(model.name)
                except BackendError as error:
                    errors.setdefault(model.region, error)

        await asyncio.gather(*(read(model) for model in found.items))
        await self._read_outputs(session)
        return errors

    async def _read_outputs(self, session: Session) -> None:
        """Read the output folders of the jobs that may have made versions which do not say by whom."""
        jobs = self.console.store.jobs
        wanted = {
            job.name
            for versions in self._versions.values()
            for version in versions
            if not made_by(version, jobs, self._outputs)
            for job in candidates(version, jobs, MOST_JOBS)
        }
        gate = asyncio.Semaphore(AT_ONCE)

        async def read(name: str) -> None:
            async with gate:
                # A job that is gone has made nothing that could be opened.
                with suppress(BackendError):
                    spec = await session.backend.job_service(name).spec(name)
                    self._outputs[name] = output_folder(spec)

        await asyncio.gather(*(read(name) for name in sorted(wanted - self._outputs.keys())))

    def reload(self) -> None:
        words = self.query_one(FilterBar).text.casefold().split()
        versions = [each for model in self._models for each in self._versions.get(model.name, (model,))]
        self._shown = {each.versioned: each for each in versions if self._fits(each, words)}
        now = self.console.clock()
        cells: dict[str, Cells] = {}
        above = ""
        for key, each in self._shown.items():
            cells[key] = self._cells(each, now, again=each.name == above)
            above = each.name
        self.table.show(list(cells), cells)
        self.table.display = bool(cells)
        self.show_why(shown=bool(cells), filtered=" ".join(words))
        self._go_there()
        self.refresh_frame()

    def _fits(self, model: Model, words: Sequence[str]) -> bool:
        labels = " ".join(f"{key}:{value} {key}={value}" for key, value in model.labels.items())
        text = (
            f"{model.display_name} {model.id} {model.version} {' '.join(model.aliases)} {model.region} "
            f"{model.context} {labels}"
        ).casefold()
        return all(word in text for word in words)

    def _job(self, model: Model) -> str:
        """Name of the job that made it, "" where nothing says which."""
        return made_by(model, self.console.store.jobs, self._outputs)

    def _cells(self, model: Model, now: datetime, *, again: bool) -> Cells:
        """`again`: the row above is another version of the same model."""
        name = model.display_name or model.id
        job_name = self._job(model)
        job = self.console.store.jobs.get(job_name)
        labels = "  ".join(f"{key}={value}" for key, value in sorted(model.labels.items()))
        return {
            "name": muted(plain(name)) if again else Content.styled(plain(name), "bold"),
            "version": Content(plain(model.version)),
            "aliases": Content(plain(" ".join(model.aliases))),
            "age": muted(age(now - model.create_time if model.create_time else None)),
            "endpoints": Content(pieces(len(model.endpoints), "endpoint") if model.endpoints else ""),
            "job": Content(plain(job.display_name)) if job else muted(job_name.rpartition("/")[2]),
            "labels": muted(plain(labels)),
            "region": muted(plain(model.region)),
        }

    def count_text(self) -> str:
        if self.is_unknown:
            return ""
        models = len({each.name for each in self._shown.values()})
        versions = pieces(len(self._shown), "version")
        whole = len(self._models)
        return f"{pieces(models, 'model') if models == whole else f'{models} of {whole} models'}, {versions}"

    @property
    def current(self) -> Model | None:
        """The version under the cursor."""
        return self._shown.get(self.table.cursor or "")

    def blocked_reason(self, found: Action) -> str | None:
        if found.id in {"models.open", "models.copy", "models.deploy"} and self.current is None:
            return "There is no model here."
        if found.mutates and self.current is not None:
            closed = self.access.refused_for(self.current.context)
            if closed is not None:
                return f"{changes.refused(found, closed)} {closed.fix}"
        if found.id == "models.open" and self.current is not None:
            name = self._job(self.current)
            if not name:
                return "Neither the model nor its labels or artifacts say which job made it."
            if name not in self.console.store.jobs:
                return f"The job {name.rpartition('/')[2]} that made it is not in the list of jobs any more."
        return super().blocked_reason(found)

    def action_open(self) -> None:
        """Open the job that made this version."""
        if self.current is not None:
            self.console.open_job(self._job(self.current))

    @on(Table.Chosen)
    async def _chosen(self) -> None:
        await self.action_do("models.open")

    def action_deploy(self) -> None:
        """Ask for an endpoint, a machine and a percentage, and deploy this version."""
        if self.current is not None:
            changes.deploy_model(self, self.current)

    def action_link(self) -> None:
        """Open the page of the version."""
        if self.current is not None:
            model = self.current
            path = f"models/locations/{model.name.partition('/locations/')[2]}/versions/{model.version}"
            show_resource(self.console, model.name, model.display_name, path)

    def action_copy(self) -> None:
        """Copy the resource name with the version."""
        if self.current is not None:
            self.console.send_copy(self.current.versioned, "the resource name")
