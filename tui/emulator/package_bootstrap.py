"""Runs a Python-package job: installs its packages into the working directory, then the module.

`python -m tui.emulator.package_bootstrap PACKAGE… -- MODULE ARGS…`
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Exit code 1 with one sentence when a package can't be installed; else the module takes over."""
    split = sys.argv.index("--")
    packages, command = sys.argv[1:split], sys.argv[split + 1 :]
    target = Path.cwd() / "packages"
    for package in packages:
        if not Path(package).exists():
            print(f"package {package} does not exist in the emulator's buckets", file=sys.stderr)  # noqa: T201
            return 1
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
        pip += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(target), package]
        if subprocess.run(pip, check=False).returncode:
            print(f"package {package} could not be installed", file=sys.stderr)  # noqa: T201
            return 1
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(target), os.environ.get("PYTHONPATH", "")])}
    os.execve(sys.executable, [sys.executable, "-m", *command], env)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
