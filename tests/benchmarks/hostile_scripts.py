"""Random scripts that grow, nest, loop and read what they must not: the import's CPU time and memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.benchmarks.harness import ROOT, Result, cost

SCRIPTS = 2000
_AT_ONCE = 100
"""Scripts that one process imports."""
MOST_SECONDS = 3.0
MOST_CPU_SECONDS = 6.0
"""The import itself stops after 5 s."""
MOST_MB = 300
CALL = "gcloud ai custom-jobs create --region=us-central1 --display-name=$A --args=$B\n"
_NAMES = "ABCD"


def _word(random: Random) -> str:
    name, other = random.choice(_NAMES), random.choice(_NAMES)
    stars = "*".join(random.choices("ab", k=random.randint(1, 30)))
    wide = random.choice([3, 99, 1000, 99999, 999999999])
    return random.choice([
        f"${name}${name}", f'"${name}${other}${name}"', f"${{{name}##*{stars}}}", f"${{{name}%%{stars}*}}",
        f"${{{name}//a/${other}}}", f"${{{name}//{stars}/x}}", f"${{{name}:-${other}}}", f"${{{name}^^}}",
        f"$(echo ${name}${other})", f"$(printf '%{wide}s' ${name})", f"$(printf '%0{wide}d' 1)",
        f"$(seq 1 {wide})", "a" * min(wide, 99999), "{1..999}{a,b}" * random.randint(1, 6),
        f"$((${name}**{wide}))", f"$(({'(' * random.randint(1, 400)}1", "$(<./fifo)", "$(</dev/zero)",
        "$(</etc/passwd)", "$(cat ../outside /proc/self/environ)", f"`cat {random.choice(['big', 'link'])}`",
        "$(" * random.randint(1, 90) + "echo a" + ")" * random.randint(1, 90), "[" * random.randint(1, 999),
        "{" * random.randint(1, 2000), f"'{'x' * random.randint(1, 20)}'", '"${A[@]}" "${A[@]}"', "'*a*b'",
    ])  # fmt: skip


def _line(random: Random, depth: int) -> str:
    name, word = random.choice(_NAMES), _word(random)
    inner = _line(random, depth - 1) if depth else f"{name}={word}\n"
    simple = [
        f"{name}={word}\n", f"{name}+={word}\n", f"{name}=(${{{name}[@]}} {word} {word})\n",
        f"source ./{random.choice(['fifo', 'big', 'self.sh', 'link'])}\n", f"source {word}\n",
        f"echo {word} >> out\n", f"eval \"{inner.strip()}\"\n",
        f"printf -v {name} {word} {word}\n", "cat out out > out2; cat out2 >> out\n",
        f"read A B C <<< {word}\n", f"mapfile -t {name} <<< {word}\n", f"cat <<END\n{word}\n${name}\nEND\n",
    ]  # fmt: skip
    nested = [
        f"for i in {word} 1 2 3; do\n{inner}done\n", f"while true; do\n{inner}done\n", f"( {inner})\n",
        f"for ((i=0; i<{random.choice([3, 900, 10**9])}; i++)); do\n{inner}done\n",
        f"if [[ {word} == {word} ]]; then\n{inner}else\n{inner}fi\n", f"f() {{\n{inner}f; f\n}}\nf\n",
        f"case {word} in *a*) {inner};; *) {inner};; esac\n", f"[ -f {word} ] && {{ {inner} }}\n",
        f"if unknown {word}; then\n{inner}fi\n", f"{inner.strip()} | while read A; do\n{inner}done\n",
    ]  # fmt: skip
    return random.choice(nested if depth and random.random() < 0.6 else simple)


def script(random: Random) -> str:
    """A script that ends with a call; some lines are repeated many times."""
    lines = ["A=a B=b\n"]
    for _ in range(random.randint(1, 8)):
        lines.append(_line(random, random.randint(0, 4)) * random.choice([1, 1, 1, 25, 400]))
    return "".join(lines)[:900_000] + CALL


def surroundings_in(folder: Path) -> None:
    """Write the files that the scripts name."""
    os.mkfifo(folder / "fifo")
    (folder / "big").write_bytes(b"a" * 3_000_000)
    (folder / "self.sh").write_text("A=$A$A\nsource ./self.sh\n")
    (folder / "link").symlink_to("/etc/passwd")


def _ends_on_sigterm(text: str, folder: Path) -> float:
    """Seconds from SIGTERM in the middle of an import to its end."""
    (folder / "run.sh").write_text(text)
    program = [sys.executable, "-m", "tui.cli", "profiles", "import", str(folder / "run.sh")]
    command = [*program, "--name", "x", "--force", "--command", "1"]
    env = {**os.environ, "HOME": str(folder), "VXTUI_STATE_DIR": str(folder)}
    null = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=null, stdout=null, stderr=null)
    # It imports modules for half a second first.
    time.sleep(1.5)
    process.send_signal(signal.SIGTERM)
    began = time.perf_counter()
    process.wait()
    return time.perf_counter() - began


def run() -> Iterator[Result]:
    """The scripts in one process, then the slowest of them ended by SIGTERM."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        surroundings_in(folder)
        wrong, times, memory = 0, [], 0.0
        for first in range(0, SCRIPTS, _AT_ONCE):
            words = [str(folder), str(first), str(first + _AT_ONCE)]
            child = [sys.executable, "-m", "tests.benchmarks.hostile_scripts_child", *words]
            report = json.loads(cost(child).out.splitlines()[-1])
            wrong, times = wrong + len(report["wrong"]), times + report["times"]
            memory = max(memory, report["memory"])
        times.sort(reverse=True)
        yield Result(f"{SCRIPTS} scripts: other than a profile or a problem", wrong, 0, "")
        yield Result("the slowest", times[0][0], MOST_CPU_SECONDS, "s")
        yield Result("the most memory of one process", memory, MOST_MB, "MB")
        for _, seed in times[:5]:
            took = _ends_on_sigterm(script(Random(seed)), folder)
            yield Result(f"script {seed} after SIGTERM", took, MOST_SECONDS, "s")
