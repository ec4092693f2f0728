"""A training script of the user below the supervisor: `python -m trainer.launch [options] script.py …`.

The script gets the variables of torchrun and needs no code of this package. Its processes are forked from a
process that has imported torch, as the trainer's processes are.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NoReturn

from trainer import exit_codes
from trainer.checkpoint.locations import upload_uri
from trainer.cloud_paths import buckets_mounted, local_path, problem_of
from trainer.config import ON_OFF, LaunchConfig
from trainer.errors import UsageError
from trainer.metrics.goodput import RecordedStep, last_step
from trainer.placement.topology import Topology
from trainer.supervision.program import HANG_FOLDER

CHECKPOINT_DIR = "CHECKPOINT_DIR"
"""Variable with the absolute path of --checkpoint-dir, for the script."""
_DESCRIPTION = (
    "Run a training script on this node, one process for each GPU, together with the other nodes of "
    "the job. The script gets the environment variables of torchrun. A failed attempt starts again on "
    "all nodes at once; signals are passed on."
)
_CLUSTER_VARIABLES = ("CLUSTER_SPEC", "TF_CONFIG", "PET_NNODES", "PET_NODE_RANK", "RANK", "WORLD_SIZE")
"""Variables with the rank of this node; --nnodes replaces all of them."""


@dataclass(frozen=True, slots=True)
class ScriptProgram:
    """The `Program` for a script, or with `is_module` for a module, and its arguments.

    `checkpoint_dir` is the folder of its checkpoints, if known; `preload` are modules to import before the
    fork, `fork` is false for new processes. `nodes` are variables with the rank of this node.
    """

    name: str
    args: tuple[str, ...]
    is_module: bool
    launch: LaunchConfig
    grace: float
    checkpoint_dir: str
    preload: tuple[str, ...]
    fork: bool
    nodes: Mapping[str, str]
    words: tuple[str, ...]
    """The entire command line."""

    uses_gpus = True
    prints_text = True

    @property
    def hang_folder(self) -> Path:
        return Path(self.checkpoint_dir or "checkpoints").parent / HANG_FOLDER

    def arguments(self) -> list[str]:
        return ["script", *self.words]

    def open(self, topology: Topology) -> None:
        return

    def close(self) -> None:
        return

    def variables(self, address: str) -> dict[str, str]:
        return {CHECKPOINT_DIR: str(Path(self.checkpoint_dir).absolute())} if self.checkpoint_dir else {}

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return `env`, with the cluster's variables replaced by those from --nnodes or --standalone if
        given."""
        if not self.nodes:
            return dict(env)
        return {k: v for k, v in env.items() if k not in _CLUSTER_VARIABLES} | dict(self.nodes)

    def saves(self) -> frozenset[tuple[str, int]]:
        """Return the files and folders in the script's checkpoint folder, two levels deep."""
        paths = set[tuple[str, int]]()
        if self.checkpoint_dir:
            for path in (*Path(self.checkpoint_dir).glob("*"), *Path(self.checkpoint_dir).glob("*/*")):
                try:
                    paths.add((str(path), path.stat().st_mtime_ns))
                except OSError:
                    # Another process has just deleted the file.
                    continue
        return frozenset(paths)

    def newest_step(self) -> int:
        return -1

    def has_checkpoint(self) -> bool:
        return bool(self.saves())

    def is_done(self) -> bool:
        return False

    def last_step(self) -> RecordedStep | None:
        return last_step(Path("progress.json"))

    def can_use(self, processes: int) -> bool:
        return True

    def final_codes(self, *, signalled: bool) -> frozenset[int]:
        """Return the final exit codes: after a signal any code is final; otherwise a process that SIGTERM
        ended has failed."""
        return exit_codes.FINAL if signalled else frozenset({exit_codes.DONE, exit_codes.USAGE})

    def outcome(self, code: int, *, signalled: bool) -> int:
        """Return the outcome of an exit code: a script that exits with 0 after SIGTERM has saved, and a
        restart continues."""
        if signalled and code in {exit_codes.DONE, exit_codes.STOPPED}:
            return exit_codes.PREEMPTED if self.has_checkpoint() else exit_codes.STOPPED
        return code


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError instead of exiting."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def parse(words: Sequence[str]) -> ScriptProgram:
    """Parse this command line. Raises UsageError."""
    options = vars(_parser().parse_args(list(words)))
    for name in ("nproc", "max_restarts", "join_timeout", "peer_timeout", "grace", "hang_factor"):
        if not 0 <= options[name] < float("inf"):
            raise UsageError(f"--{name.replace('_', '-')} must be at least 0, not {options[name]}")
    if not 1 <= options["hang_floor"] < float("inf"):
        raise UsageError(f"--hang-floor must be at least 1, not {options['hang_floor']}")
    if not options["module"] and not Path(options["script"]).is_file():
        raise UsageError(f"the script {options['script']} does not exist on this node")
    launch = replace(
        LaunchConfig(), **{i.name: options[i.name] for i in fields(LaunchConfig) if i.name in options}
    )
    return ScriptProgram(
        options["script"],
        tuple(options["args"]),
        options["module"],
        launch,
        options["grace"],
        _checkpoint_dir(options["checkpoint_dir"]),
        tuple(filter(None, options["preload"].split(","))),
        options["fork"] == "on",
        _nodes(options),
        tuple(words),
    )


def _parser() -> _Parser:
    parser = _Parser("python -m trainer.launch", description=_DESCRIPTION, allow_abbrev=False)

    def add(name: str, *more: str, **settings: Any) -> None:
        # torchrun takes both spellings.
        spellings = [
            spelling for flag in (name, *more) for spelling in (flag, f"--{flag[2:].replace('-', '_')}")
        ]
        parser.add_argument(*dict.fromkeys(spellings), **settings)

    for item in fields(LaunchConfig):
        name, about = f"--{item.name.replace('_', '-')}", item.metadata["help"]
        if item.name == "nproc":
            add(name, "--nproc-per-node", type=_processes, default=0, help=about)
        elif item.name not in {"hang_timeout", "elastic"}:
            add(name, type=type(item.default), default=item.default, help=about)
    add(
        "--grace",
        type=float,
        default=25.0,
        help="seconds between SIGTERM and SIGKILL of the script",
    )
    add(
        "--checkpoint-dir",
        default="",
        help="where the script saves ($CHECKPOINT_DIR in its environment): only restarts without new "
        "files there count against --max-restarts; default: $CHECKPOINT_DIR, else a mounted "
        "$AIP_CHECKPOINT_DIR/<job>",
    )
    add("--preload", default="", help="modules to import once, before the fork: a,b.c")
    add(
        "--fork",
        default="on",
        choices=ON_OFF,
        help="off: each process imports torch itself, and may set environment variables first",
    )
    add(
        "--nnodes",
        default="",
        help="number of nodes, if no variable of the platform sets it; MIN:MAX: elastic",
    )
    add("--node-rank", default="", help="with --nnodes: rank of this node, from 0")
    add("--master-addr", "--rdzv-endpoint", default="", help="with --nnodes: HOST or HOST:PORT of node 0")
    add("--master-port", default="", help="with --nnodes: a free port of node 0; default: 29500")
    add("--rdzv-id", default="", help="with --nnodes: a unique name of the job")
    add("--rdzv-backend", default="", help="accepted for torchrun; has no effect")
    add("--standalone", action="store_true", help="run on one node, and ignore the platform's variables")
    parser.add_argument("-m", "--module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script", help="the script, or with -m the module")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def _processes(text: str) -> int:
    """Return the number of processes of torchrun's --nproc-per-node: a number, `gpu`, `auto` or `cpu`."""
    named = {"gpu": 0, "auto": 0, "cpu": os.cpu_count() or 1}
    if text not in named and not text.removeprefix("-").isdigit():
        raise argparse.ArgumentTypeError(f"{text} must be a number, gpu, auto or cpu")
    return named[text] if text in named else int(text)


def _checkpoint_dir(folder: str) -> str:
    folder = folder or os.environ.get(CHECKPOINT_DIR, "")
    if not folder and buckets_mounted():
        folder = upload_uri("", os.environ)
    if problem := problem_of(folder):
        raise UsageError(f"--checkpoint-dir {folder}: {problem}")
    return str(local_path(folder)) if folder else ""


def _nodes(options: Mapping[str, str]) -> dict[str, str]:
    """Return the variables as Kubeflow sets them, from --nnodes and --standalone; the result is empty without
    these flags."""
    if options["standalone"]:
        return {"PET_NNODES": "1", "PET_NODE_RANK": "0"}
    if not options["nnodes"]:
        for name in ("node_rank", "master_addr", "master_port"):
            if options[name]:
                raise UsageError(f"--{name.replace('_', '-')} needs --nnodes")
        return {}
    if options["nnodes"] != "1" and not options["node_rank"]:
        raise UsageError(f"--nnodes {options['nnodes']} needs --node-rank, the rank of this node from 0")
    host, _, port = options["master_addr"].partition(":")
    variables = {
        "PET_NNODES": options["nnodes"],
        "PET_NODE_RANK": options["node_rank"],
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": options["master_port"] or port,
        "PET_RDZV_ID": options["rdzv_id"],
    }
    return {name: value for name, value in variables.items() if value}
