"""A placeholder for Google's Reduction Server image, which only Vertex may pull."""

from __future__ import annotations

import json
import signal
import sys


def main() -> None:
    """Log that this is a placeholder, then wait for SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    line = {
        "severity": "WARNING",
        "message": "This is a placeholder for Reduction Server: it reduces nothing. "
        "On this machine the workers all-reduce among themselves.",
    }
    print(json.dumps(line), flush=True)  # noqa: T201 - a replica logs to its stdout
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
