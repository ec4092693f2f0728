"""A user's script runs as with `python script.py`: what it sees, and how it ends."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.trainer.ranks import _SERVER
from trainer.errors import UsageError
from trainer.launch import script
from trainer.placement.sources import find_topology
from trainer.placement.topology import Topology
from trainer.supervision.failure import read_record


def _main(home: str, words: Sequence[str], env: dict[str, str]) -> None:
    os.environ.update(env)
    os.chdir(home)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{name}-{env['RANK']}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - that of the process
    # As `python -m` does in the fork server.
    sys.path.insert(0, home)
    from trainer.launch import script_process

    sys.exit(script_process.run(words))


@dataclass
class Ended:
    code: int
    out: str
    err: str
    record: Path


def run(home: Path, *words: str, ranks: int = 1, **env: str) -> list[Ended]:
    """The command line in forked processes, one for each rank, that have torch imported."""
    processes = []
    for rank in range(ranks):
        record = home / f"record-{rank}.json"
        own = {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks),
            "VXTUI_ERROR_FILE": str(record), "TORCHELASTIC_ERROR_FILE": str(record), **env,
        }  # fmt: skip
        process = _SERVER.Process(target=_main, args=(str(home), words, own))
        process.start()
        processes.append(process)
    found = []
    for rank, process in enumerate(processes):
        process.join(60)
        out, err = ((home / f"{name}-{rank}").read_text() for name in ("out", "err"))
        code = process.exitcode
        assert code is not None, f"still running: {out} {err}"
        found.append(Ended(code, out, err, home / f"record-{rank}.json"))
    return found


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))
    return path


def test_a_script_sees_what_python_would_show_it(tmp_path: Path) -> None:
    write(tmp_path / "other" / "neighbour.py", "WORD = 'from the neighbour'")
    write(
        tmp_path / "other" / "train.py",
        """
        import inspect, json, os, sys
        import neighbour
        main = sys.modules["__main__"]
        print(json.dumps({
            "argv": sys.argv, "file": __file__, "name": __name__, "package": __package__, "path": sys.path[0],
            "cwd": os.getcwd(), "stdin": sys.stdin.read(), "word": neighbour.WORD,
            "source": "neighbour.WORD" in inspect.getsource(main), "main": main.__dict__ is globals(),
            "saved": os.environ["CHECKPOINT_DIR"] if os.path.isdir(os.environ["CHECKPOINT_DIR"]) else "",
        }))
        """,
    )
    link = tmp_path / "link.py"
    link.symlink_to(tmp_path / "other" / "train.py")
    for name in ("other/train.py", str(link)):
        words = ("--checkpoint-dir=a/b", "--", name, "-x", "--", "--nproc", "-m")
        variables = script.parse(("--checkpoint-dir", str(tmp_path / "a/b"), str(link))).variables("")
        (ended,) = run(tmp_path, *words, **variables)
        assert ended.code == 0, ended.err
        assert json.loads(ended.out) == {
            "argv": [name, "-x", "--", "--nproc", "-m"], "file": str(tmp_path / name), "name": "__main__",
            "package": None, "path": str(tmp_path / "other"), "cwd": str(tmp_path), "stdin": "",
            "word": "from the neighbour", "source": True, "main": True, "saved": str(tmp_path / "a/b"),
        }  # fmt: skip


def test_a_module_has_its_package_and_a_missing_one_is_a_sentence(tmp_path: Path) -> None:
    write(tmp_path / "mine" / "__init__.py", "")
    write(tmp_path / "mine" / "words.py", "WORD = 'relative'")
    write(
        tmp_path / "mine" / "train.py",
        """
        import sys
        from .words import WORD
        print(sys.argv[1:], __name__, __package__, WORD)
        """,
    )
    write(tmp_path / "mine" / "__main__.py", "import not_there")
    (module,) = run(tmp_path, "-m", "mine.train", "a", "-m")
    assert (module.code, module.out) == (0, "['a', '-m'] __main__ mine relative\n"), module.err
    for name in ("mine.gone", "gone.train"):
        (missing,) = run(tmp_path, "-m", name)
        record = read_record(missing.record)
        assert missing.code == 2 and missing.err == "" and record is not None
        assert record.message.startswith(f"no module {name} in {tmp_path}")
    (importing,) = run(tmp_path, "-m", "mine")
    assert importing.code == 1 and "No module named 'not_there'" in importing.err, "an error in the script"


# Exit code, what is on stdout, and the last line on stderr.
ENDINGS: dict[str, tuple[str, int, str, str]] = {
    "returns": ("print('no newline', end='')", 0, "no newline", ""),
    "number": ("import sys; sys.exit(300)", 300 - 256, "", ""),
    "text": ("import sys; sys.exit('what is wrong')", 1, "", "what is wrong"),
    "at once": ("import os; print('open', end=''); os._exit(7)", 7, "open", ""),
    "raises": ("raise ValueError('a reason')", 1, "", "ValueError: a reason"),
    "base": ("class Odd(BaseException): pass\nraise Odd('x')", 1, "", "Odd: x"),
    "interrupt": ("raise KeyboardInterrupt", 130, "", "KeyboardInterrupt"),
    "syntax": ("def f(:", 2, "", "SyntaxError: invalid syntax"),
    "hook": ("import sys\nsys.excepthook = lambda *e: print(e[1])\n1/0", 1, "division by zero\n", ""),
    "recorded": (
        "from torch.distributed.elastic.multiprocessing.errors import record\n"
        "@record\ndef main(): raise LookupError('of record')\nmain()", 1, "", "LookupError: of record",
    ),
    "handler": (
        "import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: os._exit(5))\n"
        "os.kill(os.getpid(), signal.SIGTERM)\nsignal.pause()", 5, "", "",
    ),
    "no handler": ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nsignal.pause()", -15, "", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDINGS)
def test_how_it_ends(name: str, tmp_path: Path) -> None:
    code, expected, out, last = ENDINGS[name]
    write(tmp_path / "train.py", code)
    (ended,) = run(tmp_path, "train.py")
    assert (ended.code, ended.out) == (expected, out), ended.err
    assert (ended.err.splitlines() or [""])[-1] == last
    assert "trainer/launch" not in ended.err, "the traceback has the script's frames only"
    record = read_record(ended.record)
    if expected in {1, 2} and name != "text":
        assert record is not None and "trainer/launch" not in str(record.fields.get("traceback", ""))
    else:
        assert record is None


def test_processes_of_its_own(tmp_path: Path) -> None:
    write(
        tmp_path / "train.py",
        """
        import multiprocessing as mp, os, sys

        class Samples:
            def __len__(self):
                return 4

            def __getitem__(self, index):
                return index

        def child(queue):
            queue.put((os.environ["LOCAL_RANK"], __name__))

        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                queue = mp.get_context(method).SimpleQueue()
                process = mp.get_context(method).Process(target=child, args=(queue,))
                process.start()
                print(queue.get(), flush=True)
                process.join()
            from torch.utils.data import DataLoader
            print([batch.tolist() for batch in DataLoader(Samples(), batch_size=2, num_workers=2)])
        """,
    )
    (ended,) = run(tmp_path, "train.py")
    assert ended.code == 0, ended.err
    assert ended.out == "('0', '__main__')\n('0', '__mp_main__')\n[[0, 1], [2, 3]]\n"


def test_each_process_draws_other_random_numbers(tmp_path: Path) -> None:
    write(
        tmp_path / "train.py",
        "import random, numpy, torch\nprint(random.random(), numpy.random.rand(), torch.rand(1).item())",
    )
    first, second = (ended.out.split() for ended in run(tmp_path, "train.py", ranks=2))
    assert len(first) == 3 and not set(first) & set(second), "as two Pythons of their own"


@pytest.mark.parametrize("name", ["trainer.py", "trainer/__init__.py"])
def test_its_own_module_called_as_ours_is_the_one_that_it_gets(name: str, tmp_path: Path) -> None:
    write(tmp_path / "own" / name, "class Trainer: pass")
    write(tmp_path / "own" / "train.py", "from trainer import Trainer\nraise ValueError(Trainer.__module__)")
    (ended,) = run(tmp_path, "own/train.py")
    record = read_record(ended.record)
    assert ended.code == 1 and record is not None and record.message == "ValueError: trainer"


def test_a_folder_that_can_t_be_made_is_a_sentence(tmp_path: Path) -> None:
    write(tmp_path / "train.py", "")
    (tmp_path / "file").write_text("")
    (ended,) = run(tmp_path, "--checkpoint-dir=file/x", "train.py")
    record = read_record(ended.record)
    assert ended.code == 2 and record is not None
    assert record.message == "--checkpoint-dir file/x can't be created: Not a directory"


def test_the_example_of_the_readme_reports_and_resumes(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "trainer" / "README.md").read_text()
    section = readme.partition("## A script of your own\n")[2].partition("\n## ")[0]
    (example,) = re.findall(r"^    import os\n(?:(?:    .*)?\n)+", section, re.MULTILINE)
    assert len([line for line in example.splitlines() if line.strip()]) == 10, "ten lines"
    write(tmp_path / "count.py", example)
    for kept, first in ((None, 1), (12, 13)):
        for path in (tmp_path / "saved").glob("*"):
            if kept is not None and int(path.stem) > kept:
                path.unlink()
        (ended,) = run(tmp_path, "count.py", CHECKPOINT_DIR=str(tmp_path / "saved"))
        assert ended.code == 0, ended.err
        said = [json.loads(line)["vxtui"] for line in ended.out.splitlines()]
        assert [line["step"] for line in said] == list(range(first, 21))
        assert {line["total_steps"] for line in said} == {20} and said[-1]["loss"] == 0.05


def topology(words: Sequence[str], env: dict[str, str]) -> Topology:
    return find_topology(script.parse([*words, "-m", "x"]).environment(env))


def test_nodes_by_torchruns_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"CLUSTER_SPEC": '{"cluster": {"workerpool0": ["a:1"]}, "task": {"type": "workerpool0"}}'}
    found = topology(
        ["--nnodes=2", "--node_rank", "1", "--master_addr=h", "--master-port=7", "--rdzv-backend=static"],
        cluster,
    )
    assert (found.nodes, found.node_rank, found.address, found.port) == (2, 1, "h", 7)
    found = topology(["--nnodes=2", "--node-rank=0", "--rdzv-endpoint=h:9", "--rdzv-id=j"], {})
    assert (found.address, found.port, found.job.startswith("j-")) == ("h", 9, True)
    assert topology(["--standalone"], cluster).source == "PET_NNODES"
    assert topology([], cluster).source == "CLUSTER_SPEC"
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    for value, count in (("gpu", 0), ("auto", 0), ("cpu", 6), ("3", 3)):
        assert script.parse(["--nproc_per_node", value, "-m", "x"]).launch.nproc == count
    for words, said in (
        (["--node-rank=1"], "--node-rank needs --nnodes"),
        (["--nnodes=2"], "--nnodes 2 needs --node-rank"),
        (["--nproc=two"], "two must be a number, gpu, auto or cpu"),
    ):
        with pytest.raises(UsageError, match=said):
            script.parse([*words, "-m", "x"])


def test_where_it_saves_unless_a_flag_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(*words: str) -> Any:
        return script.parse([*words, "-m", "x"]).variables("").get("CHECKPOINT_DIR")

    for name in ("CHECKPOINT_DIR", "AIP_CHECKPOINT_DIR", "CLOUD_ML_JOB_ID", "VXTUI_GCS_ROOT"):
        monkeypatch.delenv(name, raising=False)
    assert found() is None
    monkeypatch.setenv("AIP_CHECKPOINT_DIR", "gs://bucket/run/checkpoints/")
    monkeypatch.setenv("CLOUD_ML_JOB_ID", "77")
    monkeypatch.setenv("VXTUI_GCS_ROOT", str(tmp_path))
    assert found() == f"{tmp_path}/bucket/run/checkpoints/77", "the same in each attempt of the job"
    assert found("--checkpoint-dir=/gcs/other/x") == f"{tmp_path}/other/x"
    monkeypatch.setenv("CHECKPOINT_DIR", "mine")
    assert found() == str(Path("mine").absolute())
