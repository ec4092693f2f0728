"""A job's resource turned into what to run: environments, paths, images, GPUs (docs/facts/vertex.md 3)."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.emulator.config import EmulatorConfig
from tui.emulator.interfaces import CustomJobPb, JobRecord, project_number
from tui.emulator.paths import StateDir
from tui.emulator.runner.exit_codes import ExitMeaning, from_wait_status, meaning
from tui.emulator.runner.plan import AttemptPlan, ReplicaPlan
from tui.emulator.runs import gpus
from tui.emulator.runs.environment import CannotRun, build_plan, expand, ports_needed, to_local_paths
from tui.emulator.runs.images import ProgramTable, container_torch_missing

REDUCER = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
RECORD = JobRecord("my-project", "us-central1", "7000000000000000001")


@pytest.fixture
def state() -> Iterator[StateDir]:
    with tempfile.TemporaryDirectory(prefix="vx") as root:
        made = StateDir(Path(root))
        made.prepare()
        yield made


def pool(
    replicas: int = 1, image: str = "python:3.11", accelerators: int = 0, **container: Any
) -> dict[str, Any]:
    machine = {"machineType": "n1-standard-4"}
    if accelerators:
        machine |= {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": accelerators}  # type: ignore[dict-item]
    spec = {"imageUri": image, "command": ["python3", "-c", "pass"], **container}
    return {"machineSpec": machine, "replicaCount": replicas, "containerSpec": spec}


def plan(
    state: StateDir, *pools: dict[str, Any], attempt: int = 1, config: Any = None, **spec: Any
) -> AttemptPlan:
    job = CustomJobPb()
    json_format.ParseDict({"displayName": "x", "jobSpec": {"workerPoolSpecs": list(pools), **spec}}, job)
    ports = range(20000, 20000 + ports_needed(job))
    home = state.attempt(RECORD.id, attempt)
    settings = EmulatorConfig.model_validate(config or {})
    return build_plan(job, RECORD, attempt, home, state, settings, ports)


def by_id(made: AttemptPlan) -> dict[str, ReplicaPlan]:
    return {replica.id: replica for replica in made.replicas}


def test_one_replica_is_told_of_nobody(state: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/secret")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    (only,) = plan(state, pool()).replicas
    spec = json.loads(only.env["CLUSTER_SPEC"])
    assert spec["cluster"] == {"workerpool0": ["127.0.0.1:20000"]} and spec["environment"] == "cloud"
    assert spec["task"] == {"type": "workerpool0", "index": 0}
    assert spec["open_ports"] == [3333]
    assert json.loads(spec["job"]) == {"python_module": "", "package_uris": [], "job_args": []}
    assert only.primary and only.argv == (sys.executable, "-c", "pass")
    absent = {"TF_CONFIG", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "AIP_MODEL_DIR"}
    assert not absent & set(only.env)
    assert "/secret" not in only.env.values() and only.env["STORAGE_EMULATOR_HOST"] == "http://127.0.0.1:1"
    assert (
        only.env["CLOUD_ML_PROJECT_ID"] == project_number(RECORD.project)
        and only.env["CLOUD_ML_JOB_ID"] == RECORD.id
    )
    assert only.env["HOME"] == only.workdir == str(state.attempt(RECORD.id, 1).workdir("workerpool0-0"))


def test_four_pools_know_their_places(state: StateDir) -> None:
    made = by_id(plan(state, pool(), pool(2), pool(2, REDUCER, command=[]), pool(1)))
    assert list(made) == [
        "workerpool0-0", "workerpool1-0", "workerpool1-1", "workerpool2-0", "workerpool2-1", "workerpool3-0",
    ]  # fmt: skip
    spec = json.loads(made["workerpool1-1"].env["CLUSTER_SPEC"])
    assert [len(hosts) for hosts in spec["cluster"].values()] == [1, 2, 2, 1]
    hosts = [host for hosts in spec["cluster"].values() for host in hosts]
    assert len(set(hosts)) == 6 and spec["task"] == {"type": "workerpool1", "index": 1}
    ranks = {
        i: (r.env.get("RANK"), r.env.get("WORLD_SIZE"), r.env.get("MASTER_PORT")) for i, r in made.items()
    }
    assert ranks["workerpool0-0"] == ("0", "3", "20006") and ranks["workerpool1-1"] == ("2", "3", "20006")
    assert ranks["workerpool2-0"] == ranks["workerpool3-0"] == (None, None, None)
    assert "127.0.0.1:20006" not in hosts
    tf = json.loads(made["workerpool3-0"].env["TF_CONFIG"])
    assert set(tf["cluster"]) == {"chief", "worker"} and tf["task"]["type"] == "evaluator"
    assert "TF_CONFIG" not in made["workerpool2-0"].env and tf["environment"] == "cloud"
    assert made["workerpool2-0"].argv[-1] == "tui.emulator.runs.reduction_placeholder"
    assert (
        len({r.env["HOSTNAME"] for r in made.values()}) == len({r.env["TMPDIR"] for r in made.values()}) == 6
    )


def test_a_skipped_pool_is_a_missing_key(state: StateDir) -> None:
    made = plan(state, pool(), {}, pool(1))
    cluster = json.loads(made.replicas[0].env["CLUSTER_SPEC"])["cluster"]
    assert set(cluster) == {"workerpool0", "workerpool2"}
    assert set(json.loads(made.replicas[0].env["TF_CONFIG"])["cluster"]) == {"chief", "ps"}


def test_the_host_name_outlives_a_restart_and_the_rest_does_not(state: StateDir) -> None:
    first, second = (plan(state, pool(), attempt=n).replicas[0] for n in (1, 2))
    assert first.env["HOSTNAME"] == second.env["HOSTNAME"]
    assert first.env["TMPDIR"] != second.env["TMPDIR"] and first.workdir != second.workdir


def test_output_directories(state: StateDir) -> None:
    base = {"outputUriPrefix": "gs://my-bucket/runs/1/"}
    env = plan(state, pool(), baseOutputDirectory=base).replicas[0].env
    assert env["AIP_MODEL_DIR"] == "gs://my-bucket/runs/1/model/"
    assert env["AIP_CHECKPOINT_DIR"] == "gs://my-bucket/runs/1/checkpoints/"
    assert env["AIP_TENSORBOARD_LOG_DIR"] == "gs://my-bucket/runs/1/logs/"
    assert (state.buckets / "my-bucket").is_dir() and env["VXTUI_GCS_ROOT"] == str(state.buckets)


def test_mounted_buckets_in_commands_arguments_and_variables(state: StateDir) -> None:
    container = {
        "command": ["sh", "-c", "cat /gcs/data/x > '/gcs/out/y'"],
        "args": ["--data=/gcs/data/train", "/mnt/gcs/other", "gs://data/x"],
        "env": [{"name": "DATA", "value": "/gcs/data"}],
    }
    (only,) = plan(state, pool(**container)).replicas
    root = str(state.buckets)
    assert only.argv == (
        "sh", "-c", f"cat {root}/data/x > '{root}/out/y'", f"--data={root}/data/train", "/mnt/gcs/other", "gs://data/x",
    )  # fmt: skip
    assert only.env["DATA"] == f"{root}/data"
    assert sorted(path.name for path in state.buckets.iterdir()) == ["data", "out"]
    assert to_local_paths("/gcs/../etc", state) == "/gcs/../etc"


def test_variables_refer_to_earlier_ones(state: StateDir) -> None:
    env = [
        {"name": "ID", "value": "job-$(CLOUD_ML_JOB_ID)"}, {"name": "RUN", "value": "$(ID)/$(LATER)/$$(ID)"},
        {"name": "LATER", "value": "x"},
    ]  # fmt: skip
    found = plan(state, pool(env=env)).replicas[0].env
    assert found["ID"] == f"job-{RECORD.id}" and found["RUN"] == f"job-{RECORD.id}/$(LATER)/$(ID)"


NAMES = st.sampled_from(["A", "B", "_C1"])
PIECES = st.one_of(
    st.tuples(st.just("name"), NAMES),
    st.tuples(st.just("unknown"), st.just("NOPE")),
    st.tuples(st.just("escaped"), NAMES),
    st.tuples(st.just("text"), st.text(alphabet="ab()AB{} ", max_size=5)),
)


@given(
    pieces=st.lists(PIECES, max_size=8),
    values=st.fixed_dictionaries({n: st.text() for n in ("A", "B", "_C1")}),
)
@settings(max_examples=200)
def test_references_are_expanded_once_and_escapes_kept(
    pieces: list[tuple[str, str]], values: dict[str, str]
) -> None:
    written = {"name": "$({})", "unknown": "$({})", "escaped": "$$({})", "text": "{}"}
    text = "".join(written[kind].replace("{}", word) for kind, word in pieces)
    meant = {"name": lambda w: values[w], "unknown": lambda w: f"$({w})", "escaped": lambda w: f"$({w})"}
    assert expand(text, values) == "".join(meant.get(kind, str)(word) for kind, word in pieces)


@given(st.text(alphabet="$)A x"))
@settings(max_examples=200)
def test_without_a_reference_only_double_dollars_change(text: str) -> None:
    assert expand(text, {"A": "no"}) == text.replace("$$", "$")
    assert expand(text + "$(A", {"A": "no"}).endswith("(A")


def test_a_value_is_not_expanded_again() -> None:
    assert expand("$(A)", {"A": "$(B)$$", "B": "no"}) == "$(B)$$"


def test_a_program_that_needs_torch_is_refused_where_torch_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    images = ProgramTable.of({})
    trainer, python = "us-docker.pkg.dev/vxtui/vxtui/trainer:latest", "python:3.11"
    assert images.program(trainer, ()) == "python -m trainer.task"
    # As after a failed import.
    monkeypatch.setitem(sys.modules, "torch", None)
    for image, command in ((trainer, ()), (python, ("python3", "-m", "torch.distributed.run", "a.py"))):
        with pytest.raises(CannotRun, match=r"needs torch, which .*pip install 'vxtui\[trainer\]'"):
            images.program(image, command)
    assert container_torch_missing(trainer, ()) is not None
    assert container_torch_missing(python, ()) is None
    assert images.program(python, ("python3", "-m", "json.tool")) == "the job's command python3"
    assert images.program(python, ()) == "python"


def test_images(state: StateDir) -> None:
    images = ProgramTable.of({"mine/*": ["python3", "-m", "mine"], "*/odd": ["/bin/odd"]})
    trainer = (sys.executable, "-m", "trainer.task")
    for image in ("eu-docker.pkg.dev/p/r/vxtui-trainer:1", "docker.io/vxtui/trainer"):
        assert images.argv(image, [], ["--x"]) == (*trainer, "--x")
    for image in ("python", "python:3.11-slim", "docker.io/library/python@sha256:0",
                  "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest"):  # fmt: skip
        assert images.argv(image, [], ["-V"]) == (sys.executable, "-V")
        assert images.argv(image, ["python"], ["-V"]) == (sys.executable, "-V")
    assert images.argv("mine/x:1", [], []) == (sys.executable, "-m", "mine")
    assert images.argv("a/odd", [], ["1"]) == ("/bin/odd", "1")
    assert images.argv("gcr.io/p/whatever", ["./run"], ["1"]) == ("./run", "1")
    with pytest.raises(CannotRun, match=r"gcr\.io/p/whatever can't run on this machine.*config\.yaml"):
        images.argv("gcr.io/p/whatever", [], ["1"])


def test_arguments_are_the_command_of_a_container_without_an_entry_point() -> None:
    images = ProgramTable.of({"mine/python:1": ["python3"]})
    for image in ("python:3.11", "docker.io/library/python"):
        assert images.container_argv(image, [], ["sleep", "60"]) == ("sleep", "60")
        assert images.container_argv(image, [], ["python3", "-V"]) == (sys.executable, "-V")
        assert images.container_argv(image, [], []) == (sys.executable,)
        assert images.container_argv(image, ["python"], ["-V"]) == (sys.executable, "-V")
    assert images.container_argv("mine/python:1", [], ["-V"]) == (sys.executable, "-V")
    trainer = (sys.executable, "-m", "trainer.task", "--x")
    assert images.container_argv("us-docker.pkg.dev/p/vxtui/trainer:1", [], ["--x"]) == trainer


def test_a_python_package(state: StateDir) -> None:
    package = {
        "packageUris": ["gs://staging/trainer.tar.gz"],
        "pythonModule": "my.task",
        "args": ["--n", "1"],
    }
    executor = {"executorImageUri": "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest"}
    found = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": 1,
        "pythonPackageSpec": executor | package,
    }
    with pytest.raises(CannotRun, match=r"gs://staging/trainer\.tar\.gz .* .*Copy the package to"):
        plan(state, found)
    (state.buckets / "staging").mkdir()
    (state.buckets / "staging" / "trainer.tar.gz").write_bytes(b"")
    (only,) = plan(state, found).replicas
    archive = str(state.buckets.resolve() / "staging" / "trainer.tar.gz")
    run = ("-m", "tui.emulator.runs.package_bootstrap", archive, "--", "my.task", "--n", "1")
    assert only.argv[1:] == run


def test_very_long_arguments_do_not_make_the_environment_too_large(state: StateDir) -> None:
    # Quotes are escaped twice, as JSON in JSON; the kernel takes 128 KiB at most in one variable.
    first, _ = plan(state, pool(args=['"' * 60_000]), pool()).replicas
    assert len(first.env["TF_CONFIG"]) < 1000 and json.loads(first.env["TF_CONFIG"])["job"] == "{}"
    first, _ = plan(state, pool(args=["x" * 90_000]), pool()).replicas
    assert "x" * 90_000 in json.loads(first.env["TF_CONFIG"])["job"]


def test_settings_and_scheduling_reach_the_runner(state: StateDir) -> None:
    config = {"grace_seconds": 7, "cancel_grace_seconds": 2, "sample_period": 9}
    made = plan(state, pool(), config=config, scheduling={"restartJobOnWorkerRestart": True})
    assert (made.grace, made.stop_grace, made.sample_period, made.worker_restarts) == (7, 2, 9, 5)
    assert made.restart_job_on_worker_restart
    both = {"restartJobOnWorkerRestart": True, "disableRetries": True}
    never = plan(state, pool(), scheduling=both)
    assert never.worker_restarts == 0 and not never.restart_job_on_worker_restart
    never.save(state.root / "plan.json")
    assert AttemptPlan.load(state.root / "plan.json") == never


@given(wanted=st.lists(st.integers(0, 8), max_size=8), present=st.integers(0, 8))
@settings(max_examples=100)
def test_gpus_are_shared_out_evenly(wanted: list[int], present: int) -> None:
    shares = gpus.assign(wanted, range(present))
    for count, mine in zip(wanted, shares, strict=True):
        assert len(mine) == len(set(mine)) == min(count, present) and set(mine) <= set(range(present))
    held = [sum(device in mine for mine in shares) for device in range(present)]
    assert not held or max(held) - min(held) <= 1


def test_replicas_without_gpus_see_none(state: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "present", lambda: (0, 1))
    made = by_id(plan(state, pool(accelerators=1), pool(2, accelerators=1), pool(1)))
    visible = {i: r.env["CUDA_VISIBLE_DEVICES"] for i, r in made.items()}
    assert visible == {"workerpool0-0": "0", "workerpool1-0": "1", "workerpool1-1": "0", "workerpool2-0": ""}
    assert made["workerpool1-0"].accelerators == (1,)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, ExitMeaning.DONE),
        *((code, ExitMeaning.RESTART_WORKER) for code in (75, 129, 143)),
        *((code, ExitMeaning.END_ATTEMPT) for code in (1, 2, 6, 126, 127, 128, 134, 137, 139, 255)),
    ],
)
def test_exit_codes(code: int, expected: ExitMeaning) -> None:
    assert meaning(code) is expected
    assert from_wait_status(code << 8) == code
    assert from_wait_status(9) == 137
