"""Scores the new lines of a log, which need no rule, on the cases with a good run beside them:
`python -m tests.corpus.failures.novelty [open|blind] [--show]`."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.corpus.failures.score import folders, unpacked
from tui.domain.diagnosis.inputs import job_facts
from tui.domain.diagnosis.rules import shipped_rules
from tui.verbs.log.diagnose import diagnose_lines, good_lines, log_lines


@dataclass(frozen=True)
class Shown:
    """What is right in the new lines of one case."""

    name: str
    line: bool
    """Whether a line of the cause is among them."""
    replica: bool
    """Whether the first one is of the faulty replica."""


def scored(half: str) -> Iterator[Shown]:
    """Score the cases of a half whose log tells and that have a good run."""
    with tempfile.TemporaryDirectory() as place:
        for folder in folders(half):
            expect = json.loads((folder / "expect.json").read_text())
            if not (folder / "good.jsonl.gz").exists() or not expect["tells"] or not expect["line"]:
                continue
            good = good_lines(folder / "good.jsonl.gz")
            facts = job_facts(json.loads((folder / "job.json").read_text()))
            lines = log_lines(unpacked(folder, Path(place)), facts)
            new = diagnose_lines(lines, facts, shipped_rules(), good).new
            replica = bool(new) and new[0].line.replica in (expect["replica"] or [new[0].line.replica])
            yield Shown(folder.name, any(one.line.index in expect["line"] for one in new), replica)


def main() -> None:
    half = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] != "--show" else "open"
    rows = list(scored(half))
    lines, replicas = sum(row.line for row in rows), sum(row.replica for row in rows)
    print(f"{half}: line of the cause among the new ones {lines} of {len(rows)}, replica first {replicas}")
    if "--show" in sys.argv:
        for row in rows:
            if not (row.line and row.replica):
                print(f"  {row.name}: line {row.line}, replica {row.replica}")


if __name__ == "__main__":
    main()
