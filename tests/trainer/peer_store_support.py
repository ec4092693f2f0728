"""What several tests share with test_peer_store."""

from __future__ import annotations

import os
import time
from pathlib import Path

from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.manifest import Manifest, inventory
from trainer.checkpoint.run_identity import RunIdentity

RUN = RunIdentity("one", "2026-11-22")
KEY = "the key of this launch"


def part(folder: Path, step: int, run: RunIdentity = RUN, node: int = 0, size: int = 3_000_000) -> Manifest:
    """Save a part of `node` into `folder`/step-N: files in a subfolder, an empty one, and a large one."""
    place = folder / f"step-{step}"
    (place / "zero").mkdir(parents=True)
    (place / "side.pt").write_bytes(b"")
    (place / "zero" / "rank-0.pt").write_bytes(os.urandom(size))
    (place / "zero" / "small.pt").write_bytes(f"step {step}".encode())
    manifest = Manifest(
        step,
        "zero2",
        "zero",
        2,
        2,
        node,
        shared=False,
        files=inventory(place, node),
        run=run,
        saved=time.time(),
    )
    manifests.write(place, manifest)
    return manifest
