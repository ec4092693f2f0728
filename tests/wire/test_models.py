"""The Model Registry as the unmodified gRPC client sees it: models, versions, aliases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1.types import Model

from tests.wire.control import NUMBERED, PARENT, emulator
from tests.wire.serving import Serving, model, sentences


@pytest.fixture
async def place() -> AsyncIterator[Serving]:
    async with emulator() as (_, clients):
        yield Serving(clients.channel)


async def versions(place: Serving, name: str, **more: Any) -> dict[str, list[str]]:
    """Aliases by version."""
    pager = await place.models.list_model_versions(request={"name": name, **more})
    return {found.version_id: list(found.version_aliases) async for found in pager}


async def names(place: Serving, **more: Any) -> list[str]:
    pager = await place.models.list_models(request={"parent": PARENT, **more})
    return [found.display_name async for found in pager]


async def test_versions_have_numbers_aliases_and_labels_of_their_own(place: Serving) -> None:
    first = await place.upload(
        model_id="mine", name="mine", description="all", labels={"team": "a"}, version_aliases=["golden"]
    )
    base = f"{NUMBERED}/models/mine"
    assert first == f"{base}@1"
    second = await place.upload(
        parent_model=base, name="other", version_description="second", labels={"stage": "b"},
        artifact_uri="gs://models/2", version_aliases=["golden", "fresh"],
    )  # fmt: skip
    assert second == f"{base}@2"
    assert await versions(place, base) == {"1": ["default"], "2": ["golden", "fresh"]}

    async def get(suffix: str) -> Model:
        return await place.models.get_model(name=base + suffix)

    for suffix, wanted in {"": "1", "@1": "1", "@default": "1", "@golden": "2", "@fresh": "2"}.items():
        assert (await get(suffix)).version_id == wanted
    found = await get("@golden")
    assert (found.name, found.display_name, found.description) == (base, "mine", "all")
    assert found.version_description == "second" and found.artifact_uri == "gs://models/2"
    assert dict(found.labels) == {"team": "a", "stage": "b"} and dict((await get("")).labels) == {"team": "a"}
    assert found.container_spec.command[-1] == model()["container_spec"]["command"][-1]
    assert [kind.name for kind in found.supported_deployment_resources_types] == ["DEDICATED_RESOURCES"]
    merged = await place.models.merge_version_aliases(name=second, version_aliases=["default", "-fresh"])
    assert list(merged.version_aliases) == ["golden", "default"]
    assert await versions(place, base) == {"1": [], "2": ["golden", "default"]}
    assert (await get("")).version_id == "2"
    with pytest.raises(exceptions.FailedPrecondition, match="is the default version"):
        await place.models.delete_model_version(name=f"{base}@2")
    await (await place.models.delete_model_version(name=f"{base}@1")).result()
    with pytest.raises(exceptions.FailedPrecondition, match="only version"):
        await place.models.delete_model_version(name=f"{base}@2")
    with pytest.raises(exceptions.NotFound):
        await get("@1")
    assert await place.upload(parent_model=base) == f"{base}@3"
    await (await place.models.delete_model_version(name=f"{base}@3")).result()
    # The number of a deleted version is not used again.
    assert await place.upload(parent_model=base) == f"{base}@4"
    await (await place.models.delete_model(name=base)).result()
    assert await names(place) == []


async def test_models_are_found_ordered_paged_and_changed(place: Serving) -> None:
    for number in range(3):
        await place.upload(model_id=f"m{number}", name=f"n{number}", labels={"odd": str(number % 2)})
    assert await names(place) == ["n0", "n1", "n2"]
    for text, wanted in {
        'display_name="n1"': ["n1"], "labels.odd=0": ["n0", "n2"], "model=m2": ["n2"],
        'model!="m2"': ["n0", "n1"],
    }.items():  # fmt: skip
        assert await names(place, filter=text) == wanted
    assert await names(place, order_by="display_name desc", page_size=2) == ["n2", "n1", "n0"]
    base = f"{PARENT}/models/m0"

    async def update(name: str, *paths: str, **body: Any) -> Model:
        request = {"model": {"name": name, **body}, "update_mask": {"paths": list(paths)}}
        return await place.models.update_model(request=request)

    changed = await update(base, "display_name", "labels", display_name="new", labels={"a": "b"})
    assert (changed.display_name, dict(changed.labels)) == ("new", {"a": "b"})
    changed = await update(
        f"{base}@1", "version_description", "labels", version_description="x", labels={"a": "c"}
    )
    assert changed.version_description == "x" and dict(changed.labels) == {"a": "c"}
    assert changed.version_update_time > changed.version_create_time and changed.display_name == "new"
    for name, path in {
        base: "version_description",
        f"{base}@1": "display_name",
        f"{base}@-": "artifact_uri",
    }.items():
        with pytest.raises(exceptions.FailedPrecondition, match=f"{path} can't be changed in a"):
            await update(name, path)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"name": ""}, "model.display_name: is required"),
        ({"container": {"image_uri": ""}}, "model.container_spec.image_uri: is required"),
        ({"container": {"predict_route": "x"}}, "model.container_spec.predict_route: 'x' must start with /"),
        ({"container": {"ports": [{"container_port": 0}]}}, "ports[0].container_port: must be a port"),
        ({"container": {"env": [{"name": "A-B", "value": "1"}]}}, "env[0].name: 'A-B'"),
        ({"container": {"deployment_timeout": "7201s"}}, "deployment_timeout: must be more than 0"),
        ({"container_spec": None}, "model.container_spec: is required"),
        ({"artifact_uri": "/tmp/x"}, "model.artifact_uri: '/tmp/x' must have the form"),
        ({"version_aliases": ["Golden"]}, "model.version_aliases[0]: 'Golden'"),
        ({"labels": {"A": "b"}}, "model.labels: There can be no more"),
        ({"model_id": "9x"}, "model_id: '9x' must match"),
        ({"model_id": "mine"}, "models/mine already exists"),
        (
            {"model_id": "x", "parent_model": f"{PARENT}/models/mine"},
            "model_id: must be empty with parent_model",
        ),
        ({"parent_model": f"{PARENT}/models/none"}, "models/none does not exist"),
        ({"parent_model": "mine"}, "parent_model: 'mine' must have the form"),
    ],
)
async def test_what_the_documentation_of_models_rules_out_is_refused(body: dict[str, Any], says: str) -> None:
    async with emulator() as (_, clients):
        place = Serving(clients.channel)
        await place.upload(model_id="mine")
        with pytest.raises(exceptions.GoogleAPICallError) as refused:
            await place.upload(**body)
        assert says in sentences(refused.value.message)
        for wanted, why in {"-default": "must have a version", "A": "must match"}.items():
            with pytest.raises(exceptions.InvalidArgument, match=why):
                await place.models.merge_version_aliases(
                    name=f"{PARENT}/models/mine", version_aliases=[wanted]
                )
