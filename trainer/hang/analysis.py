"""Find the rank that the other ranks wait for, from the records of all ranks. The module uses neither torch
nor files nor a clock."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from trainer.hang.processes import ENDED, STOPPED
from trainer.hang.records import Collective, RankRecord

_PAIR = re.compile(r"(\d+)(?:->|<-)(\d+)")
_CONTEXT = 8
"""Maximum number of preceding collectives that are compared with earlier sequences."""


class Cause(StrEnum):
    """Cause of a hang."""

    STOPPED = "stopped"
    ENDED = "ended"
    NOT_JOINED = "not joined"
    """A rank is in its own code while the others wait for it."""
    MISMATCH = "mismatch"
    """A rank began another collective, or one with another shape."""
    SKIPPED = "skipped"
    """A rank skipped a collective and began a later collective."""
    ORDER = "order"
    """Ranks wait for each other in different groups."""
    UNANSWERED = "unanswered"
    """All ranks joined, and the collective does not end."""
    OWN_CODE = "own code"
    """No rank waits for another rank."""


@dataclass(frozen=True, slots=True)
class HangFinding:
    """The cause and its ranks. `missed` is the collective that these ranks should be in. `waiting` are the
    other ranks that wait, each with its collective if known."""

    cause: Cause
    ranks: tuple[int, ...]
    missed: Collective | None = None
    instead: Collective | None = None
    """The collective that a rank began instead."""
    waiting: tuple[tuple[int, Collective | None], ...] = ()


def analyze(records: Sequence[RankRecord]) -> HangFinding:
    """Analyse the records of all ranks. A rank without a record on any node is ignored."""
    for background in (False, True):
        finding = _in_collectives(records, background=background)
        if finding is not None:
            return finding
    return _in_own_code(records)


def _in_collectives(records: Sequence[RankRecord], *, background: bool) -> HangFinding | None:
    """Return the finding in collectives, or None if no rank waits in a collective."""
    heads = _heads(records, background=background)
    if not heads:
        return None
    waiting = tuple((rank, heads[rank]) for rank in sorted(heads))
    absent = {rank: _absent(records, head, heads, background=background) for rank, head in heads.items()}
    unwell = [
        record
        for record in records
        if record.state in (ENDED, *STOPPED) and any(record.rank in ranks for ranks in absent.values())
    ]
    if unwell:
        return _found(_cause_of(unwell[0]), unwell, heads, absent, waiting)
    differing = _mismatch(records, heads, waiting, background=background)
    if differing is not None:
        return differing
    by_rank = {record.rank: record for record in records}
    missing = {rank for ranks in absent.values() for rank in ranks}
    roots = [by_rank[rank] for rank in sorted(missing) if rank in by_rank and rank not in heads]
    if roots:
        return _found(Cause.NOT_JOINED, roots, heads, absent, waiting)
    # All ranks that are missing somewhere wait elsewhere: a rank that computes only began its collective
    # early.
    busy = [record for record in records if record.rank in missing and record.frames and not record.waits]
    if busy and len(busy) < len(heads):
        return _found(Cause.NOT_JOINED, busy, heads, absent, waiting)
    if missing:
        return _wrong_order(records, heads, missing, waiting, background=background)
    first = heads[min(heads)]
    return HangFinding(Cause.UNANSWERED, tuple(sorted(heads)), first, None, waiting)


def _heads(records: Sequence[RankRecord], *, background: bool) -> dict[int, Collective]:
    """Return the oldest collective that each rank waits in, or the main thread's collective if its stack
    shows one."""
    heads: dict[int, Collective] = {}
    for record in records:
        pending = [collective for collective in record.known(background=background) if not collective.done]
        if pending:
            heads[record.rank] = pending[0]
    return heads


def _absent(
    records: Sequence[RankRecord], head: Collective, heads: dict[int, Collective], *, background: bool
) -> set[int]:
    """Return the ranks of the group that have not begun this collective."""
    members = _members(records, head)
    absent = set()
    for record in records:
        if record.rank not in members:
            continue
        begun = [
            collective.seq
            for collective in record.known(background=True)
            if collective.group == head.group and collective.p2p == head.p2p
        ]
        behind = max(begun, default=0) < head.seq
        # A rank that can't answer may have begun the collective.
        if behind or (not record.answered and record.rank not in heads):
            absent.add(record.rank)
    return absent


def _members(records: Sequence[RankRecord], head: Collective) -> set[int]:
    """Return the ranks of the collective's group, or the two ranks of a point-to-point operation."""
    known = [record.members[head.group] for record in records if record.members.get(head.group)]
    if not known:
        return {record.rank for record in records}
    # torch names the partners by their positions in the group: `send 0->3`, `recv 3<-0`.
    pair = _PAIR.search(head.kind) if head.p2p else None
    positions = [int(position) for position in pair.groups()] if pair else []
    if positions and max(positions) < len(known[0]):
        return {known[0][position] for position in positions}
    return set(known[0])


def _found(
    cause: Cause,
    culprits: Sequence[RankRecord],
    heads: dict[int, Collective],
    absent: dict[int, set[int]],
    waiting: tuple[tuple[int, Collective | None], ...],
) -> HangFinding:
    ranks = tuple(record.rank for record in culprits)
    missed = Counter(
        (head.group, head.seq) for rank, head in heads.items() if absent[rank] & set(ranks)
    ).most_common(1)
    shown = next((head for head in heads.values() if missed and (head.group, head.seq) == missed[0][0]), None)
    return HangFinding(cause, ranks, shown, None, tuple(pair for pair in waiting if pair[0] not in ranks))


def _cause_of(record: RankRecord) -> Cause:
    return Cause.ENDED if record.state == ENDED else Cause.STOPPED


def _mismatch(
    records: Sequence[RankRecord],
    heads: dict[int, Collective],
    waiting: tuple[tuple[int, Collective | None], ...],
    *,
    background: bool,
) -> HangFinding | None:
    """Return the finding for ranks whose collectives with the same number differ, or None if there is
    none."""
    for head in sorted(heads.values(), key=lambda collective: collective.seq):
        if head.p2p:
            continue
        begun: dict[int, Collective] = {}
        for record in records:
            for collective in record.known(background=background):
                if (collective.group, collective.seq, collective.p2p) == (head.group, head.seq, False):
                    begun[record.rank] = collective
        if len({collective.signature for collective in begun.values()}) > 1:
            return _deviating(records, begun, waiting, background=background)
    return None


def _deviating(
    records: Sequence[RankRecord],
    begun: dict[int, Collective],
    waiting: tuple[tuple[int, Collective | None], ...],
    *,
    background: bool,
) -> HangFinding:
    """Return the deviating collectives and their ranks, judged by the ranks' earlier collectives or, if these
    do not decide, by the majority."""
    by_rank = {record.rank: record for record in records}
    usual = {
        rank: _usual(by_rank[rank].known(background=background), collective)
        for rank, collective in begun.items()
    }
    wrong = [rank for rank, collective in begun.items() if usual[rank] and usual[rank][0] != _key(collective)]
    right = [rank for rank in begun if rank not in wrong]
    if not wrong or not right:
        counts = Counter(collective.signature for collective in begun.values())
        fewest = min(counts.values())
        wrong = [rank for rank, collective in begun.items() if counts[collective.signature] == fewest]
        if len({begun[rank].signature for rank in wrong}) == len(counts):
            # Both sides have the same number of ranks: name all of them.
            right = []
        else:
            right = [rank for rank in begun if rank not in wrong]
    instead = begun[wrong[0]]
    missed = (
        begun[right[0]]
        if right
        else next(
            (collective for collective in begun.values() if collective.signature != instead.signature), None
        )
    )
    expected = usual.get(wrong[0])
    skipped = expected is not None and len(expected) > 1 and expected[1] == _key(instead)
    others = tuple(pair for pair in waiting if pair[0] not in wrong)
    return HangFinding(Cause.SKIPPED if skipped else Cause.MISMATCH, tuple(wrong), missed, instead, others)


def _usual(begun: Sequence[Collective], head: Collective) -> list[tuple[object, ...]]:
    """Return the two collectives that followed the last earlier occurrence of the collectives just before
    `head`, or [] if there is none."""
    keys = [_key(collective) for collective in begun]
    at = next(index for index, collective in enumerate(begun) if collective is head)
    for length in range(min(_CONTEXT, at), 0, -1):
        context = keys[at - length : at]
        for start in range(at - length - 1, -1, -1):
            if keys[start : start + length] == context:
                return keys[start + length : start + length + 2]
    return []


def _key(collective: Collective) -> tuple[object, ...]:
    return collective.group, *collective.signature


def _wrong_order(
    records: Sequence[RankRecord],
    heads: dict[int, Collective],
    missing: set[int],
    waiting: tuple[tuple[int, Collective | None], ...],
    *,
    background: bool,
) -> HangFinding:
    """Return the finding for ranks that wait for each other in different groups, or at different positions of
    one group."""
    by_rank = {record.rank: record for record in records}
    wrong = []
    for rank in sorted(missing):
        usual = _usual(by_rank[rank].known(background=background), heads[rank])
        if usual and usual[0] != _key(heads[rank]):
            wrong.append(rank)
    if not wrong:
        counts = Counter(_key(head) for head in heads.values())
        fewest = min(counts.values())
        wrong = [rank for rank in sorted(missing) if counts[_key(heads[rank])] == fewest] or sorted(missing)
    missed = next((head for rank, head in heads.items() if rank not in wrong), None)
    others = tuple(pair for pair in waiting if pair[0] not in wrong)
    return HangFinding(Cause.ORDER, tuple(wrong), missed, heads[wrong[0]], others)


def _in_own_code(records: Sequence[RankRecord]) -> HangFinding:
    """Return the finding if no collective is pending, derived from the states and stacks of the ranks."""
    unwell = [record for record in records if record.state in STOPPED]
    if unwell:
        others = tuple((record.rank, None) for record in records if record not in unwell and record.waits)
        return HangFinding(Cause.STOPPED, tuple(record.rank for record in unwell), waiting=others)
    ended = [record for record in records if record.state == ENDED]
    inside = [record for record in records if record.waits]
    outside = [record for record in records if record.frames and not record.waits]
    if ended and inside and not outside:
        others = tuple((record.rank, None) for record in inside)
        return HangFinding(Cause.ENDED, tuple(record.rank for record in ended), waiting=others)
    if inside and outside:
        others = tuple((record.rank, None) for record in inside)
        return HangFinding(Cause.NOT_JOINED, tuple(record.rank for record in outside), waiting=others)
    shown = outside or [record for record in records if record.state != ENDED] or list(records)
    silent = [record for record in shown if not record.answered]
    if silent and len(silent) < len(shown):
        shown = silent
    return HangFinding(Cause.OWN_CODE, tuple(record.rank for record in shown))
