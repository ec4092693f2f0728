"""How a verb runs: common options, an open backend, errors as sentences and exit codes."""

from __future__ import annotations

import asyncio
import functools
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import click

from tui.actions.registry import action
from tui.backends.factory import open_backend
from tui.backends.interface import Backend, BackendError, NotFound
from tui.config.loader import load_settings
from tui.config.settings import Settings, SettingsError, choose_context
from tui.domain.job import Job
from tui.verbs.output import note, print_error

USAGE = 2
INTERRUPTED = 130


class Failure(Exception):
    """Ends a verb with a message, a fix and an exit code."""

    def __init__(
        self, message: str, *, fix: str = "", code: str = "INVALID_ARGUMENT", exit_code: int = USAGE
    ) -> None:
        super().__init__(message)
        self.message, self.fix, self.code, self.exit_code = message, fix, code, exit_code


@dataclass(frozen=True, slots=True)
class Run:
    """What a verb has: the settings, the context's name and how to answer."""

    settings: Settings
    context_name: str
    json: bool
    read_only: bool

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[Backend]:
        """The context's backend, connected."""
        context = choose_context(self.settings, self.context_name)
        async with open_backend(context, self.settings) as backend:
            yield backend

    def must_be_writable(self, action_id: str) -> None:
        """Raises Failure when the registry says that this action changes something and we may not."""
        if self.read_only and action(action_id).mutates:
            raise Failure(
                f"`{action(action_id).label}` changes something and vxtui is read-only here.",
                fix="Leave out --read-only, or set read_only: false.",
                code="READ_ONLY",
            )


Verb = Callable[..., Coroutine[Any, Any, int | None]]


def verb(function: Verb) -> Callable[..., Any]:
    """`async def name(run, …) -> exit code` as a click callback with the common options."""

    @click.option("--json", "as_json", is_flag=True, help="Print the documented JSON shape.")
    @click.option("--context", "context_name", metavar="NAME", help="Context; see `vxtui contexts`.")
    @click.option("--read-only", is_flag=True, help="Refuse to change anything.")
    @click.pass_context
    @functools.wraps(function)
    def call(
        ctx: click.Context, /, *, as_json: bool, context_name: str | None, read_only: bool, **kw: Any
    ) -> None:
        above = ctx.find_root().obj or {}
        try:
            settings = load_settings()
            run = Run(
                settings,
                context_name or above.get("context") or "",
                as_json,
                read_only or bool(above.get("read_only")) or settings.read_only,
            )
            code = asyncio.run(_guarded(function, run, kw)) or 0
        except Failure as error:
            code = print_error(error.code, error.message, error.fix, error.exit_code, as_json=as_json)
        except BackendError as error:
            code = print_error(error.code, error.message, error.fix, error.exit_code, as_json=as_json)
        except SettingsError as error:
            code = print_error("INVALID_SETTINGS", str(error), "", USAGE, as_json=as_json)
        except (KeyboardInterrupt, asyncio.CancelledError):
            note("interrupted")
            code = INTERRUPTED
        ctx.exit(code)

    return call


async def _guarded(function: Verb, run: Run, kw: dict[str, Any]) -> int | None:
    """SIGTERM ends a verb as ctrl+c does."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await function(run, **kw)


async def find_job(backend: Backend, reference: str) -> Job:
    """The one job that `reference` means.

    Raises:
        NotFound: when there is none.
        Failure: when a display name fits several; they are listed.
    """
    found = await backend.find_jobs(reference)
    if len(found) > 1 and len(live := [j for j in found if j.state.active]) == 1:
        found = live
    if not found:
        raise NotFound(
            f"There is no job {reference} in the context {backend.info.name}.",
            fix="`vxtui jobs` lists what is there.",
        )
    if len(found) > 1:
        lines = "\n".join(
            f"  {j.id}  {j.state.value.lower()}  {j.region}  {j.display_name}" for j in found[:20]
        )
        raise Failure(
            f"{len(found)} jobs are called {reference}:\n{lines}", fix="Use the id.", code="AMBIGUOUS"
        )
    return found[0]


async def confirmed(question: str, *, yes: bool) -> None:
    """Ask, unless told not to; without a terminal to ask on it is an error to come here.

    Raises:
        Failure: when there is no terminal.
        click.Abort: for a no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure("There is no terminal to ask on.", fix="Add --yes.", code="USAGE")
    ask: Callable[[], bool] = functools.partial(click.confirm, question, default=False, err=True)
    if not await asyncio.to_thread(ask):
        raise click.Abort
