"""Find the newest good checkpoint on the nodes' disks or in the remote store, and copy it here."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.manifest import Manifest, step_of
from trainer.checkpoint.remote_store import RemoteStore, RemoteStoreError
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import CheckpointError
from trainer.strategy.layout import layout_of

Copies = dict[int, Manifest]
"""The checkpoints on one disk, by step."""


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A complete checkpoint that every node has at `path`; `source` is where it came from."""

    path: Path
    manifest: Manifest
    source: str


class Finder:
    """All ranks call it together; one rank for each folder reads and writes there."""

    def __init__(
        self,
        folder: Path,
        store: RemoteStore | None,
        group: ProcessGroup,
        *,
        shared: bool,
        report: Callable[[str], None],
    ) -> None:
        """`shared` is true if all ranks see the same folder."""
        self._folder, self._store, self._group = folder, store, group
        self._shared, self._report = shared, report
        self._coordinates = group.rank == 0 if shared else group.local_rank == 0
        self._rejected: set[tuple[str, int]] = set()
        """("local" or "remote", step) that all ranks know to be unusable."""
        self._damaged_here: set[int] = set()
        """Steps whose copy on this disk is unusable; it differs between the ranks."""

    def newest(self) -> FoundCheckpoint | None:
        """The newest good checkpoint, local or remote; damaged ones are reported and skipped."""
        remote = self._remote_steps()
        while True:
            copies: list[Copies] = self._group.all_gather(self._local_copies())
            local = [step for step in set().union(*copies) if self._complete(step, copies)]
            choices = [(step, 1, "local") for step in local] + [(step, 0, "remote") for step in remote]
            left = [choice for choice in choices if (choice[2], choice[0]) not in self._rejected]
            if not left:
                return None
            step, _, place = max(left)
            if place == "local" and any(self._group.all_gather(self._damaged(step, copies))):
                # Choose again without the damaged copy: another node may have a good one.
                continue
            problem = self._download(step) if place == "remote" else self._exchange(step, copies)
            problem = self._group.first_problem(problem)
            if problem is None:
                path = self._folder / f"step-{step}"
                source = self._store.name if place == "remote" and self._store else str(path)
                return FoundCheckpoint(path, manifests.read(path), source)
            self._rejected.add((place, step))
            if self._group.rank == 0:
                self._report(f"checkpoint step-{step} ({place}) is skipped: {problem}")

    def _remote_steps(self) -> list[int]:
        """Rank 0's listing, broadcast: another rank could see a newer one."""
        steps: list[int] = []
        if self._store is not None and self._group.rank == 0:
            try:
                steps = self._store.steps()
            except RemoteStoreError as error:
                self._report(f"uploaded checkpoints can't be listed: {error}")
        listed: list[int] = self._group.all_gather(steps)[0]
        return listed

    def _local_copies(self) -> Copies:
        """The readable checkpoints on this rank's disk; none on a rank that does not coordinate."""
        if not self._coordinates:
            return {}
        copies = {}
        for path in manifests.step_folders(self._folder):
            if step_of(path) in self._damaged_here:
                continue
            try:
                manifest = manifests.read(path)
                layout_of(manifest.strategy)
            except CheckpointError as error:
                self._skip(path, str(error).removeprefix(f"{path}: "))
                continue
            copies[step_of(path)] = manifest
        return copies

    def _damaged(self, step: int, copies: list[Copies]) -> bool:
        """Whether this disk's copy is damaged; it is not offered again."""
        path = self._folder / f"step-{step}"
        problem = manifests.damage(path) if step in copies[self._group.rank] else None
        if problem:
            self._skip(path, problem)
        return problem is not None

    def _skip(self, path: Path, problem: str) -> None:
        self._damaged_here.add(step_of(path))
        self._report(f"checkpoint {path} is skipped: {problem}")

    @staticmethod
    def _complete(step: int, copies: list[Copies]) -> bool:
        """Whether one node has all of its files, or all nodes together have them."""
        of_step = [each[step] for each in copies if step in each]
        nodes = {manifest.node for manifest in of_step}
        return any(map(_has_all_files, of_step)) or nodes >= set(range(of_step[0].nodes))

    def _exchange(self, step: int, copies: list[Copies]) -> str | None:
        """Send each node the missing files of a local checkpoint; return the problem, or None."""
        group, path = self._group, self._folder / f"step-{step}"
        owners = {rank: each[step] for rank, each in enumerate(copies) if step in each}
        if self._shared:
            return None
        # A node with all files sends all; without one every node sends its own.
        whole = next((rank for rank, manifest in owners.items() if _has_all_files(manifest)), None)
        present = owners[group.rank].files if group.rank in owners else {}
        if whole is not None and present:
            # This node's copy is complete too, though its files may be split differently.
            present = owners[whole].files
        try:
            for rank in [whole] if whole is not None else list(owners):
                for name in self._files_to_send(owners, rank):
                    self._send(path / name, rank, lacks=self._coordinates and name not in present)
            if self._coordinates and group.rank not in owners:
                manifest = owners[whole] if whole is not None else next(iter(owners.values()))
                files = {name: file for each in owners.values() for name, file in each.files.items()}
                manifests.write(path, manifest if whole is not None else replace(manifest, files=files))
        except OSError as error:
            return f"{path}: {error.strerror or error}"
        return None

    def _files_to_send(self, owners: dict[int, Manifest], rank: int) -> list[str]:
        """Files that `rank` sends to the others."""
        manifest = owners[rank]
        same_ranks = manifest.world_size == self._group.world_size and len(owners) == manifest.nodes
        if not _has_all_files(manifest) and same_ranks:
            return layout_of(manifest.strategy).shared_files(manifest.files)
        return sorted(manifest.files)

    def _send(self, path: Path, source: int, *, lacks: bool) -> None:
        if any(self._group.all_gather(lacks)):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._group.broadcast_file(path, source, wanted=lacks and self._group.rank != source)

    def _download(self, step: int) -> str | None:
        """Download and verify a checkpoint; return the problem, or None."""
        if not self._coordinates or self._store is None:
            return None
        partial, final = self._folder / f"step-{step}.partial", self._folder / f"step-{step}"
        try:
            manifest = self._store.manifest(step)
            layout_of(manifest.strategy)
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            self._store.download(step, partial, manifest.files)
            manifests.write(partial, manifest)
            problem = manifests.damage(partial)
            if problem is None:
                shutil.rmtree(final, ignore_errors=True)
                partial.rename(final)
        except (CheckpointError, RemoteStoreError, OSError) as error:
            problem = str(error)
        if problem:
            with suppress(OSError):
                shutil.rmtree(partial)
        return problem


def _has_all_files(manifest: Manifest) -> bool:
    """Whether this copy has every file: the folder is shared, or all ranks have the same state."""
    return manifest.shared or layout_of(manifest.strategy).replicated
