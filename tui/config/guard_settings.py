"""Settings of the guard: the conditions of alerts, and the channels that deliver them."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from datetime import datetime, time
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from tui.config.settings import Settings
from tui.domain.guard.conditions import parse_condition
from tui.domain.jobs.query import QueryError, parse

ChannelKind = Literal["webhook", "slack", "google-chat", "discord", "ntfy", "mail", "desktop", "command"]
_WITH_URL = frozenset({"webhook", "slack", "google-chat", "discord", "ntfy"})
_QUIET = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)", re.ASCII)


@dataclass
class AlertChannel:
    """A way to send alerts."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    name: str
    kind: ChannelKind
    url: str = ""
    """Address of a webhook, or of an ntfy topic. It may be a secret and is never logged."""

    address: str = ""
    """Recipient of a mail."""

    server: str = "localhost:25"
    """SMTP server of a mail, HOST:PORT."""

    command: list[str] = field(default_factory=list)
    """Program with its arguments. It gets the alert as JSON on its standard input."""

    def __post_init__(self) -> None:
        if self.kind in _WITH_URL and urlsplit(self.url).scheme not in {"http", "https"}:
            raise ValueError(f"the channel {self.name} must have a url that starts with https:// or http://")
        if self.kind == "mail" and "@" not in self.address:
            raise ValueError(f"the channel {self.name} must have an address such as me@example.com")
        if self.kind == "mail" and not self.server.rpartition(":")[2].isdecimal():
            raise ValueError(f"the channel {self.name} must have a server HOST:PORT such as localhost:25")
        if self.kind == "command" and not self.command:
            raise ValueError(f"the channel {self.name} must have a command, a list of words")


@dataclass
class AlertRule:
    """A rule for alerts: conditions on jobs, and the channels to use."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    when: list[str]
    """Conditions, e.g. `failed`, `waiting 2h`, `cost 500`. Any of them is enough."""

    to: list[str]
    """Names of channels."""

    jobs: str = ""
    """Filter of the jobs, as the jobs list takes it, e.g. `team:nlp -name:test`; empty for all jobs."""

    quiet: str = ""
    """Local time without messages, e.g. `22:00-07:00`. Alerts of that time are sent at its end."""

    then: Literal["", "cancel"] = ""
    """`cancel` also cancels the job, if `may_cancel` names its context and this machine launched it."""

    def __post_init__(self) -> None:
        conditions = [parse_condition(condition) for condition in self.when]
        if self.then == "cancel" and all(condition.of_end for condition in conditions):
            raise ValueError("an alert with `then: cancel` must have a condition on a job that has not ended")
        try:
            parse(self.jobs)
        except QueryError as error:
            raise ValueError(f"jobs: {error}") from error
        if self.quiet and self._quiet_hours() is None:
            raise ValueError(f"{self.quiet!r} must be two times of day, e.g. 22:00-07:00")

    @property
    def key(self) -> str:
        """Name of the rule in the record. Other rules, and the order of rules, do not change it."""
        return json.dumps([self.jobs, sorted(self.to), self.then])

    def quiet_at(self, moment: datetime) -> bool:
        """Return whether a local time is within the quiet hours."""
        hours = self._quiet_hours()
        if hours is None:
            return False
        begin, end = hours
        now = moment.time()
        return begin <= now < end if begin <= end else now >= begin or now < end

    def _quiet_hours(self) -> tuple[time, time] | None:
        match = _QUIET.fullmatch(self.quiet)
        try:
            return (time(int(match[1]), int(match[2])), time(int(match[3]), int(match[4]))) if match else None
        except ValueError:
            return None


@dataclass
class GuardSettings:
    """The settings of `vxtui guard`."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    contexts: list[str] = field(default_factory=list)
    """Contexts to watch; empty means the context that opens by default."""

    channels: list[AlertChannel] = field(default_factory=list)

    alerts: list[AlertRule] = field(default_factory=list)

    may_cancel: list[str] = field(default_factory=list)
    """Contexts in which rules cancel jobs. Elsewhere an alert tells that the rule would cancel the job."""

    heartbeat_url: str = ""
    """Address that the guard requests every minute while it can read all its contexts, for a service that
    raises an alarm if the requests stop. It may be a secret and is never logged."""

    def __post_init__(self) -> None:
        names = [channel.name for channel in self.channels]
        if double := next((name for name in names if names.count(name) > 1), ""):
            raise ValueError(f"two channels have the name {double}")
        for rule in self.alerts:
            if not rule.when or not rule.to:
                raise ValueError(
                    "an alert must have at least one condition in `when` and one channel in `to`"
                )
            if unknown := next((name for name in rule.to if name not in names), ""):
                known = f"the channels are {', '.join(names)}" if names else "there are no channels"
                raise ValueError(f"an alert names the channel {unknown}, but {known}")
        if self.heartbeat_url and urlsplit(self.heartbeat_url).scheme not in {"http", "https"}:
            raise ValueError("heartbeat_url must start with https:// or http://")

    @property
    def digest(self) -> str:
        """Hash of all settings, by which `status` recognizes that they changed after the guard's start."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


def guard_settings(settings: Settings) -> GuardSettings:
    """Return the guard's settings. Raises pydantic's ValidationError if they are invalid; the settings of a
    loaded file are valid."""
    return TypeAdapter(GuardSettings).validate_python(settings.guard)
