"""A process of a user's script: it runs like `python script.py`, and records its error. The process is a fork
of the fork server, or a new Python: `python -m trainer.launch.script_process WORDS`."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import runpy
import signal
import sys
import threading
import types
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from trainer import exit_codes
from trainer.errors import UsageError
from trainer.hang import agent
from trainer.launch.script import parse
from trainer.prctl import die_with_parent
from trainer.supervision.failure import report_error

_PRELOADED = ("torch", "torch.distributed", "torch._dynamo", "torch.distributed.fsdp", "torch.utils.data")
_TEARDOWN_SECONDS = 10.0
"""Seconds that a process may live after an error, because threads of its libraries may wait for a lost
rank."""
_OWN_PACKAGE = "trainer"
"""Name of this package; the script may have a package of the same name."""
_FOREIGN_FRAMES = (__file__, "<frozen runpy>", "<frozen importlib._bootstrap>")


def preload(words: Sequence[str]) -> None:
    """Import the script's modules in the fork server; the script itself reports missing modules."""
    program = parse(words)
    for name in (*_PRELOADED, *program.preload) if program.fork else ():
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001 - the process that needs it fails with the same error
            continue


def command(words: Sequence[str]) -> list[str]:
    """Return the command line for a process that can't be forked."""
    safe = ["-P"] if sys.flags.safe_path else []
    return [sys.executable, *safe, "-u", "-m", "trainer.launch.script_process", *words]


def run(words: Sequence[str]) -> int:
    """Run the script as `python` would; return its exit code."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    program = parse(words)
    agent.start()
    _use_one_thread()
    _seed()
    sys.argv = [program.name, *program.args]
    try:
        _make_folder(program.checkpoint_dir)
        if program.is_module:
            _run_module(program.name)
        else:
            _run_file(program.name)
    except SystemExit as ending:
        return _exit_code(ending)
    except KeyboardInterrupt as error:
        _print(error)
        return 128 + signal.SIGINT
    except BaseException as error:  # noqa: BLE001 - any error of the script; some of torch's are no Exception
        return _failed(error)
    return exit_codes.DONE


def _failed(error: BaseException) -> int:
    if isinstance(error, UsageError):
        return report_error(error, {})
    _print(error)
    code = report_error(error, {})
    end = threading.Timer(_TEARDOWN_SECONDS, os._exit, [code])
    end.daemon = True
    end.start()
    return code


def _print(error: BaseException) -> None:
    """Print the error as Python does, with the script's own hook if it has one, without the frames of this
    module."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _FOREIGN_FRAMES:
        trace = trace.tb_next
    error.__traceback__ = trace
    sys.excepthook(type(error), error, trace)


def _run_file(name: str) -> None:
    """Execute the file as `__main__`, which remains for objects that the script pickles and for exit
    handlers."""
    path = Path(name).absolute()
    _set_path(str(path.resolve().parent))
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=str(path), __builtins__=builtins)
    try:
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        _print(error)
        raise UsageError(f"the script can't be run: {error}") from error
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _run_module(name: str) -> None:
    _set_path(str(Path.cwd()))
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = None
    if spec is None:
        raise UsageError(f"no module {name} in {Path.cwd()} or on the PYTHONPATH of this node")
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _set_path(folder: str) -> None:
    """Search modules in this folder first; a package with this package's name in the folder then belongs to
    the script."""
    if not sys.flags.safe_path:
        sys.path[0] = folder
    elif "PYTHONSAFEPATH" not in os.environ:
        sys.path.insert(0, folder)
    spec, ours = PathFinder.find_spec(_OWN_PACKAGE), sys.modules[_OWN_PACKAGE]
    if spec is not None and spec.origin != ours.__file__:
        for name in [name for name in sys.modules if f"{name}.".startswith(f"{_OWN_PACKAGE}.")]:
            del sys.modules[name]


def _make_folder(name: str) -> None:
    try:
        if name:
            Path(name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--checkpoint-dir {name} can't be created: {error.strerror}") from error


def _seed() -> None:
    """Draw new seeds, because modules imported before the fork have the same state in all processes."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed()
    if torch is not None:
        torch.seed()


def _exit_code(ending: SystemExit) -> int:
    if ending.code is None or isinstance(ending.code, int):
        return (ending.code or 0) & 0xFF
    sys.stderr.write(f"{ending.code}\n")
    return 1


def _use_one_thread() -> None:
    """Use one thread, as torchrun does for several processes on a machine without OMP_NUM_THREADS."""
    if "OMP_NUM_THREADS" in os.environ or os.environ.get("LOCAL_WORLD_SIZE", "1") == "1":
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
