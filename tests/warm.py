"""Starts `vxtui`, its emulators and programs of the SDK as forks of a process that has imported them.

That saves one or two seconds of CPU a start.

A forked program is a process of its own, with its arguments, environment, folder, descriptors, session, exit
code and signals, which `/proc` shows too. What only a cold start proves (import time, lazy imports, signals
at the start, variables that Python reads at its start) is tested with `subprocess.Popen`.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
VXTUI = str(Path(sys.executable).parent / "vxtui")
FORKED = "# A fork will do."
"""Line of a program of `python -c` that needs what `vxtui` imports."""
SIGNS = {FORKED: "vxtui", "google.cloud import aiplatform": "sdk"}
"""Kind of a program of `python -c`, by what it contains."""
MODULES = ("tui.emulator", "tui.emulator.kubernetes")
"""Modules that are forked for `python -m`."""
AT_START = ("PYTHON", "LANG", "LC_", "TEXTUAL_", "TZ", "MALLOC_", "LD_", "VXTUI_EAGER", "GRPC_", "COVERAGE")
"""Beginnings of variables that are read by the start of Python or by an import."""
WARNINGS = "PYTHONWARNINGS"
ADDRESS = "VXTUI_WARM"
"""Variable of a forked program: the address at which it starts others."""
SERVE = "import sys; from tests import warm; warm.run_to_the_end(warm.serve(*sys.argv[1:4]))"
ROOM, WORDS = 32_768, 1_024
"""Bytes for the variables and for the arguments of a forked program."""
LARGEST = 200_000


# In a test


class WarmPopen(subprocess.Popen):  # type: ignore[type-arg]
    """A `subprocess.Popen` that forks a warm process where it can."""

    _status: socket.socket | None = None

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *rest: Any) -> None:
        (_close_fds, pass_fds, cwd, env, _info, _flags, shell, p2cread, p2cwrite, c2pread, c2pwrite,
         errread, errwrite, _restore, gid, gids, uid, umask, new_session, group) = rest  # fmt: skip
        words = [os.fsdecode(word) for word in args] if not isinstance(args, str) else [args]
        env = dict(os.environ) if env is None else {os.fsdecode(k): os.fsdecode(v) for k, v in env.items()}
        address = _address_for(words, env)
        odd = (executable, preexec_fn, shell, *pass_fds, gid, gids, uid)
        if address is None or any(odd) or umask >= 0 or group >= 0:
            super()._execute_child(args, executable, preexec_fn, *rest)  # type: ignore[misc]
            return
        plan = {
            "words": words, "env": env, "cwd": str(Path(cwd or ".").absolute()), "session": bool(new_session),
        }  # fmt: skip
        fds = [own if fd == -1 else fd for own, fd in enumerate((p2cread, c2pwrite, errwrite))]
        self._status = _request(address, plan, fds)
        self.pid = int(self._status.recv(64))
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]

    def _internal_poll(self, *more: Any, **rest: Any) -> int | None:
        if self._status is None:
            return super()._internal_poll(*more, **rest)  # type: ignore[misc, no-any-return]
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if self._status is None:
            return super()._try_wait(flags)  # type: ignore[misc, no-any-return]
        try:
            said = self._status.recv(64, socket.MSG_DONTWAIT if flags & os.WNOHANG else 0)
        except BlockingIOError:
            return 0, 0
        self._status.close()
        # Without a status the server was killed, and who asks waits for nothing.
        return self.pid, int(said or signal.SIGKILL)


_servers: dict[tuple[str, str], tuple[str, int | socket.socket]] = {}
"""Address and life line of each server, by the kind of its programs and its LANG."""


def _address_for(words: Sequence[str], env: Mapping[str, str]) -> str | None:
    """Return the address of the server that can fork this program; None for a cold start."""
    kind = _kind(words)
    if kind is None:
        return None
    if ADDRESS in os.environ:
        return os.environ[ADDRESS]
    own, start = (
        {name: value for name, value in each.items() if name.startswith(AT_START) and name != WARNINGS}
        for each in (os.environ, env)
    )
    if start not in (own, own | {"LANG": "C.UTF-8"}) or env.get(WARNINGS, "ignore") != "ignore":
        return None
    key = kind, start.get("LANG", "")
    if key not in _servers:
        _servers[key] = _server(*key, start)
    return _servers[key][0]


def _kind(words: Sequence[str]) -> str | None:
    """Return the kind of a program, which says what is imported for it; None for a cold start."""
    if words[0] == VXTUI or (words[0] == sys.executable and words[1:2] == ["-m"] and words[2] in MODULES):
        return "vxtui"
    if words[0] == sys.executable and "-c" in words[1:4] and words[1] in {"-c", "-W"}:
        program = words[words.index("-c") + 1]
        return next((kind for sign, kind in SIGNS.items() if sign in program), None)
    return None


def _server(kind: str, lang: str, start: Mapping[str, str]) -> tuple[str, int | socket.socket]:
    """Start a server, unless another process of this test run has done so."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    address = f"vxtui-warm-{run}-{kind}-{lang}"
    with suppress(ConnectionRefusedError):
        return address, _request(address, {"stays": True}, [0])
    end, life = os.pipe()
    # NumPy would start threads.
    env = {"PATH": os.environ.get("PATH", os.defpath), "OPENBLAS_NUM_THREADS": "1", **start}
    env |= {"ROOM": "x" * ROOM, WARNINGS: "ignore"}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), start.get("PYTHONPATH", ""))))
    command = [sys.executable, "-c", SERVE, address, kind, str(end), "x" * WORDS]
    subprocess.Popen(command, env=env, cwd=ROOT, pass_fds=[end], stdin=subprocess.DEVNULL)
    os.close(end)
    atexit.register(lambda: os.close(life))
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with suppress(ConnectionRefusedError):
            _request(address, {"stays": False}, [0]).close()
            return address, life
        time.sleep(0.01)
    raise AssertionError("the warm process never listened")


def _request(address: str, plan: Mapping[str, Any], fds: Sequence[int]) -> socket.socket:
    """Have a program started, and return the socket that tells its pid and later its exit status."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.connect(f"\0{address}")
    socket.send_fds(client, [json.dumps(plan).encode()], list(fds))
    return client


# In the server


def _preload(kind: str) -> None:
    """Import what the programs import, in the way they do."""
    if kind == "sdk":
        importlib.import_module("google.cloud.aiplatform")
        importlib.import_module("google.cloud.storage")
    else:
        import tui
        from tui import lazy_imports

        lazy_imports.load((*lazy_imports.CLIENTS, "tui.emulator.server"))
        for module in pkgutil.walk_packages(tui.__path__, "tui."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def serve(address: str, kind: str, life_line: str) -> Callable[[], None]:
    """Fork a program for each request while somebody holds a life line. Return, in a fork, its program."""
    life = int(life_line)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        server.bind(f"\0{address}")
    except OSError:
        # Another worker was faster.
        os._exit(0)
    server.listen(64)
    environment = set(os.environ)
    _preload(kind)
    added = {name: os.environ[name] for name in os.environ.keys() - environment}
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    children: dict[int, socket.socket] = {}
    selector = selectors.DefaultSelector()
    for readable in (server, wake, life):
        selector.register(readable, selectors.EVENT_READ)
    lines: list[int | socket.socket] = [life]
    while lines:
        for key, _ in selector.select():
            if key.fileobj in lines:
                selector.unregister(key.fileobj)
                lines.remove(key.fileobj)  # type: ignore[arg-type]
                continue
            if key.fileobj == wake:
                os.read(wake, 4096)
                _reap(children)
                continue
            client, _ = server.accept()
            data, fds, _, _ = socket.recv_fds(client, LARGEST, 3)
            plan = json.loads(data or b"{}")
            if plan.get("stays"):
                selector.register(client, selectors.EVENT_READ)
                lines.append(client)
            if "words" not in plan:
                _close(*fds)
                continue
            assert len(list(Path("/proc/self/task").iterdir())) == 1, (
                "a fork of a process with threads may hang"
            )
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _close(selector, server, client, *children.values(), *lines, wake, woken)
                return _become(plan, fds, {**added, ADDRESS: address})
            with suppress(OSError):
                client.send(str(pid).encode())
            children[pid] = client
            _close(*fds)
    os._exit(0)


def _close(*files: Any) -> None:
    for file in files:
        os.close(file) if isinstance(file, int) else file.close()


def _reap(children: dict[int, socket.socket]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        with suppress(OSError), children.pop(pid) as client:
            client.send(str(status).encode())


# In a fork


def _become(plan: Mapping[str, Any], fds: Sequence[int], more: Mapping[str, str]) -> Callable[[], None]:
    """Turn this fork into a new process, and return its program."""
    if plan["session"]:
        os.setsid()
    for own, fd in enumerate(fds):
        os.dup2(fd, own)
        os.close(fd)
    os.chdir(plan["cwd"])
    os.environ.clear()
    os.environ.update({**more, **plan["env"]})
    _show(plan["words"], os.environ)
    time.tzset()
    words = plan["words"]
    if WARNINGS not in plan["env"] and "-W" not in words:
        # What the server's variable has added.
        warnings.filters.remove(("ignore", None, Warning, None, 0))  # type: ignore[attr-defined]
    tempfile.tempdir = None
    _streams()
    subprocess.Popen = WarmPopen  # type: ignore[misc]
    sys.modules["__main__"] = main = types.ModuleType("__main__")

    def run() -> None:
        if words[0] == VXTUI:
            sys.argv, sys.path[0] = words, str(Path(VXTUI).parent)
            sys.exit(importlib.import_module("tui.cli").main())
        if words[1] == "-m":
            sys.argv, sys.path[0] = words[2:], plan["cwd"]
            runpy.run_module(words[2], run_name="__main__", alter_sys=True)
        else:
            at = words.index("-c") + 1
            sys.argv, sys.path[0] = ["-c", *words[at + 1 :]], ""
            exec(compile(words[at], "<string>", "exec"), vars(main))

    return run


def run_to_the_end(program: Callable[[], None]) -> NoReturn:
    """Run a program and end as Python does, but for its modules: to take them apart costs 0.1 s of CPU."""
    code: Any = 0
    try:
        program()
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 - as of a Python that ends
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        code = 120
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code or 0)


def _show(words: Sequence[str], env: Mapping[str, str]) -> None:
    """Let `/proc` show these arguments and variables, in the memory of those of the server."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end, env_begin, env_end = map(int, fields[45:49])
    shown = [sys.executable, *words] if words[0] == VXTUI else words
    texts = [f"{name}={value}" for name, value in env.items()]
    # Spaces fill the rest of the arguments, which would be many empty ones.
    for at, until, lines, rest in ((begin, end, shown, b" "), (env_begin, env_end, texts, b"\0")):
        data = b"".join(os.fsencode(line) + b"\0" for line in lines)[: until - at - 1]
        ctypes.memmove(at, data.ljust(until - at - 1, rest) + b"\0", until - at)


def _streams() -> None:
    """Open the standard streams as Python does at its start."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        raw = io.FileIO(fd, mode, closefd=False)
        through = mode == "w" and bool(os.environ.get("PYTHONUNBUFFERED"))
        buffer = io.BufferedReader(raw) if mode == "r" else raw if through else io.BufferedWriter(raw)
        errors = "backslashreplace" if fd == 2 else getattr(sys, f"__{name}__").errors
        lines = fd == 2 or raw.isatty()
        stream = io.TextIOWrapper(
            buffer,  # type: ignore[arg-type]
            encoding="utf-8",
            errors=errors,
            line_buffering=lines,
            write_through=through,
        )
        stream.mode = mode  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
