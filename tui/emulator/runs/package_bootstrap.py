"""Runs a Python-package job: installs its packages into the working directory, then runs the module.

`python -m tui.emulator.runs.package_bootstrap PACKAGE… -- MODULE ARG…`, with PYTHONPATH naming `PACKAGES` in
the working directory. The program prints the lines of the service's own runner (docs/facts/vertex.md 16). The
program does not install requirements that this machine meets, as in an executor image. pip fetches the other
requirements into the working directory with this machine's configuration; the job's env may set
`PIP_INDEX_URL` and other variables. The module uses only the standard library and pip.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

PACKAGES = "packages"
"""Directory of a replica's Python packages in its working directory."""

_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
_OWN = "install --quiet --no-index --no-deps --no-build-isolation --target"
# Without a network, fail after one retry instead of pip's five.
_FETCH = "--quiet --no-build-isolation --retries 1 --timeout 20"


def main() -> None:
    """Exit with code 1 and pip's message on stderr when an installation fails."""
    split = sys.argv.index("--")
    packages, command = sys.argv[1:split], sys.argv[split + 1 :]
    target = str(Path.cwd() / PACKAGES)
    _say("Running run_module.py", f"Running module {command[0]}.")
    for package in packages:
        name = Path(package).name
        _say(
            f"Downloading the package: {package}",
            f"Running command: pip3 install --user --upgrade --force-reinstall --no-deps {name}",
        )
    # Use one call for all packages: a second call would not write to existing directories such as `bin`.
    if packages and subprocess.run([*_PIP, *_OWN.split(), target, *packages], check=False).returncode:
        sys.exit(f"The job's Python packages could not be installed: {', '.join(packages)}")
    requirements = missing(target)
    if requirements:
        fetch(requirements, target)
    sys.exit(run(["python3", "-m", *command]))


def run(command: list[str]) -> int:
    """Run the module; return its exit code, 128 + signal if a signal ended it."""
    # The emulator signals every process of the replica; this process has to outlive the module.
    for number in (signal.SIGINT, signal.SIGTERM):
        # A handler, since the module would inherit SIG_IGN.
        signal.signal(number, lambda *_: None)
    code = subprocess.run([sys.executable, *command[1:]], check=False).returncode
    code = 128 - code if code < 0 else code
    if code:
        sys.stderr.write(f"Command '{command}' returned non-zero exit status {code}.\n")
    reason = "SUBPROCESS_EXCEPTION" if code else "SUCCEEDED"
    _say(f"Task completed. Exit code ({code}). Exit reason ({reason})")
    return code


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)  # noqa: T201


def missing(target: str) -> list[str]:
    """Return the requirements of the packages below `target` that this machine does not meet."""
    # Use pip's own copy: an executor image has pip, but perhaps not this library.
    from pip._vendor.packaging.requirements import Requirement  # noqa: PLC0415

    requirements = []
    for package in metadata.distributions(path=[target]):
        for line in package.requires or ():
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                try:
                    version = metadata.version(need.name)
                except metadata.PackageNotFoundError:
                    version = ""
                fits = bool(version) and need.specifier.contains(version, prereleases=True)
                # Only pip can resolve URLs and extras.
                if need.url or need.extras or not fits:
                    requirements.append(str(need))
    return requirements


def fetch(requirements: list[str], target: str) -> None:
    """Install missing requirements and their dependencies, except those that this machine meets."""
    print(f"Installing requirements of the job: {', '.join(requirements)}", flush=True)  # noqa: T201
    report = Path.cwd() / "requirements.json"
    # With a target, pip would fetch everything again, even torch. A dry run without a target finds the
    # missing packages.
    env = {name: value for name, value in os.environ.items() if name != "PIP_TARGET"}
    look = [*_PIP, "install", *_FETCH.split(), "--dry-run", "--report", str(report), *requirements]
    if subprocess.run(look, env=env, check=False).returncode:
        _exit_on_failure(requirements)
    names = [
        _pinned(item["metadata"], item["download_info"]["url"], item["is_direct"])
        for item in json.loads(report.read_bytes())["install"]
    ]
    bring = [*_PIP, "install", *_FETCH.split(), "--no-deps", "--upgrade", "--target", target, *names]
    if names and subprocess.run(bring, check=False).returncode:
        _exit_on_failure(requirements)


def _pinned(about: dict[str, str], url: str, is_direct: bool) -> str:
    return f"{about['name']} @ {url}" if is_direct else f"{about['name']}=={about['version']}"


def _exit_on_failure(requirements: list[str]) -> None:
    sys.exit(
        f"The job's requirements could not be installed: {', '.join(requirements)}; pip's message is above. "
        "pip uses this machine's configured index. To use another index, set PIP_INDEX_URL or PIP_FIND_LINKS "
        "in the pool's env."
    )


if __name__ == "__main__":
    main()
