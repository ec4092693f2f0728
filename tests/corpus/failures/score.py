"""Scores a diagnosis on the corpus: `python -m tests.corpus.failures.score [open|blind] [--case NAME] [--show]`.

`expect.json` of a case: `family` (a word, or a list of those that are right), `replica` and `line` (lists of what is right;
null in `line` means that no line is right too; null in place of a list is not judged), `cause_contains` (words that the cause must name),
`retry`, `tells` (whether log and job tell the cause; else the right answer is family unknown, cause ""), `really` (whether
the failure happened, or a program printed documented words).
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HIGH = 0.7
"""Confidence from which an answer counts as certain."""

Diagnose = Callable[[Path, Path], dict[str, Any]]
"""From the paths of a log and of its job.json to the object that `vxtui diagnose --json` prints."""


@dataclass(frozen=True)
class Scored:
    """What is right in one answer."""

    name: str
    family: str
    tells: bool
    location: bool
    family_right: bool
    cause: bool
    retry: bool
    unknown: bool
    confident: bool
    answer: dict[str, Any]
    expect: dict[str, Any]

    @property
    def right(self) -> bool:
        return self.location and self.family_right if self.tells else self.unknown

    @property
    def wrong_and_confident(self) -> bool:
        """Whether the answer is certain of a wrong family, replica or line."""
        return self.confident and not self.right


def folders(half: str) -> list[Path]:
    """The folders of a half's cases."""
    return sorted(p.parent for p in (HERE / half).glob("*/expect.json"))


def unpacked(folder: Path, into: Path) -> Path:
    """The case's log as a plain file."""
    (log,) = folder.glob("log.*")
    if log.suffix != ".gz":
        return log
    plain = into / f"{folder.name}-{log.stem}"
    plain.write_bytes(gzip.decompress(log.read_bytes()))
    return plain


def by_verb(log: Path, job: Path) -> dict[str, Any]:
    """Ask `vxtui diagnose`."""
    vxtui = Path(sys.executable).parent / "vxtui"
    command = [vxtui, "diagnose", log, "--job", job, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        return {"cause": "", "family": f"exit {done.returncode}: {done.stderr[-200:]}", "confidence": 0}


def judge(name: str, expect: dict[str, Any], answer: dict[str, Any]) -> Scored:
    """Compare an answer with the truth."""
    families = expect["family"] if isinstance(expect["family"], list) else [expect["family"]]
    replica, line = expect["replica"], expect["line"]
    at = answer.get("line")
    line_right = line is None or (None if at == -1 else at) in line
    replica_right = replica is None or answer.get("replica") in replica
    cause = str(answer.get("cause") or "")
    retry = expect["retry"] if isinstance(expect["retry"], list) else [expect["retry"]]
    return Scored(
        name=name,
        family=families[0],
        tells=expect["tells"],
        location=replica_right and line_right,
        family_right=answer.get("family") in families,
        cause=all(word.lower() in cause.lower() for word in expect["cause_contains"]),
        retry=answer.get("retry") in retry,
        unknown=cause == "" and answer.get("family") == "unknown",
        confident=float(answer.get("confidence") or 0) >= HIGH,
        answer=answer,
        expect=expect,
    )


def scored(half: str, diagnose: Diagnose, name: str = "") -> Iterator[Scored]:
    """Score the cases of a half, or one of them."""
    with tempfile.TemporaryDirectory() as place:
        for folder in folders(half):
            if name and folder.name != name:
                continue
            expect = json.loads((folder / "expect.json").read_text())
            yield judge(folder.name, expect, diagnose(unpacked(folder, Path(place)), folder / "job.json"))


def share(rows: list[Scored], of: Callable[[Scored], bool]) -> str:
    count = sum(map(of, rows))
    return f"{count} of {len(rows)} ({100 * count / len(rows):.1f} %)" if rows else "none"


def report(rows: list[Scored], show: bool) -> None:
    """Print totals and families, with a table of misses if `show`."""
    telling = [r for r in rows if r.tells]
    failing = [r for r in telling if r.family != "none"]
    print(f"replica and line right  {share(failing, lambda r: r.location)}")
    print(f"family right            {share(telling, lambda r: r.family_right)}")
    print(f"cause names its words   {share(failing, lambda r: r.cause)}")
    print(f"retry right             {share(failing, lambda r: r.retry)}")
    print(f"'not known' said        {share([r for r in rows if not r.tells], lambda r: r.unknown)}")
    print(f"confident               {share(rows, lambda r: r.confident)}")
    print(f"confident and wrong     {share(rows, lambda r: r.wrong_and_confident)}")
    groups: dict[str, list[Scored]] = collections.defaultdict(list)
    for row in rows:
        groups[row.family].append(row)
    print(f"\n{'family':20} {'cases':>5} {'place':>5} {'family':>6} {'right':>5} {'sure and wrong':>14}")
    for family, group in sorted(groups.items()):
        counts = [
            sum(map(of, group))
            for of in (
                lambda r: r.location,
                lambda r: r.family_right,
                lambda r: r.right,
                lambda r: r.wrong_and_confident,
            )
        ]
        print(f"{family:20} {len(group):5} {counts[0]:5} {counts[1]:6} {counts[2]:5} {counts[3]:14}")
    if not show:
        return
    print()
    for row in rows:
        if row.right and row.cause and not row.wrong_and_confident:
            continue
        e, a = row.expect, row.answer
        print(f"{row.name}{'  SURE AND WRONG' if row.wrong_and_confident else ''}")
        print(
            f"   is   {e['family']} at {e['replica']} line {str(e['line'])[:60]}, names {e['cause_contains']}"
        )
        print(
            f"   said {a.get('family')} at {a.get('replica')} line {a.get('line')}, {a.get('confidence')}: {str(a.get('cause'))[:100]}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("half", nargs="?", choices=["open", "blind"], default="open")
    parser.add_argument("--case", default="", metavar="NAME")
    parser.add_argument("--show", action="store_true", help="print the misses of the blind half too")
    options = parser.parse_args()
    rows = list(scored(options.half, by_verb, options.case))
    report(rows, options.show or options.half == "open")


if __name__ == "__main__":
    main()
