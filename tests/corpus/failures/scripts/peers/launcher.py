"""Starts the ranks of a replica with one output, and ends them all when one fails, as launchers do."""

import json
import os
import signal
import subprocess
import sys
import time


def main():
    settings = json.loads(os.environ["RUN_SETTINGS"])
    count, style = settings["ranks"], settings["launcher"]
    node, world = int(os.environ["GROUP_RANK"]), os.environ["WORLD_SIZE"]
    started, scale, epoch = float(os.environ["RUN_STARTED"]), settings["scale"], settings["epoch"]

    def stamp(form="%Y-%m-%d %H:%M:%S"):
        now = epoch + (time.time() - started) * scale
        return time.strftime(form, time.gmtime(now)) + f",{int(now % 1 * 1000):03d}"

    def say(text):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    children = []
    for local in range(count):
        env = os.environ | {"RANK": str(node * count + local), "LOCAL_RANK": str(local)}
        children.append(subprocess.Popen([sys.executable, "-u", *sys.argv[1:]], env=env))
        if style == "deepspeed":
            say(
                f"[{stamp()}] [INFO] [launch.py:256:main] process {children[-1].pid} spawned with command: ['/opt/conda/bin/python', '-u', '{sys.argv[1]}', '--local_rank={local}']"
            )

    def end(number, frame):
        for child in children:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    failed = None
    while any(c.poll() is None for c in children):
        for local, child in enumerate(children):
            if child.poll():
                failed = local
                break
        if failed is not None:
            break
        time.sleep(0.01)
    if failed is None:
        failed = next((n for n, c in enumerate(children) if c.returncode), None)
        if failed is None:
            return 0
    time.sleep(settings["launcher_delay"] / scale)
    code = children[failed].returncode
    # A launcher that polls in the order of ranks names the lowest one that has failed by now.
    if style == "torchrun":
        name = f"({signal.Signals(-code).name})" if code < 0 else ""
        head = f"E{stamp('%m%d %H:%M:%S').replace(',', '.')}000 {os.getpid()} torch/distributed/elastic/multiprocessing/api.py:882]"
        warn = head.replace("E", "W", 1).replace("882", "908")
        for child in children:
            if child.poll() is None:
                say(f"{warn} Sending process {child.pid} closing signal SIGTERM")
    for child in children:
        if child.poll() is None:
            if style == "deepspeed":
                say(f"[{stamp()}] [INFO] [launch.py:319:sigkill_handler] Killing subprocess {child.pid}")
            child.send_signal(signal.SIGTERM)
    until = time.time() + 10 / scale
    for child in children:
        try:
            child.wait(max(0.05, until - time.time()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    script = sys.argv[1].rsplit("/", 1)[-1]
    if style == "torchrun":
        say(
            f"{head} failed (exitcode: {code}) local_rank: {failed} (pid: {children[failed].pid}) of binary: /opt/conda/bin/python"
        )
        say("Traceback (most recent call last):")
        site = "/opt/conda/lib/python3.11/site-packages/torch/distributed"
        say(
            '  File "/opt/conda/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n             ^^^^^^'
        )
        for where, what in (
            (
                f'{site}/elastic/multiprocessing/errors/__init__.py", line 357, in wrapper',
                "return f(*args, **kwargs)",
            ),
            (f'{site}/run.py", line 936, in main', "run(args)"),
            (f'{site}/run.py", line 927, in run', "elastic_launch("),
            (
                f'{site}/launcher/api.py", line 156, in __call__',
                "return launch_agent(self._config, self._entrypoint, list(args))",
            ),
            (f'{site}/launcher/api.py", line 293, in launch_agent', "raise ChildFailedError("),
        ):
            say(f'  File "{where}\n    {what}')
        say("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ")
        say("=" * 60)
        say(f"{script} FAILED\n" + "-" * 60)
        others = [n for n, c in enumerate(children) if c.returncode and n != failed and c.returncode != -15]
        say("Failures:" if others else "Failures:\n  <NO_OTHER_FAILURES>")
        for n, local in enumerate(others, 1):
            say(block(n, node * count + local, local, children[local], stamp("%Y-%m-%d_%H:%M:%S")[:-4]))
        say("-" * 60 + "\nRoot Cause (first observed failure):")
        say(block(0, node * count + failed, failed, children[failed], stamp("%Y-%m-%d_%H:%M:%S")[:-4]))
        say("=" * 60)
        del name
        return 1
    if style == "deepspeed":
        say(
            f"[{stamp()}] [ERROR] [launch.py:325:sigkill_handler] ['/opt/conda/bin/python', '-u', '{script}', '--local_rank={failed}'] exits with return code = {code}"
        )
        return code % 256
    if style == "accelerate":
        say("Traceback (most recent call last):")
        say(
            '  File "/opt/conda/bin/accelerate", line 8, in <module>\n    sys.exit(main())\n             ^^^^^^'
        )
        say(
            '  File "/opt/conda/lib/python3.11/site-packages/accelerate/commands/launch.py", line 1168, in launch_command\n    simple_launcher(args)'
        )
        say(
            '  File "/opt/conda/lib/python3.11/site-packages/accelerate/commands/launch.py", line 763, in simple_launcher\n    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)'
        )
        status = (
            f"died with <Signals.{signal.Signals(-code).name}: {-code}>."
            if code < 0
            else f"returned non-zero exit status {code}."
        )
        say(f"subprocess.CalledProcessError: Command '['/opt/conda/bin/python', '{script}']' {status}")
        return 1
    if style == "mpirun":
        rule = "-" * 74
        if code < 0:
            say(
                f"{rule}\nmpirun noticed that process rank {node * count + failed} with PID {children[failed].pid} on node {os.environ['REPLICA']} exited on signal {-code} ({signal.strsignal(-code)}).\n{rule}"
            )
        else:
            say(
                f"{rule}\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the job has been aborted.\n{rule}"
            )
            say(
                f"{rule}\nmpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[41228,1],{node * count + failed}]\n  Exit code:    {code}\n{rule}"
            )
        return code if code > 0 else 128 - code
    return code if code > 0 else 128 - code


def block(n, rank, local, child, when):
    code = child.returncode
    trace = (
        f"Signal {-code} ({signal.Signals(-code).name}) received by PID {child.pid}"
        if code < 0
        else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    )
    return (
        f"[{n}]:\n  time      : {when}\n  host      : {os.environ['REPLICA']}.internal\n  rank      : {rank} (local_rank: {local})\n"
        f"  exitcode  : {code} (pid: {child.pid})\n  error_file: <N/A>\n  traceback : {trace}"
    )


if __name__ == "__main__":
    sys.exit(main())
