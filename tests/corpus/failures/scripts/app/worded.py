"""Failures of devices and services that this machine lacks, in their documented words."""

import os
import signal
import sys
import time

import engine


def raise_text(trainer, module="builtins", name="RuntimeError", text="", base="RuntimeError"):
    import builtins

    if module == "builtins":
        raise getattr(builtins, name)(text)
    raise type(name, (getattr(builtins, base),), {"__module__": module})(text)


def say(trainer, text="", err=True):
    (sys.stderr if err else sys.stdout).write(
        text.format(
            rank=trainer.s.rank,
            local=trainer.s.local_rank,
            replica=trainer.s.replica,
            pid=os.getpid(),
            now=trainer.s.now(),
        )
        + "\n"
    )
    sys.stdout.flush()
    sys.stderr.flush()


def say_and_leave(trainer, text="", code=1, err=True):
    say(trainer, text, err)
    engine.leave(code)


def say_and_die(trainer, text="", number=6):
    say(trainer, text)
    os.kill(os.getpid(), number)
    time.sleep(30)


def say_and_raise(trainer, before="", **error):
    say(trainer, before)
    raise_text(trainer, **error)


def chained(trainer, first="", second="", module="builtins", name="RuntimeError"):
    try:
        raise ConnectionError(first)
    except ConnectionError:
        raise_text(trainer, module, name, second)


def hidden(trainer, text=""):
    """An exception that only the handler of the library prints, without a traceback."""
    say(trainer, f"{time.strftime('%H:%M:%S')} CRITICAL runner: {text}")
    signal.raise_signal(signal.SIGTERM)
