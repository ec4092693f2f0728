"""What the rules let pass the service takes, and what the service refuses a rule has found before."""

from __future__ import annotations

import re
from typing import Any

import yaml
from google.cloud.aiplatform_v1.types import custom_job
from google.protobuf import json_format
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tui.domain.document.source import ProblemSeverity, camel
from tui.domain.profile.autofix import apply_fixes, fixable
from tui.domain.spec.findings import Case
from tui.domain.vertex.catalog import ACCELERATOR_TYPES, machines
from tui.domain.vertex.rules import check_job
from tui.emulator.vertex.validate import job_problems

REGION = "us-central1"
MACHINES = [*machines(), "n1-standard-2", "a2-highgpu-16g", ""]
NETWORKS = ["projects/12/global/networks/n", "projects/p/global/networks/n", "default"]


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def mostly(good: st.SearchStrategy[Any], bad: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(good, good, good, bad)


text = st.text("aB9-_ /.:é", max_size=8)
affinity = some(
    reservationAffinityType=st.sampled_from(["NO_RESERVATION", "ANY_RESERVATION", "SPECIFIC_RESERVATION"]),
    key=mostly(st.just("compute.googleapis.com/reservation-name"), text),
    values=st.lists(mostly(st.just(f"projects/p/zones/{REGION}-a/reservations/r"), text), max_size=2),
)


@st.composite
def machine(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(MACHINES))
    found: dict[str, Any] = {"machineType": name}
    known = machines().get(name)
    if known and known.accelerators and draw(st.integers(0, 9)):
        kind, counts = draw(st.sampled_from(known.accelerators))
        found |= {"acceleratorType": kind, "acceleratorCount": draw(st.sampled_from(counts))}
    elif draw(st.booleans()):
        found |= draw(
            some(
                acceleratorType=st.sampled_from(ACCELERATOR_TYPES),
                acceleratorCount=st.sampled_from([0, 1, 3, 8, 32, 33, 64, -1]),
            )
        )
    if known and known.tpu_topologies and draw(st.integers(0, 9)):
        found["tpuTopology"] = draw(st.sampled_from(known.tpu_topologies))
    elif draw(st.integers(0, 9)) == 0:
        found["tpuTopology"] = draw(st.sampled_from(["2x2", "4x4", "x", ""]))
    if draw(st.integers(0, 9)) == 0:
        found["reservationAffinity"] = draw(affinity)
    return found


env = st.lists(st.fixed_dictionaries({"name": mostly(st.just("A"), text), "value": text}), max_size=2)
task = st.one_of(
    st.fixed_dictionaries({"containerSpec": some(imageUri=mostly(st.just("i"), text), env=env)}),
    st.fixed_dictionaries(
        {
            "containerSpec": st.just({"imageUri": "us-docker.pkg.dev/p/r/i:t"}),
        }
    ),
    st.fixed_dictionaries(
        {
            "pythonPackageSpec": some(
                executorImageUri=st.just("i"),
                packageUris=st.lists(mostly(st.just("gs://b/o"), text), max_size=2),
                pythonModule=st.sampled_from(["m", ""]),
                env=env,
            )
        }
    ),
    st.just({}),
)
mounts = some(
    nfsMounts=st.lists(
        some(server=st.just("10.0.0.1"), path=st.sampled_from(["/e", "e", ""]), mountPoint=text), max_size=1
    ),
    lustreMounts=st.lists(
        some(instanceIp=text, volumeHandle=text, filesystem=text, mountPoint=st.just("m")), max_size=1
    ),
)


@st.composite
def pool(draw: st.DrawFn, first: bool) -> dict[str, Any]:
    if not first and draw(st.integers(0, 4)) == 0:
        return {}
    found: dict[str, Any] = {"machineSpec": draw(machine()), **draw(task)}
    found["replicaCount"] = draw(mostly(st.just(1), st.sampled_from([0, 2, 5, -1, 2000])))
    if draw(st.integers(0, 4)) == 0:
        found |= draw(mounts)
    if draw(st.integers(0, 4)) == 0:
        found["diskSpec"] = draw(
            some(
                bootDiskType=st.sampled_from(["pd-ssd", "pd-standard", "hyperdisk-balanced", "pd-extreme"]),
                bootDiskSizeGb=st.sampled_from([0, 1, 99, 100, 64_000, 64_001, -5]),
            )
        )
    return found


scheduling = some(
    strategy=st.sampled_from(
        ["STRATEGY_UNSPECIFIED", "ON_DEMAND", "LOW_COST", "STANDARD", "SPOT", "FLEX_START"]
    ),
    timeout=st.sampled_from(["0s", "-1s", "60s", "604800s", "604800.5s", "700000s", "0.5s"]),
    maxWaitDuration=st.sampled_from(["0s", "-1s", "60s", "0.5s"]),
    restartJobOnWorkerRestart=st.booleans(),
    disableRetries=st.booleans(),
)


@st.composite
def job(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(0, 5))
    pools = [draw(pool(i == 0)) for i in range(count)]
    if pools and draw(st.booleans()):
        pools = [pools[0], *({**p, "machineSpec": pools[0]["machineSpec"]} for p in pools[1:] if p)]
    spec: dict[str, Any] = {"workerPoolSpecs": pools}
    if draw(st.booleans()):
        spec["scheduling"] = draw(scheduling)
    if draw(st.integers(0, 2)) == 0:
        spec |= draw(
            some(
                network=st.sampled_from(NETWORKS),
                reservedIpRanges=st.lists(mostly(st.just("r-1"), text), max_size=2),
                pscInterfaceConfig=some(
                    networkAttachment=st.sampled_from(["projects/p/regions/r/networkAttachments/n", "n", ""]),
                    dnsPeeringConfigs=st.lists(some(domain=st.sampled_from(["a.", "a", ""])), max_size=1),
                ),
                serviceAccount=st.sampled_from(["a@b", "a", "a b@c"]),
                tensorboard=st.sampled_from([f"projects/1/locations/{REGION}/tensorboards/2", "t"]),
                baseOutputDirectory=some(
                    outputUriPrefix=st.sampled_from(["gs://bucket/x", "/x", "", "gs://"])
                ),
                experiment=st.sampled_from(["e", "projects/p/locations/l/metadataStores/s/contexts/c"]),
                experimentRun=st.sampled_from(["r", "projects/p/locations/l/metadataStores/s/contexts/c"]),
                persistentResourceId=st.sampled_from(["r", "R"]),
            )
        )
    found: dict[str, Any] = {
        "displayName": draw(mostly(st.just("x"), st.sampled_from(["", "é" * 129]))),
        "jobSpec": spec,
    }
    if draw(st.integers(0, 4)) == 0:
        found["labels"] = draw(st.dictionaries(text, text, max_size=2))
    if draw(st.integers(0, 9)) == 0:
        location = draw(st.sampled_from([REGION, "europe-west4"]))
        key = f"projects/p/locations/{location}/keyRings/r/cryptoKeys/k"
        found["encryptionSpec"] = {"kmsKeyName": draw(st.sampled_from([key, "k", ""]))}
    return found


Place = tuple[str | int, ...]


def region_of(path: Place) -> Place:
    """The pool, or the part of the job, in which a path lies."""
    depth = 3 if path[:2] == ("jobSpec", "workerPoolSpecs") else 2 if path[0] == "jobSpec" else 1
    return path[:depth]


def refused(raw: dict[str, Any]) -> dict[Place, str]:
    """What the emulator says to this job, by the part of the job that it is about."""
    pb = json_format.ParseDict(raw, custom_job.CustomJob.pb()())
    return {region_of(rest_path(path)): f"{path}: {why}" for path, why in job_problems(pb, REGION)}


def rest_path(path: str) -> Place:
    """`job_spec.worker_pool_specs[0].x_y` → `("jobSpec", "workerPoolSpecs", 0, "xY")`."""
    parts = re.findall(r"\[(\d+)\]|\[[^\]]*\]|([a-z_]+)", path.removeprefix("custom_job."))
    return tuple(int(index) if index else camel(name) for index, name in parts if index or name)


@given(job())
@settings(max_examples=200)
@example({"displayName": "x", "jobSpec": {}})
def test_what_the_service_refuses_a_rule_has_found_there(raw: dict[str, Any]) -> None:
    found = [f for f in check_job(Case(raw, REGION, local=True)) if f.severity is ProblemSeverity.ERROR]
    places = {region_of(f.path) for f in found}
    for place, why in refused(raw).items():
        # Several pools may be wrong together; the rule then stands at one of them.
        assert any(place == p or place == p[: len(place)] for p in places), why


@given(job())
@settings(max_examples=60)
def test_rules_speak_of_what_is_there(raw: dict[str, Any]) -> None:
    """Every finding says something, cites its source, and leads to a place that exists or could."""
    for found in check_job(Case(raw, REGION)):
        assert (
            found.sentence
            and found.source.startswith(("docs/facts/vertex.md", "https:", "gcloud "))
            and found.rule
        )
        assert found.fix or found.severity is not ProblemSeverity.ERROR, found
        assert found.path


@given(job(), st.sampled_from(["NVIDIA_H100", "A100", "TPU_V4", ""]), st.booleans())
@settings(max_examples=30)
def test_mending_any_job_ends_where_nothing_can_be_mended(raw: dict[str, Any], kind: str, bare: bool) -> None:
    pools = raw["jobSpec"]["workerPoolSpecs"]
    if pools and kind:
        pools[0].setdefault("machineSpec", {})["acceleratorType"] = kind
        pools[0]["reductionServerSpec"] = {"replicaCount": 2}
    text = yaml.safe_dump(raw["jobSpec"] if bare else raw)
    found = apply_fixes(text, "f.yaml", "f", region=REGION)
    assert not any(map(fixable, found.remaining)), [str(p) for p in found.remaining]
    assert apply_fixes(found.text, "f.yaml", "f", region=REGION).text == found.text
