"""The common part of operations: check the read-only mode, run, write the audit journal, and report the
outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from tui.actions.availability import read_only_refusal
from tui.actions.registry import operation
from tui.backends.errors import BackendError, Interrupted, InvalidRequest
from tui.config.access import ContextAccess
from tui.config.settings import Context
from tui.domain.core.text import plain
from tui.domain.masking import mask_text
from tui.store.journal import AuditEntry, Journal, Surface

T = TypeVar("T")
USAGE = 2
"""Exit code of a refused operation and of a wrong argument."""


class OperationError(Exception):
    """An operation failed. `code` is the error code in `--json`; `exit_code` is for verbs."""

    def __init__(
        self, message: str, *, fix: str = "", code: str = "INVALID_ARGUMENT", exit_code: int = USAGE
    ) -> None:
        super().__init__(message)
        self.message, self.fix, self.code, self.exit_code = message, fix, code, exit_code


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """The outcome of an operation. `text` is for the user; `fix` is the remedy after a failure."""

    ok: bool
    text: str
    fix: str = ""
    value: T | None = None
    """The created object or the response; `None` after a failure."""
    error: BackendError | OperationError | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    """Problems that `text` omits, by the path of the request's field."""


class OperationRunner:
    """Runs the operations of one context for one caller, the console or a verb."""

    def __init__(
        self,
        context: Context,
        access: ContextAccess,
        journal: Journal,
        surface: Surface,
        *,
        projects: Mapping[str, str] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        """Set the context. `projects` maps the contexts of a group's members to their projects. `warn`
        reports an unwritable audit journal to the user; by default, an event reports it."""
        self.context = context
        self.access = access
        self.journal = journal
        self._surface = surface
        self._projects = projects or {}
        self._warn = warn or (lambda text: journal.add("error", text))

    async def run(
        self,
        operation_id: str,
        target: str,
        act: Callable[[], Awaitable[T]],
        done: Callable[[T], str],
        *,
        region: str = "",
        context: str = "",
        created: Callable[[T], str] | None = None,
        mark: str = "",
        kind: str = "",
    ) -> Outcome[T]:
        """Run `act` unless the context is read-only. Its `BackendError` and `OperationError` become outcomes.

        `context` is the context of the job, which may belong to a member of a group. `done` is the text of a
        success, and `created` is the name of the created object for the journal's last line. `mark` and
        `kind` identify the job of a launch.

        Raises:
            KeyError: for an operation that is not in the registry.
            Exception: any other error of `act`, after it is in the journal.
        """
        declared = operation(operation_id)
        where = context or self.context.name
        refusal = read_only_refusal(declared, self.access.refused_for(where))
        if refusal is not None:
            error = OperationError(refusal.reason, fix=refusal.fix, code=refusal.code)
            return Outcome(False, error.message, error.fix, error=error)
        project = self._projects.get(where, self.context.project)
        entry = AuditEntry(self._surface, where, project, region, operation_id, target, mark, kind)
        try:
            await self._audit(entry, "asked")
            value = await act()
        except (BackendError, OperationError) as error:
            await self._audit(entry, "failed", error.code, error.message)
            ended = "was interrupted" if isinstance(error, Interrupted) else "failed"
            # A service may quote parts of the request.
            text = f"{declared.title} {ended}: {plain(mask_text(error.message))}"
            self.journal.add("error", text, target)
            fields = error.fields if isinstance(error, InvalidRequest) else {}
            fields = {
                path: mask_text(words)
                for path, words in fields.items()
                if words.rstrip(".") not in error.message
            }
            return Outcome(False, text, plain(mask_text(error.fix)), error=error, fields=fields)
        except (asyncio.CancelledError, KeyboardInterrupt):
            await self._audit(entry, "failed", "INTERRUPTED", "Interrupted: the effect is unknown.")
            raise
        except Exception as error:
            await self._audit(entry, "failed", "INTERNAL", f"{type(error).__name__}: {error}")
            raise
        await self._audit(replace(entry, target=created(value)) if created else entry, "done")
        text = done(value)
        self.journal.add("action", text, created(value) if created else target)
        return Outcome(True, plain(text), value=value)

    async def settle(self, entry: AuditEntry, result: str) -> None:
        """Record the result of an operation whose process ended without recording one."""
        code = ("UNKNOWN", "Its process was killed before the reply.") if result == "failed" else ("", "")
        await self._audit(entry, result, *code)

    async def _audit(self, entry: AuditEntry, result: str, code: str = "", message: str = "") -> None:
        """Write an entry. A full disk must not prevent a cancellation, so the user is warned and the
        operation continues."""
        try:
            await asyncio.to_thread(self.journal.audit, entry, result, code, message)
        except OSError as problem:
            self._warn(f"The audit journal {self.journal.path} can't be written: {problem.strerror}")
