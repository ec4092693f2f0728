"""Wrong claims that go round about custom jobs (docs/facts/vertex.md 14), each with the rule that catches
it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tui.domain.document.source import ProblemSeverity
from tui.domain.profile import Problem, inspect
from tui.domain.profile.autofix import apply_fixes, fixable

READY = sorted((Path(__file__).parents[2] / "profiles").glob("*.yaml"))

N1 = "machineSpec: {machineType: n1-standard-16}\n  replicaCount: 1"
A100 = "machineSpec: {machineType: a2-highgpu-8g, acceleratorType: NVIDIA_TESLA_A100, acceleratorCount: 8}"
IMAGE = "containerSpec: {imageUri: us-docker.pkg.dev/p/r/i:t"


def pool(machine: str = N1, more: str = "") -> str:
    return f"workerPoolSpecs:\n- {machine}\n  {IMAGE}{more}}}\n"


def args(text: str) -> str:
    return pool(more=f", args: ['{text}']")


def env(name: str, value: str) -> str:
    return pool(more=f", env: [{{name: {name}, value: '{value}'}}]")


def gpu(kind: str, machine: str = "n1-standard-8", count: int = 1) -> str:
    spec = f"{{machineType: {machine}, acceleratorType: {kind}, acceleratorCount: {count}}}"
    return pool(f"machineSpec: {spec}\n  replicaCount: 1")


def machine(name: str) -> str:
    return pool(f"machineSpec: {{machineType: {name}}}\n  replicaCount: 1")


def disk(kind: str) -> str:
    return pool(f"{N1}\n  diskSpec: {{bootDiskType: {kind}}}")


REDUCERS = f"""\
workerPoolSpecs:
- {A100}
  replicaCount: 4
  {IMAGE}}}
  reductionServerSpec:
    replicaCount: 2
    containerSpec: {{imageUri: "gcr.io/deeplearning-platform-release/reduction-server:latest"}}
"""
TWO_NODES = (
    f"workerPoolSpecs:\n- {A100}\n  replicaCount: 1\n  {IMAGE}}}\n- {A100}\n  replicaCount: 3\n  {IMAGE}}}\n"
)
THIRD = "- machineSpec: {machineType: n1-highcpu-16}\n  replicaCount: 2\n  containerSpec: {imageUri: "
RESTART = "scheduling: {timeout: 86400s, restartJobOnWorkerRestart: true}\n"
STUDY = "studySpec: {metrics: [], maxTrialCount: 20, parallelTrialCount: 4}\ntrialJobSpec: {}\n"

CLAIMS = [
    # 14.1
    ("a reductionServerSpec inside a pool", REDUCERS, "misnomer.reduction-server"),
    ("its image, inside", REDUCERS, "reduction.image"),
    ("two reducers for 4 × 100 Gbps, inside", REDUCERS, "reduction.sizing"),
    ("four replicas in the only pool", REDUCERS, "shape.primary"),
    ("the image in the third pool",
     TWO_NODES + THIRD + "gcr.io/deeplearning-platform-release/reduction-server}\n", "reduction.image"),
    ("two reducers in the third pool",
     TWO_NODES + THIRD + "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest}\n",
     "reduction.sizing"),
    ("a rank by CLOUD_ML_HP_TUNING_RANK", args("--rank=$(CLOUD_ML_HP_TUNING_RANK)"),
     "runtime.no-such-variable"),
    ("the same in a script",
     pool(more=""", command: [python, -c, "os.environ['CLOUD_ML_HP_TUNING_RANK']"]"""),
     "runtime.no-such-variable"),
    ("the number of nodes by its sister", env("CLOUD_ML_HP_TUNING_WORLD_SIZE", "4"),
     "runtime.no-such-variable"),
    ("LOCAL_RANK given by the service", args("--local-rank=$LOCAL_RANK"), "runtime.local-rank"),
    ("MASTER_PORT 23456", env("MASTER_PORT", "23456"), "runtime.master-port"),
    ("ten worker pools", "workerPoolSpecs:\n" + f"- {N1}\n  {IMAGE}}}\n" * 10, "shape.pools"),
    ("1,000 replicas", TWO_NODES.replace("replicaCount: 3", "replicaCount: 1000"), "shape.replica-limit"),
    ("a wrapper around the config", "displayName: x\njobSpec:\n" + textwrap.indent(pool(), "  "), None),
    ("Spot by a restart flag", pool() + RESTART, "scheduling.restart-is-not-spot"),
    ("a resume by a restart flag", pool() + RESTART.replace("{", "{strategy: SPOT, "),
     "scheduling.restart-on-spot"),
    ("trial counts in the studySpec", STUDY, "misnomer.trial-counts"),
    ("a tuning job's file", STUDY, "misnomer.tuning-job"),
    ("a CIDR as a range", pool() + "network: projects/1/global/networks/n\nreservedIpRanges: [10.0.0.0/8]\n",
     "network.ranges"),
    ("a network by the project's id", pool() + "network: projects/my-project/global/networks/n\n",
     "network.project-number"),
    ("a quota's name as a GPU", gpu("NVIDIA_T4_GPUS"), "misnomer.accelerator-name"),
    ("80 GB by NVIDIA_TESLA_A100", gpu("NVIDIA_TESLA_A100", "a2-ultragpu-8g", 8), "machine.a100-memory"),
    ("TPU_V4", gpu("TPU_V4"), "misnomer.accelerator-name"),
    ("K80", gpu("NVIDIA_TESLA_K80"), "machine.not-offered"),
    ("a2-highgpu with 16 GPUs", gpu("NVIDIA_TESLA_A100", "a2-highgpu-16g", 16), "machine.type"),
    ("n1-standard from 1", machine("n1-standard-1"), "machine.type"),
    ("n1-highcpu from 2", machine("n1-highcpu-2"), "machine.type"),
    ("a training data URI in a custom job", args("--data=$AIP_TRAINING_DATA_URI"),
     "runtime.dataset-variable"),
    ("DDP by plain python",
     gpu("NVIDIA_L4", "g2-standard-24", 2).replace("i:t", "pytorch:t, command: [python, train.py]"),
     "runtime.one-process"),
    ("gcr.io", pool().replace("us-docker.pkg.dev/p/r/i:t", "gcr.io/p/i:v1"), "image.registry"),
    # 14.2
    ("a persistent disk", pool(f"{N1}\n  persistentDiskSpec: {{diskSizeGb: 100}}"), "misnomer.disk"),
    ("its mount", args("--save=/mnt/disks/training_data"), "runtime.persistent-disk"),
    ("pd-balanced", disk("pd-balanced"), "machine.disk-type"),
    ("pd-extreme", disk("pd-extreme"), "machine.disk-type"),
    # 14.5 and 14.6
    ("a pipeline's field", "displayName: x\ntrainingTaskInputs:\n" + textwrap.indent(pool(), "  "),
     "misnomer.pipeline-field"),
    ("an image long gone",
     pool(f"{N1}\n  pythonPackageSpec: {{pythonModule: m, packageUris: ['gs://b/p'], executorImageUri: "
          "'us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-1:latest'}").replace(f"\n  {IMAGE}}}", ""),
     "package.prebuilt"),
    ("NVIDIA_H100", gpu("NVIDIA_H100", "a3-highgpu-8g", 8), "misnomer.accelerator-name"),
    ("NVIDIA_H200", gpu("NVIDIA_H200", "a3-ultragpu-8g", 8), "misnomer.accelerator-name"),
    ("NCCL_PLUGIN_P2P", env("NCCL_PLUGIN_P2P", "ib"), "runtime.nccl"),
]  # fmt: skip


def problems(text: str) -> list[Problem]:
    return inspect(text, "f.yaml", "f")


@pytest.mark.parametrize(
    ("text", "rule"), [c[1:] for c in CLAIMS if c[2]], ids=[c[0] for c in CLAIMS if c[2]]
)
def test_each_claim_is_caught_by_its_rule_with_a_fix(text: str, rule: str) -> None:
    found = [p for p in problems(text) if p.id == rule]
    assert found, [str(p) for p in problems(text)]
    assert all(
        p.message and p.fix and p.source.startswith(("docs/facts/vertex.md", "https:", "gcloud ")) and p.line
        for p in found
    )


@pytest.mark.parametrize("path", READY, ids=lambda p: p.stem)
@pytest.mark.parametrize("local", [False, True], ids=["cloud", "local"])
def test_ready_made_profiles_have_no_problem(path: Path, local: bool) -> None:
    text = path.read_text(encoding="utf-8")
    assert [str(p) for p in inspect(text, str(path), path.stem, region="us-central1", local=local)] == []


def test_the_reduction_servers_example_is_fixed_to_what_it_meant() -> None:
    found = apply_fixes(REDUCERS, "f.yaml", "f")
    assert {p.id for p in found.fixed} == {"misnomer.reduction-server", "reduction.sizing", "shape.primary"}
    assert found.remaining == ()
    assert found.text.count("a2-highgpu-8g") == 2 and "replicaCount: 3" in found.text
    assert "replicaCount: 13" in found.text and "vertex-ai-restricted" in found.text


@pytest.mark.parametrize("text", [c[1] for c in CLAIMS], ids=[c[0] for c in CLAIMS])
def test_mending_ends_and_leaves_nothing_that_could_be_mended(text: str) -> None:
    before = problems(text)
    found = apply_fixes(text, "f.yaml", "f")
    assert not any(map(fixable, found.remaining)), [str(p) for p in found.remaining]
    errors = [sum(p.severity is ProblemSeverity.ERROR for p in ps) for ps in (found.remaining, before)]
    assert errors[0] <= errors[1]
    assert bool(found.fixed) == (found.text != text)
    assert apply_fixes(found.text, "f.yaml", "f").text == found.text


def test_a_mend_that_changes_nothing_is_given_up() -> None:
    """The value comes from --set, so that a new default does not take the problem away."""
    spec = textwrap.indent(disk('"${d}"'), "  ")
    text = f"displayName: x\nparameters: {{d: pd-ssd}}\njobSpec:\n{spec}"
    found = apply_fixes(text, "f.yaml", "f", {"d": "pd-extreme"})
    assert found.fixed == () and found.text == text
    assert [p.id for p in found.remaining] == ["machine.disk-type"]
