"""The cron of a schedule: `[TZ=Zone ]minute hour day-of-month month day-of-week`.

The fields and their meaning are those of Debian's cron (cronsim): lists, ranges, steps and names; a day that
meets one of two restricted day fields is enough. At a change of the clock a run at a fixed time neither
falls out nor doubles. Without a zone the fields are UTC.
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
    """The text is no cron of a schedule. The message says what is wrong and what would be right."""


class NeverDue(CronError):
    """It has the form of a cron, and no day that it names exists, such as February 30."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron that is valid, and due now and then. `zone` is a name of the IANA database."""

    fields: str
    zone: str = "UTC"

    def after(self, moment: datetime) -> datetime | None:
        """When it is due next after `moment` (aware), in UTC; `None` for not within 50 years."""
        return next(self.runs(moment), None)

    def runs(self, moment: datetime) -> Iterator[datetime]:
        """When it is due after `moment` (aware), in UTC, one after the other."""
        last = moment.astimezone(UTC)
        for found in CronSim(self.fields, last.astimezone(_zone(self.zone))):
            # Of an hour that the clock shows twice cronsim may begin in the first.
            if found.astimezone(UTC) > last:
                last = found.astimezone(UTC)
                yield last

    @property
    def words(self) -> str:
        """It in English, with the zone where that is not UTC."""
        text = str(CronSim(self.fields, datetime(2000, 1, 1, tzinfo=UTC)).explain())
        return text if self.zone == "UTC" else f"{text}, {self.zone}"


def read_cron(text: str) -> Cron:
    """Parse the `cron` of a schedule.

    Raises:
        NeverDue: for days that do not exist, such as February 30.
        CronError: for anything else.
    """
    if len(text) > _LONGEST:
        raise CronError(f"it has more than {_LONGEST} characters")
    zone, fields = "UTC", text.strip()
    prefixed = _ZONE.fullmatch(fields)
    if prefixed:
        zone, fields = prefixed[1], prefixed[2].strip()
        _zone(zone)
    parts = fields.split()
    if len(parts) != len(_FIELDS):
        raise CronError(
            f"{fields!r} has {len(parts)} fields; a cron has five: {', '.join(_FIELDS)}, as in '30 2 * * *'"
        )
    for name, part in zip(_FIELDS, parts, strict=True):
        if not _FIELD.fullmatch(part) or _NOT_UNIX.fullmatch(part):
            raise CronError(f"{part!r} is no {name}; write numbers, names, *, lists, ranges and steps")
    found = Cron(" ".join(parts), zone)
    try:
        CronSim(found.fields, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise _problem(str(error), parts) from error
    if found.after(datetime.now(UTC)) is None:
        raise NeverDue(f"{found.fields!r} is never due: no such day exists")
    return found


def _problem(said: str, parts: list[str]) -> CronError:
    """cronsim says `Bad day-of-month`, also of a day that the months do not have."""
    name = said.removeprefix("Bad ").replace("-", " ")
    if name not in _FIELDS:
        return CronError(said)
    day, month = parts[2:4]
    if name == "day of month" and all(each in {"29", "30", "31"} for each in day.split(",")):
        return NeverDue(f"it is never due: month {month} has no day {day}")
    return CronError(f"{parts[_FIELDS.index(name)]!r} is no {name}")


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CronError(
            f"{name!r} is no time zone of the IANA database; write it like TZ=Europe/Berlin"
        ) from error
