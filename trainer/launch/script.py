"""Somebody's own training script below the supervisor: `python -m trainer.launch [options] script.py …`.

The script gets torchrun's variables and knows nothing of this package. Its processes are forked from one that
has torch imported, as the trainer's are.
"""

from __future__ import annotations

import argparse
import builtins
import importlib
import os
import runpy
import signal
import sys
import threading
import traceback
import types
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NoReturn

from trainer import exit_codes
from trainer.config import LaunchConfig
from trainer.errors import UsageError
from trainer.launch.failure import report_error
from trainer.launch.topology import Topology
from trainer.metrics.goodput import last_step_time
from trainer.prctl import die_with_parent

PRELOADED = ("torch", "torch.distributed", "torch._dynamo", "torch.distributed.fsdp", "torch.utils.data")
TEARDOWN_SECONDS = 10.0
"""Longest that a process lives after an error: threads of its libraries may wait for a lost rank."""
_DESCRIPTION = (
    "Run a training script on this node, one process for each GPU, together with the other nodes of the job. "
    "It gets torchrun's variables. A failed attempt starts again on all nodes at once; a signal is handed on."
)


@dataclass(frozen=True, slots=True)
class ScriptProgram:
    """Implements `Program` for a script, or with `is_module` for a module, and its arguments.

    `checkpoint_dir` is where it saves its checkpoints, as far as it says; `preload` are modules to import
    before the fork.
    """

    name: str
    args: tuple[str, ...]
    is_module: bool
    launch: LaunchConfig
    grace: float
    checkpoint_dir: str
    preload: tuple[str, ...]
    words: tuple[str, ...]
    """The whole command line."""

    uses_gpus = True

    def arguments(self) -> list[str]:
        return ["script", *self.words]

    def open(self, topology: Topology) -> None:
        return

    def close(self) -> None:
        return

    def variables(self, address: str) -> dict[str, str]:
        return {}

    def last_save(self) -> float:
        """The time of the newest file or folder in its folder of checkpoints."""
        newest = 0.0
        if self.checkpoint_dir:
            for path in (*Path(self.checkpoint_dir).glob("*"), *Path(self.checkpoint_dir).glob("*/*")):
                try:
                    newest = max(newest, path.stat().st_mtime)
                except OSError:
                    # Deleted in this moment.
                    continue
        return newest

    def newest_step(self) -> int:
        return -1

    def has_checkpoint(self) -> bool:
        return self.last_save() > 0

    def made_steps_since(self, began: float) -> bool:
        return last_step_time(Path("progress.json")) > began

    def outcome(self, code: int, *, signalled: bool) -> int:
        """A script that saves and exits with 0 after SIGTERM has not finished: a restart continues."""
        if signalled and code in {exit_codes.DONE, exit_codes.STOPPED}:
            return exit_codes.PREEMPTED if self.has_checkpoint() else exit_codes.STOPPED
        return code


class _Parser(argparse.ArgumentParser):
    """Raises UsageError instead of exiting."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def parse(words: Sequence[str]) -> ScriptProgram:
    """The program of this command line. Raises UsageError."""
    parser = _Parser("python -m trainer.launch", description=_DESCRIPTION, allow_abbrev=False)
    for item in fields(LaunchConfig):
        names = [f"--{item.name.replace('_', '-')}"]
        if item.name == "nproc":
            names.append("--nproc-per-node")
        if item.name not in {"hang_timeout", "elastic"}:
            parser.add_argument(
                *names, type=type(item.default), default=item.default, help=item.metadata["help"]
            )
    parser.add_argument(
        "--grace",
        type=float,
        default=25.0,
        help="seconds between SIGTERM, which the script gets, and SIGKILL",
    )
    parser.add_argument(
        "--checkpoint-dir", default="",
        help="where the script saves: only restarts without anything new in it count against "
        "--max-restarts",
    )  # fmt: skip
    parser.add_argument("--preload", default="", help="modules to import once, before the fork: a,b.c")
    parser.add_argument("-m", "--module", action="store_true", help="the script is a module's name")
    parser.add_argument("script", help="the script, or with -m the module")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    given: dict[str, Any] = vars(parser.parse_args(list(words)))
    for name in ("nproc", "max_restarts", "join_timeout", "peer_timeout", "grace"):
        if not 0 <= given[name] < float("inf"):
            raise UsageError(f"--{name.replace('_', '-')} must be at least 0, not {given[name]}")
    if not given["module"] and not Path(given["script"]).is_file():
        raise UsageError(f"there is no script {given['script']} on this node")
    launch = replace(
        LaunchConfig(), **{i.name: given[i.name] for i in fields(LaunchConfig) if i.name in given}
    )
    return ScriptProgram(
        given["script"], tuple(given["args"]), given["module"], launch, given["grace"],
        given["checkpoint_dir"], tuple(filter(None, given["preload"].split(","))), tuple(words),
    )  # fmt: skip


def preload(words: Sequence[str]) -> None:
    """Import what the script needs, in the fork server; what is missing is the script's to report."""
    for name in (*PRELOADED, *parse(words).preload):
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001 - the process that needs it fails with the same error
            continue


def command(words: Sequence[str]) -> list[str]:
    """The script's own command line, for a process that can't be forked."""
    program = parse(words)
    return [sys.executable, "-u", *(["-m"] if program.is_module else []), program.name, *program.args]


def run(words: Sequence[str]) -> int:
    """In a forked process: run the script as `python` would; return its exit code."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    program = parse(words)
    _use_one_thread()
    sys.argv = [program.name, *program.args]
    try:
        if program.is_module:
            sys.path[0] = str(Path.cwd())
            runpy.run_module(program.name, run_name="__main__", alter_sys=True)
        else:
            _run_file(Path(program.name).resolve())
    except SystemExit as ending:
        return _exit_code(ending)
    except Exception as error:  # noqa: BLE001 - any error of the script's
        traceback.print_exc()
        code = report_error(error, {})
        end = threading.Timer(TEARDOWN_SECONDS, os._exit, [code])
        end.daemon = True
        end.start()
        return code
    return exit_codes.DONE


def _run_file(path: Path) -> None:
    """Execute it as `__main__`, which stays so for what the script pickles and runs at exit."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=str(path), __builtins__=builtins)
    sys.modules["__main__"] = main
    sys.path[0] = str(path.parent)
    exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), main.__dict__)


def _exit_code(ending: SystemExit) -> int:
    if ending.code is None or isinstance(ending.code, int):
        return (ending.code or 0) & 0xFF
    sys.stderr.write(f"{ending.code}\n")
    return 1


def _use_one_thread() -> None:
    """As torchrun does where several processes share a machine and nobody has said how many threads."""
    if "OMP_NUM_THREADS" in os.environ or os.environ.get("LOCAL_WORLD_SIZE", "1") == "1":
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
