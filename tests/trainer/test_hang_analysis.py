"""Which rank the others wait for, from the ranks' records: on made-up runs, without processes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from trainer.hang.analysis import Cause, analyze
from trainer.hang.records import Collective, RankRecord
from trainer.hang.report import message, numbers
from trainer.hang.stacks import Frame, from_faulthandler, main_frames, user_frame

STEP = (("0", "all_reduce", 36), ("0", "all_reduce", 3), ("1", "all_gather", 2), ("1", "all_reduce", 1))
"""The collectives of one step, by group, kind and size."""
IN_COLLECTIVE = (
    Frame("/env/site-packages/torch/distributed/distributed_c10d.py", 3245, "all_reduce"),
    Frame("/home/me/train.py", 23, "<module>", "dist.all_reduce(loss)"),
)
IN_OWN_CODE = (Frame("/home/me/data.py", 11, "fetch", "lock.acquire()"),)
Step = tuple[str, str, int]


def run(program: list[Step], begun: int, *, done: int | None = None) -> tuple[Collective, ...]:
    """The collectives of a rank that began this many of `program`; the last one is pending, or none is."""
    seq: dict[str, int] = {}
    found = []
    for order, (group, kind, size) in enumerate(program[:begun]):
        seq[group] = seq.get(group, 0) + 1
        finished = order < (begun - 1 if done is None else done)
        found.append(Collective(group, seq[group], kind, ((size,),), "Float", finished, order))
    return tuple(found)


def record(rank: int, world: int, collectives: tuple[Collective, ...]) -> RankRecord:
    waits = any(not one.done for one in collectives)
    members = {"0": tuple(range(world)), "1": tuple(range(world))}
    frames = IN_COLLECTIVE if waits else IN_OWN_CODE
    return RankRecord(rank, frames=frames, collectives=collectives, members=members)


@given(st.integers(2, 9), st.integers(0, 40), st.data())
def test_the_ranks_that_have_not_joined_are_named(world: int, at: int, data: st.DataObject) -> None:
    program = list(STEP) * 12
    missing = data.draw(st.sets(st.integers(0, world - 1), min_size=1, max_size=world - 1))
    records = [
        record(rank, world, run(program, at, done=at) if rank in missing else run(program, at + 1))
        for rank in range(world)
    ]
    data.draw(st.randoms(use_true_random=False)).shuffle(records)
    found = analyze(records)
    assert (found.cause, set(found.ranks)) == (Cause.NOT_JOINED, missing)
    assert found.missed is not None and (found.missed.group, found.missed.kind) == program[at][:2]
    assert {rank for rank, _ in found.waiting} == set(range(world)) - missing


@given(st.integers(2, 9), st.integers(8, 40), st.data())
def test_a_rank_that_leaves_one_out_is_named_with_what_it_began_instead(
    world: int, at: int, data: st.DataObject
) -> None:
    program = list(STEP) * 12
    wrong = data.draw(st.integers(0, world - 1))
    without = program[:at] + program[at + 1 :]
    group = program[at][0]
    if without[at][0] != group:
        # Its next collective is in another group: it waits there for all the others.
        return
    records = [
        record(rank, world, run(without if rank == wrong else program, at + 1)) for rank in range(world)
    ]
    found = analyze(records)
    assert (found.cause, found.ranks) == (Cause.SKIPPED, (wrong,))
    assert found.missed is not None and found.missed.sizes == ((program[at][2],),)
    assert found.instead is not None and found.instead.sizes == ((program[at + 1][2],),)
    assert f"rank {wrong} skipped {program[at][1]}" in message(found, records)


@given(st.integers(2, 9), st.integers(8, 40), st.data())
def test_another_shape_or_another_kind_is_named(world: int, at: int, data: st.DataObject) -> None:
    program = list(STEP) * 12
    wrong = data.draw(st.integers(0, world - 1))
    group, kind, _ = program[at]
    other = data.draw(
        st.sampled_from([(group, "broadcast", 8)] + [(group, kind, 77)] * (kind == "all_reduce"))
    )
    changed = [*program[:at], other, *program[at + 1 :]]
    records = [
        record(rank, world, run(changed if rank == wrong else program, at + 1)) for rank in range(world)
    ]
    found = analyze(records)
    assert (found.cause, found.ranks) == (Cause.MISMATCH, (wrong,))


@given(st.integers(2, 6), st.data())
def test_groups_in_another_order_are_named(world: int, data: st.DataObject) -> None:
    program = [*STEP * 4, *STEP]
    wrong = data.draw(st.integers(0, world - 1))
    at = 17
    swapped = [*program[:at], program[at + 1], program[at], *program[at + 2 :]]
    assert program[at][0] != program[at + 1][0]
    records = [
        record(rank, world, run(swapped if rank == wrong else program, at + 1)) for rank in range(world)
    ]
    found = analyze(records)
    assert (found.cause, found.ranks) == (Cause.ORDER, (wrong,))


@given(st.integers(2, 9), st.booleans(), st.data())
def test_a_stopped_rank_is_the_cause_whether_it_has_joined_or_not(
    world: int, joined: bool, data: st.DataObject
) -> None:
    program, victim = list(STEP) * 4, data.draw(st.integers(0, world - 1))
    records = [record(rank, world, run(program, 10)) for rank in range(world)]
    known = run(program, 10 if joined else 9, done=9)
    # A stopped process answers nothing; its collectives are unknown even if it has joined.
    records[victim] = replace(records[victim], state="stopped", answered=False, frames=(), collectives=())
    assert len(known) >= 9
    found = analyze(records)
    assert (found.cause, found.ranks) == (Cause.STOPPED, (victim,))


def test_a_rank_that_keeps_the_interpreter_is_the_one_that_is_missing() -> None:
    program = list(STEP) * 4
    records = [record(rank, 3, run(program, 10)) for rank in range(3)]
    records[2] = replace(records[2], answered=False, frames=IN_OWN_CODE, collectives=(), members={})
    found = analyze(records)
    assert (found.cause, found.ranks) == (Cause.NOT_JOINED, (2,))
    assert "data.py:11 (fetch: lock.acquire())" in message(found, records)


def test_the_root_is_the_rank_that_waits_for_nobody() -> None:
    """Rank 0 waits for 1 in one group, 1 for 2 in another, and 2 computes."""
    first = [Collective("0", 1, "all_reduce", ((3,),), "Float", False, 0)]
    second = [Collective("1", 1, "all_reduce", ((3,),), "Float", False, 0)]
    members = {"0": (0, 1), "1": (1, 2)}
    records = [
        RankRecord(0, frames=IN_COLLECTIVE, collectives=tuple(first), members=members),
        RankRecord(1, frames=IN_COLLECTIVE, collectives=tuple(second), members=members),
        RankRecord(2, frames=IN_OWN_CODE, members=members),
    ]
    assert analyze(records).ranks == (2,)


def test_only_the_partner_of_a_point_to_point_operation_is_awaited() -> None:
    """Rank 4 sends to rank 8; ranks 0 and 12 of the group compute, and nobody waits for them."""
    members = {"7": (0, 4, 8, 12)}
    sends = Collective("7", 5, "send 1->2", ((3,),), "Float", False, 0, p2p=True)
    records = [
        RankRecord(rank, frames=IN_OWN_CODE, members=members) if rank != 4
        else RankRecord(4, frames=IN_COLLECTIVE, collectives=(sends,), members=members)
        for rank in members["7"]
    ]  # fmt: skip
    found = analyze(records)
    assert (found.cause, found.ranks) == (Cause.NOT_JOINED, (8,))


@given(st.integers(1, 9))
def test_all_that_have_joined_or_compute_are_no_culprits(world: int) -> None:
    program = list(STEP) * 4
    joined = analyze([record(rank, world, run(program, 10)) for rank in range(world)])
    assert (joined.cause, len(joined.ranks)) == (Cause.UNANSWERED, world)
    own = analyze([record(rank, world, run(program, 9, done=9)) for rank in range(world)])
    assert (own.cause, len(own.ranks)) == (Cause.OWN_CODE, world)


def test_collectives_of_other_threads_count_only_where_there_is_nothing_else() -> None:
    """The threads that write a checkpoint wait for each other while the main threads train."""
    behind = Collective("2", 5, "all_gather", ((1,),), "Long", False, 3, background=True)
    program = list(STEP) * 4
    records = [record(rank, 2, (*run(program, 10), behind)) for rank in range(2)]
    records[1] = record(1, 2, run(program, 9, done=9))
    found = analyze(records)
    assert found.ranks == (1,) and found.missed is not None and found.missed.group != "2"
    saving = [replace(one, collectives=(behind,) * (one.rank == 0), frames=IN_OWN_CODE) for one in records]
    found = analyze(saving)
    assert found.ranks == (1,) and found.missed == behind


def test_stacks_of_faulthandler_are_read() -> None:
    text = """Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
Current thread 0x00007f0000000002 (most recent call first):
  File "/env/site-packages/torch/nn/modules/linear.py", line 116 in forward
  File "/home/me/a dir/train.py", line 30 in <module>
"""
    threads = from_faulthandler(text, 0x7F0000000002)
    assert [thread.main for thread in threads] == [False, True]
    place = user_frame(main_frames(threads))
    assert place == Frame("/home/me/a dir/train.py", 30, "<module>")


def test_ranks_are_named_in_short() -> None:
    assert numbers([7, 0, 2, 3, 4]) == "0, 2-4, 7"
    assert numbers(range(0, 200, 2)).endswith(", …")
