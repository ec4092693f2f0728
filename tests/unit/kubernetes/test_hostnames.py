"""Host names and ports of the cluster as addresses of this machine."""

from __future__ import annotations

import json
from pathlib import Path

from tui.emulator.kubernetes.node.kubelet.hostnames import (
    Host,
    HostNames,
    LocalPorts,
    replace_addresses,
    translate,
)

SERVICES = {Host("team", "job-master-0"), Host("other", "tracker"), Host("team", "job-node-0-0")}


class Ports:
    """Numbers that are easy to tell apart."""

    def __init__(self) -> None:
        self.given: dict[tuple[Host, int], int] = {}

    def __call__(self, host: Host, port: int) -> int:
        return self.given.setdefault((host, port), 20000 + len(self.given))


def names(own: str = "job-worker-0") -> HostNames:
    return HostNames("team", own, SERVICES.__contains__, {"job"})


def test_the_variables_of_a_pytorchjob() -> None:
    ports = Ports()
    env = {
        "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "PET_MASTER_ADDR": "job-master-0",
        "PET_MASTER_PORT": "23456", "PET_RDZV_ENDPOINT": "job-worker-0:29400", "RANK": "1",
        "POD_NAME": "job-master-0", "JOB_NAME": "job", "HOSTNAME": "job-worker-0",
    }  # fmt: skip
    assert translate(env, names(), ports) == {
        **env, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "20001", "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": "20001", "PET_RDZV_ENDPOINT": "127.0.0.1:20000",
    }  # fmt: skip


def test_a_master_that_is_told_its_own_address_listens_where_the_others_look() -> None:
    ports = Ports()
    told = translate({"MASTER_ADDR": "localhost", "MASTER_PORT": "23456"}, names("job-master-0"), ports)
    others = translate({"MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"}, names(), ports)
    assert told == others


def test_a_tracker_of_xgboost() -> None:
    env = {"DMLC_TRACKER_URI": "job-node-0-0.job", "DMLC_TRACKER_PORT": "29500", "DMLC_TASK_ID": "1"}
    found = translate(env, names(), Ports())
    assert found == {**env, "DMLC_TRACKER_URI": "127.0.0.1", "DMLC_TRACKER_PORT": "20000"}


def test_every_form_of_a_name_is_the_same_host() -> None:
    ports = Ports()
    forms = (
        "job-master-0", "job-master-0.team.svc", "job-master-0.team.svc.cluster.local",
        "job-master-0.job", "job-master-0.job.team.svc.cluster.local",
    )  # fmt: skip
    assert {replace_addresses(f"{form}:2222", names(), ports) for form in forms} == {"127.0.0.1:20000"}


def test_tf_config() -> None:
    config = {
        "cluster": {"worker": ["job-worker-0.team.svc:2222", "job-worker-1.team.svc:2222"]},
        "task": {"type": "worker", "index": 0},
    }
    found = json.loads(translate({"TF_CONFIG": json.dumps(config)}, names(), Ports())["TF_CONFIG"])
    assert found["cluster"]["worker"] == ["127.0.0.1:20000", "127.0.0.1:20001"]


def test_what_is_elsewhere_stays() -> None:
    env = {
        "DB_HOST": "db.example.com", "DB_PORT": "5432", "PROXY": "http://proxy.example.com:3128",
        "IMAGE": "registry/job-trainer:12", "TIME": "12:30", "WANDB_HOST": "10.0.0.7", "A_HOST": "",
    }  # fmt: skip
    assert translate(env, names(), Ports()) == env


def test_a_service_of_another_namespace() -> None:
    ports = Ports()
    assert replace_addresses("http://tracker.other:5000/api", names(), ports) == "http://127.0.0.1:20000/api"
    assert list(ports.given) == [(Host("other", "tracker"), 5000)]


def test_ports_are_kept_while_a_pod_uses_them(tmp_path: Path) -> None:
    path, host = tmp_path / "ports.json", Host("team", "job-master-0")
    ports = LocalPorts(path, tmp_path)
    first = ports.port("pod-1", host, 23456)
    assert ports.port("pod-2", host, 23456) == first
    assert ports.port("pod-2", Host("team", "job2-master-0"), 23456) != first
    later = LocalPorts(path, tmp_path)
    later.load({"pod-2"})
    assert later.port("pod-3", host, 23456) == first
    later.release("pod-2")
    later.release("pod-3")
    assert json.loads(path.read_text()) == {}
