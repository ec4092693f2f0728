"""Every rule of severity error: who refuses it, a job that breaks it alone, and that its fix is valid."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.rules_each_support import (
    A100,
    ACCOUNT,
    BOARD,
    DEPTH,
    KIND,
    L4,
    LOCAL,
    LR,
    NETWORK,
    POOL,
    RDMA,
    REDUCER,
    RESERVED,
    V5E,
    WEST,
    container,
    env,
    job,
    machine,
    package,
    reducer,
    scheduled,
    times,
    tuned,
    under,
)
from tui.domain.document.document_edit import edited
from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.findings import Case, Finding
from tui.domain.vertex.rules import RULES, check_job

Job = dict[str, Any]
ERRORS = {rule.id: rule for rule in RULES if rule.severity is ProblemSeverity.ERROR}
KEY = "projects/p/locations/us-east1/keyRings/r/cryptoKeys/k"

EXAMPLES: dict[str, Job] = {
    "shape.display-name": {**job(), "displayName": "x" * 129},
    "shape.labels": {**job(), "labels": {"Team": "nlp"}},
    "shape.label-count": {**job(), "labels": {f"k{n}": "" for n in range(65)}},
    "shape.encryption": {**job(), "encryptionSpec": {"kmsKeyName": KEY}},
    "shape.pools": {"displayName": "x", "jobSpec": {}},
    "shape.primary": job(times(POOL, 4)),
    "shape.task": job({k: v for k, v in POOL.items() if k != "containerSpec"}),
    "shape.environment": job(env("1A")),
    "shape.arguments": job(container(args=["x" * 50_001] * 2)),
    "placeholder.name": job(container(imageUri="us-docker.pkg.dev/PROJECT_ID/r/i:t")),
    "image.missing": job(container(imageUri="")),
    "image.form": job(container(imageUri="https://us-docker.pkg.dev/p/r/i:t")),
    "image.reference": job(container(imageUri="us-docker.pkg.dev/p/r/i::1")),
    "package.fields": job(package(pythonModule="")),
    "package.uris": job(package(packageUris=["./p.tar.gz"])),
    "machine.type": job(machine("n1-standard-2")),
    "machine.not-offered": job(machine("n1-standard-8", "NVIDIA_TESLA_K80", 1)),
    "machine.a100-memory": job(machine("a2-ultragpu-8g", "NVIDIA_TESLA_A100", 8)),
    "machine.accelerator": job(machine("a2-highgpu-8g", "NVIDIA_TESLA_A100", 4)),
    "machine.disk-type": job({**POOL, "diskSpec": {"bootDiskType": "pd-extreme"}}),
    "machine.disk-size": job({**POOL, "diskSpec": {"bootDiskSizeGb": 99}}),
    "machine.reservation": job(machine("a4x-highgpu-4g", "NVIDIA_GB200", 4)),
    "tpu.topology": job(machine("ct5lp-hightpu-1t")),
    "tpu.accelerator": job(machine("ct5lp-hightpu-4t", "TPU_V3", 8, tpuTopology="2x2")),
    "tpu.one-pool": job(V5E, V5E),
    "tpu.one-replica": job(POOL, times(V5E, 2)),
    "tpu.spot": scheduled(machine("ct5lp-hightpu-4t", tpuTopology="4x4"), strategy="SPOT"),
    "region.unknown": job(),
    "region.accelerator": job(L4),
    "scheduling.flex-accelerator": scheduled(strategy="FLEX_START"),
    "scheduling.flex-same-machine": job(A100, L4, scheduling={"strategy": "FLEX_START"}),
    "scheduling.flex-timeout": scheduled(L4, strategy="FLEX_START", timeout="604801s"),
    "scheduling.flex-reservation": scheduled(
        machine("g2-standard-12", "NVIDIA_L4", 1, reservationAffinity=RESERVED), strategy="FLEX_START"
    ),
    "reduction.position": job(A100, times(A100, 3), {}, REDUCER),
    "reduction.image": reducer(containerSpec={"imageUri": "us-docker.pkg.dev/p/r/reduction-server:1"}),
    "network.form": job(network="default"),
    "network.project-number": job(network="projects/p/global/networks/n"),
    "network.ranges": job(network=NETWORK, reservedIpRanges=["10.0.0.0/8"]),
    "network.peering": job(RDMA, network=NETWORK),
    "network.attachment": job(pscInterfaceConfig={"networkAttachment": "a/b"}),
    "network.dns": job(
        pscInterfaceConfig={
            "networkAttachment": "n",
            "dnsPeeringConfigs": [{"domain": "a.b", "targetProject": "p", "targetNetwork": "n"}],
        }
    ),
    "access.service-account": job(serviceAccount="projects/-/serviceAccounts/" + ACCOUNT),
    "output.form": job(baseOutputDirectory={"outputUriPrefix": "/gcs/bucket/x"}),
    "output.bucket": job(baseOutputDirectory={"outputUriPrefix": "gs://My_Bucket/x"}),
    "output.tensorboard": job(tensorboard="t", serviceAccount=ACCOUNT),
    "output.tensorboard-account": job(tensorboard=BOARD),
    "output.experiment": job(experiment="e"),
    "mounts.fields": job(
        {**POOL, "nfsMounts": [{"server": "10.0.0.2", "path": "x", "mountPoint": "m"}]}, network=NETWORK
    ),
    "tuning.required": tuned(trials=0),
    "tuning.metric": tuned(metrics=[{"metricId": "loss"}]),
    "tuning.parameter-id": tuned({**LR, "parameterId": "learning rate"}),
    "tuning.values": tuned({"parameterId": "lr", "doubleValueSpec": {"minValue": 2, "maxValue": 1}}),
    "tuning.scale": tuned({**KIND, "scaleType": "UNIT_LINEAR_SCALE"}),
    "tuning.grid": tuned(algorithm="GRID_SEARCH"),
    "tuning.default": tuned({**KIND, "categoricalValueSpec": {"values": ["a"], "defaultValue": "a"}}),
    "tuning.condition": tuned(under(KIND, "parentIntValues", [1], DEPTH)),
    "reservation.specific": job(machine("n1-standard-4", reservationAffinity={**RESERVED, "key": "k"})),
    "persistent.id": job(persistentResourceId="projects/1/locations/r/persistentResources/mine"),
    "persistent.local": LOCAL[0][1],
    "persistent.conflict": job(
        machine("n1-standard-4", reservationAffinity=RESERVED), persistentResourceId="r"
    ),
}
BESIDE = {
    # A pool of TPUs after the first is a second pool, and its machine's number is said as well.
    "tpu.one-replica": {"tpu.one-pool"},
}
REFUSAL = re.compile(r"https://[^ ]+|gcloud 578\.0\.0 [\w/]+\.py|vxtui emulator")


def errors(rule: str, raw: Job) -> list[Finding]:
    region = {"region.unknown": "us-centrl1", "region.accelerator": WEST}.get(rule, "us-central1")
    found = check_job(Case(raw, region, local=rule == "persistent.local"))
    return [f for f in found if f.severity is ProblemSeverity.ERROR]


def test_every_error_has_an_example() -> None:
    assert EXAMPLES.keys() == ERRORS.keys()


@pytest.mark.parametrize("rule", sorted(ERRORS))
def test_an_error_is_somebodys_documented_refusal(rule: str) -> None:
    assert REFUSAL.fullmatch(ERRORS[rule].source), ERRORS[rule].source
    found = errors(rule, EXAMPLES[rule])
    assert {f.rule for f in found} - BESIDE.get(rule, set()) == {rule}, found
    for finding in found:
        assert finding.fix and finding.source == ERRORS[finding.rule].source
    fixed = EXAMPLES[rule]
    for finding in found:
        fixed = edited(fixed, finding.edits)
    if all(finding.edits for finding in found):
        assert errors(rule if rule != "region.unknown" else "", fixed) == []


def test_what_only_the_emulator_refuses_is_an_error_there_alone() -> None:
    for raw in (job(POOL, times(POOL, 0)), scheduled(timeout="0s"), scheduled(maxWaitDuration="-1s")):
        assert [f for f in check_job(Case(raw, "us-central1")) if f.severity is ProblemSeverity.ERROR] == []
        assert [f for f in check_job(Case(raw, "", local=True)) if f.severity is ProblemSeverity.ERROR]
