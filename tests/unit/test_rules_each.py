"""Every rule by a job that breaks it, and good jobs that none of them speaks of."""

from __future__ import annotations

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
    LOSS,
    LR,
    NETWORK,
    POOL,
    RDMA,
    REDUCER,
    RESERVED,
    V5E,
    WEST,
    Job,
    container,
    env,
    found,
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
from tui.domain.spec.findings import Case
from tui.domain.vertex.rules import RULES, check_job
from tui.domain.vertex.rules.misnomers import misnomer

MEGA = machine("a3-megagpu-8g", "NVIDIA_H100_MEGA_80GB", 8)
V3 = machine("cloud-tpu", "TPU_V3", 8)
REDUCED = job(A100, times(A100, 3), REDUCER)


CASES: list[tuple[str, Job]] = [
    ("tuning.required", tuned(trials=0)),
    ("tuning.required", tuned(metrics=[])),
    ("tuning.required", tuned(parameters=[])),
    ("tuning.metric", tuned(metrics=[{"metricId": "loss"}])),
    ("tuning.metric", tuned(metrics=[{"goal": "MINIMIZE"}])),
    ("tuning.one-metric", tuned(metrics=[LOSS, {"metricId": "acc", "goal": "MAXIMIZE"}])),
    ("tuning.at-once", tuned(trials=4, parallel=8)),
    ("tuning.at-once", tuned(trials=4, parallel=4)),
    ("tuning.parameter-id", tuned({**LR, "parameterId": "learning rate"})),
    ("tuning.parameter-id", tuned(LR, under(KIND, "parentCategoricalValues", ["a"], LR))),
    ("tuning.values", tuned({"parameterId": "lr"})),
    ("tuning.values", tuned({**LR, **DEPTH, "parameterId": "lr"})),
    ("tuning.values", tuned({"parameterId": "lr", "doubleValueSpec": {"minValue": 1}})),
    ("tuning.values", tuned({"parameterId": "lr", "doubleValueSpec": {"minValue": 2, "maxValue": 1}})),
    ("tuning.values", tuned({"parameterId": "b", "discreteValueSpec": {"values": [8, 4]}})),
    ("tuning.values", tuned({"parameterId": "b", "categoricalValueSpec": {}})),
    ("tuning.scale", tuned({**KIND, "scaleType": "UNIT_LINEAR_SCALE"})),
    ("tuning.scale",
     tuned({**LR, "doubleValueSpec": {"minValue": 0, "maxValue": 1}, "scaleType": "UNIT_LOG_SCALE"})),
    ("tuning.grid", tuned(algorithm="GRID_SEARCH")),
    ("tuning.default", tuned({**KIND, "categoricalValueSpec": {"values": ["a"], "defaultValue": "a"}})),
    ("tuning.condition", tuned(under(KIND, "parentIntValues", [1], LR))),
    ("tuning.condition", tuned({**KIND, "conditionalParameterSpecs": [{"parameterSpec": LR}]})),
    ("shape.display-name", {**job(), "displayName": ""}),
    ("shape.display-name", {**job(), "displayName": "é" * 129}),
    ("shape.labels", {**job(), "labels": {"Team": "a"}}),
    ("shape.labels", {**job(), "labels": {"team": "a b"}}),
    ("shape.labels", {**job(), "labels": {"team": "a" * 65}}),
    ("shape.label-count", {**job(), "labels": {f"k{i}": "" for i in range(65)}}),
    ("shape.encryption", {**job(), "encryptionSpec": {"kmsKeyName": "k"}}),
    ("shape.encryption",
     {**job(), "encryptionSpec": {"kmsKeyName": "projects/p/locations/eu/keyRings/r/cryptoKeys/k"}}),
    ("shape.pools", {"displayName": "x", "jobSpec": {}}),
    ("shape.pools", job(*[POOL] * 5)),
    ("shape.trailing-pool", job(POOL, {})),
    ("shape.primary", job({}, POOL)),
    ("shape.primary", job(times(POOL, 4))),
    ("shape.primary", job({k: v for k, v in POOL.items() if k != "replicaCount"})),
    ("shape.replicas", job(POOL, times(POOL, 0))),
    ("shape.replica-limit", job(POOL, times(POOL, 1000))),
    ("shape.task", job({k: v for k, v in POOL.items() if k != "containerSpec"})),
    ("shape.task", job({**POOL, **package()})),
    ("shape.environment", job(env("1A"))),
    ("shape.environment", job(container(env=[{"name": f"A{i}", "value": ""} for i in range(101)]))),
    ("shape.environment-twice", job(container(env=[{"name": "A", "value": ""}] * 2))),
    ("shape.arguments", job(container(args=["x" * 50_001] * 2))),
    ("image.missing", job({**POOL, "containerSpec": {"imageUri": ""}})),
    ("image.form", job(container(imageUri="https://us-docker.pkg.dev/p/r/i"))),
    ("image.form", job(container(imageUri="us-docker.pkg.dev/p/r/i "))),
    ("image.reference", job(container(imageUri="us-docker.pkg.dev/p/r/i::1"))),
    ("placeholder.name", job(container(imageUri="us-docker.pkg.dev/<project>/r/i"))),
    ("placeholder.example", job(container(imageUri="us-docker.pkg.dev/your-project/r/i"))),
    ("placeholder.value", job(container(args=["--data=gs://<bucket>/x"]))),
    ("image.registry", job(container(imageUri="eu.gcr.io/p/i"))),
    ("image.command", job(container(command=["python -m train"]))),
    ("image.empty-argument", job(container(args=["--a", ""]))),
    ("package.fields", job(package(pythonModule=""))),
    ("package.uris", job(package(packageUris=["./p.tar.gz"]))),
    ("package.uris", job(package(packageUris=["gs://b/p"] * 101))),
    ("package.executor", job(package(executorImageUri="python:3.11"))),
    ("package.prebuilt", job(package())),
    ("machine.type", job(machine(""))),
    ("machine.type", job(machine("n1-standard-2"))),
    ("machine.not-offered", job(machine("n1-standard-8", "NVIDIA_TESLA_K80", 1))),
    ("machine.a100-memory", job(machine("a2-ultragpu-8g", "NVIDIA_TESLA_A100", 8))),
    ("machine.accelerator", job(machine("a2-highgpu-8g", "NVIDIA_TESLA_A100", 4))),
    ("machine.accelerator", job(machine("a2-highgpu-8g"))),
    ("machine.accelerator", job(machine("n2-standard-4", "NVIDIA_TESLA_T4", 1))),
    ("machine.accelerator", job(machine("n1-standard-32", "NVIDIA_TESLA_T4", 1))),
    ("machine.end-of-support", job(machine("n1-standard-8", "NVIDIA_TESLA_P100", 1))),
    ("machine.disk-type", job({**POOL, "diskSpec": {"bootDiskType": "pd-extreme"}})),
    ("machine.disk-size", job({**POOL, "diskSpec": {"bootDiskSizeGb": 99}})),
    ("machine.disk-size", job({**POOL, "diskSpec": {"bootDiskSizeGb": 64_001}})),
    ("machine.disk-family", job({**RDMA, "diskSpec": {"bootDiskType": "pd-ssd"}})),
    ("machine.small-h100", job(machine("a3-highgpu-1g", "NVIDIA_H100_80GB", 1))),
    ("machine.reservation", job(machine("a4x-highgpu-4g", "NVIDIA_GB200", 4))),
    ("machine.scarce", job(MEGA)),
    ("machine.partition", job(machine("n1-standard-4", gpuPartitionSize="1g.10gb"))),
    ("machine.fast-network",
     job(*[{**RDMA, "containerSpec": {"imageUri": "i", "command": ["torchrun", "t.py"]}}] * 2)),
    ("tpu.topology", job(machine("ct5lp-hightpu-4t"))),
    ("tpu.topology", job(machine("n1-standard-4", tpuTopology="2x2"))),
    ("tpu.accelerator", job(machine("ct5lp-hightpu-4t", "TPU_V3", 8, tpuTopology="2x2"))),
    ("tpu.accelerator", job(machine("cloud-tpu", "TPU_V3", 16))),
    ("tpu.accelerator", job(machine("cloud-tpu"))),
    ("tpu.one-pool", job(V5E, V5E)),
    ("tpu.one-replica", job(times(V5E, 2))),
    ("tpu.spot", scheduled(machine("ct5lp-hightpu-4t", tpuTopology="4x4"), strategy="SPOT")),
    ("tpu.spot", scheduled(machine("cloud-tpu", "TPU_V3", 32), strategy="SPOT")),
    ("region.elsewhere", job(tensorboard=BOARD.replace("us-central1", "us-east1"), serviceAccount=ACCOUNT)),
    ("scheduling.deprecated", scheduled(strategy="LOW_COST")),
    ("scheduling.timeout", scheduled(timeout="0s")),
    ("scheduling.long-timeout", scheduled(timeout="700000s")),
    ("scheduling.max-wait", scheduled(maxWaitDuration="60s")),
    ("scheduling.max-wait", scheduled(strategy="SPOT", maxWaitDuration="60s")),
    ("scheduling.negative-wait", scheduled(L4, strategy="FLEX_START", maxWaitDuration="-1s")),
    ("scheduling.restart-is-not-spot", scheduled(restartJobOnWorkerRestart=True)),
    ("scheduling.restart-on-spot", scheduled(strategy="SPOT", restartJobOnWorkerRestart=True)),
    ("scheduling.restart-overridden",
     scheduled(strategy="STANDARD", restartJobOnWorkerRestart=True, disableRetries=True)),
    ("scheduling.flex-accelerator", scheduled(strategy="FLEX_START")),
    ("scheduling.flex-same-machine", job(A100, REDUCER, scheduling={"strategy": "FLEX_START"})),
    ("scheduling.flex-timeout", scheduled(L4, strategy="FLEX_START", timeout="604801s")),
    ("scheduling.flex-reservation",
     scheduled(machine("n1-standard-4", reservationAffinity=RESERVED), strategy="FLEX_START")),
    ("spot.checkpoint", scheduled(strategy="SPOT")),
    ("spot.no-retries", scheduled(strategy="SPOT", disableRetries=True)),
    ("reduction.position", job(A100, times(A100, 3), {}, REDUCER)),
    ("reduction.position", job(A100, REDUCER)),
    ("reduction.image", reducer(containerSpec={"imageUri": "gcr.io/p/reduction-server"})),
    ("reduction.machine", reducer(machineSpec={"machineType": "e2-highcpu-16"})),
    ("reduction.accelerator",
     reducer(machineSpec={"machineType": "n1-highcpu-16", "acceleratorType": "NVIDIA_TESLA_T4",
                          "acceleratorCount": 1})),
    ("reduction.workers", job(A100, {}, REDUCER)),
    ("reduction.useless", job(MEGA, MEGA, REDUCER)),
    ("reduction.sizing", reducer(replicaCount=2)),
    ("reduction.command", reducer(containerSpec={**REDUCER["containerSpec"], "command": ["sh"]})),
    ("reduction.nccl-net",
     job({**A100, "containerSpec": env("NCCL_NET", "Socket")["containerSpec"]}, times(A100, 3), REDUCER)),
    ("reduction.sharded",
     job({**A100, "containerSpec": container(args=["--strategy=fsdp2"])["containerSpec"]}, A100, REDUCER)),
    ("runtime.no-such-variable", job(container(args=["--rank=$CLOUD_ML_HP_TUNING_RANK"]))),
    ("runtime.no-such-variable", job(env("CLOUD_ML_HP_TUNING_WORLD_SIZE"))),
    ("runtime.local-rank", job(env("LOCAL_RANK"))),
    ("runtime.set-by-vertex", job(env("WORLD_SIZE", "4"))),
    ("runtime.master-port", job(env("MASTER_PORT", "23456"))),
    ("runtime.dataset-variable", job(container(args=["$(AIP_TRAINING_DATA_URI)"]))),
    ("runtime.output-variable", job(container(args=["--out=${AIP_MODEL_DIR}"]))),
    ("runtime.persistent-disk", job(container(args=["/mnt/disks/data"]))),
    ("runtime.one-process",
     job({**A100, "containerSpec": {"imageUri": "pytorch-gpu:1", "command": ["python", "t.py"]}})),
    ("runtime.one-process",
     job({**A100, "containerSpec": {"imageUri": "i", "command": ["python", "torch_train.py"]}})),
    ("runtime.nccl", job(env("NCCL_PLUGIN_P2P", "ib"))),
    ("runtime.nccl", job({**A100, "containerSpec": env("NCCL_P2P_DISABLE")["containerSpec"]})),
    ("runtime.nccl", job({**RDMA, "containerSpec": env("NCCL_IB_DISABLE")["containerSpec"]})),
    ("runtime.mixed-workers", job(A100, L4)),
    ("secrets.environment", job(env("WANDB_API_KEY", "0123456789abcdef"))),
    ("secrets.arguments", job(container(args=["--hf-token=hf_abcdefghijklmnop"]))),
    ("network.form", job(network="default")),
    ("network.project-number", job(network="projects/p/global/networks/n")),
    ("network.ranges", job(network=NETWORK, reservedIpRanges=["10.0.0.0/8"])),
    ("network.ranges-alone", job(reservedIpRanges=["r"])),
    ("network.peering", job(RDMA, network=NETWORK)),
    ("network.attachment", job(pscInterfaceConfig={"networkAttachment": "a/b"})),
    ("network.dns", job(pscInterfaceConfig={"dnsPeeringConfigs": [{"domain": "a.b"}]})),
    ("network.dns-target", job(pscInterfaceConfig={"dnsPeeringConfigs": [{"domain": "a.b."}]})),
    ("network.both", job(network=NETWORK, pscInterfaceConfig={"networkAttachment": "n"})),
    ("access.service-account", job(serviceAccount="me")),
    ("access.member-prefix", job(serviceAccount=f"serviceAccount:{ACCOUNT}")),
    ("access.protected-location", job(protectedArtifactLocationId="us-central1")),
    ("output.form", job(baseOutputDirectory={"outputUriPrefix": "/gcs/bucket/x"})),
    ("output.form", job(baseOutputDirectory={})),
    ("output.bucket", job(baseOutputDirectory={"outputUriPrefix": "gs://My_Bucket/x"})),
    ("output.tensorboard", job(tensorboard="t", serviceAccount=ACCOUNT)),
    ("output.tensorboard-account", job(tensorboard=BOARD)),
    ("output.tensorboard-output", job(tensorboard=BOARD, serviceAccount=ACCOUNT)),
    ("output.experiment", job(experiment="e")),
    ("mounts.fields", job({**POOL, "nfsMounts": [{"server": "10.0.0.2", "path": "x", "mountPoint": "m"}]})),
    ("mounts.fields", job({**POOL, "lustreMounts": [{"instanceIp": "10.0.0.2"}]})),
    ("mounts.point", job({**POOL, "nfsMounts": [{"server": "s", "path": "/x", "mountPoint": "/mnt/nfs/m"}]})),
    ("mounts.network", job({**POOL, "nfsMounts": [{"server": "s", "path": "/x", "mountPoint": "m"}]})),
    ("reservation.specific", job(machine("n1-standard-4", reservationAffinity={**RESERVED, "key": "k"}))),
    ("reservation.specific", job(machine("n1-standard-4", reservationAffinity={**RESERVED, "values": []}))),
    ("reservation.region",
     job(machine("n1-standard-4", reservationAffinity={
         **RESERVED, "values": ["projects/p/zones/us-east1-b/reservations/r"]}))),
    ("reservation.names",
     job(machine("n1-standard-4", reservationAffinity={
         **RESERVED, "reservationAffinityType": "NO_RESERVATION"}))),
    ("persistent.id", job(persistentResourceId="projects/1/locations/r/persistentResources/mine")),
    ("persistent.conflict", job(machine("n1-standard-4", reservationAffinity=RESERVED),
                                persistentResourceId="r")),
    ("persistent.shape", job(L4, persistentResourceId="r", scheduling={"strategy": "FLEX_START"})),
    ("persistent.shape", job(machine(""), persistentResourceId="r")),
]  # fmt: skip
ELSEWHERE = [("region.unknown", "us-centrl1", job()), ("region.unknown", "us-central1-a", job()),
             ("region.accelerator", WEST, job(L4)), ("region.accelerator", WEST, job(V5E))]  # fmt: skip

GOOD: dict[str, Job] = {
    "one machine": job(),
    "reducers by the sizing": REDUCED,
    "a TPU": job(V5E),
    "TPU v3": job(V3),
    "flex-start": scheduled(L4, strategy="FLEX_START", timeout="604800s", maxWaitDuration="3600s"),
    "a network": job(network=NETWORK, reservedIpRanges=["vertex-ai-ip-range"]),
    "a study": tuned(LR, DEPTH, under(KIND, "parentCategoricalValues", ["a"], {**LR, "parameterId": "a-lr"})),
    "a grid": tuned(DEPTH, KIND, algorithm="GRID_SEARCH", parallel=8),
    "an interface": job(pscInterfaceConfig={
        "networkAttachment": "projects/p/regions/us-central1/networkAttachments/n",
        "dnsPeeringConfigs": [{"domain": "a.b.", "targetProject": "p", "targetNetwork": "n"}]}),
    "a TensorBoard": job(tensorboard=BOARD, serviceAccount=ACCOUNT,
                         baseOutputDirectory={"outputUriPrefix": "gs://my-bucket/x"}),
    "Spot that keeps its checkpoints": job(container(args=["--save=/gcs/bucket/x"]),
                                           scheduling={"strategy": "SPOT"}),
    "a skipped pool": job(POOL, {}, POOL),
    "a secret by its name": job(env("HF_TOKEN_SECRET", "projects/p/secrets/hf/versions/1")),
    "a key that is none": job(env("TOKENIZER", "gpt2")),
    "a reservation": job(machine("n1-standard-4", reservationAffinity=RESERVED)),
    "torchrun": job({**A100, "containerSpec": {
        "imageUri": "i", "command": ["torchrun"], "args": ["--nproc-per-node=8", "t.py"]}}),
    "one process of TensorFlow": job({**A100, "containerSpec": {
        "imageUri": "tf-gpu:1", "command": ["python", "train.py"]}}),
    "64 bits as text": job({**POOL, "replicaCount": "1"}),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "raw"), CASES, ids=[f"{r}-{i}" for i, (r, _) in enumerate(CASES)])
def test_each_rule_finds_what_it_is_for(rule: str, raw: Job) -> None:
    assert rule in found(raw)


@pytest.mark.parametrize(("rule", "region", "raw"), ELSEWHERE)
def test_regions_are_only_wrong_in_the_cloud(rule: str, region: str, raw: Job) -> None:
    assert rule in found(raw, region)
    assert rule not in found(raw, region, local=True) and rule not in found(raw, "")


@pytest.mark.parametrize(("rule", "raw"), LOCAL)
def test_what_only_the_emulator_lacks_is_wrong_there_alone(rule: str, raw: Job) -> None:
    assert rule in found(raw, local=True) and rule not in found(raw)


def test_there_is_a_job_for_every_rule() -> None:
    tried = {rule for rule, *_ in (*CASES, *LOCAL, *ELSEWHERE)}
    assert {rule.id for rule in RULES} == tried
    assert len({rule.id for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("local", [False, True])
def test_no_rule_speaks_of_a_good_job(name: str, local: bool) -> None:
    assert check_job(Case(GOOD[name], "us-central1", local)) == []


@pytest.mark.parametrize(("rule", "raw"), CASES, ids=[f"{r}-{i}" for i, (r, _) in enumerate(CASES)])
def test_a_mend_takes_its_problem_away_and_brings_no_error(rule: str, raw: Job) -> None:
    for finding in check_job(Case(raw, "us-central1")):
        if finding.edits:
            after = check_job(Case(edited(raw, finding.edits), "us-central1"))
            assert finding not in after
            errors = [
                sum(f.severity is ProblemSeverity.ERROR for f in fs)
                for fs in (after, check_job(Case(raw, "us-central1")))
            ]
            assert errors[0] <= errors[1], [f.sentence for f in after]


PLACE = ("jobSpec", "workerPoolSpecs", 0, "machineSpec", "acceleratorType")


@pytest.mark.parametrize(
    ("name", "machine_type", "right"),
    [
        ("NVIDIA_H100", "a3-highgpu-8g", "NVIDIA_H100_80GB"),
        ("NVIDIA_H100", "a3-megagpu-8g", "NVIDIA_H100_MEGA_80GB"),
        ("H100", "", None),
        ("A100", "a2-ultragpu-1g", "NVIDIA_A100_80GB"),
        ("nvidia-a100", "a2-highgpu-1g", "NVIDIA_TESLA_A100"),
        ("NVIDIA_A100", "", None),
        ("nvidia-tesla-t4", "n1-standard-8", "NVIDIA_TESLA_T4"),
        ("V100", "", "NVIDIA_TESLA_V100"),
        ("nvidia-l4", "", "NVIDIA_L4"),
        ("NVIDIA_TESLA_L4", "", "NVIDIA_L4"),
        ("NVIDIA_H200", "", "NVIDIA_H200_141GB"),
        ("nvidia-h100-80gb", "", "NVIDIA_H100_80GB"),
        ("B200", "", "NVIDIA_B200"),
        ("TPU_V4", "", None),
        ("TPU_V5E", "ct5lp-hightpu-4t", "REMOVED"),
    ],
)
def test_names_of_accelerators_that_do_not_exist(name: str, machine_type: str, right: str | None) -> None:
    root = job(machine(machine_type))
    finding = misnomer(PLACE, name, root)
    assert finding is not None and finding.rule == "misnomer.accelerator-name" and finding.fix
    assert (repr(finding.edits[0].value).strip("'") if finding.edits else None) == right


@pytest.mark.parametrize(
    ("place", "value", "rule", "right"),
    [
        (("workerPoolSpecs", 0, "machine-type"), "m", "misnomer.gcloud-key", ("machineSpec", "machineType")),
        (("workerPoolSpecs", 0, "machineType"), "m", "misnomer.misplaced", ("machineSpec", "machineType")),
        (
            ("workerPoolSpecs", 0, "container-image-uri"),
            "i",
            "misnomer.gcloud-key",
            ("containerSpec", "imageUri"),
        ),
        (("workerPoolSpecs", 0, "local-package-path"), ".", "misnomer.autopackaging", None),
        (("jobSpec", "displayName"), "x", "misnomer.misplaced", None),
        (("jobSpec", "strategy"), "SPOT", "misnomer.misplaced", None),
        (("jobSpec", "scheduling", "spot"), True, "misnomer.spot-flag", None),
        (("jobSpec", "enable-web-access"), True, "misnomer.gcloud-key", None),
        (("jobSpec", "baseOutputDirectory"), "gs://b", "misnomer.output-text", None),
        (
            ("jobSpec", "workerPoolSpecs", 0, "machineSpec", "minGpuDriverVersion"),
            1,
            "misnomer.beta-field",
            None,
        ),
    ],
)
def test_fields_that_do_not_exist(
    place: tuple[Any, ...], value: Any, rule: str, right: tuple[str, ...] | None
) -> None:
    finding = misnomer(place, value, {"workerPoolSpecs": [{}], "jobSpec": {}})
    assert finding is not None and finding.rule == rule
    if right:
        assert finding.edits[0].path[2:] == right


@pytest.mark.parametrize(
    ("argument", "secret"),
    [
        ("--db-password=hunter2", True),
        ("--hf-token=abc", True),
        ("--auth-key=0123456789abcdef01", True),
        ("postgres://me:hunter2@db/x", True),
        ("--pad-token=<pad>", False),
        ("--eos-token-id=50256", False),
        ("--sort-key=loss", False),
        ("--auth=none", False),
        ("--token=$HF_TOKEN", False),
        ("--token=projects/p/secrets/hf", False),
        ("--api-key-file=/secrets/key", False),
        ("--tokenizer=gpt2", False),
    ],
)
def test_secrets_are_told_from_words_of_training(argument: str, secret: bool) -> None:
    assert ("secrets.arguments" in found(job(container(args=[argument])))) is secret
    split = argument.split("=", 1)
    assert ("secrets.arguments" in found(job(container(args=split)))) is secret


def test_what_nobody_knows_is_left_to_the_field_check() -> None:
    assert misnomer(("jobSpec", "netwrok"), "x", {}) is None
    assert misnomer(PLACE, "NVIDIA_L5", job()) is None
