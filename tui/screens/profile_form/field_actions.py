"""Keys for the field under the cursor: edit, choose, switch, add, remove, fix and change parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from textual.content import Content

from tui.domain.document.document_edit import Edit, edited
from tui.domain.document.source import dotted
from tui.domain.form import changes
from tui.domain.form.changes import Refused
from tui.domain.form.choices import (
    FREE,
    Choice,
    choices,
    machines_with,
    pool_of,
    pools_path,
    region_of,
)
from tui.domain.form.fields import ROLES
from tui.domain.form.rows import MAX_POOLS, FormRow, RowKind
from tui.domain.form.values import MISSING, Path, at, canonical, scalar_text
from tui.domain.profile import Problem
from tui.domain.profile.model import path_in_file
from tui.domain.vertex import reducers
from tui.screens.dialogs.pick import PickScreen, value_options
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.frame import FrameScreen
from tui.screens.profile_form.body import FormBody
from tui.screens.profile_form.draft_editor import DraftEditor
from tui.screens.profile_form.line_editor import LineEditor, typed_text
from tui.screens.profile_form.navigation import FormNavigation
from tui.screens.workers import background

ALL = "\x00all"
"""The choice that shows every machine."""


class FieldActions:
    """Converts a key into edits of the draft."""

    def __init__(
        self,
        screen: FrameScreen,
        editor: DraftEditor,
        body: FormBody,
        navigation: FormNavigation,
        line: LineEditor,
    ) -> None:
        self._screen = screen
        self._editor = editor
        self._body = body
        self._navigation = navigation
        self._line = line

    def _warn(self, why: object) -> None:
        self._screen.notify(str(why), severity="warning", markup=False)

    def _apply_later(self, edits: Sequence[Edit], label: str, cursor: str = "") -> None:
        """Make a change after the user has answered a dialog."""

        async def work() -> None:
            await self._editor.apply(edits, label, cursor)

        background(self._screen, work, "form-take", exclusive=False)

    # Editing

    async def action_open(self) -> None:
        """Edit the value, choose a value, or open the group."""
        row = self._body.row
        if row is None:
            return
        if row.kind is RowKind.MORE and row.open is None:
            self._add_pool()
        elif row.kind is RowKind.POOL and not row.raw:
            await self._pool_at(int(row.path[-1]))
        elif row.kind is RowKind.TASK:
            edits = changes.task_edits(self._editor.values, row.path)
            await self._editor.apply(edits, "change the task of the pool")
        elif row.kind is RowKind.SWITCH:
            await self._switch_reducers(adjust=True)
        elif switches(row):
            await self.action_switch()
        elif row.kind is RowKind.LIST and row.open is None:
            await self.action_add()
        elif folds(row):
            self._navigation.action_fold()
        elif row.kind is RowKind.UNKNOWN:
            self._screen.notify(
                "The field can't be edited here: D removes it, E opens the editor.", markup=False
            )
        else:
            self._edit(row)

    def _edit(self, row: FormRow) -> None:
        values, regions = self._editor.values, self._screen.console.connection.regions
        options = choices(values, row, region_of(values, self._editor.region), regions)
        if options:
            self._pick(row, options)
            return
        text = typed_text(values, row)
        if "\n" in text:
            self._screen.notify("This value has several lines; E opens the editor.", markup=False)
            return
        self._line.open(row, text)

    async def action_switch(self) -> None:
        """Toggle a boolean or a switch."""
        row = self._body.row
        if row is None:
            return
        if row.kind is RowKind.SWITCH:
            await self._switch_reducers()
            return
        on = scalar_text(row.raw).lower() in {"true", "yes"}
        if row.parameter:
            on = typed_text(self._editor.values, row) == "true"
        edits = changes.value_edits(self._editor.values, row, "false" if on else "true")
        await self._editor.apply(edits, f"switch {row.label}")

    async def _switch_reducers(self, *, adjust: bool = False) -> None:
        """Turn the Reduction Server on or off. `adjust` sets the proposed number if it is on."""
        job, region = self._editor.analysis.job, self._editor.analysis.region
        if job is None:
            self._screen.notify("Reduction Server can be sized once the errors are fixed.", markup=False)
            return
        proposal = reducers.propose(job, region)
        if proposal.running and adjust and proposal.helps and proposal.count != proposal.running:
            edits, label = reducers.edits_on(job, region), f"make it {proposal.count} reducers"
        elif proposal.running:
            edits, label = reducers.edits_off(job), "turn Reduction Server off"
        elif proposal.helps:
            edits, label = reducers.edits_on(job, region), f"add {proposal.count} reducers"
        else:
            self._warn(proposal.reason)
            return
        where = self._editor.analysis.spec_path
        await self._editor.apply([replace(e, path=path_in_file(e.path, where)) for e in edits], label)

    # Choices

    def _pick(self, row: FormRow, known: Sequence[Choice]) -> None:
        name = row.field.name if row.field else ""
        options = value_options((c.value, c.help) for c in known)
        if name == "machineType":
            options.append((ALL, Content.styled("… every machine", "$text-muted")))

        def chosen(value: str | None) -> None:
            if value == ALL:
                self._pick_machine(row, "")
            elif value is not None:
                self._take_choice(row, value)

        current = typed_text(self._editor.values, row)
        self._screen.app.push_screen(PickScreen(row.label, options, current, free=name in FREE), chosen)

    def _pick_machine(self, row: FormRow, accelerator: str, before: Sequence[Edit] = ()) -> None:
        """Choose a machine that supports the accelerator. `before` are edits to make with the choice."""
        values = self._editor.values
        region = region_of(values, self._editor.region) if accelerator else ""
        options = value_options((c.value, c.help) for c in machines_with(accelerator, region))
        pool = pool_of(row)

        def chosen(value: str | None) -> None:
            if value is not None and pool is not None:
                root = edited(self._editor.values, before)
                edits = (*before, *changes.machine_edits(root, pool, value))
                self._apply_later(edits, "set machine", row.key)

        title = f"A machine with {accelerator}" if accelerator else "machine"
        self._screen.app.push_screen(PickScreen(title, options, free=True), chosen)

    def _take_choice(self, row: FormRow, value: str) -> None:
        name, pool = (row.field.name if row.field else ""), pool_of(row)
        values = self._editor.values
        if name == "acceleratorType" and pool is not None and not row.parameter:
            edits = changes.accelerator_edits(values, pool, value)
            if value and not changes.accepts_accelerator(values, pool, value):
                self._pick_machine(row, value, edits)
                return
        elif name == "machineType" and pool is not None and not row.parameter:
            edits = changes.machine_edits(values, pool, value)
        else:
            try:
                edits = changes.value_edits(values, row, value)
            except ValueError as error:
                self._warn(error)
                return
        self._apply_later(edits, f"set {row.label}", row.key)

    # Adding and removing

    async def action_add(self) -> None:
        """Add an element to the row's list or group."""
        row = self._body.row
        if row is None:
            return
        if row.key == "parameters" or row.kind is RowKind.PARAMETER:
            self._ask_name("Name of the new parameter", "", self._add_parameter)
        elif changes.list_path(row) is not None and row.field is not None:
            if row.field.kind.name == "message" and row.field.name != "env":
                await self._add_element(row, f"add to {row.field.label}")
            else:
                pairs = row.field.name == "env" or row.field.kind.name == "map"
                self._line.open(row, "", add=True, hint="NAME=VALUE" if pairs else "the new element")
        elif pool_of(row) is not None or row.kind in {RowKind.MORE, RowKind.SWITCH, RowKind.SECTION}:
            self._add_pool()
        else:
            self._screen.notify("a adds to a list, the parameters or the pools.", markup=False)

    async def _add_element(self, row: FormRow, element: str) -> None:
        try:
            edits, path = changes.element_edits(self._editor.values, row)
        except Refused as error:
            self._warn(error)
            return
        opened = partial(self._body.keep_open, changes.list_path(row))
        await self._editor.apply(edits, element, dotted(canonical(path)), opened)

    def _ask_name(self, question: str, name: str, then: Callable[[str], object]) -> None:
        def answered(choice: str | None) -> None:
            if choice:
                then(choice)

        self._screen.app.push_screen(PromptScreen(question, name, check=changes.name_problem), answered)

    def _add_parameter(self, name: str) -> None:
        if at(self._editor.values, ("parameters", name)) is not MISSING:
            self._warn(f"The parameter {name} already exists.")
            return
        path: Path = ("parameters", name)
        self._apply_later((Edit(path, {"default": ""}),), f"add parameter {name}", dotted(path))

    def _add_pool(self) -> None:
        path = pools_path(self._editor.values, self._editor.analysis.spec_path)
        pools = at(self._editor.values, path)
        pools = pools if isinstance(pools, list) else []
        free = [i for i in range(MAX_POOLS) if i >= len(pools) or not pools[i]]
        if not free:
            self._screen.notify(f"A job can have {MAX_POOLS} pools, and all are used.", markup=False)
            return
        options = [
            (str(i), Content.assemble(f"pool {i}  ", (ROLES[i], "bold"), (_pool_hint(i), "$text-muted")))
            for i in free
        ]

        def chosen(value: str | None) -> None:
            if value is not None:
                add = partial(self._pool_at, int(value))
                background(self._screen, add, "form-take", exclusive=False)

        self._screen.app.push_screen(PickScreen("Add a pool like the workers", options), chosen)

    async def _pool_at(self, position: int) -> None:
        path = pools_path(self._editor.values, self._editor.analysis.spec_path)
        key = dotted(canonical((*path, position)))
        if position > 1:
            self._body.toggled.add(key)
        edits = changes.pool_edits(self._editor.values, path, position)
        await self._editor.apply(edits, f"add pool {position}", f"{key}.replicaCount")

    async def action_remove(self) -> None:
        """Remove the row's element."""
        row = self._body.row
        if row is None:
            return
        if row.kind is RowKind.SWITCH:
            await self.action_switch()
            return
        try:
            edits = changes.removal_edits(self._editor.values, row)
        except Refused as error:
            self._warn(error)
            return
        await self._editor.apply(edits, f"remove {row.label}")

    # Parameters

    def action_parameter(self) -> None:
        """Turn the value into a parameter."""
        row = self._body.row
        if row is None:
            return

        def named(name: str) -> None:
            try:
                edits = changes.parameter_edits(self._editor.values, row, name)
            except Refused as error:
                self._warn(error)
                return
            self._apply_later(edits, f"make {row.label} the parameter {name}", row.key)

        try:
            changes.parameter_edits(self._editor.values, row, "name")
        except Refused as error:
            self._warn(error)
            return
        name = (row.field.label if row.field else row.label).replace(" ", "-")
        self._ask_name(f"{row.label} becomes the parameter", "" if name.isdigit() else name, named)

    async def action_inline(self) -> None:
        """Replace the reference with the parameter's default."""
        row = self._body.row
        if row is None:
            return
        try:
            edits = changes.inline_edits(self._editor.values, row)
        except Refused as error:
            self._warn(error)
            return
        await self._editor.apply(edits, f"make {row.label} a plain value")

    # Problems

    async def action_fix(self) -> None:
        """Make the edits that the problem proposes."""
        problem = fixable(self._body.row)
        if problem is not None:
            await self._editor.apply(problem.edits, f"fix {problem.field or 'the problem'}")


def fixable(row: FormRow | None) -> Problem | None:
    """Return the row's first problem with an automatic fix."""
    return next((p for p in row.problems if p.edits), None) if row is not None else None


def folds(row: FormRow) -> bool:
    """Return whether the row is a group, which can be opened or closed."""
    if row.open is None or switches(row) or (row.kind is RowKind.POOL and not row.raw):
        return False
    return row.kind not in {RowKind.TASK, RowKind.SWITCH, RowKind.PARAMETER}


def switches(row: FormRow) -> bool:
    """Return whether the row is a switch or a boolean."""
    boolean = row.kind is RowKind.FIELD and row.field is not None and row.field.kind.name == "boolean"
    return row.kind is RowKind.SWITCH or boolean


def _pool_hint(position: int) -> str:
    return "  (space on Reduction Server adds reducers)" if position == 2 else ""
