"""Implements `vxtui emulator kubernetes fault evict|oom|preempt|slow-pull|cordon|uncordon|drain`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tui.verbs.output import out, print_json
from tui.verbs.run import Run, value_of, verb

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_SECONDS = click.FloatRange(0)


def _namespace(function: Decorated) -> Decorated:
    option = click.option(
        "--namespace", "-n", metavar="NAME", default="default", show_default=True, help="The pod's namespace."
    )
    return option(function)


@click.command()
@click.argument("pod")
@_namespace
@verb("emulator.fault")
async def evict(run: Run, pod: str, namespace: str) -> None:
    """Evict POD like a kubelet whose node runs out of memory."""
    await _ask(run, f"{namespace}/{pod}: evicted", do="evict", pod=pod, namespace=namespace)


@click.command()
@click.argument("pod")
@click.option("--container", metavar="NAME", default="", help="The container; by default the last.")
@_namespace
@verb("emulator.fault")
async def oom(run: Run, pod: str, container: str, namespace: str) -> None:
    """Kill a container of POD like the kernel's OOM killer."""
    words = f"{namespace}/{pod}: killed"
    await _ask(run, words, do="oom", pod=pod, container=container, namespace=namespace)


@click.command()
@click.argument("node")
@click.option("--notice", type=_SECONDS, metavar="SECONDS", help="Time until the node ends.")
@click.option("--back", type=float, metavar="SECONDS", help="Time until the node returns; negative: never.")
@verb("emulator.fault")
async def preempt(run: Run, node: str, notice: float | None, back: float | None) -> None:
    """Reclaim NODE like a Spot VM of GKE."""
    times = {name: value for name, value in (("notice", notice), ("back", back)) if value is not None}
    await _ask(run, f"{node}: preempted", do="preempt", node=node, **times)


@click.command("slow-pull")
@click.argument("image")
@click.option("--seconds", type=_SECONDS, required=True, metavar="SECONDS", help="Duration of each pull.")
@click.option(
    "--for", "lasts", type=_SECONDS, default=3600, metavar="SECONDS", help="How long the fault lasts."
)
@verb("emulator.fault")
async def slow_pull(run: Run, image: str, seconds: float, lasts: float) -> None:
    """Slow down pulls of IMAGE, which may have shell wildcards."""
    words = f"{image}: pulls take {seconds:g} s"
    await _ask(run, words, do="slow-pull", image=image, seconds=seconds, lasts=lasts)


@click.command()
@click.argument("node")
@verb("emulator.fault")
async def cordon(run: Run, node: str) -> None:
    """Schedule no new pods on NODE."""
    await _ask(run, f"{node}: cordoned", do="cordon", node=node)


@click.command()
@click.argument("node")
@verb("emulator.fault")
async def uncordon(run: Run, node: str) -> None:
    """Schedule pods on NODE again."""
    await _ask(run, f"{node}: uncordoned", do="uncordon", node=node)


@click.command()
@click.argument("node")
@verb("emulator.fault")
async def drain(run: Run, node: str) -> None:
    """Cordon NODE and evict its pods through the API."""
    await _ask(run, f"{node}: drained", do="drain", node=node)


async def _ask(run: Run, words: str, **request: Any) -> None:
    """Send the request; print the answer as JSON, or `words` and the affected pods."""
    answer = value_of(await run.kubernetes_operations().fault(request))
    if run.json:
        print_json(answer)
        return
    pods = answer.get("pods") or []
    out(f"{words}; pods: {', '.join(pods)}" if pods else words)


COMMANDS = (evict, oom, preempt, slow_pull, cordon, uncordon, drain)
