"""Format a finding as one structured line, and an incident as text. The module does no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainer.hang.analysis import Cause, HangFinding
from trainer.hang.records import Collective, RankRecord, group_words
from trainer.hang.stacks import Frame, activity, is_library, starts_scripts, user_frame

_MAX_RANKS = 16
"""Maximum number of ranks that a line names; the file has all of them."""
_MAX_PLACES = 3
_MAX_STACK = 20


def message(finding: HangFinding, records: Sequence[RankRecord]) -> str:
    """Return the finding in one sentence: the ranks, the collective, the source line, and the wait of the
    others."""
    parts = [_cause(finding, records)]
    where = _places(finding, records)
    if where:
        parts.append(f"it is {where}" if len(finding.ranks) == 1 else where)
    others = _others(finding, records)
    if others:
        parts.append(others)
    return "; ".join(parts)


def _cause(finding: HangFinding, records: Sequence[RankRecord]) -> str:
    ranks = _rank_words(finding.ranks, records)
    missed = _collective(finding.missed, records)
    single = len(finding.ranks) == 1
    if finding.cause is Cause.STOPPED:
        state = next(record.state for record in records if record.rank == finding.ranks[0])
        return f"{ranks} {'is' if single else 'are'} {state}" + (
            f" and did not join {missed}" if missed else ""
        )
    if finding.cause is Cause.ENDED:
        codes = {record.rank: record.exit_code for record in records}
        code = codes.get(finding.ranks[0])
        text = f"{ranks} {'has' if single else 'have'} ended" + (
            "" if code is None else f" with exit code {code}"
        )
        return text + (f" and did not join {missed}" if missed else "")
    if finding.cause in (Cause.MISMATCH, Cause.SKIPPED):
        verb = "skipped" if finding.cause is Cause.SKIPPED else "did not join"
        instead = _collective(finding.instead, records)
        return f"{ranks} {verb} {missed or 'the collective of the others'} and began {instead} instead"
    if finding.cause is Cause.ORDER:
        instead = _collective(finding.instead, records)
        return (
            f"{ranks} began {instead} instead of {missed or 'the collective of the others'}: a "
            "collective is missing or out of order"
        )
    if finding.cause is Cause.UNANSWERED:
        return (
            f"{ranks} have all joined {missed}, which does not end: the network between them or a "
            "device may have failed"
        )
    if finding.cause is Cause.NOT_JOINED:
        return f"{ranks} did not join {missed or 'the others'}"
    return f"{ranks} {'ends' if single else 'end'} no step, and no rank waits for another one"


def _rank_words(ranks: Sequence[int], records: Sequence[RankRecord]) -> str:
    nodes = {record.node for record in records}
    names = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {numbers(ranks)}"
    if len(nodes) > 1 and len(ranks) == 1:
        node = next((record.node for record in records if record.rank == ranks[0]), None)
        return names if node is None else f"{names} on node {node}"
    return names


def numbers(ranks: Sequence[int]) -> str:
    """Return the ranks as text, e.g. `0, 2-5, 9`."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    shown = parts[:_MAX_RANKS]
    return ", ".join(shown) + (", …" if len(parts) > len(shown) else "")


def _collective(collective: Collective | None, records: Sequence[RankRecord]) -> str:
    if collective is None:
        return ""
    name = group_words(list(records), collective.group)
    return f"{collective.words} of group {name}"


def place_of(record: RankRecord, collective: Collective | None = None) -> Frame | None:
    """Return the source line of the rank, or the worker's line if the rank waits for a worker. For a wrong
    `collective`, return the line that began the collective, because the main thread may have moved on."""
    frames = record.frames
    if collective is not None and (began := user_frame(collective.frames)) is not None:
        return began
    if activity(frames) == "data loading" and record.worker_frames:
        busy = [user_frame(frames) for frames in record.worker_frames]
        place = next((frame for frame in busy if frame is not None and not is_library(frame.file)), None)
        if place is not None:
            return place
    return record.place


def _places(finding: HangFinding, records: Sequence[RankRecord]) -> str:
    """Return the source lines of the culprits, grouped by line."""
    places: dict[str, list[int]] = {}
    ranks = finding.ranks
    for record in records:
        if record.rank in ranks:
            places.setdefault(_place_words(record, finding.instead), []).append(record.rank)
    places.pop("", None)
    if len(places) == 1 and len(next(iter(places.values()))) == len(ranks):
        return next(iter(places)) if len(ranks) == 1 else f"they are {next(iter(places))}"
    shown = [
        f"rank{'s' if len(ranks_there) > 1 else ''} {numbers(ranks_there)} {where}"
        for where, ranks_there in places.items()
    ]
    return "; ".join(shown[:_MAX_PLACES]) + ("; …" if len(shown) > _MAX_PLACES else "")


def _place_words(record: RankRecord, instead: Collective | None) -> str:
    place = place_of(record, instead)
    if place is None:
        return f"not readable ({record.problem})" if record.problem else ""
    call = activity(record.frames)
    return f"in {call} at {place.place}" if call else f"at {place.place}"


def _others(finding: HangFinding, records: Sequence[RankRecord]) -> str:
    by_rank = {record.rank: record for record in records}
    places: dict[str, list[int]] = {}
    for rank, collective in finding.waiting:
        if rank in finding.ranks or rank not in by_rank:
            continue
        place = place_of(by_rank[rank])
        awaited = (
            "in it"
            if collective and finding.missed and _same(collective, finding.missed)
            else (f"in {collective.words}" if collective else "")
        )
        text = " ".join(filter(None, ["wait", awaited, f"at {place.place}" if place else ""]))
        places.setdefault(text, []).append(rank)
    shown = []
    for text, ranks in places.items():
        single = len(ranks) == 1
        verb = text.replace("wait", "waits", 1) if single else text
        shown.append(f"rank{'' if single else 's'} {numbers(ranks)} {verb}")
    return "; ".join(shown[:_MAX_PLACES]) + ("; …" if len(shown) > _MAX_PLACES else "")


def _same(collective: Collective, other: Collective) -> bool:
    return (collective.group, collective.seq) == (other.group, other.seq)


def fields(finding: HangFinding, records: Sequence[RankRecord]) -> dict[str, Any]:
    """Return the fields of the structured line."""
    by_rank = {record.rank: record for record in records}
    culprits = [by_rank[rank] for rank in finding.ranks if rank in by_rank]
    place = next((frame for record in culprits if (frame := place_of(record, finding.instead))), None)
    waiting = [pair for pair in finding.waiting if pair[0] in by_rank]
    seen = place_of(by_rank[waiting[0][0]]) if waiting else None
    return {
        "cause": finding.cause.value,
        "ranks": list(finding.ranks[:_MAX_RANKS]),
        "node_ranks": sorted({record.node for record in culprits}),
        "collective": _collective_fields(finding.missed, records),
        "instead": _collective_fields(finding.instead, records),
        "file": place.file if place else None,
        "line": place.line if place else None,
        "function": place.function if place else None,
        "code": place.code if place else None,
        "waiting": [rank for rank, _ in waiting[:_MAX_RANKS]],
        "waiting_at": f"{seen.file}:{seen.line}" if seen else None,
    }


def stack(record: RankRecord) -> list[str]:
    """Return the calls of the main thread, the innermost first, without the calls that started the script."""
    below = next((at for at, frame in enumerate(record.frames) if starts_scripts(frame.file)), None)
    return [frame.place for frame in record.frames[:below][:_MAX_STACK]]


def _collective_fields(collective: Collective | None, records: Sequence[RankRecord]) -> dict[str, Any] | None:
    if collective is None:
        return None
    return {
        "kind": collective.kind,
        "seq": collective.seq,
        "sizes": [list(size) for size in collective.sizes],
        "dtype": collective.dtype,
        "group": group_words(list(records), collective.group),
    }


def text(heading: str, dump: Sequence[Mapping[str, Any]], records: Sequence[RankRecord]) -> str:
    """Return the incident as text: each rank with its newest collectives and all stacks."""
    lines = [heading, ""]
    by_rank = {record.rank: record for record in records}
    for dumped in sorted(dump, key=lambda rank_dump: int(rank_dump["rank"])):
        record = by_rank[int(dumped["rank"])]
        state = f"{record.state}{f' in {record.wait}' if record.wait else ''}, CPU {record.cpu_share:.0%}"
        lines.append(
            f"rank {record.rank} (node {record.node}, pid {dumped['pid']}): step {record.step}"
            f"{f', {record.phase}' if record.phase else ''}; {state}"
        )
        if record.problem:
            lines.append(f"  {record.problem}")
        for collective in record.collectives[-8:]:
            ended = "ended" if collective.done else "PENDING"
            lines.append(f"  {ended:8} {_collective(collective, records)}")
        for thread in dumped["threads"]:
            lines.append(f"  thread {thread['id']:#x}{' (main)' if thread['main'] else ''}")
            lines += [f"    {file}:{line} {name}: {code}" for file, line, name, code in thread["frames"]]
        for worker in dumped["workers"]:
            lines.append(f"  process {worker['pid']}")
            for thread in worker["threads"]:
                lines += [f"    {file}:{line} {name}: {code}" for file, line, name, code in thread["frames"]]
        lines.append("")
    return "\n".join(lines)
