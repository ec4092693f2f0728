"""Our log view under the log benchmarks, fed and asked as its peer is: see `log_peer`.

`python -m tests.benchmarks.log_child RATE REPLICAS`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.benchmarks.log_peer import Bench
from tui.display.app import DisplayApp
from tui.store.log.lines import Lines
from tui.store.log.store import LogStore
from tui.widgets.log.view import LogView


class OwnBench(DisplayApp[str], Bench):
    """The same screen with our log, our display and our order of keys."""

    def __init__(self, rate: int, replicas: int, folder: Path) -> None:
        self.store = LogStore(folder)
        super().__init__()
        self.rate, self.replicas = rate, replicas

    def make(self) -> LogView:
        return LogView(self.store)

    def take(self, waiting: list[Lines]) -> None:
        for lines in waiting:
            self.store.add(lines)
        self.query_one(LogView).tick()

    def kept(self) -> int:
        return self.store.end


def main() -> None:
    """Run until `q`."""
    with tempfile.TemporaryDirectory() as folder:
        print(OwnBench(int(sys.argv[1]), int(sys.argv[2]), Path(folder)).run())


if __name__ == "__main__":
    main()
