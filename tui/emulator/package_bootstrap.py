"""Runs a Python-package job: installs its packages into the working directory, then the module takes over.

`python -m tui.emulator.package_bootstrap PACKAGE… -- MODULE ARG…`, with PYTHONPATH naming `PACKAGES` in
the working directory. Nothing is fetched: what a package needs beside itself must be on this machine, as it
would be in the executor image. Standard library only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PACKAGES = "packages"
"""Directory below a replica's working directory in which its own Python packages lie."""

_INSTALL = "install --quiet --no-index --no-deps --no-build-isolation --disable-pip-version-check --target"


def main() -> None:
    """Exit code 1, with pip's own words on stderr, when the packages can't be installed."""
    split = sys.argv.index("--")
    packages, command = sys.argv[1:split], sys.argv[split + 1 :]
    # All in one go: a later call would not touch a directory that an earlier one has made, `bin` for one.
    pip = [sys.executable, "-m", "pip", *_INSTALL.split(), str(Path.cwd() / PACKAGES), *packages]
    if packages and subprocess.run(pip, check=False).returncode:
        sys.exit(f"The job's Python packages could not be installed: {', '.join(packages)}")
    os.execv(sys.executable, [sys.executable, "-m", *command])


if __name__ == "__main__":
    main()
