"""Models: every version with its aliases, labels and endpoints, and the job that made it.

The older versions of a model are folded below its newest version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from textual import on
from textual.content import Content

from tui.actions.availability import ActionSelection
from tui.actions.registry import Action, bindings
from tui.domain.core.formatting import pieces
from tui.domain.fields.field import columns
from tui.domain.fields.models import MODEL_FIELDS, ModelRow
from tui.domain.resources.regional import with_kept
from tui.domain.serving.origin import candidates, made_by, output_folder
from tui.domain.serving.traffic import Model
from tui.screens.dialogs.link import show_resource
from tui.screens.list_screen import ListScreen
from tui.screens.polling import Polled, Polling
from tui.screens.serving.base import AT_ONCE
from tui.screens.serving.changes import EndpointChanges
from tui.session import BackendError, Session
from tui.widgets.filter_bar import FilterBar
from tui.widgets.table.cells import row_cells
from tui.widgets.table.table import Cells, Table

POLLED = Polled(
    "serving",
    "models",
    (
        "No models here yet.",
        "A training pipeline with modelToUpload creates one, and so does the SDK's Model.upload.",
    ),
    # Reading a model's versions takes a call.
    every=(60.0, 5.0),
)
COLUMNS = columns(MODEL_FIELDS)
MOST_OPEN = 5
"""Maximum number of versions of a model that start unfolded."""
OPEN, CLOSED = "▾ ", "▸ "
MOST_JOBS = 20
"""Number of jobs whose output folders are read to find the job that made a version."""


class ModelsScreen(ListScreen):
    """One row per version; a model's versions are adjacent, the newest first. Models with many versions are
    folded initially."""

    SCOPE = "models"
    HEADING = "Models"
    PLACEHOLDER = "name, alias, label or region"
    BINDINGS = bindings("models")

    polling: Polling

    def __init__(self) -> None:
        super().__init__()
        self.polling = Polling(
            self,
            POLLED,
            self._read,
            show=self.reload,
            forget=self._forget,
            has_rows=lambda: bool(self._models),
        )
        self.changes = EndpointChanges(self, self.polling, self.reload)
        self._models: Sequence[Model] = ()
        self._versions: dict[str, Sequence[Model]] = {}
        self._outputs: dict[str, str] = {}
        """Output folders by the job's name; "" if the job has none."""
        self._fitting: dict[str, list[Model]] = {}
        """The versions that match the filter, by their model's name."""
        self._shown: dict[str, Model] = {}
        self._folded: set[str] = set()
        """Names of models of which only the newest version is shown."""
        self._known: set[str] = set()
        """Names of models that were folded once. A model that the user opens stays open."""
        self._wanted = ""
        """The version to move the cursor to once it is read."""

    def make_table(self) -> Table:
        return Table(COLUMNS)

    def _forget(self) -> None:
        self._models, self._versions, self._outputs = (), {}, {}
        self._folded, self._known = set(), set()

    def point_at(self, version: str) -> None:
        """Move the cursor to this version, MODEL@VERSION, now or when it is read."""
        self._wanted = version
        if self.has_widgets:
            self.clear_filter()
            self._go_there()

    def _go_there(self) -> None:
        model = self._wanted.rpartition("@")[0]
        if model in self._folded and self._wanted not in self._shown:
            self._folded.discard(model)
            self.reload()
        elif self._wanted in self._shown:
            self.table.move_to(self._wanted)
            self._wanted = ""

    async def _read(self, session: Session) -> Mapping[str, BackendError]:
        models = await session.backend.serving.models()
        self._models = with_kept(models.items, models.errors, self._models)
        errors = dict(models.errors)
        self.reload()
        gate = asyncio.Semaphore(AT_ONCE)

        async def read(model: Model) -> None:
            async with gate:
                try:
                    self._versions[model.name] = await session.backend.serving.versions(model.name)
                except BackendError as error:
                    errors.setdefault(model.region, error)

        await asyncio.gather(*(read(model) for model in models.items))
        await self._read_outputs(session)
        return errors

    async def _read_outputs(self, session: Session) -> None:
        """Read the output folders of jobs that may have made versions without a recorded job."""
        jobs = self.console.store.jobs
        names = {
            job.name
            for versions in self._versions.values()
            for version in versions
            if not made_by(version, jobs, self._outputs)
            for job in candidates(version, jobs, MOST_JOBS)
        }
        gate = asyncio.Semaphore(AT_ONCE)

        async def read(name: str) -> None:
            async with gate:
                # A deleted job can't be opened.
                with suppress(BackendError):
                    spec = await session.backend.job_service(name).spec(name)
                    self._outputs[name] = output_folder(spec)

        await asyncio.gather(*(read(name) for name in sorted(names - self._outputs.keys())))

    def reload(self) -> None:
        words = self.query_one(FilterBar).text.casefold().split()
        self._fitting = {}
        for model in self._models:
            versions = self._versions.get(model.name, (model,))
            if model.name in self._versions and model.name not in self._known:
                self._known.add(model.name)
                self._folded |= {model.name} if len(versions) > MOST_OPEN else set()
            if fits := [version for version in versions if self._fits(version, words)]:
                self._fitting[model.name] = fits
        self._shown = {}
        now = self.console.clock()
        cells: dict[str, Cells] = {}
        for name, fits in self._fitting.items():
            # A filter shows every match.
            folded = name in self._folded and not words
            for at, version in enumerate(fits[:1] if folded else fits):
                self._shown[version.versioned] = version
                mark = ("" if at or len(fits) == 1 else CLOSED if folded else OPEN) or "  "
                cells[version.versioned] = self._cells(version, now, mark, fits[1:] if folded else ())
        self.table.show(list(cells), cells)
        self.table.display = bool(cells)
        self.polling.show_notice(shown=bool(cells), filtered=" ".join(words))
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
        """Return the name of the job that made the version, or ""."""
        return made_by(model, self.console.store.jobs, self._outputs)

    def _cells(self, model: Model, now: datetime, mark: str, hidden: Sequence[Model]) -> Cells:
        """Return the row of a version. `mark` shows whether the model is folded; `hidden` contains the
        model's hidden versions."""
        job_name = self._job(model)
        newest = self._fitting[model.name][0] is model
        row = ModelRow(model, now, newest, hidden, job_name, self.console.store.jobs.get(job_name))
        cells = row_cells(COLUMNS, row)
        return {**cells, "name": Content.assemble((mark, "$text-muted"), cells["name"])}

    def count_text(self) -> str:
        if self.polling.is_unknown:
            return ""
        models = len(self._fitting)
        versions = pieces(sum(map(len, self._fitting.values())), "version")
        whole = len(self._models)
        return f"{pieces(models, 'model') if models == whole else f'{models} of {whole} models'}, {versions}"

    @property
    def current(self) -> Model | None:
        """The version under the cursor."""
        return self._shown.get(self.table.cursor or "")

    def selection(self, scope: str) -> ActionSelection:
        model = self.current
        return replace(super().selection(scope), context=model.context if model is not None else "")

    def unmet(self, condition: str, action: Action) -> str:
        model = self.current
        match condition:
            case "versions":
                return "" if self._foldable else "This model has only one version."
            case "model":
                return "There is no model here." if model is None else ""
            case "source_job" if model is not None:
                name = self._job(model)
                if not name:
                    return "Neither the model nor its labels or artifacts name the job that made it."
                job_id = name.rpartition("/")[2]
                listed = name in self.console.store.jobs
                return "" if listed else f"The job {job_id} that made it is no longer listed."
        return super().unmet(condition, action)

    @property
    def _foldable(self) -> bool:
        current = self.current
        return current is not None and len(self._fitting[current.name]) > 1

    def action_fold(self) -> None:
        """Show or hide the older versions of the model under the cursor."""
        if self.current is not None:
            name = self.current.name
            self._folded ^= {name}
            self.table.move_to(self._fitting[name][0].versioned)
            self.reload()

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
            self.changes.deploy_model(self.current)

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
