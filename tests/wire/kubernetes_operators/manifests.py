"""Jobs of every kind whose two processes meet at the address that their operator names."""

from __future__ import annotations

import sys
from typing import Any

Obj = dict[str, Any]

MEET = """
import json, os, socket, time
env = os.environ
if "OMPI_COMM_WORLD_RANK" in env:
    rank, size = int(env["OMPI_COMM_WORLD_RANK"]), int(env["OMPI_COMM_WORLD_SIZE"])
    host, port = env["MASTER_ADDR"], int(env["MASTER_PORT"])
elif "TF_CONFIG" in env:
    config = json.loads(env["TF_CONFIG"])
    groups = config["cluster"].items()
    places = [(kind, index, at) for kind, found in groups for index, at in enumerate(found)]
    task = config["task"]
    size = len(places)
    own = (task["type"], task["index"])
    rank = next(number for number, place in enumerate(places) if place[:2] == own)
    host, port = places[0][2].rsplit(":", 1)
elif "RANK" in env:
    rank, size, host, port = int(env["RANK"]), int(env["WORLD_SIZE"]), env["MASTER_ADDR"], env["MASTER_PORT"]
elif "PET_NODE_RANK" in env:
    rank, size = int(env["PET_NODE_RANK"]), int(env["PET_NNODES"])
    host, port = env["PET_MASTER_ADDR"], env["PET_MASTER_PORT"]
else:
    rank, size = int(env["JOB_COMPLETION_INDEX"]), 2
    host, port = env["FIRST"].rsplit(":", 1)
if rank == 0:
    with socket.create_server((host, int(port))) as server:
        met = {0}
        while len(met) < size:
            peer, _ = server.accept()
            met.add(int(peer.recv(9)))
            peer.sendall(b"ok")
            peer.close()
else:
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=5) as peer:
                peer.sendall(str(rank).encode())
                if peer.recv(2) == b"ok":
                    break
        except OSError:
            time.sleep(0.05)
print("rank", rank, "has met", size, flush=True)
"""


def container(name: str, *command: str, **more: Any) -> Obj:
    words = list(command) or [sys.executable, "-c", MEET]
    return {"name": name, "image": "python:3.11", "command": words, **more}


def template(*containers: Obj, **spec: Any) -> Obj:
    return {"spec": {"containers": list(containers), "terminationGracePeriodSeconds": 1, **spec}}


def replica(name: str, *command: str, count: int = 1) -> Obj:
    return {"replicas": count, "restartPolicy": "Never", "template": template(container(name, *command))}


def job(version: str, kind: str, name: str, spec: Obj, **metadata: Any) -> Obj:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def indexed(name: str, first: str) -> Obj:
    """Two pods with indexes, which meet at `first`."""
    pods = template(container(name, env=[{"name": "FIRST", "value": first}]), restartPolicy="Never")
    return {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": pods}


def every_kind() -> list[Obj]:
    """One job of each kind, each of two processes."""
    jobset = {
        "replicatedJobs": [{"name": "node", "template": {"spec": indexed("main", "js-node-0-0.js:5000")}}]
    }
    trainer = {"numNodes": 2, "image": "python:3.11", "command": [sys.executable, "-c", MEET]}
    mpirun = ("mpirun", "-n", "2", sys.executable, "-c", MEET)
    mpi = {"Launcher": replica("mpi", *mpirun), "Worker": replica("mpi", "/usr/sbin/sshd", "-De", count=2)}
    policy = {"cleanPodPolicy": "Running"}
    queued = {"namespace": "training", "labels": {"kueue.x-k8s.io/queue-name": "training"}}
    return [
        job("kubeflow.org/v1", "PyTorchJob", "pt",
            {"pytorchReplicaSpecs": {"Master": replica("pytorch"), "Worker": replica("pytorch")}}),
        job("kubeflow.org/v1", "TFJob", "tf",
            {"tfReplicaSpecs": {"Chief": replica("tensorflow"), "Worker": replica("tensorflow")}}),
        job("kubeflow.org/v2beta1", "MPIJob", "mj", {"runPolicy": policy, "mpiReplicaSpecs": mpi}),
        job("batch/v1", "Job", "bj", indexed("main", "bj-0.bj:5000")),
        job("jobset.x-k8s.io/v1alpha2", "JobSet", "js", jobset),
        job("trainer.kubeflow.org/v1alpha1", "TrainJob", "tj",
            {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}, **queued),
    ]  # fmt: skip
