"""The control plane's small parts: decisions, ports, quota queue, page tokens, read masks, the database."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sqlite3
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import custom_job
from google.cloud.aiplatform_v1.types.job_service import ListCustomJobsRequest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.emulator.config import ConfigError, EmulatorConfig
from tui.emulator.database import Database, DatabaseError
from tui.emulator.interfaces import JobRecord
from tui.emulator.kinds.table import open_tables
from tui.emulator.paths import AttemptDir
from tui.emulator.rpc.methods import WireError
from tui.emulator.rpc.paging import keep_only, mask_fields, page_size, query_digest, read_token, write_token
from tui.emulator.runner.plan import AttemptStatus, ReplicaStatus
from tui.emulator.runs import replica_pip
from tui.emulator.runs.exit_text import exit_text
from tui.emulator.runs.ports import FIRST, LAST, NoPorts, Ports
from tui.emulator.runs.restart_policy import AttemptContext, EndOfAttempt, Restart, decide
from tui.emulator.training_pipelines.table import TrainingPipelinePb, TrainingPipelineTable
from tui.emulator.vertex.job_service import JobServer
from tui.emulator.vertex.job_table import Control, CustomJob, CustomJobTable, State
from tui.emulator.vertex.operations import read_operations
from tui.emulator.vertex.quota import TrainingQuotas, check_quotas, demand, describe_lack
from tui.emulator.vertex.resource_requests import list_page

CustomJobPb = custom_job.CustomJob.pb()
ABOUT = AttemptContext(
    lambda status: exit_text(status, AttemptDir(Path("none")), JobRecord("42", "us-central1", "7")),
    spot=False,
    disable_retries=False,
    cancelling=False,
    timeout=60,
    control=Control(),
)


def failed(code: int, *, oom: bool = False) -> AttemptStatus:
    replica = ReplicaStatus("workerpool1-0", 1, "exited", code, oom=oom)
    return AttemptStatus("failed", (replica,), "workerpool1-0", code)


def ended(status: AttemptStatus, **about: Any) -> EndOfAttempt:
    decision = decide(status, replace(ABOUT, **about))
    assert isinstance(decision, EndOfAttempt)
    return decision


def test_a_replica_that_fails_ends_its_job_with_the_documented_sentence() -> None:
    end = ended(failed(1))
    assert (end.state, end.code) == (State.JOB_STATE_FAILED, 3)
    text = "The replica workerpool1-0 exited with a non-zero status of 1. Termination reason: Error."
    assert end.message.startswith(text) and "project=42&resource=ml_job%2Fjob_id%2F7&" in end.message
    assert "status of 137 (SIGKILL)" in ended(failed(137)).message
    assert (
        "workerpool1-0 ran out-of-memory and exited with a non-zero status of 9(SIGKILL)"
        in ended(failed(137, oom=True)).message
    )


@pytest.mark.parametrize("code", [6, 134, 11, 139, 75, 143])
def test_a_transient_exit_restarts_the_job_three_times(code: int) -> None:
    control = Control()
    for spent in range(1, 4):
        decision = decide(failed(code), replace(ABOUT, control=control))
        assert isinstance(decision, Restart) and decision.crashes == spent
        control = replace(control, crashes=decision.crashes)
    assert "3 times" in ended(failed(code), control=control).message
    assert ended(failed(code), disable_retries=True).state == State.JOB_STATE_FAILED


def test_a_spot_job_is_restarted_six_times_and_then_is_a_stockout() -> None:
    taken = AttemptStatus("preempted", detail="workerpool1-0 was preempted")
    control = Control()
    for spent in range(1, 7):
        decision = decide(taken, replace(ABOUT, spot=True, control=control))
        assert (
            isinstance(decision, Restart) and decision.preemptions == spent and "STOCKOUT" in decision.reason
        )
        control = replace(control, preemptions=decision.preemptions)
    end = ended(taken, spot=True, control=control)
    assert end.code == 8 and "STOCKOUT" in end.message and "workerpool1-0 was preempted" in end.message
    assert ended(taken, spot=True, disable_retries=True).code == 8


def test_other_ends() -> None:
    assert decide(AttemptStatus("preempted"), ABOUT) == Restart("A machine went down for maintenance.", 0, 0)
    assert ended(AttemptStatus("succeeded")).state == State.JOB_STATE_SUCCEEDED
    timeout = ended(AttemptStatus("timeout"))
    assert (timeout.state, timeout.code) == (State.JOB_STATE_FAILED, 4) and "60 s" in timeout.message
    lost = ended(AttemptStatus("lost"))
    assert (lost.state, lost.code) == (State.JOB_STATE_FAILED, 13)
    for outcome in ("failed", "stopped", "preempted", "lost", "timeout"):
        end = ended(AttemptStatus(outcome), cancelling=True)
        assert (end.state, end.code) == (State.JOB_STATE_CANCELLED, 1)
    assert ended(AttemptStatus("succeeded"), cancelling=True).state == State.JOB_STATE_SUCCEEDED


def test_ports_are_consecutive_disjoint_and_free(tmp_path: Path) -> None:
    ports = Ports(tmp_path)
    first = ports.take("a", 5)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", first.stop + 1))
        busy.listen()
        second = ports.take("b", 4)
        assert first.stop + 1 not in second
    assert len(first) == 5 and len(second) == 4 and not set(first) & set(second)
    assert all(FIRST <= p <= LAST for p in (*first, *second))
    assert ports.take("c", 0) == range(0)
    held = Ports(tmp_path)
    held.hold("a", first.start, 5)
    assert not set(held.take("b", 3)) & set(first)


def test_ports_run_out_with_a_clear_word(tmp_path: Path) -> None:
    ports = Ports(tmp_path)
    ports.hold("all", FIRST, LAST - FIRST + 1)
    with pytest.raises(NoPorts, match="no 2 consecutive free ports"):
        ports.take("b", 2)


def queued(number: int, cpus: int = 4, region: str = "us-central1", **spec: Any) -> CustomJob:
    machine = {"machineType": f"n1-standard-{cpus}", **spec.pop("machine", {})}
    raw = {
        "createTime": f"2026-11-21T00:00:{number:02}Z",
        "jobSpec": {"workerPoolSpecs": [{"machineSpec": machine, "replicaCount": 1}], **spec},
    }
    return CustomJob(
        JobRecord("p", region, str(number)), json_format.ParseDict(raw, CustomJobPb()), Control()
    )


async def test_quota_lets_jobs_in_by_age_and_never_above_the_limit() -> None:
    quotas = TrainingQuotas(
        EmulatorConfig.model_validate({"quotas": {"custom_model_training_cpus@us-central1": 8}})
    )
    jobs = {n: queued(n, cpus) for n, cpus in ((1, 4), (2, 8), (3, 4), (4, 16))}
    turns = {n: quotas.queue(job) for n, job in jobs.items()}

    def running() -> set[int]:
        return {n for n, turn in turns.items() if turn.is_set()}

    # 2 waits for 1, so 3 may not overtake it; 4 can never run and holds nobody up.
    assert running() == {1}
    assert quotas.usage("p", "us-central1") == {"custom_model_training_cpus": 4}
    assert "needs 16, limit 8" in describe_lack(quotas.lacking(jobs[4]), "us-central1")
    assert quotas.queue(queued(5, 4, "europe-west4")).is_set()
    quotas.release(jobs[1])
    assert running() == {1, 2}
    quotas.release(jobs[2])
    assert running() == {1, 2, 3}
    quotas.release(jobs[4])
    quotas.release(jobs[3])
    assert quotas.usage("p", "us-central1") == {}


def test_spot_draws_on_the_preemptible_twin_and_limits_may_be_unlimited() -> None:
    l4 = {"machineType": "g2-standard-12", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 1}
    job = queued(1, machine=l4, scheduling={"strategy": "SPOT"})
    metric = "custom_model_training_preemptible_nvidia_l4_gpus"
    assert demand(job.pb) == {metric: 1}
    assert metric in TrainingQuotas(EmulatorConfig.model_validate({"quotas": {metric: 0}})).lacking(job)
    full = f"aiplatform.googleapis.com/{metric}"
    quotas = TrainingQuotas(EmulatorConfig.model_validate({"quotas": {full: -1}}))
    assert quotas.lacking(job) == {} and quotas.limit("us-central1", full) == -1


def test_page_tokens_are_opaque_checked_and_bound_to_their_question() -> None:
    digest = query_digest("projects/p/locations/l", "state=JOB_STATE_RUNNING")
    token = write_token((12, 34), digest)
    pair = (int, int)
    assert read_token(token, digest, pair) == (12, 34) and read_token("", digest, pair) is None
    for bad, asked in (
        (token, query_digest("other", "")),
        ("!!!", digest),
        (token[:-3], digest),
        ("W10", digest),
    ):
        with pytest.raises(WireError) as caught:
            read_token(bad, asked, pair)
        assert caught.value.code == 3 and "page_token" in caught.value.message
    assert (page_size(0), page_size(7), page_size(9999)) == (100, 7, 1000)
    with pytest.raises(WireError, match="page_size"):
        page_size(-1)


@settings(max_examples=60)
@given(st.data())
def test_no_job_is_shown_twice_or_missed_while_others_come_and_go(data: st.DataObject) -> None:
    def stored(number: int) -> CustomJob:
        pb = CustomJobPb()
        # Several jobs share a creation time, as they do in a burst.
        pb.create_time.seconds = number // 3
        return CustomJob(JobRecord("p", "l", str(number)), pb, Control())

    table = CustomJobTable(Database(Path("unused")))
    for n in data.draw(st.permutations(range(12))):
        table.add(stored(n))
    stays = set(data.draw(st.sets(st.integers(0, 11))))
    seen: list[int] = []
    token, fresh = "", 12
    while True:
        asked = ListCustomJobsRequest.pb()(
            parent="projects/p/locations/l", page_size=data.draw(st.integers(1, 5)), page_token=token
        )
        page, token = asyncio.run(list_page(table, asked, JobServer.TYPE.fields))
        seen += [int(job.record.id) for job in page]
        if not token:
            break
        table.add(stored(fresh))
        fresh += 1
        leaving = data.draw(st.sampled_from(range(12)))
        gone = table.get(str(leaving))
        if gone is not None and leaving not in stays:
            table.remove(gone)
    assert seen == sorted(set(seen), reverse=True) and stays <= set(seen) and max(seen, default=0) < 12


def test_read_masks_take_fields_in_both_spellings() -> None:
    pb, fields = CustomJobPb(name="n", display_name="d", labels={"a": "b"}, state=3), CustomJobPb.DESCRIPTOR
    pb.create_time.seconds = 5
    whole = CustomJobPb.FromString(pb.SerializeToString())
    keep_only([pb], mask_fields(["*"], fields))
    assert pb == whole and mask_fields([], fields) is None
    keep_only([pb], mask_fields(["displayName", "create_time", "labels"], fields))
    assert json_format.MessageToDict(pb) == {
        "displayName": "d", "createTime": "1970-01-01T00:00:05Z", "labels": {"a": "b"},
    }  # fmt: skip
    with pytest.raises(WireError, match=r"unknown field 'job_spec\.schedule'"):
        mask_fields(["name", "job_spec.schedule"], fields)


def test_read_masks_go_into_messages() -> None:
    pb, fields = CustomJobPb(name="n"), CustomJobPb.DESCRIPTOR
    pb.job_spec.scheduling.timeout.seconds, pb.job_spec.network = 5, "net"
    other = CustomJobPb.FromString(pb.SerializeToString())
    keep_only([pb], mask_fields(["jobSpec.scheduling.timeout", "error.message"], fields))
    assert json_format.MessageToDict(pb) == {"jobSpec": {"scheduling": {"timeout": "5s"}}}
    keep_only([other], mask_fields(["job_spec.network", "job_spec", "job_spec.tensorboard"], fields))
    assert other.job_spec.network == "net" and other.job_spec.scheduling.timeout.seconds == 5
    for wrong in ("labels.a", "name.x", "job_spec.worker_pool_specs.replica_count"):
        with pytest.raises(WireError, match="unknown field"):
            mask_fields([wrong], fields)


def test_a_quota_that_nobody_knows_is_refused_by_name() -> None:
    check_quotas(EmulatorConfig.model_validate({"quotas": {"custom_model_training_cpus@mars-west9": 1}}))
    with pytest.raises(ConfigError, match=r"did you mean .*custom_model_training_nvidia_h100_gpus"):
        check_quotas(
            EmulatorConfig.model_validate({"quotas": {"custom_model_training_nvidia_h100_80gb_gpus": 8}})
        )
    with pytest.raises(ConfigError, match="-1 for unlimited"):
        check_quotas(EmulatorConfig.model_validate({"quotas": {"custom_model_training_cpus": -2}}))


async def test_what_was_stored_is_there_after_reopening(tmp_path: Path) -> None:
    database = Database(tmp_path / "state.db")
    await database.open()
    table = CustomJobTable(database)
    job = await table.create("p", "l", CustomJobPb(display_name="x"))
    await table.update(job, lambda pb: setattr(pb, "state", 3), attempt=2, port=20001, ports=4)
    # A caller that gives up at once must not leave memory and disk apart.
    hasty = asyncio.create_task(table.update(job, lambda pb: setattr(pb, "state", 5)))
    await asyncio.sleep(0)
    hasty.cancel()
    await database.settle()
    later = await database.next_id()
    await database.close()

    again = Database(tmp_path / "state.db")
    await again.open()
    tables = await open_tables(again)
    rows = list(tables[CustomJobTable].all())
    assert [kind for kind, table in tables.items() if list(table.all())] == [CustomJobTable] and len(
        rows
    ) == 1
    assert not await again.load(read_operations)
    assert rows[0].pb == job.pb and rows[0].pb.state == 5
    assert rows[0].control == Control(attempt=2, port=20001, ports=4) and rows[0].record == job.record
    assert len(job.record.id) == 19 and await again.next_id() > later > int(job.record.id)
    await again.close()


async def test_a_file_of_the_first_layout_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    database = Database(path)
    await database.open()
    job = await CustomJobTable(database).create("p", "l", CustomJobPb(display_name="old"))
    await database.close()
    with contextlib.closing(sqlite3.connect(path)) as old:
        for table in (
            "training_pipelines",
            "tuning_jobs",
            "resources",
            "links",
            "points",
            "pipeline_jobs",
            "pipeline_cache",
        ):
            old.execute(f"DROP TABLE {table}")
        old.execute("PRAGMA user_version = 1")

    again = Database(path)
    await again.open()
    tables = await open_tables(again)
    assert [row.pb for row in tables[CustomJobTable].all()] == [job.pb]
    made = await tables[TrainingPipelineTable].create_with_job(
        "p", "l", TrainingPipelinePb(display_name="new"), CustomJobPb().job_spec
    )
    await again.close()

    last = Database(path)
    await last.open()
    tables = await open_tables(last)
    assert [(row.pb, row.job_id) for row in tables[TrainingPipelineTable].all()] == [(made.pb, made.job_id)]
    assert [row.pb.display_name for row in tables[CustomJobTable].all()] == ["old", "new-custom-job"]
    await last.close()


async def test_a_file_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"something else" * 100)
    database = Database(path)
    with pytest.raises(DatabaseError, match=str(path)):
        await database.open()
    await database.close()


def test_a_replicas_pip_installs_below_its_working_directory(tmp_path: Path) -> None:
    assert replica_pip.arguments(["list", "--user"]) == ["list", "--user"]
    assert replica_pip.arguments(["install", "--upgrade", "pip"]) == []
    assert replica_pip.arguments(["install", "-U", "pip", "x"]) == ["install", "-U", "pip", "x"]
    assert replica_pip.arguments(["-q", "install", "--user", "-r", "pip"]) == ["-q", "install", "-r", "pip"]
    for name, own in (("setup.py", "--no-build-isolation"), ("pyproject.toml", None)):
        archive = tmp_path / f"{name}.tar.gz"
        with tarfile.open(archive, "w:gz") as file:
            for member in {"setup.py", name}:
                file.addfile(tarfile.TarInfo(f"x-1/{member}"))
        found = replica_pip.arguments(["install", "--user", str(archive)])
        assert found == ["install", *([own] if own else []), str(archive)]
    assert replica_pip.arguments(["install", "a.tar.gz"]) == ["install", "a.tar.gz"], "it is not here"
