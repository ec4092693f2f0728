"""Runs a Python-package job: installs its packages into the working directory, then the module takes over.

`python -m tui.emulator.runs.package_bootstrap PACKAGE… -- MODULE ARG…`, with PYTHONPATH naming `PACKAGES` in
the working directory. What the packages ask for and this machine has is taken as it is, as an executor image
has it; only what is missing is fetched, by pip as it is set up here (`PIP_INDEX_URL` and the like may stand
in the job's env), into the working directory too. Standard library and pip only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

PACKAGES = "packages"
"""Directory below a replica's working directory in which its own Python packages lie."""

_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
_OWN = "install --quiet --no-index --no-deps --no-build-isolation --target"
# A machine without a network says so soon, not after pip's five tries.
_FETCH = "--quiet --no-build-isolation --retries 1 --timeout 20"


def main() -> None:
    """Exit code 1, with pip's own words on stderr, when something can't be installed."""
    split = sys.argv.index("--")
    packages, command = sys.argv[1:split], sys.argv[split + 1 :]
    target = str(Path.cwd() / PACKAGES)
    # All in one go: a later call would not touch a directory that an earlier one has made, `bin` for one.
    if packages and subprocess.run([*_PIP, *_OWN.split(), target, *packages], check=False).returncode:
        sys.exit(f"The job's Python packages could not be installed: {', '.join(packages)}")
    wanted = missing(target)
    if wanted:
        fetch(wanted, target)
    os.execv(sys.executable, [sys.executable, "-m", *command])


def missing(target: str) -> list[str]:
    """Requirements of the packages below `target` that this machine does not meet."""
    # pip's own copy: an executor image promises pip, not this library beside it.
    from pip._vendor.packaging.requirements import Requirement  # noqa: PLC0415

    wanted = []
    for package in metadata.distributions(path=[target]):
        for line in package.requires or ():
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                try:
                    found = metadata.version(need.name)
                except metadata.PackageNotFoundError:
                    found = ""
                fits = bool(found) and need.specifier.contains(found, prereleases=True)
                # What lies at an address, or is an extra of something, only pip can tell.
                if need.url or need.extras or not fits:
                    wanted.append(str(need))
    return wanted


def fetch(wanted: list[str], target: str) -> None:
    """Install what is missing, and what that needs; what this machine has already is not fetched again."""
    print(f"Installing requirements of the job: {', '.join(wanted)}", flush=True)  # noqa: T201
    report = Path.cwd() / "requirements.json"
    # With a target pip would fetch everything anew, torch too; so it first says what is really missing.
    env = {name: value for name, value in os.environ.items() if name != "PIP_TARGET"}
    look = [*_PIP, "install", *_FETCH.split(), "--dry-run", "--report", str(report), *wanted]
    if subprocess.run(look, env=env, check=False).returncode:
        _give_up(wanted)
    names = [
        _exactly(item["metadata"], item["download_info"]["url"], item["is_direct"])
        for item in json.loads(report.read_bytes())["install"]
    ]
    bring = [*_PIP, "install", *_FETCH.split(), "--no-deps", "--upgrade", "--target", target, *names]
    if names and subprocess.run(bring, check=False).returncode:
        _give_up(wanted)


def _exactly(about: dict[str, str], url: str, is_direct: bool) -> str:
    return f"{about['name']} @ {url}" if is_direct else f"{about['name']}=={about['version']}"


def _give_up(wanted: list[str]) -> None:
    sys.exit(
        f"The job's requirements could not be installed: {', '.join(wanted)}. pip's own words stand above. "
        "They come from the index that pip is set up for on this machine; another one can be given as "
        "PIP_INDEX_URL or PIP_FIND_LINKS in the pool's env."
    )


if __name__ == "__main__":
    main()
