"""Pipeline jobs of earlier versions, which stored their tasks in the job's own row."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tui.emulator.database import Database
from tui.emulator.pipelines.planner import TaskRecord, TaskStatus, Values
from tui.emulator.pipelines.table import PipelineJobPb, PipelineRecord, PipelineTable, State


async def test_a_job_of_an_earlier_version_keeps_its_tasks(tmp_path: Path) -> None:
    database = Database(tmp_path / "state.db")
    await database.open()
    done = TaskRecord(TaskStatus.SUCCEEDED, ("j",), Values({"out": 1}), start=1.0, end=2.0)
    tasks = {"records": {"a": asdict(done)}, "ids": {"": 7, "a": 8, "b": 9}}
    for id, state in (("runs", State.PIPELINE_STATE_RUNNING), ("ended", State.PIPELINE_STATE_SUCCEEDED)):
        pb = PipelineJobPb(name=PipelineRecord("p", "l", id).name, state=state)
        pb.job_detail.task_details.add(task_id=8, task_unique_name="a")
        row = ("p", "l", id, 7, pb.SerializeToString(), json.dumps(tasks))
        await database.write(
            lambda db, row=row: db.execute("INSERT INTO pipeline_jobs VALUES (?,?,?,?,?,?)", row)  # type: ignore[misc]
        )
    for _ in range(2):
        table = PipelineTable(database)
        await table.open()
        ended, runs = table.get("ended"), table.get("runs")
        assert ended is not None and runs is not None
        shown = (await table.with_details(ended)).job_detail.task_details
        assert [task.task_unique_name for task in shown] == ["a"]
        await table.load_tasks(runs)
        assert runs.records == {"a": done} and runs.ids["a"] == 8 and not runs.pb.job_detail.task_details
    await table._database.make(table.deletion(runs))
    assert not await table._tasks_of(runs, "path")
    await database.close()
