"""The frames of a program in a replica: one byte for the channel, then data. This module needs no gRPC.

The frames follow Kubernetes' exec protocol (v5.channel.k8s.io). The client first sends one `Opening`, and the
server answers with an empty message when the program runs.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from tui.domain.document.decoding import decode_json

METHOD = "/vxtui.emulator.v1.Shells/Open"
INPUT, OUTPUT, ERRORS, STATUS, RESIZE = range(5)
CLOSE = 255
"""Channel whose data is the number of a closed channel, e.g. stdin at the end of the client's input."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The program to run, and its location. `job` is the full resource name of a custom job. An empty
    `command` is the shell `shell`. `terminal` is (columns, rows); without it the program has pipes."""

    job: str
    replica: str
    command: tuple[str, ...] = ()
    terminal: tuple[int, int] | None = None
    shell: str = ""
    term: str = ""
    """TERM of the user's terminal."""
    colours: str = ""
    """COLORTERM of the user's terminal."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Opening:
        """Parse an encoded opening. Raises ValueError."""
        try:
            raw = decode_json(data)
            size = raw.pop("terminal", None)
            columns_rows = None if size is None else (int(size[0]), int(size[1]))
            command = tuple(map(str, raw.pop("command", ())))
            return cls(**{key: str(value) for key, value in raw.items()}, command=command,
                       terminal=columns_rows)  # fmt: skip
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"the opening must be a valid frame: {error}") from error


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of the program: its exit code, 128 + signal if a signal ended it, or the reason why it ended
    early."""

    exit_code: int | None
    reason: str = ""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Ended:
        """Parse an encoded end. Raises ValueError."""
        raw = decode_json(data)
        return cls(raw["exit_code"], str(raw["reason"]))


def frame(channel: int, data: bytes = b"") -> bytes:
    return bytes([channel]) + data


def size_frame(columns: int, rows: int) -> bytes:
    """Return the frame for a new size of the terminal."""
    return frame(RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())


def read_size(data: bytes) -> tuple[int, int]:
    """Parse (columns, rows). Raises ValueError."""
    try:
        raw = decode_json(data)
        return _side(raw["Width"]), _side(raw["Height"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"a terminal size must be columns and rows: {error}") from error


def _side(value: object) -> int:
    """Check a terminal's width or height against the kernel's range."""
    return min(max(int(str(value)), 1), 0xFFFF)
