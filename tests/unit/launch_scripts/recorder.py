"""Runs a script by the real bash with `gcloud` replaced by a recorder of its words and standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_RECORDER = """#!{python}
import json, os, sys
words = sys.argv[1:]
stdin = sys.stdin.read() if "--config=-" in words else None
files = {{w[9:]: open(w[9:]).read() for w in words if w.startswith("--config=") and w != "--config=-"
         and os.path.isfile(w[9:])}}
with open({log!r}, "a") as log:
    log.write(json.dumps({{"words": words, "stdin": stdin, "files": files}}) + "\\n")
"""


def recorded(text: str, folder: Path, environment: dict[str, str] | None = None) -> list[dict[str, object]]:
    """The calls of gcloud that bash makes for a script in `folder`; nothing else outside it is run."""
    bin_folder, log = folder / "bin", folder / "calls"
    bin_folder.mkdir(exist_ok=True)
    recorder = bin_folder / "gcloud"
    recorder.write_text(_RECORDER.format(python=sys.executable, log=str(log)))
    recorder.chmod(0o755)
    script = folder / "launch.sh"
    script.write_text(text)
    log.unlink(missing_ok=True)
    env = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "HOME": "/home/me", **(environment or {})}
    # bash reads nothing from the terminal and is stopped where a script would not end.
    subprocess.run(
        ["bash", "./launch.sh"], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True,
        check=False, timeout=20,
    )  # fmt: skip
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
