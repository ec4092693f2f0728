"""Server-side validation: each rule by one bad job, and good jobs pass."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import custom_job
from google.protobuf import json_format

from tui.domain.vertex.catalog import machines
from tui.emulator.vertex.validate import job_problems

POOL: dict[str, Any] = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": "1",
    "containerSpec": {"imageUri": "europe-docker.pkg.dev/p/r/i:t"},
}
L4 = {"machineType": "g2-standard-12", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 1}
SPEC = "job_spec"


def job(**changes: Any) -> dict[str, Any]:
    base = {"displayName": "x", "jobSpec": {"workerPoolSpecs": [copy.deepcopy(POOL)]}}
    base["jobSpec"] |= changes.pop("spec", {})  # type: ignore[operator]
    return base | changes


def pool(**changes: Any) -> dict[str, Any]:
    return job(spec={"workerPoolSpecs": [{**POOL, **changes}]})


def machine(**spec: Any) -> dict[str, Any]:
    return pool(machineSpec=spec)


def problems(raw: dict[str, Any], location: str = "us-central1") -> dict[str, str]:
    pb = json_format.ParseDict(raw, custom_job.CustomJob.pb()())
    return dict(job_problems(pb, location))


GOOD = {
    "one pool": job(),
    "skipped position": job(spec={"workerPoolSpecs": [POOL, {}, {**POOL, "replicaCount": 2}]}),
    "attached T4": machine(machineType="n1-standard-8", acceleratorType="NVIDIA_TESLA_T4",
                            acceleratorCount=2),
    "A100": machine(machineType="a2-highgpu-4g", acceleratorType="NVIDIA_TESLA_A100", acceleratorCount=4),
    "TPU v5e": machine(machineType="ct5lp-hightpu-4t", tpuTopology="2x2"),
    "TPU v3": machine(machineType="cloud-tpu", acceleratorType="TPU_V3", acceleratorCount=8),
    "disk": pool(diskSpec={"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100}),
    "labels": job(labels={"team": "nlp", "größe": "1_a-b"}),
    "flex": job(spec={"workerPoolSpecs": [{**POOL, "machineSpec": L4}],
                      "scheduling": {"strategy": "FLEX_START", "timeout": "604800s"}}),
    "network": job(spec={"network": "projects/12345/global/networks/default",
                         "reservedIpRanges": ["vertex-ai-ip-range"]}),
    "tensorboard": job(spec={"tensorboard": "projects/1/locations/us-central1/tensorboards/2",
                             "serviceAccount": "a@p.iam.gserviceaccount.com"}),
    "python package": job(spec={"workerPoolSpecs": [{
        "machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1,
        "pythonPackageSpec": {"executorImageUri": "i", "packageUris": ["gs://b/p.tar.gz"],
                              "pythonModule": "m"}}]}),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_good_jobs_pass(name: str) -> None:
    assert problems(GOOD[name]) == {}


P0 = f"{SPEC}.worker_pool_specs[0]"
BAD = [
    (job(displayName=""), "custom_job.display_name", "required"),
    (job(displayName="x" * 129), "custom_job.display_name", "129"),
    (job(labels={"Team": "x"}), "custom_job.labels", "lowercase"),
    (job(labels={"team": "a b"}), "custom_job.labels", "dashes and underscores"),
    (job(labels={"_team": "a"}), "custom_job.labels", "must start with a letter or number"),
    (job(labels={"team": "x" * 64}), "custom_job.labels", "less than 64 characters"),
    (job(labels={"team": "界" * 43}), "custom_job.labels", "128 bytes"),
    (job(labels={f"l{n}": "" for n in range(65)}), "custom_job.labels", "no more than 64 labels"),
    (job(encryptionSpec={"kmsKeyName": "projects/p/locations/eu/keyRings/r/cryptoKeys/k"}),
     "custom_job.encryption_spec.kms_key_name", "us-central1"),
    (job(jobSpec={}), f"{SPEC}.worker_pool_specs", "required"),
    (job(spec={"workerPoolSpecs": [POOL] * 5}), f"{SPEC}.worker_pool_specs", "5 pools"),
    (job(spec={"workerPoolSpecs": [{}, POOL]}), P0, "skipped"),
    (pool(replicaCount=2), f"{P0}.replica_count", "must be 1"),
    (job(spec={"workerPoolSpecs": [POOL, {**POOL, "replicaCount": 0}]}),
     f"{SPEC}.worker_pool_specs[1].replica_count", "at least 1"),
    (machine(), f"{P0}.machine_spec.machine_type", "required"),
    (machine(machineType="n9-standard-4"), f"{P0}.machine_spec.machine_type", "n1-standard-4"),
    (machine(machineType="g2-standard-12"), f"{P0}.machine_spec.accelerator_type", "NVIDIA_L4"),
    (machine(machineType="a2-highgpu-1g", acceleratorType="NVIDIA_TESLA_A100", acceleratorCount=2),
     f"{P0}.machine_spec.accelerator_count", "use 1"),
    (machine(machineType="e2-standard-4", acceleratorType="NVIDIA_TESLA_T4", acceleratorCount=1),
     f"{P0}.machine_spec.accelerator_type", "takes none"),
    (machine(machineType="n1-standard-4", acceleratorType="NVIDIA_TESLA_T4"),
     f"{P0}.machine_spec.accelerator_type", "specified or none"),
    (machine(machineType="n1-standard-4", acceleratorCount=1),
     f"{P0}.machine_spec.accelerator_type", "specified or none"),
    (machine(machineType="n1-standard-4", acceleratorType=77, acceleratorCount=1),
     f"{P0}.machine_spec.accelerator_type", "77"),
    (machine(machineType="ct5lp-hightpu-4t", tpuTopology="3x3"), f"{P0}.machine_spec.tpu_topology", "2x2"),
    (machine(machineType="n1-standard-4", tpuTopology="2x2"), f"{P0}.machine_spec.tpu_topology", "no TPU"),
    (machine(machineType="cloud-tpu", acceleratorType="TPU_V3", acceleratorCount=9),
     f"{P0}.machine_spec.accelerator_count", "8"),
    (pool(diskSpec={"bootDiskType": "pd-balanced"}), f"{P0}.disk_spec.boot_disk_type", "pd-ssd"),
    (pool(diskSpec={"bootDiskSizeGb": 50}), f"{P0}.disk_spec.boot_disk_size_gb", "100"),
    (job(spec={"workerPoolSpecs": [{"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}]}),
     f"{P0}.container_spec", "python_package_spec"),
    (pool(containerSpec={}), f"{P0}.container_spec.image_uri", "required"),
    (pool(containerSpec={"imageUri": "a b"}), f"{P0}.container_spec.image_uri", "white space"),
    (pool(containerSpec={"imageUri": "i", "env": [{"name": "1X", "value": ""}]}),
     f"{P0}.container_spec.env[0].name", "C identifier"),
    (pool(containerSpec={"imageUri": "i", "env": [{"name": f"A{i}"} for i in range(101)]}),
     f"{P0}.container_spec.env", "101"),
    (pool(containerSpec={"imageUri": "i", "args": ["x" * 60_000] * 2}),
     f"{P0}.container_spec.args", "120000"),
    (pool(nfsMounts=[{"path": "rel", "server": "10.0.0.1", "mountPoint": "m"}]),
     f"{P0}.nfs_mounts[0].path", "absolute"),
    (job(spec={"scheduling": {"timeout": "0s"}}), f"{SPEC}.scheduling.timeout", "more than 0"),
    (job(spec={"scheduling": {"maxWaitDuration": "-60s"}}),
     f"{SPEC}.scheduling.max_wait_duration", "negative"),
    (job(spec={"scheduling": {"strategy": 5}}), f"{SPEC}.scheduling.strategy", "5"),
    (job(spec={"scheduling": {"strategy": "FLEX_START"}}),
     f"{P0}.machine_spec.accelerator_type", "FLEX_START"),
    (job(spec={"workerPoolSpecs": [{**POOL, "machineSpec": L4}, POOL],
               "scheduling": {"strategy": "FLEX_START"}}),
     f"{SPEC}.worker_pool_specs[1].machine_spec", "same machine"),
    (job(spec={"workerPoolSpecs": [{**POOL, "machineSpec": L4}],
               "scheduling": {"strategy": "FLEX_START", "timeout": "604801s"}}),
     f"{SPEC}.scheduling.timeout", "7 days"),
    (job(spec={"workerPoolSpecs": [{**POOL, "machineSpec": {"machineType": "ct5lp-hightpu-4t",
                                                            "tpuTopology": "4x4"}}],
               "scheduling": {"strategy": "SPOT"}}), f"{SPEC}.scheduling.strategy", "TPU pod"),
    (job(spec={"tensorboard": "projects/1/locations/us-central1/tensorboards/2"}),
     f"{SPEC}.service_account", "tensorboard"),
    (job(spec={"network": "projects/my-project/global/networks/default"}), f"{SPEC}.network", "number"),
    (job(spec={"reservedIpRanges": ["10.0.0.0/8"]}), f"{SPEC}.reserved_ip_ranges[0]", "CIDR"),
    (job(spec={"baseOutputDirectory": {"outputUriPrefix": "/tmp"}}),
     f"{SPEC}.base_output_directory.output_uri_prefix", "gs://"),
    (job(spec={"experiment": "mine"}), f"{SPEC}.experiment", "metadataStores"),
    (job(spec={"pscInterfaceConfig": {"networkAttachment": "a/b"}}),
     f"{SPEC}.psc_interface_config.network_attachment", "networkAttachments"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "field", "words"), BAD, ids=[f"{f}: {w}" for _, f, w in BAD])
def test_a_bad_job_is_refused_by_field(raw: dict[str, Any], field: str, words: str) -> None:
    found = problems(raw)
    assert words in found.get(field, ""), found


def test_all_problems_come_at_once() -> None:
    raw = job(displayName="", spec={"workerPoolSpecs": [{**POOL, "machineSpec": {"machineType": "nope"}}]})
    assert set(problems(raw)) == {"custom_job.display_name", f"{P0}.machine_spec.machine_type"}


@pytest.mark.parametrize("name", sorted(machines()))
def test_every_known_machine_can_be_asked_for(name: str) -> None:
    kind = machines()[name]
    spec: dict[str, Any] = {"machineType": name}
    if kind.tpu_topologies:
        spec["tpuTopology"] = kind.tpu_topologies[0]
    elif name == "cloud-tpu":
        spec |= {"acceleratorType": "TPU_V2", "acceleratorCount": 8}
    elif kind.accelerators:
        spec |= {"acceleratorType": kind.accelerators[0][0], "acceleratorCount": kind.accelerators[0][1][0]}
    assert problems(machine(**spec)) == {}
