"""Keys that work on the field under the cursor: edit, choose, switch, add, take away, fix, find."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from textual import on
from textual.content import Content
from textual.widgets import Input

from tui.actions.registry import Action
from tui.domain.profile import Problem, ProfileInvalid
from tui.domain.profile.document_edit import Edit, edited
from tui.domain.profile.source import dotted
from tui.domain.text import plain
from tui.domain.vertex import reducers
from tui.domain.vertex.form import changes
from tui.domain.vertex.form.changes import Refused
from tui.domain.vertex.form.choices import Choice, choices, machines_with, pool_of, pool_paths, region_of
from tui.domain.vertex.form.fields import ROLES
from tui.domain.vertex.form.rows import MAX_POOLS, Row, RowKind
from tui.domain.vertex.form.values import MISSING, Path, at, canonical, scalar_text
from tui.screens.dialogs.pick import PickScreen
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.profile_form.base import aside
from tui.screens.profile_form.navigation import FormMoves, typed_text
from tui.screens.workers import background
from tui.widgets.form.line import FormLine
from tui.widgets.form.view import FormView

ALL = "\x00all"
"""The choice that shows what was left out."""
PAUSE = 0.2
"""Seconds without a key after which what is typed is checked."""
FREE = frozenset({"machineType", "region", "bootDiskType", "acceleratorCount", "tpuTopology"})
"""Fields whose catalogue may be older than the service: any text may be typed."""


class FormFields(FormMoves):
    """See the module."""

    def __init__(self, *args: object, **more: object) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]
        self._editing: tuple[Row, bool] | None = None
        """The row whose value is typed, and whether it is added to it."""

    def blocked_reason(self, found: Action) -> str | None:
        reason = super().blocked_reason(found)
        row = self.row if self.is_mounted and self.analysis.readable else None
        if reason is not None or found.scope != "form":
            return reason
        if found.id == "form.fix" and fixable(row) is None:
            return "There is no fix for a machine to make here; n goes to the next problem."
        if found.method in {"next_problem", "previous_problem"} and not self.analysis.problems:
            return "There are no problems."
        if found.id == "form.switch" and not (row is not None and switches(row)):
            return "space turns a switch, or a yes into a no; enter edits other values."
        return None

    # Editing

    @on(FormView.Chosen)
    async def _chosen(self) -> None:
        await self.action_do("form.open")

    async def action_open(self) -> None:
        """Edit the value, choose one, or open the group."""
        row = self.row
        if row is None:
            return
        if row.kind is RowKind.MORE and row.open is None:
            self._add_pool()
        elif row.kind is RowKind.POOL and not row.raw:
            await self._pool_at(int(row.path[-1]))
        elif row.kind is RowKind.TASK:
            await self.take(changes.other_task(self.values, row.path), "change what the pool runs")
        elif row.kind is RowKind.SWITCH:
            await self.switch_reducers(adjust=True)
        elif switches(row):
            await self.action_switch()
        elif row.kind is RowKind.LIST and row.open is None:
            await self.action_add()
        elif row.open is not None and row.kind is not RowKind.PARAMETER:
            await self.action_fold()
        elif row.kind is RowKind.UNKNOWN:
            self.notify("It can't be edited here: D takes it away, E opens the editor.", markup=False)
        else:
            self._edit(row)

    def _edit(self, row: Row) -> None:
        found = choices(self.values, row, region_of(self.values, self.place), self.console.connection.regions)
        if found:
            self._pick(row, found)
            return
        text = typed_text(self.values, row)
        if "\n" in text:
            self.notify("This value has several lines; E opens the editor.", markup=False)
            return
        self._open_line(row, text, add=False)

    def _open_line(self, row: Row, text: str, *, add: bool, hint: str = "") -> None:
        place = self.view.place_of(row.key)
        if place is not None:
            self._editing = (row, add)
            self.line.open(text, *place, hint)

    def on_mount(self) -> None:
        self.watch(self.view, "scroll_y", self._follow_row, init=False)

    def on_resize(self) -> None:
        """Keep the line at its row."""
        self.call_after_refresh(self._follow_row)

    def _follow_row(self) -> None:
        place = self.view.place_of(self._editing[0].key) if self._editing is not None else None
        if place is not None:
            self.line.put(*place)

    @on(Input.Changed, "#edit")
    def _typing(self, event: Input.Changed) -> None:
        event.stop()
        if self._editing is not None:
            background(self, partial(self._try, event.value), "form-typing")

    async def _try(self, text: str) -> None:
        """Say what would be wrong with what is typed, once the keys pause."""
        await asyncio.sleep(PAUSE)
        edits, wrong = self._edits_typed(text)
        if wrong:
            self.say_wrong(wrong)
            return
        rows = await aside(self._would_be, edits)
        if self._editing is not None and rows:
            self.view.show(rows)
            self.say_detail()

    def _would_be(self, edits: Sequence[Edit]) -> list[Row]:
        """The rows with these edits; none where they can't be made."""
        try:
            text = self.draft.preview(edits)
        except (ProfileInvalid, LookupError, ValueError):
            return []
        return self.rows_of(self.analyse(text))

    def _edits_typed(self, text: str) -> tuple[Sequence[Edit], str]:
        """What the typed text would change, or what is wrong with it."""
        if self._editing is None:
            return (), ""
        row, add = self._editing
        try:
            return (
                changes.addition(self.values, row, text)[0] if add else changes.typed(self.values, row, text)
            ), ""
        except (ValueError, Refused) as error:
            return (), str(error)

    @on(FormLine.Left)
    async def _left(self, event: FormLine.Left) -> None:
        event.stop()
        if self._editing is None:
            return
        row, add = self._editing
        text = self.line.value
        if add and not text.strip():
            self._shut()
            return
        edits, wrong = self._edits_typed(text)
        if wrong and not event.clicked:
            self.say_wrong(wrong)
            return
        cursor = row.key
        if add and not wrong:
            path = changes.addition(self.values, row, text)[1]
            cursor = dotted(canonical(path))
            self._turn_open(changes.list_of(row))
        self._shut()
        if wrong:
            self.notify(f"{row.label} stays as it was. {wrong}", severity="warning", markup=False)
        elif not await self.take(edits, f"{'add to' if add else 'set'} {row.label}", cursor):
            self.show()
        if event.move:
            (self.view.action_cursor_down if event.move > 0 else self.view.action_cursor_up)()

    def _shut(self) -> bool:
        """Leave the line; whether it was open."""
        was = self._editing is not None
        self._editing = None
        self.workers.cancel_group(self, "form-typing")
        self.line.shut()
        if was:
            self.view.focus()
        return was

    async def settle(self) -> bool:
        """Take what is being typed; whether nothing is left open."""
        if self._editing is not None:
            await self._left(FormLine.Left(0))
        return self._editing is None

    def leave_line(self) -> bool:
        """Leave the line without taking what is typed; whether it was open."""
        was = self._shut()
        if was:
            self.show()
        return was

    # Choices

    def _pick(self, row: Row, found: Sequence[Choice]) -> None:
        name = row.field.name if row.field else ""
        options = [(c.value, choice_line(c)) for c in found]
        if name == "machineType":
            options.append((ALL, Content.styled("… every machine", "$text-muted")))

        def chosen(value: str | None) -> None:
            if value == ALL:
                self._pick_machine(row, "")
            elif value is not None:
                background(self, partial(self._take_choice, row, value), "form-take", exclusive=False)

        current = typed_text(self.values, row)
        self.app.push_screen(PickScreen(row.label, options, current, free=name in FREE), chosen)

    def _pick_machine(self, row: Row, kind: str, before: Sequence[Edit] = ()) -> None:
        region = region_of(self.values, self.place) if kind else ""
        options = [(c.value, choice_line(c)) for c in machines_with(kind, region)]
        pool = pool_of(row)

        def chosen(value: str | None) -> None:
            if value is not None and pool is not None:
                root = edited(self.values, before)
                edits = (*before, *changes.machine_edits(root, pool, value))
                background(
                    self, partial(self._take, edits, "set machine", row.key), "form-take", exclusive=False
                )

        title = f"A machine with {kind}" if kind else "machine"
        self.app.push_screen(PickScreen(title, options, free=True), chosen)

    async def _take_choice(self, row: Row, value: str) -> None:
        name, pool = (row.field.name if row.field else ""), pool_of(row)
        if name == "acceleratorType" and pool is not None and not row.parameter:
            edits = changes.accelerator_edits(self.values, pool, value)
            if value and not changes.takes(self.values, pool, value):
                self._pick_machine(row, value, edits)
                return
        elif name == "machineType" and pool is not None and not row.parameter:
            edits = changes.machine_edits(self.values, pool, value)
        else:
            try:
                edits = changes.typed(self.values, row, value)
            except ValueError as error:
                self.notify(str(error), severity="warning", markup=False)
                return
        await self._take(edits, f"set {row.label}", row.key)

    async def _take(self, edits: Sequence[Edit], what: str, cursor: str) -> None:
        await self.take(edits, what, cursor)

    async def action_switch(self) -> None:
        """Turn a yes into a no, or a switch."""
        row = self.row
        if row is None:
            return
        if row.kind is RowKind.SWITCH:
            await self.switch_reducers()
            return
        now = scalar_text(row.raw).lower() in {"true", "yes"}
        if row.parameter:
            now = typed_text(self.values, row) == "true"
        await self.take(changes.typed(self.values, row, "false" if now else "true"), f"switch {row.label}")

    async def switch_reducers(self, *, adjust: bool = False) -> None:
        """Turn the Reduction Server on or off; with `adjust` take the proposed number where it is on."""
        job, region = self.analysis.job, self.analysis.region
        if job is None:
            self.notify("It can be sized once the fields have the right shape.", markup=False)
            return
        found = reducers.propose(job, region)
        if found.running and adjust and found.helps and found.count != found.running:
            edits, what = reducers.edits_on(job, region), f"make it {found.count} reducers"
        elif found.running:
            edits, what = reducers.edits_off(job), "turn Reduction Server off"
        elif found.helps:
            edits, what = reducers.edits_on(job, region), f"add {found.count} reducers"
        else:
            self.notify(found.reason, severity="warning", markup=False)
            return
        await self.take(edits, what)

    # Adding and taking away

    async def action_add(self) -> None:
        """Add what belongs here."""
        row = self.row
        if row is None:
            return
        if row.key == "parameters" or row.kind is RowKind.PARAMETER:
            self._ask_name("Name of the new parameter", "", self._add_parameter)
        elif changes.list_of(row) is not None and row.field is not None:
            if row.field.kind.name == "message" and row.field.name != "env":
                await self._change(changes.new_element, row, f"add to {row.field.label}")
            else:
                pairs = row.field.name == "env" or row.field.kind.name == "map"
                self._open_line(row, "", add=True, hint="NAME=VALUE" if pairs else "what is added")
        elif pool_of(row) is not None or row.kind in {RowKind.MORE, RowKind.SWITCH, RowKind.SECTION}:
            self._add_pool()
        else:
            self.notify("a adds to a list, the parameters or the pools.", markup=False)

    async def _change(
        self, deed: Callable[[object, Row], tuple[Sequence[Edit], Path]], row: Row, what: str
    ) -> None:
        try:
            edits, path = deed(self.values, row)
        except Refused as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        self._turn_open(changes.list_of(row))
        await self.take(edits, what, dotted(canonical(path)))

    def _ask_name(self, question: str, name: str, then: Callable[[str], object]) -> None:
        def answered(found: str | None) -> None:
            if found:
                then(found)

        self.app.push_screen(PromptScreen(question, name, check=changes.name_problem), answered)

    def _add_parameter(self, name: str) -> None:
        if at(self.values, ("parameters", name)) is not MISSING:
            self.notify(f"There is a parameter {name} already.", severity="warning", markup=False)
            return
        edits = (Edit(("parameters", name), {"default": ""}),)
        key = dotted(("parameters", name))
        background(
            self, partial(self._take, edits, f"add parameter {name}", key), "form-take", exclusive=False
        )

    def _add_pool(self) -> None:
        """Ask which position, where there is more than one left."""
        path = pool_paths(self.values, self.analysis.wrapped)
        pools = at(self.values, path)
        pools = pools if isinstance(pools, list) else []
        free = [i for i in range(MAX_POOLS) if i >= len(pools) or not pools[i]]
        if not free:
            self.notify(f"A job has {MAX_POOLS} positions for pools, and all are taken.", markup=False)
            return
        options = [
            (str(i), Content.assemble(f"pool {i}  ", (ROLES[i], "bold"), (_pool_hint(i), "$text-muted")))
            for i in free
        ]

        def chosen(value: str | None) -> None:
            if value is not None:
                background(self, partial(self._pool_at, int(value)), "form-take", exclusive=False)

        self.app.push_screen(PickScreen("Add a pool like the workers", options), chosen)

    async def _pool_at(self, position: int) -> None:
        path = pool_paths(self.values, self.analysis.wrapped)
        key = dotted(canonical((*path, position)))
        if position > 1 and key not in self._turned:
            self._turned.add(key)
        edits = changes.new_pool(self.values, path, position)
        await self.take(edits, f"add pool {position}", f"{key}.replicaCount")

    async def action_remove(self) -> None:
        """Take away what the row stands for."""
        row = self.row
        if row is None:
            return
        if row.kind is RowKind.SWITCH:
            await self.action_switch()
            return
        try:
            edits = changes.removal(self.values, row)
        except Refused as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        await self.take(edits, f"take {row.label} away")

    # Parameters

    def action_parameter(self) -> None:
        """Make a parameter of the value."""
        row = self.row
        if row is None:
            return

        def named(name: str) -> None:
            try:
                edits = changes.to_parameter(self.values, row, name)
            except Refused as error:
                self.notify(str(error), severity="warning", markup=False)
                return
            what = f"make {row.label} the parameter {name}"
            background(self, partial(self._take, edits, what, row.key), "form-take", exclusive=False)

        try:
            changes.to_parameter(self.values, row, "name")
        except Refused as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        name = (row.field.label if row.field else row.label).replace(" ", "-")
        self._ask_name(f"{row.label} becomes the parameter", "" if name.isdigit() else name, named)

    async def action_inline(self) -> None:
        """Put the parameter's default in the place of the reference."""
        row = self.row
        if row is None:
            return
        try:
            edits = changes.inlined(self.values, row)
        except Refused as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        await self.take(edits, f"make {row.label} a plain value")

    # Problems

    async def action_fix(self) -> None:
        """Do what the problem's fix says."""
        problem = fixable(self.row)
        if problem is not None:
            await self.take(problem.edits, f"fix {problem.field or 'the problem'}")


def fixable(row: Row | None) -> Problem | None:
    """The row's problem that a machine can mend."""
    return next((p for p in row.problems if p.edits), None) if row is not None else None


def switches(row: Row) -> bool:
    """The row is a switch, or yes or no."""
    boolean = row.kind is RowKind.FIELD and row.field is not None and row.field.kind.name == "boolean"
    return row.kind is RowKind.SWITCH or boolean


def choice_line(choice: Choice) -> Content:
    """A choice in a list: the value, and what it means."""
    return Content.assemble(f"{plain(choice.value) or 'none':<22} ", (plain(choice.words), "$text-muted"))


def _pool_hint(position: int) -> str:
    return "  (space on Reduction Server adds reducers)" if position == 2 else ""
