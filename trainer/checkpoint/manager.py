"""All that the loop has to do with checkpoints: find and load one, save, upload, leave within the grace."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.grace import Measured, Verdict, judge, probe_disk, probe_place
from trainer.checkpoint.load import Finder, Found, load, refuse_another_form
from trainer.checkpoint.manifest import CheckpointError
from trainer.checkpoint.place import Place, PlaceError, checkpoint_folder, place_of, upload_uri
from trainer.checkpoint.save import Saved, Saver, prepare_folder
from trainer.checkpoint.upload import Uploader
from trainer.config import Config, UsageError
from trainer.group import ProcessGroup
from trainer.lines import emit
from trainer.paths import in_bucket, mounted
from trainer.strategy.base import WHOLE, ZERO, Strategy

AT_THE_END = 600.0
"""Seconds to go on trying to upload the last checkpoint of a run that is done."""
_LATE = 1.0


class Checkpoints:
    """All ranks call each method at the same step."""

    def __init__(self, config: Config, group: ProcessGroup) -> None:
        """Raises CheckpointError when the folder can't be written, UsageError for a place that can't be."""
        self._config, self._group = config.checkpoint, group
        self._about, self._steps = asdict(config), config.steps
        self._measured, self._said = Measured(0.0, 0.0), False
        self._upload_took: float | None = None
        given = self._config.checkpoint_dir
        if in_bucket(given) is not None and not mounted():
            raise UsageError(
                f"--checkpoint-dir {given}: no bucket is mounted on this node, so it would go with "
                "the node's own disk; leave it out and give --upload-dir instead"
            )
        self.folder = checkpoint_folder(given)
        self._shared = prepare_folder(self.folder, group)
        self._place = self._open(upload_uri(self._config.upload_dir, os.environ))
        self._uploader: Uploader | None = None
        self.saved_step = -1
        """Step of the newest checkpoint that is known to be good; -1: none."""

    def _open(self, uri: str) -> Place | None:
        if not uri:
            return None
        try:
            return place_of(uri)
        except PlaceError as error:
            raise UsageError(f"--upload-dir {uri} can't be used: {error}") from error

    def find(self) -> Found | None:
        """The newest good checkpoint, brought to this node; None to start afresh."""
        if self._config.resume == "never":
            return None
        report = self._warn
        found = Finder(self.folder, self._place, self._group, shared=self._shared, report=report).newest()
        if found is not None:
            self.saved_step = found.manifest.step
        return found

    def load(self, found: Found, strategy: Strategy) -> None:
        """Raises UsageError for another strategy's form or another model, CheckpointError for a bad file."""
        refuse_another_form(found, strategy, self._about)
        universal = None
        if found.manifest.layout == ZERO and found.manifest.world_size != self._group.world:
            universal = self._convert(found.path)
        load(found, strategy, self._group, universal)

    def _convert(self, path: Path) -> Path:
        # Imported here: it brings DeepSpeed along.
        from trainer.checkpoint.convert import to_universal

        problem = None
        if self._group.rank == 0 if self._shared else self._group.local_rank == 0:
            try:
                to_universal(path)
            except CheckpointError as error:
                problem = str(error)
        problem = next((p for p in self._group.gather(problem) if p), None)
        if problem:
            raise CheckpointError(problem)
        return to_universal(path)

    def attach(self, strategy: Strategy, found: Found | None) -> None:
        """Get ready to save this strategy's state.

        Raises:
            UsageError: when a save can't be over before the grace period is.
        """
        group, place = self._group, self._place
        alone = self._shared or strategy.layout == WHOLE
        leads = group.rank == 0 if alone else group.local_rank == 0
        if place is not None and leads:
            self._uploader = Uploader(
                place, group.store, self._say_upload, node=group.node, nodes=1 if alone else group.nodes,
                leads=group.rank == 0, keep=self._config.keep,
            )  # fmt: skip
        self._saver = Saver(
            self.folder, strategy, group, shared=self._shared, keep=self._config.keep, config=self._about,
            busy=self._uploader.busy if self._uploader else frozenset,
        )  # fmt: skip
        if self._config.async_save == "on":
            self._saver.warm()
        self._check_grace(strategy, found)

    def due(self, step: int) -> bool:
        return bool(self._config.checkpoint_every) and step % self._config.checkpoint_every == 0

    def save(self, step: int, progress: dict[str, Any], *, wait: bool = False) -> float:
        """Begin a save after the one before it is over; the seconds that training stood still."""
        began, late = time.monotonic(), self._saver.pending
        self.poll(wait=True)
        waited = time.monotonic() - began
        if late and waited > _LATE:
            self._warn(
                f"training stood still for {waited:.1f} s, for the checkpoint before was still being "
                f"written: --checkpoint-every {self._config.checkpoint_every} is too often for this disk"
            )
        self._saver.save(step, progress)
        if wait or self._config.async_save == "off":
            self.poll(wait=True)
        return time.monotonic() - began

    def poll(self, *, wait: bool = False) -> None:
        """Take note of a save that is over: a failed one is said and never ends the training."""
        try:
            saved = self._saver.result(wait=wait)
        except CheckpointError as error:
            self._warn(f"{error}; training goes on, the next checkpoint is tried again")
            return
        if saved is None:
            return
        self.saved_step = saved.step
        if (
            self._uploader is not None
            and self._config.upload_every
            and not saved.step % self._config.upload_every
        ):
            self._offer(saved)
        self._say_saved(saved)
        upload = self._measured.upload if self._upload_took is None else self._upload_took
        self._measured = Measured(saved.bytes, saved.seconds, upload, f"at step {saved.step}")
        self._say_verdict(self._judge())

    def leave(self, step: int, progress: dict[str, Any], seconds: float) -> None:
        """Save this step, unless it is saved, and upload it, all within `seconds`.

        One that would not be over in time is not begun: the newest that is there is uploaded instead.
        """
        began = time.monotonic()
        self.poll(wait=True)
        hurried = seconds <= self._config.grace
        if self.saved_step != step and not (hurried and self._too_late(seconds - time.monotonic() + began)):
            self.save(step, progress, wait=True)
        if self._uploader is None:
            return
        if self.saved_step >= 0 and not self._uploaded(self.saved_step):
            with suppress(CheckpointError):
                path = self.folder / f"step-{self.saved_step}"
                self._uploader.offer(path, manifests.read(path))
        left = max(1.0, seconds - (time.monotonic() - began))
        if not self._uploader.finish(left):
            self._warn(f"checkpoint {self.saved_step} is not uploaded after {left:.0f} s")

    def _too_late(self, left: float) -> bool:
        """Whether another save would not be over by then, as all ranks together see it; it is said."""
        need = self._measured.save
        if self.saved_step < 0 or not any(self._group.gather(need > left)):
            return False
        self._warn(
            f"{left:.0f} s are left and a save takes {need:.0f} s: the checkpoint of step {self.saved_step} "
            "stays the newest"
        )
        return True

    def close(self) -> None:
        self._saver.close()

    def _uploaded(self, step: int) -> bool:
        assert self._uploader is not None
        return self._uploader.done == step and step not in self._uploader.busy()

    def _offer(self, saved: Saved) -> None:
        assert self._uploader is not None
        self._uploader.offer(saved.path, manifests.read(saved.path))

    def _check_grace(self, strategy: Strategy, found: Found | None) -> None:
        """Refuse a run that a preemption would lose, by what was measured; say what it would cost."""
        if not self._config.grace:
            return
        mine = self._measure(strategy, found) if self._group.local_rank == 0 else Measured(0.0, 0.0)
        ranks: list[Measured] = self._group.gather(mine)
        self._measured = max(ranks, key=lambda each: each.save + (each.upload or 0.0))
        verdict = self._judge()
        # One that goes on has come through until now: it must not end at its first restart.
        if verdict.refused and found is None:
            raise UsageError(verdict.text)
        self._say_verdict(verdict)

    def _measure(self, strategy: Strategy, found: Found | None) -> Measured:
        """What this node's part of a save costs: by the last one where there is one, else by a probe."""
        group, parts = self._group, strategy.layout != WHOLE
        whole = state_bytes(strategy)
        size, sent = (whole / group.nodes if parts else whole), whole
        seconds, upload, how = 0.0, None, []
        try:
            if found is not None and found.manifest.seconds and found.manifest.size:
                seconds = found.manifest.seconds
                how.append(f"the last save took {seconds:.1f} s")
            else:
                seconds, said = probe_disk(self.folder, group.node, size)
                how.append(said)
            if self._uploader is not None and self._place is not None:
                if parts and not self._shared:
                    sent = size
                upload, said = probe_place(self._place, self.folder, group.node, sent)
                how.append(said)
        except (OSError, PlaceError) as error:
            self._warn(f"what a save costs can't be measured: {error}")
        return Measured(size, seconds, upload, ", ".join(how))

    def _judge(self) -> Verdict:
        place = self._place.name if self._place is not None else ""
        return judge(self._measured, self._config, self._steps, place)

    def _say_verdict(self, verdict: Verdict) -> None:
        """Once for all that it may say in a run."""
        if verdict.text and not self._said:
            self._said = True
            self._warn(verdict.text)

    def _say_saved(self, saved: Saved) -> None:
        if self._group.rank == 0:
            emit(
                "checkpoint",
                f"checkpoint at step {saved.step} in {saved.seconds:.2f} s, {saved.bytes / 1e6:.1f} MB, "
                f"training stood still for {saved.stall:.2f} s",
                step=saved.step, path=str(saved.path), seconds=saved.seconds, bytes=saved.bytes,
                stall_seconds=saved.stall,
            )  # fmt: skip

    def _say_upload(self, severity: str, text: str, fields: dict[str, object]) -> None:
        emit("upload", text, severity=severity, **fields)
        if isinstance(seconds := fields.get("seconds"), float):
            self._upload_took = seconds

    def _warn(self, text: str) -> None:
        if self._group.rank == 0 or (self._group.local_rank == 0 and not self._shared):
            emit("phase", text, severity="WARNING", phase="checkpoint")


def state_bytes(strategy: Strategy) -> float:
    """Size of a whole checkpoint, over all ranks."""
    state = strategy.state()
    if state:
        return float(sum(tensor.numel() * tensor.element_size() for tensor in state.values()))
    about = strategy.describe()
    return float(4 * about["parameters"] + 12 * about["trainable"])
