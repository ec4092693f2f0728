"""Where a log's blocks lie: the files of one folder, who may write to it, and what is found there.

A folder belongs to one process at a time; whoever comes second keeps its blocks in files that nobody sees.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tui.store.log.block_file import BlockFile, Note, decode, encode
from tui.store.log.lines import Key, Lines

_SUFFIX = ".blocks"
_FLOOR = "dropped.json"


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a block is."""

    id: int
    file: BlockFile
    at: int
    size: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """How many lines had to go so far, and the last one's key."""

    count: int
    floor: Key


class Disk:
    """See the module. Methods that write raise OSError; what was there before stays as it was."""

    def __init__(self, folder: Path | None, file_bytes: int) -> None:
        self.problem = ""
        """Why the folder is not used, where one was given."""
        self._file_bytes = file_bytes
        self._files: list[BlockFile] = []
        self._next_id = 1
        self._next_file = 1
        self._lock = -1
        self.folder = self._claim(folder) if folder is not None else None

    def _claim(self, folder: Path) -> Path | None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.problem = "another console keeps this log"
        except OSError as error:
            self.problem = f"{folder}: {error.strerror or error}"
        else:
            return folder
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        return None

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self._files)

    def find(self) -> list[tuple[Note, Place]]:
        """The blocks that count, of an earlier process: those no whole group has replaced."""
        if self.folder is None:
            return []
        found: dict[int, tuple[Note, Place]] = {}
        for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
            file = BlockFile(path, new=False)
            self._files.append(file)
            self._next_file = max(self._next_file, int(path.stem) + 1)
            for note, at, size in file.notes():
                found[note.id] = (note, Place(note.id, file, at, size))
        self._next_id = max(found, default=0) + 1
        torn: set[int] = set()
        replaced: set[int] = set()
        for number, (note, _) in found.items():
            group = range(number - note.part, number - note.part + note.parts)
            if not all(member in found for member in group):
                torn.add(number)
            else:
                replaced.update(note.replaces)
        live = [found[number] for number in sorted(found.keys() - torn - replaced)]
        for _, place in live:
            place.file.live += 1
        self._sweep()
        return live

    def dropped(self) -> Dropped | None:
        """What an earlier process had to drop."""
        if self.folder is None:
            return None
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            said = json.loads((self.folder / _FLOOR).read_text(encoding="utf-8"))
            time, name, replica = said["floor"]
            return Dropped(int(said["count"]), (int(time), str(name), str(replica)))
        return None

    def tell_dropped(self, dropped: Dropped) -> None:
        """Remember it for the next process."""
        if self.folder is None:
            return
        new = self.folder / (_FLOOR + ".new")
        with contextlib.suppress(OSError):
            new.write_text(json.dumps({"count": dropped.count, "floor": dropped.floor}), encoding="utf-8")
            new.replace(self.folder / _FLOOR)

    def write(self, pieces: Sequence[Lines], replaces: Iterable[Place] = ()) -> list[Place]:
        """Write each of these as a block; with `replaces`, all of them count in place of those, or none."""
        if not pieces:
            return []
        old = list(replaces)
        encoded = []
        for part, lines in enumerate(pieces):
            note = Note(
                self._next_id + part,
                len(lines),
                lines.counts(),
                lines.key(0),
                lines.key(len(lines) - 1),
            )
            if old:
                replaced = tuple(place.id for place in old) if part == 0 else ()
                note = replace(note, replaces=replaced, part=part, parts=len(pieces))
            encoded.append(encode(note, lines))
        file = self._current()
        at = file.append([part for parts in encoded for part in parts])
        places = []
        for parts in encoded:
            size = sum(map(len, parts))
            places.append(Place(self._next_id, file, at, size))
            self._next_id += 1
            at += size
        file.live += len(places)
        self.release(old)
        return places

    def _current(self) -> BlockFile:
        if not self._files or self._files[-1].size >= self._file_bytes:
            path = self.folder / f"{self._next_file:08}{_SUFFIX}" if self.folder is not None else None
            self._files.append(BlockFile(path, new=True))
            self._next_file += 1
            self._sweep()
        return self._files[-1]

    def release(self, places: Iterable[Place]) -> None:
        """These blocks count no more."""
        for place in places:
            place.file.live -= 1
        self._sweep()

    def _sweep(self) -> None:
        """Delete the files in which no block counts, but for the one that is written to."""
        for file in [file for file in self._files[:-1] if not file.live]:
            self._files.remove(file)
            with contextlib.suppress(OSError):
                file.remove()

    def read(self, place: Place, count: int) -> Lines:
        """The lines of a block; one that can't be read any more has lines that say so."""
        try:
            return decode(place.file.read(place.at, place.size))
        except (OSError, ValueError):
            words = ["(this line can't be read from the disk any more)"] * count
            return Lines([0] * count, [""] * count, [""] * count, bytes([5]) * count, words)

    def close(self) -> None:
        """Let go of the files and the folder."""
        for file in self._files:
            file.close()
        self._files.clear()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
