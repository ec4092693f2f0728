"""Runs a Python-package job: installs its packages into the working directory, then executes the module.

`python -m tui.emulator.runs.package_bootstrap PACKAGE… -- MODULE ARG…`, with PYTHONPATH naming `PACKAGES` in
the working directory. Requirements that this machine meets are used as they are, like those of an executor
image; pip fetches the missing ones into the working directory, with this machine's configuration
(`PIP_INDEX_URL` and others may be in the job's env). Standard library and pip only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

PACKAGES = "packages"
"""Directory of a replica's own Python packages, below its working directory."""

_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
_OWN = "install --quiet --no-index --no-deps --no-build-isolation --target"
# Without a network it fails soon, not after pip's five tries.
_FETCH = "--quiet --no-build-isolation --retries 1 --timeout 20"


def main() -> None:
    """Exit with code 1 and pip's message on stderr when an installation fails."""
    split = sys.argv.index("--")
    packages, command = sys.argv[1:split], sys.argv[split + 1 :]
    target = str(Path.cwd() / PACKAGES)
    # One call for all: a second call would not write to a directory of the first one, such as `bin`.
    if packages and subprocess.run([*_PIP, *_OWN.split(), target, *packages], check=False).returncode:
        sys.exit(f"The job's Python packages could not be installed: {', '.join(packages)}")
    wanted = missing(target)
    if wanted:
        fetch(wanted, target)
    os.execv(sys.executable, [sys.executable, "-m", *command])


def missing(target: str) -> list[str]:
    """Requirements of the packages below `target` that this machine does not meet."""
    # pip's own copy: an executor image has pip, but perhaps not this library.
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
                # Only pip can resolve URLs and extras.
                if need.url or need.extras or not fits:
                    wanted.append(str(need))
    return wanted


def fetch(wanted: list[str], target: str) -> None:
    """Install missing requirements and their dependencies, except for what this machine has."""
    print(f"Installing requirements of the job: {', '.join(wanted)}", flush=True)  # noqa: T201
    report = Path.cwd() / "requirements.json"
    # With a target pip would fetch everything again, even torch; so a dry run finds what is missing.
    env = {name: value for name, value in os.environ.items() if name != "PIP_TARGET"}
    look = [*_PIP, "install", *_FETCH.split(), "--dry-run", "--report", str(report), *wanted]
    if subprocess.run(look, env=env, check=False).returncode:
        _exit_on_failure(wanted)
    names = [
        _pinned(item["metadata"], item["download_info"]["url"], item["is_direct"])
        for item in json.loads(report.read_bytes())["install"]
    ]
    bring = [*_PIP, "install", *_FETCH.split(), "--no-deps", "--upgrade", "--target", target, *names]
    if names and subprocess.run(bring, check=False).returncode:
        _exit_on_failure(wanted)


def _pinned(about: dict[str, str], url: str, is_direct: bool) -> str:
    return f"{about['name']} @ {url}" if is_direct else f"{about['name']}=={about['version']}"


def _exit_on_failure(wanted: list[str]) -> None:
    sys.exit(
        f"The job's requirements could not be installed: {', '.join(wanted)}; pip's message is above. "
        "pip uses the index that is configured on this machine; set PIP_INDEX_URL or PIP_FIND_LINKS in the "
        "pool's env for another one."
    )


if __name__ == "__main__":
    main()
