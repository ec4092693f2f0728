"""Run benchmarks, each figure beside its peer: `python -m tests.benchmarks [NAME …] [--json FILE]`.

The first word of several names stands for all of them: `trainer` for `trainer_data` and so on.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import platform
import sys
from pathlib import Path

import tests.benchmarks
from tests.benchmarks.harness import Benchmark, Result

_OWN = {"harness", "__main__"}


def benchmarks() -> dict[str, Benchmark]:
    """Every module of this package that has a `run`."""
    found: dict[str, Benchmark] = {}
    for info in pkgutil.iter_modules(tests.benchmarks.__path__):
        if info.name not in _OWN:
            module = importlib.import_module(f"tests.benchmarks.{info.name}")
            if hasattr(module, "run"):
                found[info.name] = module.run
    return found


def main() -> int:
    """Exit code 0 when every goal is kept, else 1."""
    known = benchmarks()
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; all without one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write JSON lines there too")
    given = parser.parse_args()
    names = []
    for name in given.names:
        group = [each for each in known if each == name or each.startswith(f"{name}_")]
        if not group:
            parser.error(f"no benchmark is called {name}; there are {', '.join(known)}")
        names += group
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}", flush=True)
    results: list[Result] = []
    for name in names or known:
        print(f"\n{name}", flush=True)
        for result in known[name]():
            results.append(result)
            print(result.row(), flush=True)
            print(result.json(), flush=True)
            if given.json:
                with given.json.open("a", encoding="utf-8") as file:
                    file.write(result.json() + "\n")
    missed = [result.name for result in results if not result.holds]
    print(
        f"\n{len(results) - len(missed)} of {len(results)} hold" + (f"; missed: {missed}" if missed else "")
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
