"""Moves older log entries from rows to compressed blocks.

The newest entries of a source stay rows, which are cheap to add, until enough have arrived. Each step is one
transaction, so a killed server has every entry once, in a row or in a block.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Sequence
from itertools import islice

from tui.emulator.logging.entry_blocks import BLOCK, BlockHead, DamagedBlock
from tui.emulator.logging.record import EntryRow
from tui.emulator.logging.store import COLUMNS, FIRST, LAST, EntryStore

log = logging.getLogger(__name__)

PACK_SECONDS = 2.0
"""Seconds between searches for rows to pack."""
IDLE_SECONDS = 60.0
"""Seconds without new entries after which all rows of a source are packed."""
STEP_ROWS = 2 * BLOCK
"""Maximum number of rows that one step packs, because other writers wait for it."""
STEP_BYTES = 1 << 24
STEP_BLOCKS = 4
"""Maximum number of blocks that one step rewrites because of late rows."""
LEAST = BLOCK // 4
"""Minimum number of rows to pack. Fewer rows would make a small block or rewrite other blocks."""


async def run_packing(store: EntryStore) -> None:
    """Pack due rows until cancelled; retry after a disk error."""
    packer = Packer(store)
    while True:
        try:
            await packer.pack()
        except sqlite3.Error as error:
            log.warning("can't pack log entries: %s", error)
        await asyncio.sleep(PACK_SECONDS)


class Packer:
    """Packs the rows of all sources."""

    def __init__(self, store: EntryStore) -> None:
        self._store = store
        self._left: dict[int, int] = {}
        """Number of rows that the last check left, by source."""

    async def pack(self) -> None:
        """Pack the sources with many new rows since the last check, and all rows of idle sources.

        Raises:
            sqlite3.Error: a later call packs the rest.
        """
        now = time.monotonic()
        for source in self._store.sources():
            added, at = self._store.added.get(source.id, (0, 0.0))
            idle = now - at > IDLE_SECONDS
            left = self._left.get(source.id)
            # Don't recheck rows that can't be packed yet for each new row.
            if left is not None and not (idle and added) and added < max(BLOCK, left // 4):
                continue
            position: int | None = FIRST
            while position is not None:
                position = await self._store.write(self.step, source.id, position, 0 if idle else BLOCK)
            self._left[source.id] = await self._store.write(self._finish, source.id, added)

    # -- in the writer's thread

    def _finish(self, source: int, added: int) -> int:
        count, at = self._store.added.get(source, (0, 0.0))
        self._store.added[source] = (count - added, at)
        query = "SELECT count(*) FROM entries WHERE source=?"
        return int(self._store.database().execute(query, (source,)).fetchone()[0])

    def step(self, source: int, position: int, keep: int) -> int | None:
        """Pack rows of a source after timestamp `position`, except its newest `keep` rows.

        Return the position of the next step, `None` at the end.
        """
        db, blocks = self._store.database(), self._store.blocks
        rows = self._rows(source, position, keep)
        if rows is None:
            return None
        # The timestamp of the last row may have more rows.
        whole = [row for row in rows if row[1] < rows[-1][1]]
        if not whole:
            # All rows have one timestamp and would become one block, so they stay rows.
            return rows[-1][1]
        heads = list(islice(blocks.between(db, source, whole[0][1], whole[-1][1]), STEP_BLOCKS + 1))
        if len(heads) > STEP_BLOCKS:
            heads.pop()
            whole = [row for row in whole if row[1] <= heads[-1].last]
        if len(whole) >= LEAST:
            # Rows beside an undecodable block stay rows.
            with contextlib.suppress(DamagedBlock):
                self._replace(source, whole, heads)
        return whole[-1][1]

    def _rows(self, source: int, position: int, keep: int) -> list[EntryRow] | None:
        db, limit = self._store.database(), LAST
        if keep:
            query = "SELECT timestamp FROM entries WHERE source=? ORDER BY timestamp DESC LIMIT 1 OFFSET ?"
            newest = db.execute(query, (source, keep - 1)).fetchone()
            if newest is None:
                return None
            limit = newest[0]
        rows, held = [], 0
        for row in db.execute(
            f"SELECT {COLUMNS} FROM entries WHERE source=? AND timestamp>? AND timestamp<?"
            " ORDER BY timestamp, insert_id LIMIT ?",
            (source, position, limit, STEP_ROWS + 1),
        ):
            rows.append(row)
            held += len(row[5])
            if held > STEP_BYTES:
                break
        else:
            if len(rows) <= STEP_ROWS:
                # With this row of another timestamp, all rows of the last timestamp are complete.
                rows.append((source, limit, "", 0, 0, "", 0))
        return rows if len(rows) > 1 else None

    def _replace(self, source: int, rows: Sequence[EntryRow], heads: Sequence[BlockHead]) -> None:
        """Pack rows into blocks, together with the blocks in between."""
        db, blocks = self._store.database(), self._store.blocks
        stored = {row[1:3]: row for head in heads for row in blocks.rows(db, source, head.id)}
        merged = sorted(({row[1:3]: row for row in rows} | stored).values(), key=lambda row: row[1:3])
        with db:
            db.execute("BEGIN IMMEDIATE")
            blocks.remove(db, heads)
            blocks.add(db, source, merged)
            db.execute(
                "DELETE FROM entries WHERE source=? AND timestamp BETWEEN ? AND ?",
                (source, rows[0][1], rows[-1][1]),
            )
