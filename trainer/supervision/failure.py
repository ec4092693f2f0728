"""The cause of a failed attempt: the error that a process records, and the first error of a node.

Each process has a file for its error, in the format of torch's elastic launcher with additional fields, so
that scripts with torch's `@record` and runs below torchrun work too. The supervisor reads the files, selects
the first error, and writes it to the log as one entry.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer import exit_codes
from trainer.errors import DataError, OwnCodeError, PlaceUnavailableError, ReplicaError, UsageError
from trainer.prctl import parent_id
from trainer.structured_log import emit

ERROR_FILE = "VXTUI_ERROR_FILE"
"""Variable with the path of the process's error record. The supervisor sets it and logs the record."""
TORCH_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""torchrun's variable for the path of the error record; torchrun logs the record itself."""
_LOST_PEER_TEXTS = (
    "Connection reset by peer", "Connection closed by peer", "Broken pipe", "Connection was likely closed",
    "failed to recv, got 0 bytes", "remote process exited or there was a network error",
    "NCCL communicator was aborted",
)  # fmt: skip
"""Texts in the errors of gloo, NCCL and torch's store after the peer process died."""
_PEER_ERRORS = ("RuntimeError", "DistBackendError", "DistNetworkError", "DistStoreError", "DistError")
_EXPECTED: dict[type[Exception], int] = {
    UsageError: exit_codes.USAGE,
    DataError: exit_codes.USAGE,
    PlaceUnavailableError: exit_codes.STORE_UNAVAILABLE,
    ReplicaError: exit_codes.REPLICAS_DIFFER,
}
"""Exit codes of errors whose text is complete without a traceback."""
_FIRST_SECONDS = 2.0
"""Seconds that a process without a supervisor waits for local rank 0 to report the same error."""
_MAX_TRACEBACK = 32_000
"""Maximum length of a traceback in characters, because container runtimes split long lines; Cloud Logging's
limit is 256 KiB."""


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """The cause of a failed attempt, in one sentence; `time` is in seconds since the epoch. `follower` is
    true if the process only noticed the loss of another process. `code` is an exit code."""

    message: str
    time: float
    code: int = 1
    follower: bool = False

    def precedes(self, other: AttemptFailure | None) -> bool:
        """Return whether this failure is the cause rather than `other`."""
        return other is None or (self.follower, self.time) < (other.follower, other.time)


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """The error that a process recorded: a sentence, and fields of the log entry."""

    message: str
    time: float
    follower: bool = False
    fields: dict[str, Any] = field(default_factory=dict)


def report_error(error: BaseException, where: Mapping[str, Any]) -> int:
    """Record this process's error, log it if no supervisor does, and return the exit code. `where` are fields
    that locate the error in the training."""
    expected = next((code for kind, code in _EXPECTED.items() if isinstance(error, kind)), 0)
    message, follower = _sentence(error), not expected and noticed_a_lost_peer(error)
    rank, local_rank = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_RANK", "0"))
    fields = {"rank": rank, "local_rank": local_rank, **where}
    if not expected or isinstance(error, OwnCodeError):
        fields["traceback"] = _clipped(traceback.format_exc())
    supervised = ERROR_FILE in os.environ
    path = os.environ.get(ERROR_FILE) or os.environ.get(TORCH_ERROR_FILE)
    if path:
        _write(Path(path), ErrorRecord(message, time.time(), follower, fields))
    if follower and not supervised:
        text = f"rank {rank} ends because another process of the run is gone: {message}"
        emit("phase", text, severity="WARNING", phase="failed", rank=rank, local_rank=local_rank)
    elif not supervised and not (expected and _another_reports(message)):
        emit("error", message, severity="ERROR", **fields)
    return expected or 1


def read_record(path: Path) -> ErrorRecord | None:
    """Return the error record of a process, which may be in the format of torch's `@record`, or None if there
    is no record."""
    try:
        content = json.loads(path.read_text())
        changed = path.stat().st_mtime
    except (OSError, ValueError):
        return None
    error = content.get("message") if isinstance(content, dict) else None
    if isinstance(error, str):
        error = {"message": error}
    if not isinstance(error, dict):
        return None
    own, extra = content.get("vxtui"), error.get("extraInfo")
    message = str(error.get("message") or "no reason was given")
    if isinstance(own, dict):
        try:
            return ErrorRecord(message, float(own["time"]), bool(own["follower"]), dict(own["fields"]))
        except (KeyError, TypeError, ValueError):
            return None
    stack = extra.get("py_callstack") if isinstance(extra, dict) else None
    fields = {"traceback": _clipped(str(stack))} if stack else {}
    kind = message.partition(":")[0]
    return ErrorRecord(message, changed, kind in _PEER_ERRORS and _names_a_lost_peer(message), fields)


class NodeFailures:
    """The failed processes of this node in one attempt."""

    def __init__(
        self,
        folder: Path,
        attempt: int,
        node: int,
        processes: tuple[int, ...],
        final: Callable[[], frozenset[int]] = lambda: exit_codes.FINAL,
    ) -> None:
        """`folder` is for the records; `processes` are the numbers of processes, by node rank.

        `final` returns the exit codes after which another attempt is pointless.
        """
        self._final = final
        self._folder, self.attempt, self._node, self._processes = folder, attempt, node, processes
        self._records: dict[int, ErrorRecord] = {}
        self._cause_rank = -1
        self.cause: AttemptFailure | None = None
        """The first failure of this node; a follower's failure only if there is no other."""

    def file(self, local_rank: int) -> Path:
        """Return the file in which this process records its error."""
        return self._folder / f"attempt-{self.attempt}-rank-{local_rank}.json"

    def has_record(self, local_rank: int) -> bool:
        """Return whether the process recorded an error."""
        return read_record(self.file(local_rank)) is not None

    def add(self, local_rank: int, code: int, ended_before: float = math.inf) -> bool:
        """Add a process that ended with `code`; return whether it is the new cause. Errors after
        `ended_before` (epoch seconds), the time at which another node ended the attempt, are consequences."""
        record = read_record(self.file(local_rank))
        if record is None:
            message = f"{self._prefix(local_rank, code)}{_exit_text(code)}"
            follower = code not in self._final() and math.isfinite(ended_before)
            failure = AttemptFailure(message, time.time(), code, follower)
        else:
            self._records[local_rank] = record
            follower = record.follower or record.time > ended_before
            message = f"{self._prefix(local_rank, code)}{record.message}"
            failure = AttemptFailure(message, record.time, code, follower)
        if not failure.precedes(self.cause):
            return False
        self.cause, self._cause_rank = failure, local_rank
        return True

    def others_finish(self, code: int) -> bool:
        """Return whether the other processes finish their part after this code, which the process itself
        reported."""
        return code in self._final() - {exit_codes.USAGE}

    def report(self, *, is_cause: bool) -> None:
        """Log this node's cause and its followers. With `is_cause`, this node's cause is the run's cause."""
        cause, record = self.cause, self._records.get(self._cause_rank)
        fields: dict[str, Any] = {"node_rank": self._node, "attempt": self.attempt}
        shown = cause is not None and (is_cause or not cause.follower)
        if cause is not None and shown and (record is not None or not self.others_finish(cause.code)):
            local = self._cause_rank
            entry = {"rank": self._rank(local), "local_rank": local, **fields, "exit_code": cause.code}
            if record is None:
                emit("phase", cause.message, severity="ERROR", phase="failed", **entry)
            else:
                # The fields have the location of an error in the user's code, which most ranks share.
                text = record.message if cause.code in self._final() else cause.message
                emit("error", text, severity="ERROR", **{**record.fields, **entry})
        followers = [
            self._rank(rank)
            for rank, record_of_rank in sorted(self._records.items())
            if record_of_rank.follower and not (shown and rank == self._cause_rank)
        ]
        if followers:
            names = (
                f"rank {followers[0]}" if len(followers) == 1 else f"ranks {', '.join(map(str, followers))}"
            )
            text = f"{names} ended because another process of the run is gone"
            emit("phase", text, severity="WARNING", phase="failed", followers=followers, **fields)

    def _rank(self, local_rank: int) -> int:
        return sum(self._processes[: self._node]) + local_rank

    def _prefix(self, local_rank: int, code: int) -> str:
        """Return the beginning of the sentence, for a run of several nodes or processes."""
        node = f"node {self._node}: " if len(self._processes) > 1 else ""
        if code in self._final() or sum(self._processes) == 1:
            return node
        return f"rank {self._rank(local_rank)}{' on ' + node if node else ': '}"


def _exit_text(code: int) -> str:
    name = ""
    if code > 128:
        with contextlib.suppress(ValueError):
            name = f" ({signal.Signals(code - 128).name})"
    return f"the process ended with exit code {code}{name}"


def _sentence(error: BaseException) -> str:
    """Return the error in one sentence; an error of a DataLoader's worker appears without its traceback."""
    kind, text = type(error).__name__, str(error) or "no reason was given"
    if "\nOriginal Traceback" in text:
        # torch raises an error of the same type whose text is the worker's traceback.
        name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
        text = text.rpartition(f"\n{name}: ")[2].strip() or text
    return text if isinstance(error, tuple(_EXPECTED)) else f"{kind}: {text}"


def noticed_a_lost_peer(error: BaseException) -> bool:
    """Return whether the error only shows the loss of another process."""
    return type(error).__name__ in _PEER_ERRORS and _names_a_lost_peer(str(error))


def _names_a_lost_peer(text: str) -> bool:
    return any(words in text for words in _LOST_PEER_TEXTS)


def _clipped(text: str) -> str:
    if len(text) <= _MAX_TRACEBACK:
        return text
    half = _MAX_TRACEBACK // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters …\n{text[-half:]}"


def _write(path: Path, record: ErrorRecord) -> None:
    """Write the record atomically under a temporary name. On a full disk the record is lost."""
    stack = str(record.fields.get("traceback", ""))
    content = {
        "message": {
            "message": record.message,
            "extraInfo": {"py_callstack": stack, "timestamp": str(int(record.time))},
        },
        "vxtui": {"time": record.time, "follower": record.follower, "fields": record.fields},
    }
    new = path.with_name(f"{path.name}.new")
    with contextlib.suppress(OSError, TypeError, ValueError):
        new.write_text(json.dumps(content))
        new.replace(path)


def _another_reports(message: str) -> bool:
    """Return whether another process of this node has the same error and reports it. Below torchrun no
    supervisor selects an error: local rank 0 reports its error, the other ranks only different errors."""
    first = os.environ.get("LOCAL_RANK", "0") == "0"
    try:
        run = (os.environ.get(name, "") for name in ("MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"))
        words = "\0".join([parent_id(), *run, message])
        name = hashlib.sha256(words.encode(errors="replace")).hexdigest()[:16]
        reported = Path(tempfile.gettempdir()) / f"vxtui-error-{name}"
        until = time.monotonic() + _FIRST_SECONDS
        while not first and not reported.exists() and time.monotonic() < until:
            time.sleep(0.02)
        os.close(os.open(reported, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return not first
    except OSError:
        return False
    return False
