"""Metadata and TensorBoard as the unmodified gRPC clients see them: what is stored, found and refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import aiplatform_v1
from google.cloud.aiplatform_v1.services.metadata_service import MetadataServiceAsyncClient
from google.cloud.aiplatform_v1.services.metadata_service.transports import (
    MetadataServiceGrpcAsyncIOTransport,
)
from google.cloud.aiplatform_v1.services.tensorboard_service import TensorboardServiceAsyncClient
from google.cloud.aiplatform_v1.services.tensorboard_service.transports import (
    TensorboardServiceGrpcAsyncIOTransport,
)

from tests.wire.control import NUMBERED, PARENT, QUICK, connect, emulator, state_dir
from tui.emulator.config import EmulatorConfig
from tui.emulator.server import Emulator

STORE = f"{PARENT}/metadataStores/default"
Event = aiplatform_v1.Event.Type


class Services:
    """Both services over one channel."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.metadata = MetadataServiceAsyncClient(
            transport=MetadataServiceGrpcAsyncIOTransport(channel=channel)
        )
        self.boards = TensorboardServiceAsyncClient(
            transport=TensorboardServiceGrpcAsyncIOTransport(channel=channel)
        )

    async def store(self) -> None:
        made = await self.metadata.create_metadata_store(parent=PARENT, metadata_store_id="default")
        assert (await made.result()).name == f"{NUMBERED}/metadataStores/default"

    async def context(self, name: str, **body: Any) -> str:
        made = await self.metadata.create_context(parent=STORE, context_id=name, context=body)
        return str(made.name)

    async def execution(self, name: str, **body: Any) -> str:
        made = await self.metadata.create_execution(parent=STORE, execution_id=name, execution=body)
        return str(made.name)

    async def artifact(self, name: str, **body: Any) -> str:
        made = await self.metadata.create_artifact(parent=STORE, artifact_id=name, artifact=body)
        return str(made.name)

    async def ids(self, kind: str, filter: str = "", **more: Any) -> list[str]:
        call = getattr(self.metadata, f"list_{kind}s")
        pager = await call(request={"parent": STORE, "filter": filter, **more})
        return [each.name.rpartition("/")[2] async for each in pager]

    async def run(self) -> str:
        """A run of an experiment of a TensorBoard; the name."""
        board = await (
            await self.boards.create_tensorboard(parent=PARENT, tensorboard={"display_name": "b"})
        ).result()
        experiment = await self.boards.create_tensorboard_experiment(
            parent=board.name, tensorboard_experiment_id="exp"
        )
        run = await self.boards.create_tensorboard_run(
            parent=experiment.name, tensorboard_run_id="run", tensorboard_run={"display_name": "run"}
        )
        return str(run.name)

    async def series(self, run: str, name: str = "loss") -> str:
        made = await self.boards.create_tensorboard_time_series(
            request={
                "parent": run,
                "tensorboard_time_series_id": name,
                "tensorboard_time_series": {"display_name": name, "value_type": "SCALAR"},
            }
        )
        return str(made.name)

    async def write(
        self, run: str, points: dict[int, float], name: str = "loss", kind: str = "SCALAR"
    ) -> None:
        values = [
            {"step": at, "wall_time": {"seconds": at}, "scalar": {"value": v}} for at, v in points.items()
        ]
        data = {"tensorboard_time_series_id": name, "value_type": kind, "values": values}
        await self.boards.write_tensorboard_run_data(tensorboard_run=run, time_series_data=[data])

    async def read(self, series: str, **more: Any) -> dict[int, float]:
        reply = await self.boards.read_tensorboard_time_series_data(
            request={"tensorboard_time_series": series, **more}
        )
        return {point.step: point.scalar.value for point in reply.time_series_data.values}


@pytest.fixture
async def place() -> AsyncIterator[Services]:
    async with emulator() as (_, clients):
        services = Services(clients.channel)
        await services.store()
        yield services


async def test_contexts_are_found_by_what_the_documentation_lets_one_filter(place: Services) -> None:
    above = await place.context("exp", schema_title="system.Experiment", labels={"team": "a"})
    for number in range(3):
        metadata = {"lr": number / 10, "name": f"n{number}", "good": number > 1}
        child = await place.context(f"run-{number}", schema_title="system.ExperimentRun", metadata=metadata)
        if number:
            await place.metadata.add_context_children(context=above, child_contexts=[child])
    await place.context("exp-10", schema_title="system.Experiment", display_name="other")
    for text, wanted in {
        'schema_title="system.Experiment"': ["exp", "exp-10"],
        f'parent_contexts:"{above}"': ["run-1", "run-2"],
        f'parent_contexts:"{above}-1"': [],
        f'child_contexts:"{STORE}/contexts/run-1"': ["exp"],
        "metadata.lr.number_value>=0.1": ["run-1", "run-2"],
        'metadata.name.string_value="n0" OR metadata.good.bool_value=true': ["run-0", "run-2"],
        'labels.team="a"': ["exp"],
        'display_name="other"': ["exp-10"],
        f'name="{above}"': ["exp"],
        'create_time<"2020-01-01T00:00:00Z"': [],
        'NOT schema_title="system.ExperimentRun"': ["exp", "exp-10"],
    }.items():
        assert await place.ids("context", text) == wanted, text
    assert await place.ids("context", order_by="display_name desc, create_time desc", page_size=2) == [
        "exp-10", "run-2", "run-1", "run-0", "exp"
    ]  # fmt: skip
    for text, says in {
        "schema=1": "unknown field",
        'in_context("x")': "stand alone",
        "metadata.lr=1": "TYPE",
    }.items():
        with pytest.raises(exceptions.InvalidArgument, match=says):
            await place.ids("context", text)
    with pytest.raises(exceptions.InvalidArgument, match="order_by"):
        await place.ids("context", order_by="size")


async def test_lineage_leads_from_artifacts_over_executions_to_artifacts(place: Services) -> None:
    data, model, score = [
        await place.artifact(name, uri=f"gs://b/{name}") for name in ("data", "model", "score")
    ]
    train, judge = await place.execution("train"), await place.execution("judge")
    context = await place.context("run")
    for execution, read, written in ((train, data, model), (judge, model, score)):
        events = [{"artifact": read, "type_": Event.INPUT}, {"artifact": written, "type_": Event.OUTPUT}]
        await place.metadata.add_execution_events(execution=execution, events=events)
    await place.metadata.add_context_artifacts_and_executions(
        context=context, artifacts=[data, model], executions=[train]
    )
    found = await place.metadata.query_context_lineage_subgraph(context=context)
    assert [each.name for each in found.artifacts] == [data, model]
    assert {(each.artifact, each.type_) for each in found.events} == {
        (data, Event.INPUT),
        (model, Event.OUTPUT),
    }
    found = await place.metadata.query_execution_inputs_and_outputs(execution=judge)
    assert ([each.name for each in found.artifacts], len(found.events)) == ([model, score], 2)
    whole = await place.metadata.query_artifact_lineage_subgraph(artifact=data)
    assert ([each.name for each in whole.artifacts], len(whole.events)) == ([data, model, score], 4)
    near = await place.metadata.query_artifact_lineage_subgraph({"artifact": data, "max_hops": 2})
    assert [each.name for each in near.artifacts] == [data, model]
    assert await place.ids("artifact", f'in_context("{context}") AND uri="gs://b/data"') == ["data"]
    assert await place.ids("execution", f'in_context("{context}")') == ["train"]
    await (await place.metadata.delete_execution(name=train)).result()
    left = await place.metadata.query_artifact_lineage_subgraph(artifact=data)
    assert ([each.name for each in left.artifacts], len(left.events)) == ([data], 0)


async def test_a_context_is_no_ancestor_of_itself(place: Services) -> None:
    first, second = await place.context("a"), await place.context("b")
    await place.metadata.add_context_children(context=first, child_contexts=[second])
    for above, below in ((second, first), (first, first)):
        with pytest.raises(exceptions.InvalidArgument, match="an ancestor of it"):
            await place.metadata.add_context_children(context=above, child_contexts=[below])
    await place.metadata.remove_context_children(context=first, child_contexts=[second])
    await place.metadata.add_context_children(context=second, child_contexts=[first])
    assert (await place.metadata.get_context(name=first)).parent_contexts == [second]


async def test_updates_take_a_mask_and_refuse_an_old_etag(place: Services) -> None:
    name = await place.artifact("a", display_name="old", description="kept", metadata={"a": 1})
    before = await place.metadata.get_artifact(name=name)
    changed = {"name": name, "display_name": "new", "description": "lost", "metadata": {"b": 2}}
    after = await place.metadata.update_artifact(artifact=changed, update_mask={"paths": ["display_name"]})
    assert (after.display_name, after.description, dict(after.metadata)) == ("new", "kept", {"a": 1})
    after = await place.metadata.update_artifact(artifact={"name": name, "metadata": {"b": 2}})
    assert dict(after.metadata) == {"b": 2} and after.display_name == "new"
    with pytest.raises(exceptions.Aborted):
        await place.metadata.update_artifact(artifact={"name": name, "etag": before.etag, "uri": "gs://x/y"})
    with pytest.raises(exceptions.InvalidArgument, match="can be changed"):
        await place.metadata.update_artifact(artifact=changed, update_mask={"paths": ["create_time"]})
    request = {"artifact": {"name": f"{STORE}/artifacts/z"}, "allow_missing": True}
    assert (await place.metadata.update_artifact(request)).name.endswith("/z")


async def test_a_purge_says_what_it_would_delete_and_then_does(place: Services) -> None:
    for number in range(3):
        await place.artifact(f"a{number}", schema_title="system.Model" if number else "system.Dataset")
    request = {"parent": STORE, "filter": 'schema_title="system.Model"'}
    asked = await (await place.metadata.purge_artifacts(request)).result()
    assert asked.purge_count == 2 and len(asked.purge_sample) == 2
    assert len(await place.ids("artifact")) == 3
    await (await place.metadata.purge_artifacts({**request, "force": True})).result()
    assert await place.ids("artifact") == ["a0"]


async def test_points_are_read_back_replaced_thinned_and_exported(place: Services) -> None:
    run = await place.run()
    series = await place.series(run)
    await place.write(run, {step: float(step) for step in range(1, 2501)})
    await place.write(run, {7: -1.0})
    assert (await place.read(series, filter="step<9"))[7] == -1.0
    thinned = await place.read(series)
    assert len(thinned) == 1000 and min(thinned) == 1 and max(thinned) == 2500
    assert list(await place.read(series, max_data_points=2)) == [1, 2500]
    pager = await place.boards.export_tensorboard_time_series_data(tensorboard_time_series=series)
    assert [point.step async for point in pager] == list(range(1, 2501))
    found = await place.boards.get_tensorboard_time_series(name=series)
    assert (found.metadata.max_step, found.metadata.max_wall_time.timestamp()) == (2500, 2500)
    several = await place.boards.batch_read_tensorboard_time_series_data(
        request={"tensorboard": run.partition("/experiments")[0], "time_series": [series]}
    )
    assert len(several.time_series_data[0].values) == 1000
    for kind, says in (("TENSOR", "has SCALAR"), ("SCALAR", "does not exist")):
        with pytest.raises((exceptions.InvalidArgument, exceptions.NotFound), match=says):
            await place.write(run, {1: 1.0}, "loss" if kind == "TENSOR" else "other", kind)


async def test_runs_and_series_are_created_together_and_deleted_with_what_is_above(place: Services) -> None:
    run = await place.run()
    experiment, board = run.partition("/runs")[0], run.partition("/experiments")[0]
    made = await place.boards.batch_create_tensorboard_runs(
        parent=experiment,
        requests=[{"parent": experiment, "tensorboard_run_id": f"r{n}"} for n in range(2)],
    )
    assert [each.name.rpartition("/")[2] for each in made.tensorboard_runs] == ["r0", "r1"]
    double = [{"parent": experiment, "tensorboard_run_id": "same"}] * 2
    with pytest.raises(exceptions.InvalidArgument, match="twice"):
        await place.boards.batch_create_tensorboard_runs(parent=experiment, requests=double)
    series = await place.boards.batch_create_tensorboard_time_series(
        parent=experiment,
        requests=[{"parent": run, "tensorboard_time_series": {"display_name": "a", "value_type": "SCALAR"}}],
    )
    name = series.tensorboard_time_series[0].name
    listed = await place.boards.list_tensorboard_runs(parent=f"{board}/experiments/-")
    assert len([each async for each in listed]) == 3
    await (await place.boards.delete_tensorboard(name=board)).result()
    with pytest.raises(exceptions.NotFound):
        await place.boards.get_tensorboard_time_series(name=name)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda s: s.context("UPPER"), exceptions.InvalidArgument),
        (lambda s: s.metadata.create_context(parent=f"{PARENT}/metadataStores/none"), exceptions.NotFound),
        (lambda s: s.metadata.get_context(name="contexts/1"), exceptions.InvalidArgument),
        (lambda s: s.metadata.get_context(name=f"{STORE}/contexts/none"), exceptions.NotFound),
        (lambda s: s.metadata.purge_contexts(parent=STORE), exceptions.InvalidArgument),
        (lambda s: s.store(), exceptions.AlreadyExists),
        (lambda s: s.ids("context", page_token="x"), exceptions.InvalidArgument),
        (lambda s: s.boards.read_tensorboard_blob_data(time_series="t"), exceptions.MethodNotImplemented),
    ],
)  # fmt: skip
async def test_what_can_t_be_is_refused(place: Services, wrong: Any, code: type[Exception]) -> None:
    with pytest.raises(code):
        await wrong(place)


async def test_everything_is_there_after_a_restart_and_for_the_beta_client() -> None:
    # Imported here: every worker of the suite collects this module, and the package takes most of a second.
    from google.cloud import aiplatform_v1beta1
    from google.cloud.aiplatform_v1beta1.services.metadata_service import transports as beta_transports

    with state_dir() as state:
        settings = EmulatorConfig.model_validate(QUICK)
        async with Emulator(state, settings) as running, connect(running.target) as clients:
            services = Services(clients.channel)
            await services.store()
            above, below = await services.context("a", metadata={"x": 1}), await services.context("b")
            await services.metadata.add_context_children(context=above, child_contexts=[below])
            run = await services.run()
            series = await services.series(run)
            await services.write(run, {1: 0.5, 2: 0.25})
        async with Emulator(state, settings) as running, connect(running.target) as clients:
            services = Services(clients.channel)
            assert await services.ids("context", f'parent_contexts:"{above}"') == ["b"]
            assert await services.read(series) == {1: 0.5, 2: 0.25}
            beta = aiplatform_v1beta1.MetadataServiceAsyncClient(
                transport=beta_transports.MetadataServiceGrpcAsyncIOTransport(channel=clients.channel)
            )
            assert dict((await beta.get_context(name=above)).metadata) == {"x": 1}
