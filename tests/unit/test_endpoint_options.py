"""What `vxtui endpoints` refuses before anything is sent, and what a version or a model is meant by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ui.serving_double import MemoryServing, backend, endpoints
from tui.backends.interface import NotFound
from tui.config.settings import Settings
from tui.verbs.run import Run, VerbFailure
from tui.verbs.serving import changes
from tui.verbs.serving.changes import Wanted

RUN = Run(Settings(), "", json=True, read_only=False)


@pytest.mark.parametrize(
    ("wanted", "endpoint", "words"),
    [
        (Wanted({"1": 100}, roll_back=True), "e", "--split and --roll-back can't be combined"),
        (Wanted({}, percent=10), "e", "require --deploy"),
        (Wanted({}, machine="n1-standard-4"), "e", "require --deploy"),
        (Wanted({}, deploy="m@1"), "e", "requires --percent"),
        (Wanted({}, roll_back=True), None, "--roll-back needs an endpoint"),
        (Wanted({}, undeploy="1"), None, "--undeploy needs an endpoint"),
    ],
)
def test_options_that_don_t_go_together_are_refused(wanted: Wanted, endpoint: str | None, words: str) -> None:
    with pytest.raises(VerbFailure, match=words):
        changes.check(RUN, wanted, endpoint)


def test_reading_needs_no_endpoint() -> None:
    changes.check(RUN, Wanted({}), None)


def test_a_deployed_version_is_meant_by_its_number_or_id() -> None:
    front = endpoints()[0]
    assert changes._deployed(front, "3").id == "502" and changes._deployed(front, "501").version == "2"
    with pytest.raises(VerbFailure, match=r"No deployed model .* 9\. Deployed: 501 \(version 2\)"):
        changes._deployed(front, "9")
    twice = replace(front, deployed=(*front.deployed, replace(front.deployed[0], id="7")))
    with pytest.raises(VerbFailure, match="Several deployed models have the id or the version 2"):
        changes._deployed(twice, "2")


async def test_a_model_is_meant_by_id_name_or_alias_in_the_region_of_the_endpoint() -> None:
    serving, front = MemoryServing(), endpoints()[0]
    async with backend(serving) as here:
        assert (await changes._version(here, front, "arr-coc@canary")).version == "3"
        assert (await changes._version(here, front, "31@2")).version == "2"
        assert (await changes._version(here, front, "vit-ablation-l16-384")).id == "32"
        with pytest.raises(NotFound, match="has no version 9") as missing:
            await changes._version(here, front, "arr-coc@9")
        assert "2 default" in missing.value.fix
        with pytest.raises(NotFound, match="model nothing does not exist"):
            await changes._version(here, front, "nothing")
        with pytest.raises(NotFound, match="model arr-coc does not exist"):
            elsewhere = replace(front, name=front.name.replace("us-central1", "europe-west4"))
            await changes._version(here, elsewhere, "arr-coc")
        serving.registered.append(
            replace(
                serving.registered[3], name="/models/".join((front.name.rpartition("/endpoints/")[0], "99"))
            )
        )
        with pytest.raises(VerbFailure, match="2 models are named vit"):
            await changes._version(here, front, "vit-ablation-l16-384")
