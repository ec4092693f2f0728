"""Whether a save and its upload fit between SIGTERM and SIGKILL, and what a preemption costs if not.

The notice is about 25 to 30 seconds (vertex facts 3.8). Within it a checkpoint has to be written, and where
the machine and its disk go away, copied as well. One that can't be is no harm while an earlier one is there:
then a preemption costs at most the steps since then. A run that would have none is refused when it starts.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.place import Place, PlaceError
from trainer.config import CheckpointConfig

_PROBE = 32 << 20
_FIRST = 64 << 10
"""Bytes sent before anything is measured: the connection is made with them."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Bytes and seconds of a save of this node; `upload` is None where nothing is uploaded or it failed."""

    size: float
    save: float
    upload: float | None = None
    how: str = ""

    @property
    def text(self) -> str:
        said = f"a save of {_amount(self.size)} takes {self.save:.1f} s here"
        if self.upload is not None:
            said += f" and its upload {self.upload:.1f} s"
        return f"{said} ({self.how})" if self.how else said


@dataclass(frozen=True, slots=True)
class Verdict:
    """`text` is "" where all fits. `refused`: a preemption would lose everything."""

    text: str = ""
    refused: bool = False


def judge(found: Measured, config: CheckpointConfig, steps: int, place: str) -> Verdict:
    """What to say about a run of so many steps; `place` is where it uploads to, or ""."""
    grace = config.grace
    needed = found.save + (found.upload or 0.0)
    if not grace or needed <= grace:
        return Verdict()
    head = f"{found.text}, and the grace period is {grace:g} s: "
    if found.save > grace:
        lost, flag = config.checkpoint_every, "--checkpoint-every"
        head += "after SIGTERM no checkpoint can be written. "
    else:
        lost, flag = config.upload_every, "--upload-every"
        head += f"after SIGTERM no checkpoint can be brought to {place}. "
    other = "use more nodes with fsdp or zero2, a faster place, or --grace with what your cluster gives"
    if not 0 < lost < steps:
        why = "there is none before the end" if lost else "none is made before the end"
        usual = max(1, min(500, steps // 10))
        return Verdict(
            f"{head}As {flag} is {lost}, {why}, and a preemption would lose the whole run. Give {flag} "
            f"{usual}, {other} (0: not checked)", refused=True,
        )  # fmt: skip
    return Verdict(f"{head}A preemption loses up to {lost} steps; for fewer lower {flag}, or {other}")


def probe_disk(folder: Path, node: int, size: float) -> tuple[float, str]:
    """Seconds to write, sync and check so many bytes there, from a part of them, and how that is known.

    Raises OSError.
    """
    probe = folder / f".probe-{node}"
    length = max(1, int(min(size, _PROBE)))
    began = time.monotonic()
    try:
        with probe.open("wb") as file:
            file.write(os.urandom(length))
            file.flush()
            os.fsync(file.fileno())
        manifests.checksum(probe)
    finally:
        probe.unlink(missing_ok=True)
    seconds = (time.monotonic() - began) * size / length
    return seconds, f"{_rate(size, seconds)} were measured on {folder}"


def probe_place(place: Place, folder: Path, node: int, size: float) -> tuple[float, str]:
    """Seconds to bring so many bytes to the place, from a part of them, and how that is known.

    Raises OSError or PlaceError.
    """
    probe, name = folder / f".probe-{node}", f"probe-{node}"
    length = max(1, int(min(size, _PROBE)))
    try:
        for part in (min(length, _FIRST), length):
            probe.write_bytes(os.urandom(part))
            began = time.monotonic()
            place.send(probe, name)
            seconds = (time.monotonic() - began) * size / part
        with suppress(PlaceError):
            place.drop(name)
    finally:
        probe.unlink(missing_ok=True)
    return seconds, f"{_rate(size, seconds)} to {place.name}"


def _rate(size: float, seconds: float) -> str:
    return f"{_amount(size / max(seconds, 1e-9))}/s"


def _amount(size: float) -> str:
    if size >= 1e9:
        return f"{size / 1e9:,.1f} GB"
    return f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"
