"""Finding the newest good checkpoint, on the nodes' disks or where it was uploaded, and bringing it here."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp

from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.manifest import SIDE, CheckpointError, Manifest
from trainer.checkpoint.place import Place, PlaceError
from trainer.checkpoint.rng import set_rng_state
from trainer.checkpoint.save import reason
from trainer.config import UsageError
from trainer.group import ProcessGroup
from trainer.strategy.base import WHOLE, ZERO, Strategy

Offers = dict[int, Manifest]
"""What one disk has, by step."""


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint that is whole and lies on every node, and where it came from."""

    path: Path
    manifest: Manifest
    source: str


class Finder:
    """All ranks call it together; one rank a folder does the reading."""

    def __init__(
        self,
        folder: Path,
        place: Place | None,
        group: ProcessGroup,
        *,
        shared: bool,
        report: Callable[[str], None],
    ) -> None:
        self._folder, self._place, self._group = folder, place, group
        self._shared, self._report = shared, report
        self._leads = group.rank == 0 if shared else group.local_rank == 0
        self._refused: set[tuple[str, int]] = set()
        """Places and steps that all ranks know to be of no use."""
        self._spoilt_here: set[int] = set()
        """Steps whose copy on this disk is of no use; the ranks differ in them."""

    def newest(self) -> Found | None:
        """The newest good one of both places; what is damaged is reported and passed over."""
        remote = self._remote_steps()
        while True:
            offers: list[Offers] = self._group.gather(self._offers())
            local = [s for s in set().union(*offers) if self._complete(s, offers)]
            choices = [(s, 1, "local") for s in local] + [(s, 0, "remote") for s in remote]
            left = [c for c in choices if (c[2], c[0]) not in self._refused]
            if not left:
                return None
            step, _, where = max(left)
            if where == "local" and any(self._group.gather(self._spoilt(step, offers))):
                # Without that copy: another node may have a good one.
                continue
            problem = self._fetch(step) if where == "remote" else self._share(step, offers)
            problem = next((p for p in self._group.gather(problem) if p), None)
            if problem is None:
                path = self._folder / f"step-{step}"
                source = self._place.name if where == "remote" and self._place else str(path)
                return Found(path, manifests.read(path), source)
            self._refused.add((where, step))
            if self._group.rank == 0:
                self._report(f"checkpoint step-{step} ({where}) is passed over: {problem}")

    def _remote_steps(self) -> list[int]:
        """Rank 0's view counts: the others could see a newer one."""
        steps: list[int] = []
        if self._place is not None and self._group.rank == 0:
            try:
                steps = self._place.steps()
            except PlaceError as error:
                self._report(f"uploaded checkpoints can't be listed: {error}")
        found: list[int] = self._group.gather(steps)[0]
        return found

    def _offers(self) -> Offers:
        """What this rank's disk has, by step; nothing from a rank that does not look after the disk."""
        if not self._leads:
            return {}
        found = {}
        for path in manifests.numbered(self._folder):
            step = int(path.name[5:])
            if step in self._spoilt_here:
                continue
            try:
                about = manifests.read(path)
            except CheckpointError as error:
                self._pass_over(path, str(error).removeprefix(f"{path}: "))
                continue
            found[step] = about
        return found

    def _spoilt(self, step: int, offers: list[Offers]) -> bool:
        """Whether this disk's own copy is damaged; it is not offered again."""
        path = self._folder / f"step-{step}"
        problem = manifests.damage(path) if step in offers[self._group.rank] else None
        if problem:
            self._pass_over(path, problem)
        return problem is not None

    def _pass_over(self, path: Path, problem: str) -> None:
        self._spoilt_here.add(int(path.name[5:]))
        self._report(f"checkpoint {path} is passed over: {problem}")

    @staticmethod
    def _complete(step: int, offers: list[Offers]) -> bool:
        here = [offer[step] for offer in offers if step in offer]
        return any(map(_has_all, here)) or {each.node for each in here} >= set(range(here[0].nodes))

    def _share(self, step: int, offers: list[Offers]) -> str | None:
        """Give each node what it lacks of a checkpoint on the nodes' disks; what went wrong, or None."""
        group, path = self._group, self._folder / f"step-{step}"
        owners = {rank: offer[step] for rank, offer in enumerate(offers) if step in offer}
        if self._shared:
            return None
        # One that has all of it gives all; else everybody gives what is its own.
        whole = next((rank for rank, each in owners.items() if _has_all(each)), None)
        held = owners[group.rank].files if group.rank in owners else {}
        if whole is not None and held:
            # Its own copy is as good, though the parts may be cut otherwise.
            held = owners[whole].files
        try:
            for rank in [whole] if whole is not None else list(owners):
                for name in self._names(owners, rank):
                    self._send(path / name, rank, lacks=self._leads and name not in held)
            if self._leads and group.rank not in owners:
                about = owners[whole] if whole is not None else next(iter(owners.values()))
                files = {n: f for each in owners.values() for n, f in each.files.items()}
                manifests.write(path, about if whole is not None else replace(about, files=files))
        except OSError as error:
            return f"{path}: {error.strerror or error}"
        return None

    def _names(self, owners: dict[int, Manifest], rank: int) -> list[str]:
        """Files that `rank` gives to the others."""
        about = owners[rank]
        same = about.world_size == self._group.world and len(owners) == about.nodes
        if not _has_all(about) and about.layout != ZERO and same:
            # Each rank reads its own part again; only the index of the parts is on one node alone.
            return [name for name in about.files if name == ".metadata"]
        return sorted(about.files)

    def _send(self, path: Path, source: int, *, lacks: bool) -> None:
        if any(self._group.gather(lacks)):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._group.send_file(path, source, wanted=lacks and self._group.rank != source)

    def _fetch(self, step: int) -> str | None:
        """Download a checkpoint, verified; what is wrong, or None."""
        if not self._leads or self._place is None:
            return None
        partial, final = self._folder / f"step-{step}.partial", self._folder / f"step-{step}"
        try:
            about = self._place.manifest(step)
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            self._place.get(step, partial, about.files)
            manifests.write(partial, about)
            problem = manifests.damage(partial)
            if problem is None:
                shutil.rmtree(final, ignore_errors=True)
                partial.rename(final)
        except (PlaceError, OSError) as error:
            problem = str(error)
        if problem:
            with suppress(OSError):
                shutil.rmtree(partial)
        return problem


def _has_all(about: Manifest) -> bool:
    """Whether this copy has every file: of a folder for all, or of a state that is the same everywhere."""
    return about.shared or about.layout == WHOLE


_SIZES = {"gpt": ("preset", "context"), "arr-coc": ("stage",)}
"""Settings of a model by which its weights have other names or shapes."""


def refuse_another_form(found: Found, strategy: Strategy, config: Mapping[str, Any]) -> None:
    """Raises UsageError when the strategy can't read what another has written, or the model is another one.

    `config` is that of this run, as the manifest has the one of the run that saved.
    """
    about, path = found.manifest, found.path
    remedy = f"start in another --checkpoint-dir with its weights alone, by --init-weights {path}"
    if _form(about.layout, about.strategy) != _form(strategy.layout, strategy.name):
        raise UsageError(
            f"{path} was saved by {about.strategy}, whose form {strategy.name} can't read; go on with "
            f"--strategy {about.strategy}, or {remedy}"
        )
    before, now = about.config.get("model", {}), config["model"]
    for name in ("model", *_SIZES.get(now["model"], ())):
        if before.get(name, now[name]) != now[name]:
            raise UsageError(
                f"{path} was saved with --{name} {before[name]}, this run has {now[name]}; go on with "
                f"--{name} {before[name]}, or {remedy}"
            )


def _form(layout: str, strategy: str) -> str:
    """ZeRO-3 cuts weights too: its files are not those of ZeRO-1 and 2. All others read each other's."""
    return ("zero3" if strategy == "zero3" else ZERO) if layout == ZERO else ""


def load(found: Found, strategy: Strategy, group: ProcessGroup, universal: Path | None) -> None:
    """Put the state into the strategy and this rank's random state in force.

    `universal` is the folder of the converted form, where the world size is another one.

    Raises:
        CheckpointError: when it can't be read.
    """
    path = found.path
    side = torch.load(path / SIDE, map_location="cpu", weights_only=True)
    if strategy.layout == ZERO:
        strategy.load_native(universal or path, universal=universal is not None)
    else:
        state = strategy.state()
        reader = dcp.FileSystemReader(path)
        try:
            dcp.load(state, storage_reader=reader, process_group=group.saving)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise CheckpointError(f"{path} can't be loaded: {reason(error)}") from error
    strategy.set_side_state(side["common"])
    if len(side["rng"]) == group.world:
        set_rng_state(side["rng"][group.rank])
