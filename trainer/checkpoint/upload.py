"""Copying finished checkpoints to a place that outlives the machine, behind the training's back.

A failed upload never ends the training: it is said, and tried again until it works or a newer checkpoint
takes its place. Where each node has a part of the checkpoint each uploads its own, and node 0 writes the
manifest once all have.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch.distributed as dist

from trainer.checkpoint.manifest import Manifest
from trainer.checkpoint.place import Place, PlaceError

_PAUSES = (2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds between attempts; the last one from then on."""
_POLL = 0.1

Say = Callable[[str, str, dict[str, object]], None]
"""severity, message, fields"""


class Uploader:
    """A thread of its own. `offer` takes a finished checkpoint, `finish` waits for the last one."""

    def __init__(
        self, place: Place, store: dist.Store, say: Say, *, node: int, nodes: int, leads: bool, keep: int
    ) -> None:
        """`nodes` is how many upload a part each, 1 where one has it all; `leads` writes the manifest."""
        self._place, self._store, self._say = place, store, say
        self._node, self._nodes, self._leads, self._keep = node, nodes, leads, keep
        self._offered: tuple[Path, Manifest] | None = None
        self._at_work: int | None = None
        self.done = -1
        """Step of the last upload that this node has ended."""
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="upload", daemon=True).start()

    def offer(self, path: Path, manifest: Manifest) -> None:
        """Upload this one next; one that still waits is left out."""
        with self._changed:
            self._offered = (path, manifest)
            self._changed.notify_all()

    def busy(self) -> frozenset[int]:
        """Steps whose files must stay for now."""
        with self._changed:
            waiting = {self._offered[1].step} if self._offered else set()
            return frozenset(waiting | ({self._at_work} if self._at_work is not None else set()))

    def finish(self, seconds: float) -> bool:
        """Wait until nothing is left to do; False when it took longer than this."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._offered is None and self._at_work is None, timeout=seconds
            )

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._offered is not None)
                assert self._offered is not None
                (path, manifest), self._offered = self._offered, None
                self._at_work = manifest.step
            self._upload(path, manifest)
            with self._changed:
                self._at_work = None
                self._changed.notify_all()

    def _upload(self, path: Path, manifest: Manifest) -> None:
        """Until it is done or a newer one waits."""
        attempt = 0
        while True:
            began = time.monotonic()
            try:
                whole = self._once(path, manifest)
                self.done = manifest.step
            except (PlaceError, OSError) as error:
                pause = _PAUSES[min(attempt, len(_PAUSES) - 1)]
                attempt += 1
                text = f"checkpoint {manifest.step} is not uploaded yet: {error}; again in {pause:.0f} s"
                self._say("WARNING", text, {"step": manifest.step, "attempt": attempt})
                with self._changed:
                    if self._changed.wait_for(lambda: self._offered is not None, timeout=pause):
                        return
                continue
            if whole is not None:
                seconds = time.monotonic() - began
                self._say(
                    "INFO",
                    f"checkpoint {whole.step} uploaded to {self._place.name} in {seconds:.1f} s",
                    {"step": whole.step, "seconds": seconds, "bytes": whole.size, "place": self._place.name},
                )
                self._prune()
            return

    def _once(self, path: Path, manifest: Manifest) -> Manifest | None:
        """The manifest that was written, or None where another node writes it or a newer one waits."""
        step = manifest.step
        self._place.put(step, path, manifest.files)
        if not self._leads:
            self._store.set(f"uploaded/{step}/{self._node}", json.dumps(manifest.files))
            return None
        files = dict(manifest.files)
        for node in range(self._nodes):
            if node == self._node:
                continue
            key = f"uploaded/{step}/{node}"
            while not self._store.check([key]):
                if self._offered is not None:
                    return None
                time.sleep(_POLL)
            files.update(json.loads(self._store.get(key)))
        whole = replace(manifest, files=files, shared=True)
        self._place.seal(step, whole)
        return whole

    def _prune(self) -> None:
        try:
            for old in self._place.steps()[self._keep :]:
                self._place.remove(old)
        except PlaceError as error:
            self._say("WARNING", f"an old checkpoint is not deleted: {error}", {})
