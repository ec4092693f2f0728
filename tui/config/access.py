"""Read-only access: whether a context may be changed, and which setting forbids it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tui.config.loader import config_file, from_environment
from tui.config.settings import Context, Settings, all_contexts


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """A refusal of changes: the setting that causes it, and how to allow changes."""

    setting: str
    fix: str
    subject: str = "vxtui"
    """A context, or vxtui itself."""

    @property
    def reason(self) -> str:
        """The subject and the setting, as part of a sentence."""
        return f"{self.subject} is read-only ({self.setting})"

    def refuses(self, change: str) -> str:
        """Return the sentence about a refused change, e.g. `Cancel`."""
        return f"{change} is refused: {self.reason}."


@dataclass(frozen=True, slots=True)
class ContextAccess:
    """The scope of refused changes: the entire context, or the jobs of some members of a group."""

    read_only: ReadOnly | None = None
    members: Mapping[str, ReadOnly] = field(default_factory=dict)
    """Refusals by the name of the read-only member."""

    def refused_for(self, context: str) -> ReadOnly | None:
        """Return the refusal for a job of this context, or `None` if changes are allowed."""
        return self.read_only or self.members.get(context)


def access_of(settings: Settings, context: Context, *, flag: bool = False) -> ContextAccess:
    """Return the access to `context`. `flag` is the option `--read-only`. A group is read-only if its own
    setting is true or all its members are read-only. The backend reports unknown members."""
    if flag:
        return ContextAccess(ReadOnly("the option --read-only", "Start without --read-only."))
    environment = from_environment()
    if settings.read_only:
        if "read_only" in environment:
            return ContextAccess(ReadOnly("VXTUI_READ_ONLY in the environment", "Unset VXTUI_READ_ONLY."))
        return ContextAccess(ReadOnly(f"read_only: true in {config_file()}", "Set read_only: false there."))
    where = "VXTUI_CONTEXTS in the environment" if "contexts" in environment else str(config_file())
    if context.read_only:
        return ContextAccess(_of_context(context, where))
    known = {known_context.name: known_context for known_context in all_contexts(settings)}
    members = [known[name] for name in dict.fromkeys(context.members) if name in known]
    closed = {member.name: _of_context(member, where) for member in members if member.read_only}
    everywhere = bool(closed) and len(closed) == len(members)
    return ContextAccess(next(iter(closed.values())) if everywhere else None, closed)


def _of_context(context: Context, where: str) -> ReadOnly:
    fix = "Set read_only: false there, or use another context."
    return ReadOnly(f"read_only: true in {where}", fix, f"the context {context.name}")
