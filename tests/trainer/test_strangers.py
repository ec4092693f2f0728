"""A stranger, another user where that is possible, at every port of a run: nobody gets in, nothing changes.

What stays open is in the README of the trainer, "Who may join a run": torch's own store can't be
authenticated, so that here only malformed and guessed messages go to it, and none to the ports of gloo.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.trainer.elastic_run import MODEL, ElasticCluster, SharedNumber
from tests.trainer.killed_workload import EVERY
from tests.trainer.multi_node_support import FLAGS, ROOT, Cluster, Node, losses
from tests.trainer.ranks import Ranks
from tests.trainer.ranks import losses as losses_of_ranks
from tests.waiting import wait_for
from trainer.elastic.rank_links import RankLinks
from trainer.errors import UsageError
from trainer.network import run_key
from trainer.network.addresses import LISTEN, is_loopback, listening_address, short_path
from trainer.network.handshake import Handshake, HandshakeError, authenticate
from trainer.placement.sources import find_topology
from trainer.placement.topology import Topology
from trainer.serving.__main__ import PredictionServer

NOBODY = 65534
CONNECTIONS = 1200
EARLY_CONNECTIONS = 240
AT_ONCE = 80
STEPS = 160
TRAINING = (*MODEL, f"--steps={STEPS}", "--checkpoint-every=50")
WORDS = re.compile(rb"[\x20-\x7e]{20,}")
"""Text in an answer: 1,200 times 32 random bytes have 20 printable ones in a row once in 30,000 tests."""
SCRIPT = str(Path(ROOT) / "tests" / "trainer" / "own_script.py")


def guesses(job: str) -> list[bytes]:
    """What one may send who knows the job's id and the protocol, but not the key."""
    hello = {"protocol": 2, "job": job, "rank": 1, "join": 0, "processes": 1}
    state = {"node": 1, "processes": 1, "port": 1, "spawn": 1, "ready": True, "data": "", "store_port": 1}
    claim = {"trains": True, "epoch": 999, "before": 0}
    messages: list[dict[str, Any]] = [
        hello,
        hello | {"protocol": 1},
        {"elastic": 2, "job": job, "state": {**state, "epoch": 0, "settled": 0, "step": 0, "broken": 0}},
        {"elastic": 2, "job": job, "led_at": 1, "claim": claim},
        {"protocol": 1, "job": job, "key": "0" * 64},
        {"request": "list"},
        {"leave": 2},
        {"failed": {"message": "x", "time": 1.0, "code": 1}, "attempt_id": 1},
        {"spawn": [], "signal": 9},
    ]
    lines = [json.dumps(message).encode() + b"\n" for message in messages]
    chance = random.Random(7)
    proofs = [chance.randbytes(size) for size in (1, 32, 63, 64, 65, 96, 4096)]
    return [
        *lines, *(proofs[3] + line for line in lines), *proofs, bytes(64), b"[" * 60_000, b"x" * 300_000,
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"POST /predict HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00\x01\x02\x03\x04", b"",
    ]  # fmt: skip


def genuine(topology: Topology, env: Mapping[str, str]) -> bytes:
    """Everything that a process of this run sends, to be replayed; its rank is taken, so nothing changes."""
    key = run_key.run_key(topology, dict(env))

    class Recording(socket.socket):
        sent = b""

        def sendall(self, data: Any, flags: int = 0, /) -> None:
            Recording.sent += bytes(data)
            super().sendall(data, flags)

    with Recording() as sock:
        sock.connect((topology.address, topology.port))
        authenticate(sock, Handshake(key, topology.job, serves=False))
        sock.sendall(json.dumps({"protocol": 2, "rank": 1, "join": 0, "processes": 1}).encode() + b"\n")
        sock.settimeout(10)
        with suppress(OSError):
            assert sock.recv(4096), "the run answers one of its own"
    return Recording.sent


def attack(
    pipe: Connection,
    count: int,
    ports: list[int],
    torch_ports: list[int],
    said: list[bytes],
    *,
    replay: bytes,
) -> None:
    """In a process of its own, as another user if this one may: return what each connection answered."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    answers: dict[int, list[bytes]] = {}
    for start in range(0, count, AT_ONCE):
        streams = []
        for number in range(start, start + AT_ONCE):
            mine, turn = (ports, number) if number % 6 or not torch_ports else (torch_ports, number // 6)
            port, data = mine[turn % len(mine)], said[turn // len(mine) % len(said)]
            if number % 7 == 0 and port in ports:
                data = replay
            sock = socket.create_connection(("127.0.0.1", port), timeout=20)
            with suppress(OSError):
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
            streams.append((port, sock))
        time.sleep(0.1)
        for port, sock in streams:
            answer = b""
            # torch and gloo close nothing.
            sock.settimeout(0.001 if port in torch_ports else 20)
            with suppress(OSError):
                while block := sock.recv(4096):
                    answer += block
            sock.close()
            answers.setdefault(port, []).append(answer)
    pipe.send(answers)
    os._exit(0)


def strike(*arguments: Any, replay: bytes) -> Callable[[], dict[int, list[bytes]]]:
    """Begin the attack; what is returned waits for its end."""
    here, there = multiprocessing.Pipe()
    # The other user can't read the module of this encoding, which every connection needs.
    "loaded".encode("idna")
    stranger = multiprocessing.get_context("fork").Process(
        target=attack, args=(there, *arguments), kwargs={"replay": replay}
    )
    stranger.start()

    def wait() -> dict[int, list[bytes]]:
        assert here.poll(120), "the stranger's end"
        found: dict[int, list[bytes]] = here.recv()
        stranger.join()
        return found

    return wait


def listeners(*nodes: Node) -> dict[int, str]:
    """The ports of these nodes, with the process's name; all are those of the loopback."""
    found = {}
    for process in [process for node in nodes for process in node.family()]:
        with suppress(psutil.NoSuchProcess):
            for one in process.net_connections("inet"):
                if one.status == psutil.CONN_LISTEN:
                    assert is_loopback(one.laddr.ip), (process.name(), one.laddr)
                    found[one.laddr.port] = process.name()
    return found


@dataclass
class Runs:
    """Runs of two nodes of one kind; a run has a cluster of its own.

    An attacked run takes its steps slowly and waits before its last ones, until it may end.
    """

    root: Path
    kind: str
    made: list[Cluster | Ranks]

    def in_peace(self) -> dict[Any, Any]:
        """The losses of a run that nobody attacks."""
        if self.kind == "vertex":
            ranks = Ranks(self.root / "peace", 2, *FLAGS, *TRAINING, nodes=2)
            self.made.append(ranks)
            assert ranks.wait() == [0, 0], ranks.errors()
            return losses_of_ranks(ranks.lines())
        cluster, envs = self.begin("peace")
        nodes = [self.start(cluster, rank, env) for rank, env in enumerate(envs)]
        assert [node.process.wait(180) for node in nodes] == [0, 0]
        return self.losses(*nodes)

    def attacked(self) -> tuple[Cluster, list[Mapping[str, str]]]:
        cluster, envs = self.begin("attacked")
        slow, pause = cluster.root / "slow", cluster.root / "pause"
        SharedNumber(slow, 0.02)
        SharedNumber(pause, STEPS - EVERY - 1)
        return cluster, [{**env, "SLOW": str(slow), "PAUSE": str(pause)} for env in envs]

    def let_end(self, cluster: Cluster) -> None:
        SharedNumber(cluster.root / "slow", 0)
        SharedNumber(cluster.root / "pause", STEPS)

    def begin(self, name: str) -> tuple[Cluster, list[Mapping[str, str]]]:
        folder = self.root / name
        folder.mkdir()
        cluster = ElasticCluster(folder, 2) if self.kind == "elastic" else Cluster(folder)
        self.made.append(cluster)
        places = cluster.kubeflow if self.kind == "script" else cluster.vertex
        return cluster, [places(rank, 2) for rank in range(2)]

    def start(self, cluster: Cluster, rank: int, env: Mapping[str, str]) -> Node:
        if self.kind == "script":
            saves = f"--checkpoints={cluster.root}/saved"
            words = ("--join-timeout=60", SCRIPT, saves, f"--steps={STEPS}", "--pause=0.02")
            return cluster.run_module(rank, "trainer.launch", words, env)
        more = ("--elastic=1",) if self.kind == "elastic" else ()
        return cluster.start(rank, 2, *TRAINING, *more, env=env)

    def step(self, node: Node) -> int:
        if self.kind == "script":
            return max((int(step) for step in re.findall(r"step=(\d+)", node.out.read_text())), default=0)
        return max((line["step"] for line in node.lines("step")), default=0)

    def losses(self, *nodes: Node) -> dict[Any, Any]:
        if self.kind == "script":
            text = "".join(node.out.read_text() for node in nodes)
            return dict(re.findall(r"step=(\d+) total=\d+ loss=(\S+)", text))
        return losses(*nodes)


@pytest.fixture(params=["vertex", "elastic", "script"])
def runs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runs]:
    found = Runs(tmp_path, request.param, [])
    yield found
    for run in found.made:
        run.kill() if isinstance(run, Ranks) else run.end()


def test_a_thousand_connections_admit_nobody_and_change_no_loss(
    runs: Runs,
) -> None:
    in_peace = runs.in_peace()
    cluster, envs = runs.attacked()
    nodes = [runs.start(cluster, 0, envs[0])]
    # The first stranger is there before the real node, as was the one that once took its place.
    wait_for(lambda: cluster.port in listeners(*nodes), "the rendezvous")
    topology = find_topology(envs[1])
    early = strike(EARLY_CONNECTIONS, [cluster.port], [], guesses(topology.job), replay=bytes(64))()
    nodes.append(runs.start(cluster, 1, envs[1]))
    wait_for(lambda: runs.step(nodes[0]) >= 1, "the first step")
    names = listeners(*nodes)
    ours = [port for port, name in names.items() if not name.startswith(("torch-store", "train-rank"))]
    theirs = [port for port, name in names.items() if name == "torch-store"]
    replay = b"x" * 64 if runs.kind == "elastic" else genuine(topology, envs[1])
    answers = strike(CONNECTIONS, ours, theirs, guesses(topology.job), replay=replay)()
    during = runs.step(nodes[0])
    runs.let_end(cluster)
    assert [node.process.wait(180) for node in nodes] == [0, 0]

    assert during < STEPS, "the attack ended before the run did"
    assert sum(map(len, answers.values())) == CONNECTIONS and set(answers) == {*ours, *theirs}
    for port in ours:
        for answer in (*answers[port], *early.get(port, [])):
            assert len(answer) in {0, 32} and not WORDS.search(answer), (names[port], answer)
    for port in theirs:
        assert not [answer for answer in answers[port] if WORDS.search(answer)], names[port]
    assert runs.losses(*nodes) == in_peace and len(in_peace) == STEPS
    lines = [line for node in nodes for line in node.lines("phase")]
    assert not [line for line in lines if line["phase"] in {"restarting", "failed"}]
    key = run_key.user_secret().decode()
    assert key not in "".join(node.out.read_text() + (node.out.parent / "err").read_text() for node in nodes)


class Echo:
    """A model that answers with the questions."""

    def answer(self, instances: Sequence[Any]) -> list[dict[str, Any]]:
        return [{"answer": instance} for instance in instances]


def ask(port: int, pipe: Connection, user: int) -> None:
    """Request a prediction as this user, in a process of its own."""
    os.setuid(user)
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock, suppress(OSError):
        sock.sendall(
            b'POST /predict HTTP/1.1\r\nConnection: close\r\nContent-Length: 18\r\n\r\n{"instances": [1]}'
        )
        while block := sock.recv(4096):
            answer += block
    pipe.send(answer)
    os._exit(0)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user of this machine")
def test_a_model_server_on_the_loopback_serves_only_its_own_user() -> None:
    "loaded".encode("idna")
    with PredictionServer(Echo(), {"AIP_HTTP_PORT": "0", LISTEN: "127.0.0.1"}) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        answers = []
        for user in (NOBODY, 0):
            here, there = multiprocessing.Pipe()
            arguments = (server.server_port, there, user)
            multiprocessing.get_context("fork").Process(target=ask, args=arguments).start()
            assert here.poll(60)
            answers.append(here.recv())
        server.shutdown()
    assert answers[0] == b"", "not a word, not even of HTTP"
    assert b'{"predictions": [{"answer": 1}]}' in answers[1] and b"Python" not in answers[1]


def pair(server_key: bytes, client_key: bytes, job: str = "a") -> list[bool]:
    """Whether the server and the client are convinced of the other."""
    server, client = Handshake(server_key, "a", serves=True), Handshake(client_key, job, serves=False)
    convinced = [False, False]
    with suppress(HandshakeError):
        answer = server.answer(client.answer(server.opening))
        convinced[0] = True
        client.answer(answer)
        convinced[1] = True
    return convinced


def test_both_ends_must_have_the_key_and_the_job() -> None:
    assert pair(b"k", b"k") == [True, True]
    assert pair(b"k", b"l") == pair(b"k", b"") == pair(b"k", b"k", "b") == [False, False]
    # A server without the key convinces no client, whatever it answers, also with the client's own proof.
    client = Handshake(b"k", "a", serves=False)
    proof = client.answer(bytes(32))
    with pytest.raises(HandshakeError):
        client.answer(proof[32:])
    # Nor does a proof that was valid on another connection.
    server, client = Handshake(b"k", "a", serves=True), Handshake(b"k", "a", serves=False)
    proof = client.answer(server.opening)
    server.answer(proof)
    with pytest.raises(HandshakeError):
        Handshake(b"k", "a", serves=True).answer(proof)


def test_the_key_comes_from_the_environment_a_file_or_this_user_and_is_never_inherited(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    here = Topology("test", nodes=2, job="a")
    there = Topology("test", nodes=2, job="a", address="job-0.svc")
    env = {run_key.SECRET: "a secret of the run"}
    (tmp_path / "secret").write_text("a secret of the run\n")
    mounted = {run_key.SECRET_FILE: str(tmp_path / "secret")}
    assert run_key.run_key(there, env) == run_key.run_key(there, mounted) and not env
    other = Topology("test", nodes=2, job="b", address="job-0.svc")
    assert run_key.run_key(other, mounted) != run_key.run_key(there, mounted)
    assert capfd.readouterr().out == ""
    run_key.run_key(there, {"CLOUD_ML_JOB_ID": "1234567890123456789"})
    assert capfd.readouterr().out == "", "Vertex AI's id is known to those who may read the job"
    derived = run_key.run_key(there, {})
    assert "guesses the names in its variables can join" in capfd.readouterr().out
    assert run_key.run_key(here, {}) != derived and capfd.readouterr().out == ""
    for wrong in (
        {run_key.SECRET: "short"},
        {run_key.SECRET_FILE: str(tmp_path)},
        {run_key.SECRET_FILE: "/dev/zero"},
    ):
        with pytest.raises(UsageError):
            run_key.run_key(there, dict(wrong))
    assert b"secret" not in repr(Topology("test", key=b"secret")).encode()


def test_the_file_with_the_key_is_this_users_alone(tmp_path: Path) -> None:
    mine, foreign = tmp_path / "mine", tmp_path / "foreign"
    secret = run_key.user_secret((mine,))
    assert run_key.user_secret((mine,)) == secret and len(secret) == 64
    assert (mine / "run-key").stat().st_mode & 0o777 == 0o600 and mine.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in mine.iterdir()] == ["run-key"]
    foreign.mkdir(mode=0o777)
    foreign.chmod(0o777)
    with pytest.raises(UsageError, match="accessible to other users"):
        run_key.user_secret((foreign,))
    assert run_key.user_secret((foreign, mine)) == secret
    (tmp_path / "link").symlink_to(mine)
    with pytest.raises(UsageError, match="accessible to other users"):
        run_key.user_secret((tmp_path / "link",))
    (mine / "run-key").chmod(0o644)
    with pytest.raises(UsageError, match="accessible to other users"):
        run_key.user_secret((mine,))


def _polled(links: RankLinks) -> bool:
    links.poll()
    return links.ready


def test_a_socket_may_have_a_long_path(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    links = RankLinks(folder, 0, 1, 7)
    with closing(links), socket.socket(socket.AF_UNIX) as client:
        with short_path(links.path) as short:
            client.connect(short)
        client.sendall(b'{"local_rank": 0, "ready": "data"}\n')
        wait_for(lambda: _polled(links), "the message")
    assert links.data == "data" and not links.path.exists()


def test_a_node_listens_on_the_narrowest_address_that_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"10.0.0.7"}
    monkeypatch.setattr("trainer.network.addresses._own_addresses", lambda: set(own))
    names = {"gpu-7": ["127.0.1.1"], "job-0": ["10.0.0.7"], "service": ["34.1.2.3"]}

    def resolve(name: str, _: object) -> list[tuple[Any, ...]]:
        if name not in names:
            raise socket.gaierror("unknown")
        return [(2, 1, 6, "", (address, 0)) for address in names[name]]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert listening_address(["127.0.0.1", "127.0.0.1"], "127.0.0.1") == "127.0.0.1"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert listening_address(["localhost"], "") == "127.0.0.1"
    with monkeypatch.context() as pod:
        # Node 0 of an operator that calls it localhost, while the others are in pods of their own.
        pod.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
        names["localhost"] = ["127.0.0.1"]
        assert listening_address(["localhost"], "localhost") == ""
    # The name of a service leads to the pod's only address; Debian's name of the machine itself says nothing.
    assert listening_address(["service"], "service") == listening_address(["unknown"], "") == "10.0.0.7"
    assert listening_address(["gpu-7"], "gpu-7") == ""
    own.add("192.168.1.7")
    assert listening_address(["job-0"], "job-0") == "10.0.0.7"
    assert listening_address(["service"], "service") == ""
    monkeypatch.setenv("VXTUI_LISTEN", "192.168.1.7")
    assert listening_address(["service"], "service") == "192.168.1.7"
