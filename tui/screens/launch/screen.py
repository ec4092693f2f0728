"""The launch of a profile: parameters, region, problems, checks, and one key that launches it once."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping
from functools import partial, reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, cast

from textual import on
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from tui.actions.registry import Action, bindings, key_text
from tui.domain.core.text import plain
from tui.domain.document.document_edit import Edit
from tui.domain.document.source import ProblemSeverity, dotted
from tui.domain.masking import mask_text
from tui.domain.profile.job_name import NameFacts, expand, is_template
from tui.domain.spec.spec_format import request_of
from tui.domain.vertex.cost import Estimate, estimate
from tui.domain.vertex.dry_run import document, price_words
from tui.domain.vertex.preflight import Check, CheckStatus, substituted
from tui.screens.dialogs.choice import ChoiceScreen
from tui.screens.dialogs.preview import PreviewScreen
from tui.screens.frame import FrameScreen
from tui.screens.launch.field import LaunchField, ValueInput
from tui.screens.launch.form import NAME, LaunchForm
from tui.screens.launch.rows import LaunchRows
from tui.screens.not_connected import not_connected
from tui.screens.workers import background
from tui.session import Session
from tui.store.profiles.entries import Prepared, ProfileEntry, ProfileError, shape_lines
from tui.store.profiles.library import with_edits
from tui.store.profiles.name_facts import blocks, name_facts
from tui.widgets.checks import Checks
from tui.widgets.header_lines import Line
from tui.widgets.labelled_lines import Labelled, LabelledLines

if TYPE_CHECKING:
    from tui.actions.operations.creation import SentLaunch
    from tui.actions.operations.runner import Outcome
    from tui.domain.core.job import Job
    from tui.packaging.prepare import PackagingStep

SHAPE_LABEL = 10
CHECK_AFTER = 0.4
"""Seconds without a change before the checks start."""
CONNECT_AFTER = 1.0
"""Seconds between attempts while the console is not connected."""
HELD_KEY_SECONDS = 1.0
"""Seconds after a failed launch before enter works again, so that a held key counts as one press."""
CHECK_SECONDS = 5.0
"""Seconds that a launch waits for unfinished checks."""


class LaunchScreen(FrameScreen):
    """The launch screen. Initially nothing has the focus, so that enter launches and letters are keys; tab
    goes to the values."""

    SCOPE = "launch"
    CSS_PATH = "screen.tcss"
    BINDINGS = bindings("launch")
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012

    def __init__(self, entry: ProfileEntry) -> None:
        super().__init__()
        self._entry = entry
        self._prepared: Prepared | None = None
        self._problems: list[str] = []
        """Problems with the profile's file."""
        self._wrong_values: list[str] = []
        """Problems with the values of this launch, each shown at its field."""
        self._under_way = False
        self._waiting = False
        """Whether a launch waits for its checks."""
        self._known = asyncio.Event()
        """Whether all checks of the current request are done."""
        self._packing: asyncio.Task[Outcome[Job]] | None = None
        """The task of the launch while it builds the package, during which it can be cancelled."""
        self._given_up = False
        self._failed_at = float("-inf")
        self._fixes: list[Edit] = []
        self._own_name = ""
        """The name in the name field until the user types another."""
        self._facts: NameFacts | None = None
        self._timer: Timer | None = None

    def compose_body(self) -> Iterable[Widget]:
        open_now = self.console.connection
        form = LaunchForm(self._entry, self._region(), open_now.regions, open_now.context.region_word)
        known = (Static("", id="answer", markup=False), LabelledLines("problems"), Checks())
        yield LaunchRows(form, LabelledLines("shape"), known)

    def _region(self) -> str:
        """Return the default region; "" if a parameter of the profile sets the region."""
        own = self._entry.region
        return "" if "${" in own else own or self.console.connection.home_region

    def on_mount(self) -> None:
        self._prepare()
        background(self, self._read_facts, "name")
        background(self, partial(self._form.fill_in, self.console), "values")
        self.console.prices_changed.subscribe(self, lambda _: self._show_shape())

    def _show_shape(self) -> None:
        self.query_one("#shape", LabelledLines).show(self._shape())

    @property
    def _form(self) -> LaunchForm:
        return self.query_one(LaunchForm)

    @on(LaunchForm.Changed)
    def _prepare(self) -> None:
        """Fill in the profile with the typed values, and check it if that changes the request: the screen's
        own values arrive here too, even after the key that launches."""
        form, context, before = self._form, self.console.connection.context, self._prepared
        try:
            self._prepared = self._entry.prepare(form.values, context=context, region=form.region_field.value)
            self._prepared = self._with_fixes(self._named(self._prepared, form.name_field.value))
            self._problems, wrong = [], self._wrong_name(self._prepared)
        except ProfileError as error:
            self._prepared, self._problems, wrong = None, error.others, error.at
        self._wrong_values = list(wrong.values())
        form.show_problems(wrong)
        self.query_one("#problems", LabelledLines).show(self._notes())
        self._show_shape()
        if self._prepared is None or self._prepared != before:
            self._stop_waiting()
            self._check_soon()
        self.refresh_frame()

    def _named(self, prepared: Prepared, typed: str) -> Prepared:
        """Return the job with the typed name, or with the profile's name and its placeholders filled in."""
        template = str(prepared.request.custom_job.get("displayName", ""))
        if typed == self._own_name:
            if self._facts is None and not blocks(template):
                self._facts = name_facts(self._entry.path, self.console.clock(), prepared.request.custom_job)
            taken_names = self.console.connection.taken_names
            typed = template if self._facts is None else expand(template, self._facts, taken_names)
            self._own_name = typed
            self._form.name_field.line.value = typed
        return prepared if typed == template else with_edits(prepared, [Edit(("displayName",), typed)])

    def _wrong_name(self, prepared: Prepared) -> dict[str, str]:
        """Return the problem with the job's name, for the name's field."""
        name = str(prepared.request.custom_job.get("displayName", ""))
        if self._facts is None and name == self._own_name and is_template(name):
            return {NAME: "The name is being filled in. Try again in a moment."}
        name_problem = prepared.request.name_problem
        return {NAME: " ".join(name_problem)} if name_problem is not None else {}

    async def _read_facts(self) -> None:
        """Read the existing names and the values of the placeholders, which takes a while."""
        changed = await asyncio.to_thread(self.console.journal.read_launches)
        if self._prepared is not None and is_template(self._own_name):
            path, clock = self._entry.path, self.console.clock()
            job = {**self._prepared.request.custom_job, "displayName": self._own_name}
            self._facts, changed = await asyncio.to_thread(name_facts, path, clock, job), True
        if changed:
            self._prepare()

    def _notes(self) -> list[Labelled]:
        """Return the problems found by the rules, and the changes for this launch."""
        lines = [
            (Content.styled("✗ ", "$text-error"), Content(plain(mask_text(text)))) for text in self._problems
        ]
        if wrong := [field.field for field in self._form.fields if field.problem]:
            words = f"not valid: {', '.join(wrong)}"
            lines.append((Content.styled("✗ ", "$text-error"), Content(plain(words))))
        for problem in self._prepared.problems if self._prepared else ():
            mark = (
                ("! ", "$text-warning")
                if problem.severity is ProblemSeverity.WARNING
                else ("· ", "$text-muted")
            )
            lines.append(
                (Content.styled(*mark), Content(plain(mask_text(f"{problem.field}: {problem.message}"))))
            )
        for edit in self._fixes:
            words = f"{dotted(edit.path).removeprefix('jobSpec.')} is {edit.value} for this launch"
            lines.append((Content.styled("F ", "$text-accent"), Content.styled(plain(words), "$text-accent")))
        return lines or [(Content.styled("✓ ", "$text-success"), Content("the profile is valid"))]

    def _with_fixes(self, prepared: Prepared) -> Prepared:
        """Return the job with the changes of F, except changes whose field no longer exists."""
        if not self._fixes:
            return prepared
        try:
            return with_edits(prepared, self._fixes)
        except LookupError:
            self._fixes.clear()
            return prepared

    # Checks

    def _check_soon(self) -> None:
        """Run the checks again once the typing pauses. Until then, the shown results are outdated."""
        checks = self.query_one(Checks)
        self._known.clear()
        self.workers.cancel_group(self, "preflight")
        if self._timer is not None:
            self._timer.stop()
        if self._prepared is None:
            checks.clear()
            return
        checks.begin("" if self.session is not None else not_connected(self.app))
        self._timer = self.set_timer(CHECK_AFTER if self.session else CONNECT_AFTER, self._start_checks)

    def _start_checks(self) -> None:
        if self.session is None or self._prepared is None:
            self._check_soon()
        else:
            background(self, partial(self._run_checks, self.session, self._prepared), "preflight")

    async def _run_checks(self, session: Session, prepared: Prepared) -> None:
        checks = self.query_one(Checks)
        async for check in self.console.connection.preflight(session, prepared.request):
            checks.add(check)
            self.refresh_frame()
        checks.end()
        self._known.set()
        self.refresh_frame()

    @property
    def _wrong(self) -> list[Check]:
        """The checks that found a problem, with fixable problems first."""
        checks = [check for check in self.query_one(Checks).checks if check.status is CheckStatus.PROBLEM]
        return sorted(checks, key=lambda check: not check.fixable)

    def action_fix(self) -> None:
        """Fix the problem with a check for this launch, or show the fix."""
        if not self._wrong or self._prepared is None:
            return
        check = self._wrong[0]
        if not check.fixable:
            self.notify(plain(check.fix or check.sentence), severity="warning", markup=False)
            return
        if check.region:
            self._form.region_field.line.value = check.region
        before = {field: field.value for field in self._form.fields}
        for edit in check.edits:
            self._fix(edit, self._prepared, before)
        self._prepare()

    def _fix(self, edit: Edit, prepared: Prepared, before: Mapping[LaunchField, str]) -> None:
        """Change the value that sets the field; if no value sets the field, change only the request."""
        old = reduce(getitem, edit.path, cast("Any", prepared.request.custom_job))
        for field, was in before.items():
            new = substituted(was, str(old), str(edit.value)) if was else None
            if new is not None:
                field.line.value = new
                return
        self._fixes.append(edit)

    def action_dry(self) -> None:
        """Show this launch in the format of a dry run."""
        if self._prepared is None:
            return
        request = self._prepared.request
        path = self.console.create_path(request)
        parent = path.removeprefix("/v1/").lstrip("/").rpartition("/")[0]
        checks = self.query_one(Checks).checks
        shown = document(
            parent,
            request_of(request.body, request.custom_job),
            self._estimate(self._prepared),
            self._prepared.problems,
            checks,
        )
        self.app.push_screen(
            PreviewScreen(
                f"Dry run of {self._entry.name}", path, shown, as_json=True, secrets=request.secrets
            )
        )

    def _shape(self) -> list[Labelled]:
        if self._prepared is None:
            return []
        job = self._prepared.request.custom_job
        facts = [
            *shape_lines(job),
            ("price", price_words(self._estimate(self._prepared), billed=not self.console.bills_nothing)),
        ]
        if self._prepared.order is not None:
            package = self._prepared.order.package
            facts.append(("package", f"{package.path}  {package.script or package.module}"))
        return [
            (Content.styled(f"{name:<{SHAPE_LABEL}}", "$text-muted"), Content(plain(words)))
            for name, words in facts
        ]

    def _estimate(self, prepared: Prepared) -> Estimate:
        return estimate(prepared.request.custom_job, prepared.request.region, self.console.costs.prices)

    def top_line(self) -> Line:
        console = self.console
        left = Content.assemble(
            ("vxtui", "bold $accent"), "   ", (f"Launch {plain(self._entry.name)}", "bold")
        )
        region = self._prepared.request.region if self._prepared else ""
        right = Content.assemble((plain(console.context_name), "bold"), f"  {plain(region)}")
        if self.read_only:
            right = Content.assemble(("read-only", "bold $text-warning"), "   ", right)
        return left, right

    def second_line(self) -> Line:
        return Content.styled(plain(self._entry.description), "$text-muted"), Content("")

    # Keys

    @property
    def _value(self) -> ValueInput | None:
        return self.focused if isinstance(self.focused, ValueInput) else None

    def scopes(self) -> tuple[str, ...]:
        value = self._value
        return super().scopes() if value is None else (value.SCOPE, *super().scopes())

    def target(self, action: Action) -> object:
        value = self._value
        return value if value is not None and action.scope == value.SCOPE else super().target(action)

    def footer_actions(self) -> list[Action]:
        """Return the keys that work now: a focused value receives the letters and its own keys."""
        shown, value = super().footer_actions(), self._value
        if value is None:
            return shown
        own = {key for a in shown if a.scope == value.SCOPE for key in self._keys(a)}
        return [
            a
            for a in shown
            if a.scope == value.SCOPE or not any(len(key) == 1 or key in own for key in self._keys(a))
        ]

    def _keys(self, action: Action) -> list[str]:
        return key_text(action, self.keymap).split(" ")

    def on_descendant_focus(self) -> None:
        """Update the keys for the newly focused value."""
        self.refresh_frame()

    def on_descendant_blur(self) -> None:
        """Return the keys to the screen."""
        self.refresh_frame()

    def unmet(self, condition: str, action: Action) -> str:
        match condition:
            case "ready" if self._waiting:
                return "The launch waits for its checks; esc cancels it."
            case "ready" if self._under_way:
                return "The job is being launched."
            case "ready":
                problems = [*self._wrong_values, *self._problems]
                return f"Can't be launched: {problems[0]}" if problems else ""
            case "request":
                return "There is no request while the profile is invalid." if self._prepared is None else ""
            case "fixes" if self._prepared is None:
                return "Errors of the profile are fixed in its form: e on it, then n and F."
            case "fixes":
                return "" if self._wrong else "The checks have found nothing to fix."
        return super().unmet(condition, action)

    def action_go(self) -> None:
        """Launch once, however long the key is held."""
        if self._under_way or self._prepared is None or self.session is None:
            return
        if time.monotonic() - self._failed_at < HELD_KEY_SECONDS:
            # A held key restarts the wait; otherwise it would launch again after that time.
            self._failed_at = time.monotonic()
            return
        self._under_way = self._waiting = True
        if not self._known.is_set():
            self._answer(Content.styled("Waiting for the checks…", "$text-warning"), "esc cancels it")
            if self._timer is not None:
                self._timer.stop()
                self._start_checks()
        background(self, partial(self._go, self._prepared), "go")

    async def _go(self, prepared: Prepared) -> None:
        """Launch the job. Ask first if a check failed, but not if a check is unknown."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CHECK_SECONDS):
                await self._known.wait()
        self._waiting = False
        if not (fatal := [check for check in self._wrong if check.fatal]):
            self._send(prepared)
            return
        self._under_way = False
        self._answer(Content.styled("Not launched: a check predicts a failure.", "$text-warning"))
        question = f"Launch {self._entry.name} anyway?"
        answers = [("y", "launch it", "though it would fail"), ("n", "don't launch it", "")]
        self.app.push_screen(
            ChoiceScreen(question, answers, [check.words for check in fatal]), partial(self._asked, prepared)
        )

    def _asked(self, prepared: Prepared, answer: str | None) -> None:
        if answer == "y":
            self._send(prepared)

    def _send(self, prepared: Prepared) -> None:
        self._under_way, self._given_up = True, False
        self._answer(Content.styled("Launching…", "$text-warning"))
        # Use a worker of the app: it continues when the job's screen replaces this screen.
        background(self.console, partial(self._launch, prepared), "launch", exclusive=False)

    def _stop_waiting(self) -> None:
        """Cancel a launch that waits for its checks."""
        if self._waiting:
            self.workers.cancel_group(self, "go")
            self._waiting = self._under_way = False
            self._answer(Content.styled("Not launched.", "$text-warning"))

    def _answer(self, *lines: Content | str) -> None:
        answer = self.query_one("#answer", Static)
        answer.display = True
        answer.update(Content("\n").join(map(Content.assemble, lines)))

    async def _launch(self, prepared: Prepared) -> None:
        operations = self.console.operations.jobs()
        if operations is None:
            self._under_way = False
            return

        def sent(launch: SentLaunch) -> None:
            # From here on, the launch can't be cancelled.
            self._packing = None
            self.console.unanswered.add(task, launch)

        task = asyncio.create_task(
            operations.launch(prepared.request, prepared.order, tell=self._show_step, on_send=sent)
        )
        self._packing = task if prepared.order is not None else None
        try:
            outcome = await task
        except asyncio.CancelledError:
            if not self._given_up:
                raise
            self._answer(Content.styled("Cancelled; nothing was launched.", "bold $text-error"))
            return
        finally:
            self._packing = None
            self._failed_at = time.monotonic()
            self._under_way = False
            self.refresh_frame()
        if self.console.unanswered.settling:
            return
        if outcome.value is not None:
            self._under_way = True
            await self.console.launched(outcome.value, self._entry)
            return
        if not self.is_attached:
            self.console.tell(outcome)
            return
        lines = [Content.styled(outcome.text, "bold $text-error")]
        lines += [Content(plain(f"{path}: {text}")) for path, text in outcome.fields.items()]
        lines += [Content.styled(plain(outcome.fix), "$text-muted")] if outcome.fix else []
        self._answer(*lines)
        self.refresh_frame()

    def _show_step(self, step: PackagingStep) -> None:
        if self.is_attached:
            self._answer(Content.styled(plain(step.line), "$text-warning"), "esc cancels it")

    def action_next(self) -> None:
        """Focus the first value."""
        self._form.go(1)

    def action_previous(self) -> None:
        """Focus the last value."""
        self._form.go(-1)

    def action_preview(self) -> None:
        """Show the exact request with these values."""
        if self._prepared is not None:
            request = self._prepared.request
            path = self.console.create_path(request)
            self.app.push_screen(
                PreviewScreen(
                    f"Request of {self._entry.name}", path, request.resource, secrets=request.secrets
                )
            )

    def action_down(self) -> None:
        """Scroll the checks down."""
        self.query_one("#ahead").scroll_page_down(animate=False)

    def action_up(self) -> None:
        """Scroll the checks up."""
        self.query_one("#ahead").scroll_page_up(animate=False)

    def action_back(self) -> None:
        """Leave a value, or the screen."""
        if self.focused is not None:
            self.set_focus(None)
        elif self._packing is not None:
            self._given_up = True
            self._packing.cancel()
        elif self._waiting:
            self._stop_waiting()
        elif not self._under_way:
            self.dismiss()
