"""Check whether a save and its upload fit into the grace period of a preemption, and report the loss if not.

The grace period between SIGTERM and SIGKILL is about 25 to 30 seconds (docs/facts/vertex.md 3.8). In that
time the trainer must write a checkpoint and, if the machine's disk is lost, upload it. If that takes longer,
a preemption loses the steps since the last periodic checkpoint. A run that would never have a checkpoint is
refused at the start.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.stores.remote_store import RemoteStore, RemoteStoreError
from trainer.config import CheckpointConfig
from trainer.errors import UsageError

_PROBE_BYTES = 32 << 20
_WARM_UP_BYTES = 64 << 10
"""Bytes uploaded before the measurement, to open the connection."""


@dataclass(frozen=True, slots=True)
class SaveCost:
    """Size in bytes and duration in seconds of a save of this node. `upload` is the duration of the upload;
    None if there are no uploads or the probe failed."""

    size: float
    save: float
    upload: float | None = None
    basis: str = ""
    """How the cost was measured, as a clause of a sentence."""

    @property
    def text(self) -> str:
        text = f"a save of {_amount(self.size)} takes {self.save:.1f} s here"
        if self.upload is not None:
            text += f" and its upload {self.upload:.1f} s"
        return f"{text} ({self.basis})" if self.basis else text


@dataclass(frozen=True, slots=True)
class BudgetCheck:
    """The result of a check: `text` is "" if save and upload fit. `refused` is true if a preemption would
    lose the entire run."""

    text: str = ""
    refused: bool = False


def check_budget(cost: SaveCost, config: CheckpointConfig, steps: int, store: str) -> BudgetCheck:
    """Check a run of `steps` steps; `store` is the address of its uploads; "" if there are no uploads."""
    grace = config.grace
    needed = cost.save + (cost.upload or 0.0)
    if not grace or needed <= grace:
        return BudgetCheck()
    head = f"{cost.text}, and the grace period is {grace:g} s: "
    if cost.save > grace:
        interval, flag = config.checkpoint_every, "--checkpoint-every"
        head += "after SIGTERM no checkpoint can be written. "
    else:
        interval, flag = config.upload_every, "--upload-every"
        head += f"after SIGTERM no checkpoint can be uploaded to {store}. "
    other = (
        "use more nodes with fsdp or zero2, a faster disk or bucket, or --grace with your cluster's period"
    )
    if not 0 < interval < steps:
        why = "there is none before the end" if interval else "none is saved before the end"
        suggested = max(1, min(500, steps // 10))
        return BudgetCheck(
            f"{head}As {flag} is {interval}, {why}, and a preemption would lose the whole run. Set {flag} "
            f"{suggested}, {other} (0: not checked)",
            refused=True,
        )
    return BudgetCheck(
        f"{head}A preemption loses up to {interval} steps; to lose fewer, lower {flag}, or {other}"
    )


class PreemptionBudget:
    """The cost of a save of this run, and whether it fits into the grace period."""

    def __init__(
        self, config: CheckpointConfig, steps: int, store: RemoteStore | None, warn: Callable[[str], None]
    ) -> None:
        self._config, self._steps, self._store, self._warn = config, steps, store, warn
        self.cost = SaveCost(0.0, 0.0)
        self.warned = False

    def check(self, cost: SaveCost, *, resumed: bool) -> None:
        """Check a measured cost at the start of the run. Raises UsageError if a preemption would lose the
        entire run."""
        self.cost = cost
        result = self._result()
        # A resumed run has a checkpoint; a refusal would end the run at its first restart.
        if result.refused and not resumed:
            raise UsageError(result.text)
        self._warn_once(result)

    def update(self, cost: SaveCost) -> None:
        """Check the cost of a completed save, and warn once if it exceeds the grace period."""
        self.cost = cost
        self._warn_once(self._result())

    def _result(self) -> BudgetCheck:
        store = self._store.name if self._store is not None else ""
        return check_budget(self.cost, self._config, self._steps, store)

    def _warn_once(self, result: BudgetCheck) -> None:
        if result.text and not self.warned:
            self.warned = True
            self._warn(result.text)

    def measure(
        self, folder: Path, node: int, size: float, upload_size: float | None, last_save: float
    ) -> SaveCost:
        """Measure a save of `size` bytes on this node, unless the last save gives its duration, `last_save`
        seconds. `upload_size` is in bytes; it is None if this rank does not upload."""
        seconds, upload, basis = last_save, None, []
        try:
            if last_save:
                basis.append(f"the last save took {seconds:.1f} s")
            else:
                seconds, text = measure_disk(folder, node, size)
                basis.append(text)
            if upload_size is not None and self._store is not None:
                upload, text = measure_upload(self._store, folder, node, upload_size)
                basis.append(text)
        except (OSError, RemoteStoreError) as error:
            self._warn(f"the cost of a save can't be measured: {error}")
        return SaveCost(size, seconds, upload, ", ".join(basis))


def measure_disk(folder: Path, node: int, size: float) -> tuple[float, str]:
    """Return the seconds to write, sync and check `size` bytes, extrapolated from a smaller sample, and the
    measurement as text. Raises OSError."""
    probe = folder / f".probe-{node}"
    length = max(1, int(min(size, _PROBE_BYTES)))
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


def measure_upload(store: RemoteStore, folder: Path, node: int, size: float) -> tuple[float, str]:
    """Return the seconds to upload `size` bytes, extrapolated from a smaller sample, and the measurement as
    text. Raises OSError or RemoteStoreError."""
    probe, name = folder / f".probe-{node}", f"probe-{node}"
    length = max(1, int(min(size, _PROBE_BYTES)))
    try:
        for part in (min(length, _WARM_UP_BYTES), length):
            probe.write_bytes(os.urandom(part))
            began = time.monotonic()
            store.upload_file(probe, name)
            seconds = (time.monotonic() - began) * size / part
        with suppress(RemoteStoreError):
            store.delete_file(name)
    finally:
        probe.unlink(missing_ok=True)
    return seconds, f"{_rate(size, seconds)} to {store.name}"


def _rate(size: float, seconds: float) -> str:
    return f"{_amount(size / max(seconds, 1e-9))}/s"


def _amount(size: float) -> str:
    if size >= 1e9:
        return f"{size / 1e9:,.1f} GB"
    return f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"
