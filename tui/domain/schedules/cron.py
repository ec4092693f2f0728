"""The cron of a schedule: `[TZ=Zone ]minute hour day-of-month month day-of-week`.

The fields have the meaning of Debian's cron (cronsim): lists, ranges, steps and names; a day must match only
one of two restricted day fields. At a clock change a run at a fixed time is neither skipped nor doubled.
Without a zone the fields are UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

_ZONE = re.compile(r"(?:CRON_)?TZ=(\S*)\s+(.*)", re.S)
_FIELDS = ("minute", "hour", "day of month", "month", "day of week")
_FIELD = re.compile(r"[0-9A-Za-z*,/-]{1,100}")
_NOT_UNIX = re.compile(r"[0-7]?L|LW", re.I)
_LONGEST = 500


class CronError(ValueError):
    """The text is not a valid cron. The message gives the problem and a valid example."""


class NeverDue(CronError):
    """The cron is well-formed, but none of its days exists, such as February 30."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A valid cron with at least one due time. `zone` is a name of the IANA database."""

    fields: str
    zone: str = "UTC"

    def after(self, moment: datetime) -> datetime | None:
        """Return the next due time after `moment` (aware), in UTC; `None` if not within 50 years."""
        return next(self.runs(moment), None)

    def runs(self, moment: datetime) -> Iterator[datetime]:
        """Yield the due times after `moment` (aware), in UTC, in order."""
        last = moment.astimezone(UTC)
        for due in CronSim(self.fields, last.astimezone(_zone(self.zone))):
            # In an hour that the clock repeats, cronsim may start with the first occurrence.
            if due.astimezone(UTC) > last:
                last = due.astimezone(UTC)
                yield last

    @property
    def words(self) -> str:
        """The cron in English, with the zone unless it is UTC."""
        text = str(CronSim(self.fields, datetime(2000, 1, 1, tzinfo=UTC)).explain())
        return text if self.zone == "UTC" else f"{text}, {self.zone}"


def read_cron(text: str) -> Cron:
    """Parse the `cron` of a schedule. Raises NeverDue for days that do not exist, such as February 30, and
    CronError for any other invalid text."""
    if len(text) > _LONGEST:
        raise CronError(f"the cron must have at most {_LONGEST} characters")
    zone, fields = "UTC", text.strip()
    prefixed = _ZONE.fullmatch(fields)
    if prefixed:
        zone, fields = prefixed[1], prefixed[2].strip()
        _zone(zone)
    parts = fields.split()
    if len(parts) != len(_FIELDS):
        raise CronError(
            f"{fields!r} has {len(parts)} fields; a cron expression must have five: "
            f"{', '.join(_FIELDS)}, as in '30 2 * * *'"
        )
    for name, part in zip(_FIELDS, parts, strict=True):
        if not _FIELD.fullmatch(part) or _NOT_UNIX.fullmatch(part):
            raise CronError(f"{part!r} must be a valid {name}: numbers, names, *, lists, ranges and steps")
    cron = Cron(" ".join(parts), zone)
    try:
        CronSim(cron.fields, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise _problem(str(error), parts) from error
    if cron.after(datetime.now(UTC)) is None:
        raise NeverDue(f"{cron.fields!r} is never due: no such day exists")
    return cron


def _problem(message: str, parts: list[str]) -> CronError:
    """Translate cronsim's `Bad day-of-month`, which also means a day that the months do not have."""
    name = message.removeprefix("Bad ").replace("-", " ")
    if name not in _FIELDS:
        return CronError(message)
    day, month = parts[2:4]
    if name == "day of month" and all(part in {"29", "30", "31"} for part in day.split(",")):
        return NeverDue(f"the cron is never due: month {month} has no day {day}")
    return CronError(f"{parts[_FIELDS.index(name)]!r} must be a valid {name}")


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CronError(
            f"{name!r} must be a time zone of the IANA database, e.g. TZ=Europe/Berlin"
        ) from error
