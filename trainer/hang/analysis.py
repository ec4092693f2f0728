"""From what all ranks do to the rank that the others wait for. Pure: no torch, no files, no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from trainer.hang.processes import ENDED, STOPPED
from trainer.hang.records import Collective, RankRecord

_CONTEXT = 8
"""Collectives before one that are compared with earlier ones, at most."""


class Cause(StrEnum):
    """Why no step ends."""

    STOPPED = "stopped"
    ENDED = "ended"
    NOT_JOINED = "not joined"
    """A rank is in its own code while the others wait for it."""
    MISMATCH = "mismatch"
    """A rank has begun another collective, or one of another shape."""
    SKIPPED = "skipped"
    """A rank has left one out, and has begun a later one."""
    ORDER = "order"
    """Ranks wait for each other in different groups."""
    UNANSWERED = "unanswered"
    """All have joined; none ends."""
    OWN_CODE = "own code"
    """No rank waits for another one."""


@dataclass(frozen=True, slots=True)
class HangFinding:
    """The cause, and the ranks it is in. `missed` is the collective that they should be in.

    `waiting` are the other ranks that wait, each with its collective if that is known.
    """

    cause: Cause
    ranks: tuple[int, ...]
    missed: Collective | None = None
    instead: Collective | None = None
    """What a rank has begun instead."""
    waiting: tuple[tuple[int, Collective | None], ...] = ()


def analyze(records: Sequence[RankRecord]) -> HangFinding:
    """The finding for the records of all ranks; a rank that no node knows of is not among them."""
    for background in (False, True):
        found = _in_collectives(records, background=background)
        if found is not None:
            return found
    return _in_own_code(records)


def _in_collectives(records: Sequence[RankRecord], *, background: bool) -> HangFinding | None:
    """None if no rank waits in a collective."""
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
    # All that are missing somewhere wait elsewhere: one that computes has only begun its collective early.
    busy = [record for record in records if record.rank in missing and record.frames and not record.waits]
    if busy and len(busy) < len(heads):
        return _found(Cause.NOT_JOINED, busy, heads, absent, waiting)
    if missing:
        return _wrong_order(records, heads, missing, waiting, background=background)
    first = heads[min(heads)]
    return HangFinding(Cause.UNANSWERED, tuple(sorted(heads)), first, None, waiting)


def _heads(records: Sequence[RankRecord], *, background: bool) -> dict[int, Collective]:
    """The oldest collective that each rank waits in; its main thread's, where the stack says so."""
    found: dict[int, Collective] = {}
    for record in records:
        pending = [one for one in record.known(background=background) if not one.done]
        if pending:
            found[record.rank] = pending[0]
    return found


def _absent(
    records: Sequence[RankRecord], head: Collective, heads: dict[int, Collective], *, background: bool
) -> set[int]:
    """The ranks of the group that have not begun this collective."""
    members = _members(records, head)
    absent = set()
    for record in records:
        if record.rank not in members:
            continue
        begun = [
            one.seq
            for one in record.known(background=True)
            if one.group == head.group and one.p2p == head.p2p
        ]
        behind = max(begun, default=0) < head.seq
        # One that can't answer may have begun it.
        if behind or (not record.answered and record.rank not in heads):
            absent.add(record.rank)
    return absent


def _members(records: Sequence[RankRecord], head: Collective) -> set[int]:
    known = [record.members[head.group] for record in records if record.members.get(head.group)]
    return set(known[0]) if known else {record.rank for record in records}


def _found(
    cause: Cause, culprits: Sequence[RankRecord], heads: dict[int, Collective], absent: dict[int, set[int]],
    waiting: tuple[tuple[int, Collective | None], ...],
) -> HangFinding:  # fmt: skip
    ranks = tuple(record.rank for record in culprits)
    missed = Counter(
        (head.group, head.seq) for rank, head in heads.items() if absent[rank] & set(ranks)
    ).most_common(1)
    shown = next((head for head in heads.values() if missed and (head.group, head.seq) == missed[0][0]), None)
    return HangFinding(cause, ranks, shown, None, tuple(one for one in waiting if one[0] not in ranks))


def _cause_of(record: RankRecord) -> Cause:
    return Cause.ENDED if record.state == ENDED else Cause.STOPPED


def _mismatch(
    records: Sequence[RankRecord], heads: dict[int, Collective],
    waiting: tuple[tuple[int, Collective | None], ...], *, background: bool,
) -> HangFinding | None:  # fmt: skip
    """Ranks whose collectives of the same number differ."""
    for head in sorted(heads.values(), key=lambda one: one.seq):
        if head.p2p:
            continue
        begun: dict[int, Collective] = {}
        for record in records:
            for one in record.known(background=background):
                if (one.group, one.seq, one.p2p) == (head.group, head.seq, False):
                    begun[record.rank] = one
        if len({one.signature for one in begun.values()}) > 1:
            return _deviating(records, begun, waiting, background=background)
    return None


def _deviating(
    records: Sequence[RankRecord], begun: dict[int, Collective],
    waiting: tuple[tuple[int, Collective | None], ...], *, background: bool,
) -> HangFinding:  # fmt: skip
    """Which of these collectives is wrong: by what the ranks did before, else by the majority."""
    by_rank = {record.rank: record for record in records}
    usual = {rank: _usual(by_rank[rank].known(background=background), one) for rank, one in begun.items()}
    wrong = [rank for rank, one in begun.items() if usual[rank] and usual[rank][0] != _key(one)]
    right = [rank for rank in begun if rank not in wrong]
    if not wrong or not right:
        counts = Counter(one.signature for one in begun.values())
        fewest = min(counts.values())
        wrong = [rank for rank, one in begun.items() if counts[one.signature] == fewest]
        if len({begun[rank].signature for rank in wrong}) == len(counts):
            # As many of each: all are named.
            right = []
        else:
            right = [rank for rank in begun if rank not in wrong]
    instead = begun[wrong[0]]
    missed = (
        begun[right[0]]
        if right
        else next((one for one in begun.values() if one.signature != instead.signature), None)
    )
    expected = usual.get(wrong[0])
    skipped = expected is not None and len(expected) > 1 and expected[1] == _key(instead)
    others = tuple(one for one in waiting if one[0] not in wrong)
    return HangFinding(Cause.SKIPPED if skipped else Cause.MISMATCH, tuple(wrong), missed, instead, others)


def _usual(begun: Sequence[Collective], head: Collective) -> list[tuple[object, ...]]:
    """What followed the collectives before `head` when they occurred the last time: two of them, if known."""
    keys = [_key(one) for one in begun]
    at = next(index for index, one in enumerate(begun) if one is head)
    for length in range(min(_CONTEXT, at), 0, -1):
        context = keys[at - length : at]
        for start in range(at - length - 1, -1, -1):
            if keys[start : start + length] == context:
                return keys[start + length : start + length + 2]
    return []


def _key(one: Collective) -> tuple[object, ...]:
    return one.group, *one.signature


def _wrong_order(
    records: Sequence[RankRecord], heads: dict[int, Collective], missing: set[int],
    waiting: tuple[tuple[int, Collective | None], ...], *, background: bool,
) -> HangFinding:  # fmt: skip
    """Ranks that wait for each other in different groups, or in different places of one."""
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
    others = tuple(one for one in waiting if one[0] not in wrong)
    return HangFinding(Cause.ORDER, tuple(wrong), missed, heads[wrong[0]], others)


def _in_own_code(records: Sequence[RankRecord]) -> HangFinding:
    """No collective is pending, as far as is known."""
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
