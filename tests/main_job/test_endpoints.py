"""Models and endpoints of the high-level SDK over REST, with a traffic split."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from tests.main_job.clients_support import by_the_sdk
from tests.main_job.experiments_support import BEGIN
from tests.shell import Home, home
from tests.wire.serving import SERVER

pytestmark = pytest.mark.xdist_group("endpoints")


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    with home() as found:
        started = found.run("emulator", "start", "--rest", "127.0.0.1:0", "--json")
        assert started.returncode == 0, started.stderr
        yield found


ENDPOINT = (
    BEGIN
    + f"""
import base64
code = base64.b64decode({base64.b64encode(SERVER.encode())!r}).decode()
"""
    + """
import concurrent.futures, collections
init()
served = dict(serving_container_image_uri="us-docker.pkg.dev/p/r/server:1",
              serving_container_command=["python3", "-c", code], serving_container_ports=[8080],
              serving_container_predict_route="/predict", serving_container_health_route="/health")
first = aiplatform.Model.upload(display_name="m", **served)
second = aiplatform.Model.upload(
    display_name="m", parent_model=first.resource_name, is_default_version=False, version_aliases=["new"],
    **served)
assert (first.version_id, second.version_id, second.version_aliases) == ("1", "2", ["new"])
assert [found.version_id for found in first.versioning_registry.list_versions()] == ["1", "2"]
assert [found.resource_name for found in aiplatform.Model.list(filter='display_name="m"')] == [
    first.resource_name]
endpoint = aiplatform.Endpoint.create(display_name="e")
endpoint.deploy(first, traffic_percentage=100)
endpoint.deploy(aiplatform.Model(first.resource_name, version="new"), traffic_percentage=10,
                machine_type="n1-standard-4")
deployed = {found.model_version_id: found.id for found in endpoint.list_models()}
assert endpoint.traffic_split == {deployed["1"]: 90, deployed["2"]: 10}, endpoint.traffic_split

def ask(number):
    found = endpoint.predict([f"i{number}"], parameters={"top": 1})
    assert found.predictions == [[f"i{number}", {"top": 1.0}]], found
    return found.model_version_id

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    counts = collections.Counter(pool.map(ask, range(1000)))
# Within three points.
assert abs(counts["1"] - 900) <= 30 and counts["1"] + counts["2"] == 1000, counts
endpoint.undeploy(deployed["1"], traffic_split={deployed["2"]: 100})
assert ask(0) == "2"
endpoint.undeploy_all()
assert endpoint.list_models() == []
endpoint.delete()
first.versioning_registry.delete_version("new")
first.delete()
assert aiplatform.Model.list() == aiplatform.Endpoint.list() == []
"""
)


# Seconds: the SDK is imported, and it looks at an operation once a second.
def test_an_endpoint_of_the_high_level_sdk_splits_its_predictions(place: Home) -> None:
    by_the_sdk(place, ENDPOINT)
