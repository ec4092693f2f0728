"""Makes the corpus: `python -m tests.corpus.failures.make [--only WORD]… [--python PYTHON] [--new]`.

Each case is a run of real processes (`harness.py`). A run needs root for some faults (a full file system, a memory
limit, another user), gcc, and the packages of PACKAGES. Each call records other times, interleavings and addresses;
the committed recordings are the ones that count.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import random
import sys
import time
import traceback
from pathlib import Path

from tests.corpus.failures.case import Case
from tests.corpus.failures.cases.every import all_cases
from tests.corpus.failures.emulated import EmulatorRun
from tests.corpus.failures.harness import Run
from tests.corpus.failures.server import serving
from tests.corpus.failures.writer import UntrueCase, write, write_good, write_truth

HERE = Path(__file__).parent
ASSIGNMENT = HERE / "assignment.json"
PACKAGES = "hydra-core pyarrow datasets lightning jax webdataset"


def assign(cases: list[Case]) -> dict[str, str]:
    """Draw `open` or `blind` for new cases, half each in a family. Old draws stay."""
    drawn: dict[str, str] = json.loads(ASSIGNMENT.read_text()) if ASSIGNMENT.exists() else {}
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    family = {c.name: c.family if isinstance(c.family, str) else c.family[0] for c in cases}
    for name, half in drawn.items():
        counts[family.get(name, "")][half] += 1
    draw = random.Random(len(drawn) + 31)
    new = [c.name for c in cases if c.name not in drawn]
    draw.shuffle(new)
    for name in new:
        count = counts[family[name]]
        half = draw.choice(["open", "blind"])
        if count["open"] != count["blind"]:
            half = min(("open", "blind"), key=lambda h: count[h])
        drawn[name] = half
        count[half] += 1
    ASSIGNMENT.write_text(json.dumps(dict(sorted(drawn.items())), indent=1) + "\n")
    return drawn


def has_good_run(case: Case) -> bool:
    """Whether the same run without its fault is recorded beside the case: one replica fails, in a log of its own."""
    named = case.root.replicas if case.root and case.root.patterns else ()
    plain = case.command == "app" and not case.emulator and case.replicas <= 24 and not case.kill
    return plain and len(named) == 1 and named[0] not in ("", "service") and case.cancel_at is None


def good_run(case: Case) -> Case:
    """The case without its fault, and without every other trouble that it survived."""
    fault = case.hooks[-1]
    survived = [h for h in case.hooks if h["call"].startswith("incidents.") and h is not fault]
    others = [
        h for h in case.hooks[:-1] if not h["call"].startswith(("worded.", "system.slow", "incidents."))
    ]
    hooks = [*others, *survived[::2]]
    return dataclasses.replace(case, hooks=hooks, seed=case.seed + 7, state="SUCCEEDED", error="", kill=())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORD", help="cases whose name has this word"
    )
    parser.add_argument("--new", action="store_true", help="only cases that have no recording")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the runs")
    parser.add_argument(
        "--truth", action="store_true", help="only write expect.json again, for the recorded logs"
    )
    parser.add_argument("--good", action="store_true", help="record good runs beside the failed ones")
    options = parser.parse_args()
    cases = all_cases()
    repeated = [n for n, count in collections.Counter(c.name for c in cases).items() if count > 1]
    if repeated:
        parser.error(f"names of cases must be unique: {repeated}")
    halves = assign(cases)
    bad = []
    with serving() as servers:
        for case in cases:
            folder = HERE / halves[case.name] / case.name
            if options.only and not any(word in case.name for word in options.only):
                continue
            if options.new and (folder / "expect.json").exists():
                continue
            if options.truth:
                if (folder / "job.json").exists():
                    write_truth(case, folder)
                continue
            if options.good:
                if has_good_run(case) and not list(folder.glob("good.*")):
                    try:
                        write_good(case, Run(good_run(case), options.python, servers).record(), folder)
                    except UntrueCase as e:
                        print(f"{case.name}: {e}")
                        bad.append(case.name)
                continue
            begun = time.time()
            try:
                report = write(
                    case,
                    (EmulatorRun if case.emulator else Run)(case, options.python, servers).record(),
                    folder,
                )
            except Exception:  # noqa: BLE001 - the other cases are made all the same
                traceback.print_exc()
                bad.append(case.name)
                continue
            print(
                f"{case.name}: {report['entries']} entries, {report['bytes']} bytes, {time.time() - begun:.1f} s",
                flush=True,
            )
    print(f"{len(bad)} failed: {' '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
