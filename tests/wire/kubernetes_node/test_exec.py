"""Programs in containers by kubectl and by kr8s."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import subprocess

import kr8s.asyncio
import kr8s.asyncio.objects
import pytest

from tests.processes import asked, running_in
from tests.waiting import LIMIT, until
from tests.wire.kubernetes.control import client, needs_kubectl, program
from tests.wire.kubernetes_node.pods import cluster, shell


@needs_kubectl
async def test_kubectl_exec_has_streams_input_and_the_exit_code() -> None:
    async with cluster() as pods:
        kubeconfig = str(pods.emulator.state.kubeconfig)
        where = {"name": "WHERE", "value": "/data"}
        mounts = [{"name": "d", "mountPath": "/data"}]
        volumes = [{"name": "d", "emptyDir": {}}]
        main = shell("echo kept > /data/f; exec sleep 600", env=[where], volumeMounts=mounts)
        pods.create("p", main, volumes=volumes)
        await pods.runs("p")
        text = await program(
            "kubectl", "exec", "p", "--", "sh", "-c",
            "until test -s /data/f; do sleep 0.05; done; cat $WHERE/f; cat /data/f; echo no >&2; exit 7",
            kubeconfig=kubeconfig, expect=7,
        )  # fmt: skip
        assert text == "kept\nkept\nno\ncommand terminated with exit code 7\n"
        text = await program(
            "kubectl", "exec", "-i", "p", "--", "cat", kubeconfig=kubeconfig, stdin="some input\n"
        )
        assert text == "some input\n"
        text = await program("kubectl", "exec", "p", "-c", "x", "--", "true", kubeconfig=kubeconfig, expect=1)
        assert "container x is not valid for pod p" in text


@pytest.mark.slow
@needs_kubectl
async def test_kubectl_exec_on_a_terminal() -> None:
    async with cluster() as pods:
        pods.create("p", shell("exec sleep 600"))
        await pods.runs("p")
        master, slave = pty.openpty()
        words = ["kubectl", "exec", "-it", "p", "--", "sh", "-c", "tty; read x; echo got $x; exec sleep 600"]
        env = {"PATH": os.environ["PATH"], "KUBECONFIG": str(pods.emulator.state.kubeconfig), "HOME": "/"}
        started = await asyncio.to_thread(
            subprocess.Popen, words, stdin=slave, stdout=slave, stderr=slave, env=env
        )
        os.close(slave)
        try:
            seen = b""

            def shows(text: bytes) -> bool:
                nonlocal seen
                while select.select([master], [], [], 0)[0]:
                    seen += os.read(master, 4096)
                return text in seen

            await until(lambda: shows(b"/dev/pts/"), "a terminal")
            os.write(master, b"hello\n")
            await until(lambda: shows(b"got hello"), "an answer")
        finally:
            started.kill()
            started.wait(LIMIT)
            os.close(master)
        # The container's own program is all that stays.
        await until(lambda: len(pods.left()) == 2, "the end of the shell")
        assert [p for p in running_in("read x") if asked(p.name, "") == "sh"] == []


async def test_kr8s_exec() -> None:
    async with cluster() as pods:
        pods.create("p", shell("exec sleep 600"))
        await pods.runs("p")
        api = await kr8s.asyncio.api(kubeconfig=str(pods.emulator.state.kubeconfig))
        found = await kr8s.asyncio.objects.Pod.get("p", namespace="default", api=api)
        done = await found.exec(["sh", "-c", "echo out; echo err >&2"])
        assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 0)
        failed = await found.exec(["sh", "-c", "exit 3"], check=False)
        assert failed.returncode == 3


@pytest.mark.slow
async def test_without_a_websocket_the_reply_says_so() -> None:
    async with cluster() as pods, client(pods.emulator) as http:
        pods.create("p", shell("exec sleep 600"))
        await pods.runs("p")
        headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
        path = "/api/v1/namespaces/default/pods/p/exec?command=true"
        reply = await http.post(path, headers=headers)
        assert reply.status_code == 400
        assert "only WebSockets are supported" in reply.json()["message"]
