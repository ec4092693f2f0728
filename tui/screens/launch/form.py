"""The values of a launch: the job's name, the region, and the profile's parameters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Input

from tui.domain.form.choices import Choice, Offer, region_choices
from tui.screens.launch.field import ChoiceInput, LaunchField, ValueInput
from tui.store.profiles.entries import REGION, LaunchParameter, ProfileEntry
from tui.store.profiles.launch_values import launch_values

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

NAME = "\x00name"
"""Key of the job's name among the problems; no parameter has this key."""


class LaunchForm(VerticalScroll, can_focus=False):
    """One `LaunchField` for each value, in tab order. Posts `Changed` when a value changes."""

    class Changed(Message):
        """A value has changed."""

    def __init__(
        self, entry: ProfileEntry, region: str, regions: Sequence[str], word: str = "region"
    ) -> None:
        """Set the profile. `word` is the context's word for a region."""
        super().__init__(id="form")
        self._entry = entry
        own = tuple(Choice(region) for region in regions)
        self._regions = Offer(tuple(region_choices(regions)) if word == "region" else own, free=True)
        self.name_field = LaunchField("job name", "", "name in the list")
        self.region_field = LaunchField(word, region, "where it runs", self._regions)
        offers = entry.offers({}, region)
        self.parameters: dict[str, LaunchField] = {
            p.name: LaunchField(
                p.title, p.default, _hint(p), None if p.secret else offers.get(p.name), secret=p.secret
            )
            for p in entry.parameters
        }

    @property
    def fields(self) -> list[LaunchField]:
        """The fields from the top."""
        return [self.name_field, self.region_field, *self.parameters.values()]

    def compose(self) -> ComposeResult:
        yield from self.fields

    @property
    def values(self) -> dict[str, str]:
        """The parameters' texts."""
        return {name: field.value for name, field in self.parameters.items()}

    async def fill_in(self, console: ConsoleApp) -> None:
        """Fill in the parameters that a launch computes, except those that the user has typed."""
        commands = {p.name: p.at_launch for p in self._entry.parameters if p.at_launch}
        if not commands:
            return
        values = await asyncio.to_thread(
            partial(
                launch_values,
                commands,
                given_names=(),
                project=console.connection.context.project,
                now=console.clock(),
                folder=Path.cwd(),
            )
        )
        for name, value in values.items():
            if not self.parameters[name].value:
                self.parameters[name].line.value = value

    def show_problems(self, problems: Mapping[str, str]) -> None:
        """Show each field's problem: by parameter, `REGION` or `NAME`."""
        known = {NAME: self.name_field, REGION: self.region_field, **self.parameters}
        for key, field in known.items():
            field.show_problem(problems.get(key, ""))

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed())

    @on(ChoiceInput.Asked)
    def _choose(self, event: ChoiceInput.Asked) -> None:
        """Open a value's list. Choosing an entry moves to the next value."""
        event.stop()
        field = next(f for f in self.fields if f.line is event.line)
        # The choices of one value may depend on another: a machine's on the region.
        offers = self._entry.offers(self.values, self.region_field.value)
        name = next((name for name, other in self.parameters.items() if other is field), "")
        offer = self._regions if field is self.region_field else offers.get(name)
        if offer is None:
            return

        def chosen(value: str | None) -> None:
            if value is not None:
                field.line.value = value
                self.go(1)

        self.app.push_screen(field.pick(offer, event.typed), chosen)

    # Moving

    @on(ValueInput.Left)
    def _left(self, event: ValueInput.Left) -> None:
        """Go to the next value, or from the last value to the screen's keys."""
        event.stop()
        self.go(event.move)

    def go(self, move: int) -> None:
        """Focus the value `move` fields further. Without a focus, choose the first or last value."""
        lines = [field.line for field in self.fields]
        at = next(
            (i for i, line in enumerate(lines) if line is self.screen.focused), -1 if move > 0 else len(lines)
        )
        self.screen.set_focus(lines[at + move] if 0 <= at + move < len(lines) else None)

    def on_descendant_focus(self) -> None:
        """Show the explanation of the value with the focus."""
        self._mark_current()

    def on_descendant_blur(self) -> None:
        """Hide the explanation when no value has the focus."""
        self._mark_current()

    def _mark_current(self) -> None:
        for field in self.fields:
            field.set_class(field.line is self.screen.focused, "-current")


def _hint(parameter: LaunchParameter) -> str:
    """Return the explanation of the value, or its allowed values."""
    choices: Iterable[str] = () if parameter.secret else parameter.choices
    return parameter.description or " | ".join(choices) or parameter.kind
