"""The evidence in a log: errors, launchers' pointers, and each replica's activity."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tui.domain.diagnosis.line import LogLine
from tui.domain.diagnosis.rules import Match


@dataclass(frozen=True, slots=True)
class TracebackFrame:
    """A frame of a traceback."""

    file: str
    line: int
    function: str

    @property
    def package(self) -> str:
        """The installed package of the file; "" for the user's own code."""
        parts = PurePosixPath(self.file.replace("\\", "/")).parts
        for folder in ("site-packages", "dist-packages"):
            if folder in parts[:-1]:
                return parts[parts.index(folder) + 1].removesuffix(".py")
        if any(part.startswith("python3") for part in parts[:-1]) or self.file.startswith("<"):
            return "python"
        return ""

    @property
    def words(self) -> str:
        """File and line, e.g. `train.py:61`."""
        return f"{PurePosixPath(self.file).name}:{self.line}"


@dataclass(slots=True)
class Evidence:
    """An error, or a sign of an error, in one stream of a log."""

    line: LogLine
    text: str
    """The line without the prefix of its rank."""
    rank: int | None = None
    match: Match | None = None
    exception: str = ""
    """Type of the exception, without its module."""
    message: str = ""
    frames: tuple[TracebackFrame, ...] = ()
    chain: str = ""
    """`direct` or `during` if the exception follows an earlier exception of a chain."""
    cause: Evidence | None = None
    """The earlier exception of the chain."""
    quoted: bool = False
    """Whether the text only quotes an exception within a sentence."""
    logged: bool = False
    """Whether a logger wrote the exception below the severity of an error, or as a handled exception."""
    announced: bool = False
    """Whether the line before says that the program handled an error."""
    before: tuple[LogLine, ...] = ()
    after: list[LogLine] = field(default_factory=list)
    step: int | None = None
    """Last step of the replica before the error."""
    ordinary: int = 0
    """Number of ordinary lines of the replica before the error."""

    @property
    def replica(self) -> str:
        """The replica that wrote the line."""
        return self.line.replica

    @property
    def role(self) -> str:
        """The role of the rule; an exception without a rule is a root."""
        return self.match.rule.role if self.match is not None else "root"

    @property
    def frame(self) -> TracebackFrame | None:
        """The deepest frame of the user's own code."""
        return next((frame for frame in reversed(self.frames) if not frame.package), None)


@dataclass(slots=True)
class Pointer:
    """A launcher's report about the process that failed first."""

    line: LogLine
    rank: int | None = None
    code: int | None = None
    first: bool = False
    """Whether the launcher calls this failure the first."""


@dataclass(slots=True)
class Activity:
    """The activity of one replica over time."""

    name: str
    order: int
    count: int = 0
    busy: int = 0
    """Number of lines that belong to errors."""
    first: LogLine | None = None
    last: LogLine | None = None
    last_ordinary: LogLine | None = None
    step: int | None = None
    marks: dict[int, float] = field(default_factory=dict)
    """Times of a few steps, used to compare the clocks of replicas."""
    lately: deque[tuple[int, LogLine]] = field(default_factory=lambda: deque(maxlen=8))
    """Last different steps, each with its line. The processes of a replica report equal steps."""
    ranks: set[int] = field(default_factory=set)
    recent: deque[LogLine] = field(default_factory=lambda: deque(maxlen=6))
    attention: int = 0
    """Number of following lines to parse in full."""


@dataclass(slots=True)
class Findings:
    """All evidence in a log."""

    evidence: list[Evidence] = field(default_factory=list)
    pointers: list[Pointer] = field(default_factory=list)
    replicas: dict[str, Activity] = field(default_factory=dict)
    lines: int = 0
