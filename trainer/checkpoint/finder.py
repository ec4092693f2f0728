"""Find the newest good checkpoint of a run: on the nodes' disks, in their memory, or in the remote store.

A node whose disk lacks the checkpoint copies it from another node's memory, then from another node's disk,
then from the store. The finder reads only those of the store's manifests that may be newer than the nodes'
checkpoints.

If a disk or the store does not answer, the finder retries for `--store-timeout` seconds and then ends the
run. Starting at step 0 would be wrong, because a checkpoint may exist.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.manifest import FormatError, Manifest, step_of
from trainer.checkpoint.peers.client import HeldCopy, PeerCopies
from trainer.checkpoint.run_identity import RunIdentity, RunInPlace
from trainer.checkpoint.stores.remote_store import MissingError, RemoteStore, RemoteStoreError
from trainer.distributed.process_group import ProcessGroup
from trainer.distributed.wait import wait_together
from trainer.errors import CheckpointError, PlaceUnavailableError, UsageError
from trainer.strategy.layout import layout_of

T = TypeVar("T")
Copies = dict[int, Manifest]
"""Checkpoints in one location, by step."""
_PAUSES = (1.0, 2.0, 5.0, 10.0, 20.0)
"""Seconds between attempts; the last value repeats."""


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A complete checkpoint that every node has at `path`; `source` is its original location. `restored` has
    a sentence for each node whose disk lacked the checkpoint, with the node that sent the files."""

    path: Path
    manifest: Manifest
    source: str
    restored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Answer(Generic[T]):
    """One rank's answer to a query: a `value`, or the problem that prevented the answer. Only a `refusal` is
    final."""

    value: T
    problem: str | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class _LocalCopies:
    """A run's checkpoints on the nodes; `saved` maps a step to the time of its newest save.

    `manifests` and `in_memory` are lists by rank: `manifests` of the checkpoints on the rank's disk,
    `in_memory` of the copies in another node's memory that this disk lacks.
    """

    saved: dict[int, float]
    manifests: list[Copies]
    in_memory: list[dict[int, HeldCopy]]


class _Question(threading.Thread, Generic[T]):
    """Runs one query in a thread, so that a signal can interrupt the wait for the answer."""

    def __init__(self, ask: Callable[[], T], nothing: T) -> None:
        super().__init__(name="find checkpoints", daemon=True)
        self._ask, self.answer = ask, _Answer(nothing)
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        nothing = self.answer.value
        try:
            self.answer = _Answer(self._ask())
        except UsageError as error:
            self.answer = _Answer(nothing, refusal=str(error))
        except RemoteStoreError as error:
            self.answer = _Answer(nothing, str(error))
        except OSError as error:
            self.answer = _Answer(nothing, f"{error.filename}: {error.strerror or error}")
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            self.error = error

    def ended(self) -> bool:
        return not self.is_alive()


@dataclass(frozen=True, slots=True)
class Patience:
    """Time limit of a query's retries, in seconds, and the signal that ends the retries (0: no signal
    yet)."""

    seconds: float
    received: Callable[[], int] = field(default=lambda: 0)


class Finder:
    """Finds checkpoints. All ranks call each method together; one rank per folder reads and writes the
    folder."""

    def __init__(
        self,
        folder: Path,
        store: RemoteStore | None,
        group: ProcessGroup,
        patience: Patience,
        peers: PeerCopies,
        *,
        shared: bool,
        parallel: Mapping[str, Any],
        report: Callable[[str], None],
    ) -> None:
        """`shared` is true if all ranks see the same folder. `parallel` has the settings of `ParallelConfig`
        by name."""
        self._folder, self._store, self._group = folder, store, group
        self._patience, self._parallel, self._report = patience, parallel, report
        self.regroup(peers, shared=shared)
        self._remote: Copies = {}
        """The store's checkpoints as rank 0 listed them; only rank 0 lists, so that all ranks have the same
        list."""
        self._unread: frozenset[int] = frozenset()
        """Steps in the store whose manifests were not read."""
        self._rejected: set[tuple[str, float]] = set()
        """("local" or "remote", time of the save) of the checkpoints that every rank skips as unusable."""
        self._damaged_here: set[tuple[Path, int]] = set()
        """Unusable copies on this disk, with the folder's modification time: a new save changes the time."""

    def regroup(self, peers: PeerCopies, *, shared: bool) -> None:
        """Continue with the new ranks of the group."""
        self._peers, self._shared = peers, shared
        self._coordinates = self._group.rank == 0 if shared else self._group.local_rank == 0

    def listing(self) -> tuple[Copies, frozenset[int]]:
        """Return this rank's listing of the store, for `adopt` on a rank that joined later."""
        return self._remote, self._unread

    def adopt(self, listing: tuple[Copies, frozenset[int]]) -> None:
        """Adopt another rank's listing of the store."""
        self._remote, self._unread = listing

    def list_places(self, own_run: str) -> dict[str, RunInPlace]:
        """Return the runs with checkpoints on the nodes and in the store, by id.

        If the nodes together have a checkpoint of `own_run`, the result leaves out the run's older
        checkpoints in the store and the other runs there.

        Raises:
            PlaceUnavailableError: if a disk or the store does not answer in time.
            UsageError: if the bucket does not exist, or checkpoints have another format.
            StoppedBySignal: after a signal.
        """
        disks, held = self._local()
        self._read_store(self._newest_complete(_usable(disks, held, own_run)))
        runs: dict[str, RunInPlace] = {}
        places = [(copies, f"--checkpoint-dir {self._folder}") for copies in disks]
        for copies_by_step in held:
            places += [
                ({step: c.manifest}, f"the memory of node {c.holder}") for step, c in copies_by_step.items()
            ]
        if self._store is not None:
            places.append((self._remote, f"--upload-dir {self._store.name}"))
        for copies, place in places:
            for step, manifest in copies.items():
                known = runs.get(manifest.run.id)
                if known is None or known.step < step:
                    runs[manifest.run.id] = RunInPlace(manifest.run, step, place)
        return runs

    def uploaded_step(self, run: RunIdentity) -> int:
        """Return the step of the run's newest checkpoint in the listing of the store, or -1 if there is none.
        All ranks must call it together.

        An unread checkpoint counts as a checkpoint of the run if the run saved the step: an upload never
        replaces another run's checkpoint.
        """
        own = [manifest for manifest in self._remote.values() if manifest.run.id == run.id]
        if own:
            return max(own, key=lambda manifest: manifest.saved).step
        saved = {step for copies in _usable(*self._local(), run.id).manifests for step in copies}
        return max(self._unread & saved, default=-1)

    def newest(self, run: RunIdentity) -> FoundCheckpoint | None:
        """Return the run's newest good checkpoint, local or remote; damaged checkpoints are reported and
        skipped.

        Raises as `list_places` does.
        """
        while True:
            remote = {step: copy for step, copy in self._remote.items() if copy.run.id == run.id}
            local = _usable(*self._local(), run.id)
            choices = [(local.saved[step], 1, step) for step in local.saved if self._complete(step, local)]
            choices += [(copy.saved, 0, step) for step, copy in remote.items()]
            left = [choice for choice in choices if (_PLACES[choice[1]], choice[0]) not in self._rejected]
            if self._unread and (not left or max(left)[2] < max(self._unread)):
                # The nodes' checkpoint is damaged.
                self._read_store()
                continue
            if not left:
                self._report_incomplete(local)
                return None
            at, number, step = max(left)
            place = _PLACES[number]
            if place == "local" and any(self._group.all_gather(self._damaged(step, local))):
                # Choose again without the damaged copy: another node may have a good one.
                continue
            problem = self._group.first_problem(self._occupied(step, run))
            if problem is None and place == "local" and not self._fetch(step, local):
                continue
            if problem is None:
                problem = self._download(step) if place == "remote" else self._exchange(step, local.manifests)
                problem = self._group.first_problem(problem)
            if problem is None:
                path = self._folder / f"step-{step}"
                source = self._store.name if place == "remote" and self._store else str(path)
                restored = self._restored(step, local) if place == "local" else ()
                return FoundCheckpoint(path, manifests.read(path), source, restored)
            self._reject(place, at, step, problem)

    def skip(self, checkpoint: FoundCheckpoint, problem: str) -> None:
        """Skip a checkpoint that can't be loaded in later searches; all ranks call it."""
        manifest = checkpoint.manifest
        place = "local" if checkpoint.source == str(checkpoint.path) else "remote"
        self._reject(place, manifest.saved, manifest.step, problem)

    def _reject(self, place: str, saved: float, step: int, problem: str) -> None:
        self._rejected.add((place, saved))
        if self._group.rank == 0:
            self._report(f"checkpoint step-{step} ({place}) is skipped: {problem}")

    def _ask(self, done: str, ask: Callable[[], T], nothing: T) -> list[T]:
        """Run the query on every rank; retry while a rank has a problem and time is left. Return all
        answers."""
        began, attempt = time.monotonic(), 0
        while True:
            question = _Question(ask, nothing)
            wait_together(self._group, question.ended, self._patience.received)
            if question.error is not None:
                raise question.error
            answers: list[_Answer[T]] = self._group.all_gather(question.answer)
            refusal = next((answer.refusal for answer in answers if answer.refusal), None)
            if refusal:
                raise UsageError(refusal)
            problem = next((answer.problem for answer in answers if answer.problem), None)
            if problem is None:
                return [answer.value for answer in answers]
            left = self._group.all_gather(began + self._patience.seconds - time.monotonic())[0]
            if left <= 0:
                raise PlaceUnavailableError(
                    f"the checkpoints were not {done} within {self._patience.seconds:.0f} s: "
                    f"{problem}. The run does not begin at step 0 while it can't read existing "
                    "checkpoints: check that the location exists and that this job may read it, then "
                    "start again; --store-timeout S waits longer"
                )
            pause = min(_PAUSES[min(attempt, len(_PAUSES) - 1)], left)
            attempt += 1
            if self._group.rank == 0:
                self._report(
                    f"the checkpoints can't be {done}: {problem}; attempt {attempt + 1} in {pause:.0f} s, "
                    f"the last one in {left:.0f} s"
                )
            self._pause(pause)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        wait_together(self._group, lambda: time.monotonic() >= until, self._patience.received)

    def _read_store(self, above: int = -1) -> None:
        """List the store, and read the manifests of the steps above `above`."""
        nothing: tuple[Copies, frozenset[int]] = ({}, frozenset())
        self._remote, self._unread = self._ask("listed", lambda: self._list_remote(above), nothing)[0]

    def _list_remote(self, above: int) -> tuple[Copies, frozenset[int]]:
        """Return the store's checkpoints above a step, and its other steps; empty except on rank 0. Damaged
        checkpoints are reported."""
        store = self._store
        copies: Copies = {}
        if store is None or self._group.rank:
            return copies, frozenset()
        try:
            steps = store.steps()
        except MissingError as error:
            raise UsageError(f"--upload-dir {store.name} does not exist: {error}") from error
        for step in steps:
            if step <= above:
                continue
            try:
                manifest = store.manifest(step)
                layout_of(manifest.strategy, manifest.layout)
            except FormatError as error:
                raise UsageError(f"{store.name}/step-{step}: {error}") from error
            except CheckpointError as error:
                self._report(f"checkpoint step-{step} (remote) is skipped: {error}")
                continue
            copies[step] = manifest
        return copies, frozenset(step for step in steps if step <= above)

    def _local(self) -> tuple[list[Copies], list[dict[int, HeldCopy]]]:
        """Return the readable checkpoints on each rank's disk, and each rank's checkpoints in other nodes'
        memory. Both lists are by rank, with empty elements for ranks that do not coordinate."""
        disks: list[Copies] = self._ask("listed", self._list_local, {})
        self._peers.refresh()
        return disks, self._peers.held

    def _list_local(self) -> Copies:
        copies: Copies = {}
        if not self._coordinates:
            return copies
        for path in manifests.step_folders(self._folder):
            if (path, path.stat().st_mtime_ns) in self._damaged_here:
                continue
            try:
                manifest = manifests.read(path)
                layout_of(manifest.strategy, manifest.layout)
            except FormatError as error:
                raise UsageError(str(error)) from error
            except CheckpointError as error:
                self._skip(path, str(error).removeprefix(f"{path}: "))
                continue
            copies[step_of(path)] = manifest
        return copies

    def _damaged(self, step: int, local: _LocalCopies) -> bool:
        """Return whether this disk's copy is damaged; a damaged copy is not offered again."""
        path, rank = self._folder / f"step-{step}", self._group.rank
        on_disk = step in local.manifests[rank] and step not in local.in_memory[rank]
        problem = manifests.damage(path) if on_disk else None
        if problem:
            self._skip(path, problem)
        return problem is not None

    def _skip(self, path: Path, problem: str) -> None:
        with suppress(OSError):
            self._damaged_here.add((path, path.stat().st_mtime_ns))
        self._report(f"checkpoint {path} is skipped: {problem}")

    def _occupied(self, step: int, run: RunIdentity) -> str | None:
        """Return why no checkpoint can be copied to this folder: another run's checkpoint of this step is
        there."""
        path = self._folder / f"step-{step}"
        other = manifests.other_run(path, run) if self._coordinates else None
        return f"{path} belongs to {other}" if other else None

    def _report_incomplete(self, local: _LocalCopies) -> None:
        """Report a checkpoint with missing parts, because the run can't continue from an incomplete
        checkpoint."""
        if not local.saved or self._group.rank:
            return
        at, step = max((saved, step) for step, saved in local.saved.items())
        if ("local", at) not in self._rejected:
            parts = [copies[step] for copies in local.manifests if step in copies]
            lacking = sorted(set(range(parts[0].nodes)) - {part.node for part in parts})
            names = f"nodes {', '.join(map(str, lacking))}" if len(lacking) > 1 else f"node {lacking[0]}"
            self._report(
                f"checkpoint step-{step} is not complete: the part of {names} is on no disk, in no other "
                "node's memory and not in --upload-dir; no other checkpoint can be restored"
            )

    def _newest_complete(self, local: _LocalCopies) -> int:
        """Return the step of the newest checkpoint that the nodes have completely, or -1 if there is none."""
        complete = [(saved, step) for step, saved in local.saved.items() if self._complete(step, local)]
        return max(complete)[1] if complete else -1

    @staticmethod
    def _complete(step: int, local: _LocalCopies) -> bool:
        """Return whether one node has all files of this step, or all nodes together do."""
        of_step = [copies[step] for copies in local.manifests if step in copies]
        nodes = {manifest.node for manifest in of_step}
        return any(map(_has_all_files, of_step)) or nodes >= set(range(of_step[0].nodes))

    def _fetch(self, step: int, local: _LocalCopies) -> bool:
        """Copy checkpoints from other nodes' memory to the disks that lack them; return False if a copy
        failed."""
        held, path = [copies.get(step) for copies in local.in_memory], self._folder / f"step-{step}"
        if not any(held):
            return True
        own = held[self._group.rank]
        question = _Question(lambda: self._peers.fetch(own, path) if own is not None else None, None)
        wait_together(self._group, question.ended, self._patience.received)
        if question.error is not None:
            raise question.error
        problems: list[str | None] = self._group.all_gather(question.answer.value)
        for copy, problem in zip(held, problems, strict=True):
            if copy is not None and problem:
                self._peers.reject(copy)
                if self._group.rank == 0:
                    self._report(f"checkpoint step-{step} of node {copy.manifest.node} is skipped: {problem}")
        return not any(problems)

    def _restored(self, step: int, local: _LocalCopies) -> tuple[str, ...]:
        """Return the sentences that name each node that lacked this step, and the node that sent the
        files."""
        rank, text = self._group.rank, ""
        copy = local.in_memory[rank].get(step)
        if copy is not None:
            text = f"node {self._group.node_rank} from the memory of node {copy.holder}"
        elif self._coordinates and not self._shared and step not in local.manifests[rank]:
            owner = next(copies[step].node for copies in local.manifests if step in copies)
            text = f"node {self._group.node_rank} from the disk of node {owner}"
        return tuple(filter(None, self._group.all_gather(text)))

    def _exchange(self, step: int, copies: list[Copies]) -> str | None:
        """Send each node the missing files of a local checkpoint; return the problem, or None if there is
        none."""
        group, path = self._group, self._folder / f"step-{step}"
        owners = {rank: own[step] for rank, own in enumerate(copies) if step in own}
        if self._shared:
            return None
        # A node with all files sends all of them; otherwise every node sends its own.
        whole = next((rank for rank, manifest in owners.items() if _has_all_files(manifest)), None)
        present = owners[group.rank].files if group.rank in owners else {}
        if whole is not None and present:
            # This node's copy is complete too, but its files may be split differently.
            present = owners[whole].files
        reads = self._reader(owners)
        try:
            for rank in [whole] if whole is not None else list(owners):
                for name, file in sorted(owners[rank].files.items()):
                    lacks = self._coordinates and name not in present and reads(name)
                    self._send(path / name, rank, lacks=lacks and not manifests.is_intact(path / name, file))
            if self._coordinates and group.rank not in owners:
                manifest = owners[whole] if whole is not None else next(iter(owners.values()))
                files = {name: file for part in owners.values() for name, file in part.files.items()}
                manifests.write(path, manifest if whole is not None else replace(manifest, files=files))
        except OSError as error:
            return f"{path}: {error.strerror or error}"
        return None

    def _reader(self, owners: dict[int, Manifest]) -> Callable[[str], bool]:
        """Return a function that tells whether a rank of this node reads a file; a collective call.

        If the ranks have the same shards as at the save, a node reads only the files of these shards.
        """
        group, manifest = self._group, next(iter(owners.values()))
        nodes: list[int] = group.all_gather(group.node_rank)
        saved, now = manifest.config.get("parallel", {}), self._parallel
        same_ranks = (manifest.world_size, manifest.nodes) == (group.world_size, group.nodes)
        if not same_ranks or len(owners) != group.nodes or any(saved.get(n) != now[n] for n in _MESH):
            return lambda _: True
        tensor = now["tensor_parallel"]
        shards = group.world_size // (now["data_parallel_replicate"] * tensor)
        own = {rank // tensor % shards for rank, node in enumerate(nodes) if node == group.node_rank}
        writer = layout_of(manifest.strategy, manifest.layout).writer
        return lambda name: (rank := writer(name)) is None or rank // tensor % shards in own

    def _send(self, path: Path, source: int, *, lacks: bool) -> None:
        if any(self._group.all_gather(lacks)):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._group.broadcast_file(path, source, lacks=lacks and self._group.rank != source)

    def _download(self, step: int) -> str | None:
        """Download and verify a checkpoint; return the damage, or None if there is none."""
        damages = self._ask("downloaded", lambda: self._copy(step), None)
        return next((damage for damage in damages if damage), None)

    def _copy(self, step: int) -> str | None:
        """Copy a checkpoint to this node's folder; return its damage, or None if there is none."""
        if not self._coordinates or self._store is None:
            return None
        partial, final = self._folder / f"step-{step}.partial", self._folder / f"step-{step}"
        try:
            manifest = self._store.manifest(step)
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            self._store.download(step, partial, manifest.files)
            manifests.write(partial, manifest)
            problem = manifests.damage(partial)
            if problem is None:
                shutil.rmtree(final, ignore_errors=True)
                partial.rename(final)
        except (CheckpointError, MissingError) as error:
            problem = str(error)
        finally:
            with suppress(OSError):
                shutil.rmtree(partial)
        return problem


_MESH = ("strategy", "data_parallel_replicate", "tensor_parallel")
"""Settings that determine the shards of a rank."""
_PLACES = ("remote", "local")
"""Sources of a checkpoint; later sources are preferred."""


def _usable(disks: list[Copies], held: list[dict[int, HeldCopy]], run_id: str) -> _LocalCopies:
    """Return the newest save of each step. Another node may have an older save of the step, on its disk or in
    memory."""
    saved: dict[int, float] = {}
    in_memory = [{step: copy.manifest for step, copy in copies.items()} for copies in held]
    for manifests_by_step in (*disks, *in_memory):
        for step, manifest in manifests_by_step.items():
            if manifest.run.id == run_id:
                saved[step] = max(manifest.saved, saved.get(step, 0.0))
    local = _LocalCopies(saved, [], [])
    for disk, copies in zip(disks, held, strict=True):
        here = {step: m for step, m in disk.items() if m.run.id == run_id and m.saved == saved[step]}
        there = {
            step: c
            for step, c in copies.items()
            if c.manifest.run.id == run_id and c.manifest.saved == saved[step] and step not in here
        }
        local.manifests.append(here | {step: copy.manifest for step, copy in there.items()})
        local.in_memory.append(there)
    return local


def _has_all_files(manifest: Manifest) -> bool:
    """Return whether this copy has every file: the folder is shared, or all ranks have the same state."""
    return manifest.shared or layout_of(manifest.strategy, manifest.layout).replicated
