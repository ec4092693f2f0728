"""Imports random scripts: `python -m tests.benchmarks.hostile_scripts_child FOLDER FIRST END`."""

from __future__ import annotations

import gc
import json
import resource
import signal
import sys
from pathlib import Path
from random import Random
from time import process_time

from tests.benchmarks.harness import memory_of
from tests.benchmarks.hostile_scripts import script
from tui.domain.interchange import from_text
from tui.domain.profile import ProfileInvalid
from tui.verbs.profiles.interchange import configs, surroundings


def main(folder: Path, first: int, end: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    times: list[tuple[float, int]] = []
    wrong: list[str] = []
    for seed in range(first, end):
        text = script(Random(seed))
        # Ends this process with the seed in view if one import does not end.
        print(f"script {seed}", flush=True)
        signal.alarm(60)
        began = process_time()
        try:
            from_text(text, "run.sh", configs(folder), surroundings(folder, "1"))
        except (ProfileInvalid, OSError):
            pass
        except Exception as error:  # noqa: BLE001 - any other is what this looks for
            wrong.append(f"{seed}: {type(error).__name__}: {error}"[:300])
        times.append((process_time() - began, seed))
        # A user imports one script in a process.
        gc.collect()
    times.sort(reverse=True)
    report = {"wrong": wrong, "times": times[:5], "memory": memory_of(field="VmHWM")}
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
