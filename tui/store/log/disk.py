"""The block files of one log, and the lock that lets one process write to them.

One process at a time holds a folder's lock. A second process writes its blocks to unnamed temporary files.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tui.store.log.block_file import BlockFile, BlockHeader, decode, encode
from tui.store.log.lines import Key, Lines
from tui.store.log.read_position import ReadPosition

_SUFFIX = ".blocks"
_FLOOR = "dropped.json"
_POSITION = "position.json"


@dataclass(frozen=True, slots=True, eq=False)
class BlockLocation:
    """The file, offset and size (bytes) of one block."""

    id: int
    file: BlockFile
    at: int
    size: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """The number of dropped lines, and the key of the last dropped line."""

    count: int
    floor: Key


class Disk:
    """The block files of one folder. Methods that write raise OSError and leave earlier blocks unchanged."""

    def __init__(self, folder: Path | None, file_bytes: int) -> None:
        self.problem = ""
        """The reason why the given folder is not used."""
        self._file_bytes = file_bytes
        self._files: list[BlockFile] = []
        self._next_id = 1
        self._next_file = 1
        self._lock = -1
        self.folder = self._lock_folder(folder) if folder is not None else None

    def _lock_folder(self, folder: Path) -> Path | None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.problem = "another console writes this log"
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

    def find(self) -> list[tuple[BlockHeader, BlockLocation]]:
        """Return the valid blocks of an earlier process, which no complete group has replaced."""
        if self.folder is None:
            return []
        blocks: dict[int, tuple[BlockHeader, BlockLocation]] = {}
        for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
            file = BlockFile(path, new=False)
            self._files.append(file)
            self._next_file = max(self._next_file, int(path.stem) + 1)
            for header, at, size in file.headers():
                blocks[header.id] = (header, BlockLocation(header.id, file, at, size))
            file.rest()
        self._next_id = max(blocks, default=0) + 1
        torn: set[int] = set()
        replaced: set[int] = set()
        for number, (header, _) in blocks.items():
            group = range(number - header.part, number - header.part + header.parts)
            if not all(member in blocks for member in group):
                torn.add(number)
            else:
                replaced.update(header.replaces)
        live = [blocks[number] for number in sorted(blocks.keys() - torn - replaced)]
        for _, location in live:
            location.file.live += 1
        self._delete_unused()
        return live

    def dropped(self) -> Dropped | None:
        """Return the lines that an earlier process dropped."""
        with contextlib.suppress(ValueError, TypeError, KeyError):
            floor = json.loads(self._saved(_FLOOR))
            time, name, replica = floor["floor"]
            return Dropped(int(floor["count"]), (int(time), str(name), str(replica)))
        return None

    def save_dropped(self, dropped: Dropped) -> None:
        """Save the dropped lines for the next process."""
        self._save(_FLOOR, json.dumps({"count": dropped.count, "floor": dropped.floor}))

    def position(self) -> ReadPosition:
        """Return the read position of an earlier process, or else the start."""
        with contextlib.suppress(ValueError, TypeError, KeyError):
            return ReadPosition.of_json(self._saved(_POSITION))
        return ReadPosition()

    def save_position(self, position: ReadPosition) -> None:
        """Save the read position for the next process."""
        self._save(_POSITION, position.json())

    def _saved(self, name: str) -> str:
        """Return the text saved under this name, or an empty text."""
        with contextlib.suppress(OSError):
            return (self.folder / name).read_text(encoding="utf-8") if self.folder is not None else ""
        return ""

    def _save(self, name: str, text: str) -> None:
        if self.folder is None:
            return
        new = self.folder / (name + ".new")
        with contextlib.suppress(OSError):
            new.write_text(text, encoding="utf-8")
            new.replace(self.folder / name)

    def write(self, slices: Sequence[Lines], replaces: Iterable[BlockLocation] = ()) -> list[BlockLocation]:
        """Write each slice as a block. The new blocks replace `replaces`, all or none."""
        if not slices:
            return []
        old = list(replaces)
        encoded = []
        for part, lines in enumerate(slices):
            header = BlockHeader(
                self._next_id + part,
                len(lines),
                lines.counts(),
                lines.key(0),
                lines.key(len(lines) - 1),
            )
            if old:
                replaced = tuple(location.id for location in old) if part == 0 else ()
                header = replace(header, replaces=replaced, part=part, parts=len(slices))
            encoded.append(encode(header, lines))
        file = self._current()
        at = file.append([part for parts in encoded for part in parts])
        locations = []
        for parts in encoded:
            size = sum(map(len, parts))
            locations.append(BlockLocation(self._next_id, file, at, size))
            self._next_id += 1
            at += size
        file.live += len(locations)
        self.release(old)
        return locations

    def _current(self) -> BlockFile:
        if not self._files or self._files[-1].size >= self._file_bytes:
            if self._files:
                self._files[-1].rest()
            path = self.folder / f"{self._next_file:08}{_SUFFIX}" if self.folder is not None else None
            self._files.append(BlockFile(path, new=True))
            self._next_file += 1
            self._delete_unused()
        return self._files[-1]

    def release(self, locations: Iterable[BlockLocation]) -> None:
        """Mark these blocks as no longer used."""
        for location in locations:
            location.file.live -= 1
        self._delete_unused()

    def _delete_unused(self) -> None:
        """Delete the files without a used block, except the current file."""
        for file in [file for file in self._files[:-1] if not file.live]:
            self._files.remove(file)
            with contextlib.suppress(OSError):
                file.remove()

    def read(self, location: BlockLocation, count: int) -> Lines:
        """Return the lines of a block. If it can't be read, each line contains an error text."""
        try:
            return decode(location.file.read(location.at, location.size))
        except (OSError, ValueError):
            words = ["(this line can no longer be read from the disk)"] * count
            return Lines([0] * count, [""] * count, [""] * count, bytes([5]) * count, words)

    def close(self) -> None:
        """Close the files and unlock the folder."""
        for file in self._files:
            file.close()
        self._files.clear()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
