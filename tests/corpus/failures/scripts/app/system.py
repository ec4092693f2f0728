"""Limits and signals of the machine."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time

import engine


def segfault(trainer):
    import ctypes
    import faulthandler

    faulthandler.enable()
    ctypes.string_at(16)


def segfault_quiet(trainer):
    import ctypes

    ctypes.string_at(16)


def illegal(trainer):
    import ctypes
    import mmap

    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\x0f\x0b\xc3")
    call = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    call()


def cxx_throw(trainer, what="bad_alloc"):
    subprocess.run(["./kernel_runner", what], check=True, cwd=os.environ["WORK"])


def abort(trainer):
    os.abort()


def kill_self(trainer, number=9):
    sys.stdout.flush()
    os.kill(os.getpid(), number)
    time.sleep(30)


def eat_memory(trainer):
    """Grow until the kernel ends the process, in a memory cgroup of its own."""
    group = f"/sys/fs/cgroup/memory/corpus-{os.getpid()}"
    os.makedirs(group, exist_ok=True)
    with open(f"{group}/memory.limit_in_bytes", "w") as file:
        file.write(str(96 << 20))
    with open(f"{group}/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
    blocks = []
    while True:
        blocks.append(bytearray(os.urandom(1 << 20)) * 4)


def limit_memory(trainer, megabytes=400):
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    cache = []
    while True:
        cache.append(bytearray(16 << 20))


def huge_array(trainer):
    import numpy as np

    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    return np.ones((32, 2048, 2048, 1024), dtype=np.float32)


def many_files(trainer, limit=64):
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    handles = []
    for n in range(limit * 2):
        handles.append(open(os.path.join(os.environ["WORK"], f"shard-{n}.idx"), "w"))


def many_threads(trainer):
    os.setgroups([])
    os.setuid(61000 + trainer.s.rank)
    resource.setrlimit(resource.RLIMIT_NPROC, (12, 12))
    stop = threading.Event()
    for _ in range(40):
        threading.Thread(target=stop.wait, daemon=True).start()


def many_processes(trainer):
    os.setgroups([])
    os.setuid(62000 + trainer.s.rank)
    resource.setrlimit(resource.RLIMIT_NPROC, (8, 8))
    children = [subprocess.Popen(["sleep", "20"]) for _ in range(30)]
    return children


def unprivileged_write(trainer, path="/opt/ml/output"):
    os.makedirs(path, exist_ok=True)
    os.chmod(path, 0o755)
    os.setgroups([])
    os.setuid(63000)
    with open(os.path.join(path, f"metrics-{trainer.s.rank}.json"), "w") as file:
        file.write("{}")


def unprivileged_read(trainer, path="/secrets/hf/token"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write("x")
    os.chmod(path, 0o600)
    os.setgroups([])
    os.setuid(63000)
    return open(path).read()


def bind_low_port(trainer):
    import socket

    os.setgroups([])
    os.setuid(63000)
    socket.create_server(("127.0.0.1", 443))


def file_limit(trainer):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    with open(os.path.join(os.environ["WORK"], "cache.arrow"), "wb") as file:
        for _ in range(64):
            file.write(b"0" * (1 << 16))
            file.flush()


def leave_silently(trainer, code=1):
    engine.leave(code)


def leave_unflushed(trainer, code=1):
    sys.stdout.write("RuntimeError: this line is lost in a buffer")
    os._exit(code)


def say_and_leave(trainer, text="training failed", code=1):
    sys.stderr.write(text + "\n")
    engine.leave(code)


def interrupt(trainer):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)


def notice_preemption(
    trainer, seconds=25.0, text="SIGTERM received: the node will be preempted, saving a checkpoint"
):
    """Handle the SIGTERM that the machine sends: save, then leave with 143."""

    def handler(number, frame):
        from console import err, out, stamp

        s = trainer.s
        err(stamp(s, text, "WARNING"))
        out(stamp(s, f"Saving model checkpoint to {s.output}/checkpoint-{trainer.step}"))
        s.sleep(seconds)
        out(stamp(s, f"checkpoint-{trainer.step} saved, leaving"))
        engine.leave(143)

    signal.signal(signal.SIGTERM, handler)


def ignore_signals(trainer):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def hang(trainer, seconds=100000.0):
    time.sleep(seconds / trainer.s.scale)


def lock_twice(trainer):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def slow_leave(trainer, seconds=20.0):
    """A thread that is not a daemon delays the end of the process after its traceback."""
    threading.Thread(target=time.sleep, args=(seconds / trainer.s.scale,)).start()


def atexit_noise(trainer):
    import atexit

    def close():
        from console import err

        err("Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f3a2c1d7e20>")
        err(
            'Traceback (most recent call last):\n  File "/opt/conda/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1604, in __del__\n    self._shutdown_workers()\nAssertionError: can only test a child process'
        )
        err(
            "[rank%d]:[W%s ProcessGroupNCCL.cpp:1479] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources."
            % (trainer.s.rank, time.strftime("%m%d %H:%M:%S", time.gmtime(trainer.s.now())))
        )
        err(
            "/opt/conda/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 12 leaked semaphore objects to clean up at shutdown"
        )

    atexit.register(close)


def wandb_summary(trainer):
    import atexit

    def close():
        from console import err

        err("wandb: \nwandb: Run history:")
        for n in range(14):
            err(f"wandb:   train/metric_{n} ▁▂▃▅▆█▇▇")
        err(
            "wandb: 🚀 View run cosmic-sun-12 at: https://wandb.ai/acme/pretrain/runs/8f3k2\nwandb: Find logs at: ./wandb/run-20261128/logs"
        )

    atexit.register(close)
