"""Writes a recording as the files of a case: the log in its form, the job, and what is true."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

from tests.corpus.failures.case import Case
from tests.corpus.failures.harness import Entry, Recording, names

HEADER = "Traceback (most recent call last):"
GZIP_FROM = 24_000
"""Size in bytes from which a log is compressed."""
SERVICE_START = (
    "Waiting for job to be provisioned.",
    "Vertex AI is provisioning job running framework. First time usage might take couple of minutes.",
    "Vertex AI is setting up this job.",
    "Waiting for training program to start.",
    "Job is preparing.",
    "Job is running.",
)


class UntrueCase(Exception):
    """The run did not fail as the case says."""


def write(case: Case, recording: Recording, folder: Path) -> dict[str, Any]:
    """Write `log.*`, `job.json` and `expect.json`. Return what to report about the case."""
    error = case.error if case.error is not None else error_text(case, recording)
    if recording.job is not None:
        error = recording.job["error"]
    entries = arranged(case, with_service(case, recording, error))
    expect = expected(case, entries, error)
    if case.form == "gcloud":
        # `gcloud logging read` prints the newest entry first.
        entries.reverse()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("log.*"):
        old.unlink()
    name, text = rendered(case, entries)
    roots = map(re.escape, (sys.prefix, os.path.realpath(sys.prefix), sys.base_prefix, str(Path.cwd())))
    if leaks := sorted(set(re.findall(rf"(?:{'|'.join(roots)}|/tmp/(?:corpus|bash|vx))[^ ]*", text))):
        raise UntrueCase(f"the log names this machine: {leaks[:5]}")
    data = text.encode(errors="surrogateescape")
    if len(data) > GZIP_FROM:
        name, data = f"{name}.gz", gzip.compress(data, 9, mtime=0)
    (folder / name).write_bytes(data)
    job = recording.job or job_of(case, recording, error)
    (folder / "job.json").write_text(json.dumps(job, indent=1) + "\n")
    (folder / "expect.json").write_text(json.dumps(expect, indent=1) + "\n")
    return {"entries": len(entries), "bytes": len(data)}


def state_word(case: Case, state: str) -> str:
    return f"JOB_STATE_{state}" if case.platform == "vertex" and case.seed % 5 == 0 else state


def job_of(case: Case, recording: Recording, error: str) -> dict[str, Any]:
    rows = []
    for name in names(case):
        if case.command == "true" or case.state == "RUNNING":
            # Its replicas never ran, or still run.
            state = {"PENDING": "PENDING", "RUNNING": "RUNNING"}.get(case.state, "UNKNOWN")
            started = name in error and "status of 128" in error
            rows.append(
                {"name": name, "state": "FAILED" if started else state, "exit_code": 128 if started else None}
            )
            continue
        code = recording.codes.get(name)
        state = "FAILED" if code else "SUCCEEDED"
        if name in recording.stopped and code in (137, 143, 241, 247):
            state = "CANCELLED"
        if code is None:
            state = "PENDING" if case.state == "PENDING" else "UNKNOWN"
        rows.append({"name": name, "state": state, "exit_code": code})
    code = case.error_code if case.error_code is not None else (3 if case.state == "FAILED" else None)
    if case.platform == "kubernetes" and case.error_code is None:
        code = None
    return {"state": state_word(case, case.state), "error": error, "error_code": code, "replicas": rows}


def error_text(case: Case, recording: Recording) -> str:
    """The service's words about the first replica that failed."""
    name = recording.first_failed
    if case.state not in ("FAILED", "EXPIRED"):
        return ""
    if case.platform == "kubernetes":
        if case.oom:
            return f"pod {case.oom[0]}: container pytorch terminated: OOMKilled (exit code 137)"
        kind = "Master" if "master" in name else "Worker"
        return f"PyTorchJob train is failed because 1 {kind} replica(s) failed."
    if len(case.oom) > 1:
        low = sorted({n.rpartition("-")[0] for n in case.oom})
        return (
            f"Replicas low on memory: {', '.join(low)}. Specify a machine with larger memory and try again."
        )
    link = "https://console.cloud.google.com/logs/viewer?project=482910&resource=ml_job%2Fjob_id%2F71288"
    more = f"\nTo find out more about why your job exited please check the logs: {link}"
    if case.oom:
        return f"The replica {case.oom[0]} ran out-of-memory and exited with a non-zero status of 9(SIGKILL).{more}"
    code = recording.codes.get(name) or 1
    text = f"The replica {name} exited with a non-zero status of {code}"
    if code > 128:
        text += {
            134: " (SIGABRT)",
            137: " (SIGKILL)",
            139: " (SIGSEGV)",
            143: " (SIGTERM)",
            132: " (SIGILL)",
        }.get(code, "")
    trace = last_traceback([e.text for e in recording.entries if e.replica == name and e.severity == "ERROR"])
    return f"{text}. Termination reason: Error. \n{trace}{more}"


def last_traceback(lines: list[str]) -> str:
    starts = [n for n, line in enumerate(lines) if line.startswith(HEADER)]
    if not starts:
        return ""
    block = [lines[starts[-1]]]
    for line in lines[starts[-1] + 1 :]:
        block.append(line)
        if not line.startswith(" ") and line:
            break
    return "\n".join(block)[-2048:] + "\n"


def with_service(case: Case, recording: Recording, error: str) -> list[Entry]:
    entries = list(recording.entries)
    if case.platform != "vertex" or not case.service or recording.job is not None:
        return entries
    first = recording.epoch
    begun = SERVICE_START[:2] if case.command == "true" else SERVICE_START
    start = [Entry(first - 200 + 30 * n, "service", "INFO", t) for n, t in enumerate(begun)]
    if case.state in ("RUNNING", "PENDING"):
        return start + entries
    last = max([e.t for e in entries], default=first)
    end = [
        Entry(last + 4, "service", "INFO", "Tearing down training program."),
        Entry(last + 9, "service", "INFO", "Finished tearing down training program."),
    ]
    if case.command == "true":
        end = []
    if error:
        end.append(Entry(last + 12, "service", "ERROR", error))
    words = {
        "FAILED": "Job failed.",
        "SUCCEEDED": "Job completed successfully.",
        "CANCELLED": "Job is cancelled.",
    }
    if case.state in words:
        end.append(Entry(last + 13, "service", "INFO", words[case.state]))
    return start + entries + end


def arranged(case: Case, entries: list[Entry]) -> list[Entry]:
    """The entries in the order in which a reader gets them, with the faults of collecting."""
    random_ = random.Random(case.seed)
    if not case.severity:
        entries = [Entry(e.t, e.replica, "DEFAULT", e.text) for e in entries]
    entries = [e for e in entries if e.replica not in case.drop]
    if case.joined:
        entries = join_tracebacks(entries)
    if case.form in ("stream", "kubectl", "plain"):
        entries = [Entry(e.t, e.replica, e.severity, t) for e in entries for t in e.text.split("\n")]
    if case.cut_at:
        at = next((n for n, e in enumerate(entries) if re.search(case.cut_at, e.text)), len(entries))
        entries = entries[:at]
    begin, end = case.cut
    entries = entries[begin : len(entries) - end]
    entries = [Entry(e.t + case.skew.get(e.replica, 0), e.replica, e.severity, e.text) for e in entries]
    if case.skew:
        entries.sort(key=lambda e: e.t)
    if case.late:
        delays = {n: random_.uniform(0, case.late) for n in {e.replica for e in entries}}
        batch = case.late / 3
        keyed = [(e.t // batch * batch + delays[e.replica], n, e) for n, e in enumerate(entries)]
        entries = [e for *_, e in sorted(keyed, key=lambda k: k[:2])]
    return entries


def join_tracebacks(entries: list[Entry]) -> list[Entry]:
    done: list[Entry] = []
    open_: dict[str, Entry] = {}
    for e in entries:
        key = f"{e.replica}{e.severity}"
        block = open_.get(key)
        if e.text.startswith(HEADER):
            new = Entry(e.t, e.replica, e.severity, e.text)
            open_[key] = new
            done.append(new)
        elif block is not None:
            block.text += "\n" + e.text
            if e.text and not e.text.startswith(" "):
                del open_[key]
        else:
            done.append(e)
    return done


def truth(case: Case, entries: list[Entry], error: str) -> dict[str, Any]:
    """`line` and `replica` are lists of what is right; `None` means that the scorer does not judge it."""
    expect: dict[str, Any] = {
        "family": case.family if isinstance(case.family, str) else list(case.family),
        "replica": None,
        "line": None,
        "cause_contains": list(case.cause),
        "retry": case.retry if isinstance(case.retry, str) else list(case.retry),
        "tells": case.tells,
        "really": case.really,
    }
    if case.note:
        expect["note"] = case.note
    root = case.root
    if root is None:
        return expect
    named = [r for r in root.replicas if r not in ("", "service")]
    expect["replica"] = named or (names(case) if root.patterns and "" in root.replicas else None)
    words = (error, error.split("\n", maxsplit=1)[0])
    told = [n for n, e in enumerate(entries) if error and e.replica == "service" and e.text in words]
    if not root.patterns:
        # No entry of the program shows the cause: right are none, the service's entry, and the replica's last one.
        last = {e.replica: n for n, e in enumerate(entries)}
        expect["line"] = [None, *sorted({*told, *(last[r] for r in named if r in last)})]
        return expect
    wanted = [re.compile(p) for p in root.patterns]
    lines: list[int] = []
    blocks: set[str] = set()
    for n, e in enumerate(entries):
        if e.replica not in root.replicas and ("" not in root.replicas or e.replica == "service"):
            continue
        if not any(p.search(e.text) for p in wanted):
            continue
        if not root.every and e.replica in blocks and n - lines[-1] > 60:
            continue
        blocks.add(e.replica)
        lines.append(n)
        # The traceback's header is as right as its last line.
        lines += chain_of(entries, n)
    if not lines:
        there = [e.text for e in entries if "" in root.replicas or e.replica in root.replicas]
        raise UntrueCase(
            f"no entry of {root.replicas} matches {root.patterns}; they end with\n" + "\n".join(there[-25:])
        )
    expect["line"] = sorted(set(lines))
    if "service" in root.replicas or case.error:
        # The service says it too, perhaps only in the job's error.
        expect["line"] = [None, *sorted({*lines, *told})]
        if "" in root.replicas:
            expect["replica"] = None
    shown = "\n".join(entries[n].text for n in lines if n is not None) + error
    for word in case.cause:
        if word.lower() not in shown.lower():
            print(f"  note: {case.name}: {word!r} is not in the lines of the cause")
    return expect


RANK = re.compile(r"(\[rank\d+\]: ?)?")
EXCEPTION = re.compile(
    r"([A-Za-z_]\w*\.)*[A-Z]\w*(Error|Exception|Interrupt|Exit|Expired|Group)\b|([A-Za-z_]\w*\.)+[A-Z]\w*(: |$)"
)


CHAINED = re.compile("The above exception was the direct cause|During handling of the above exception")


def chain_of(entries: list[Entry], number: int) -> list[int]:
    """The other entries that show an exception as well: its traceback's header, and the exceptions behind it."""
    shown: list[int] = []
    header = header_of(entries, number)
    while header is not None:
        shown.append(header)
        same = [
            n for n in range(max(0, header - 400), header) if entries[n].replica == entries[header].replica
        ]
        same = [n for n in same if entries[n].severity == entries[header].severity][-4:]
        if not any(CHAINED.search(entries[n].text) for n in same):
            break
        before = [
            n for n in range(max(0, same[0] - 400), same[-1]) if entries[n].replica == entries[header].replica
        ]
        text = {n: entries[n].text[len(RANK.match(entries[n].text)[0]) :] for n in before}  # type: ignore[index]
        cause = next((n for n in reversed(before) if EXCEPTION.match(text[n])), None)
        if cause is None:
            break
        shown.append(cause)
        header = header_of(entries, cause)
    return shown


def header_of(entries: list[Entry], number: int) -> int | None:
    """The entry in which the traceback begins whose last line is this entry."""
    last = entries[number]
    prefix = RANK.match(last.text)[0]  # type: ignore[index]
    if not EXCEPTION.match(last.text[len(prefix) :]):
        return None
    strange = 0
    for back in range(number - 1, max(-1, number - 2000), -1):
        other = entries[back]
        if (
            other.replica != last.replica
            or other.severity != last.severity
            or not other.text.startswith(prefix)
        ):
            continue
        text = other.text[len(prefix) :]
        if text.startswith(HEADER):
            return back
        strange += bool(text.strip()) and not text.startswith(" ")
        if strange > 12:
            break
    return None


def read_back(case: Case, name: str, text: str) -> list[Entry]:
    """The entries of a log that `rendered` wrote, the oldest first."""
    if name == "log.json":
        found = []
        for row in json.loads(text):
            labels = row["resource"]["labels"]
            own = row["jsonPayload"]["message"] if "jsonPayload" in row else row["textPayload"]
            found.append(Entry(0, labels.get("task_name") or labels["pod_name"], row["severity"], own))
        return found[::-1]
    rows = text.split("\n")[:-1]
    if name == "log.jsonl":
        return [Entry(r["t"], r["replica"], r["severity"], r["text"]) for r in map(json.loads, rows)]
    found = []
    for row in rows:
        if case.form == "stream":
            severity, _, replica, own = row.split("\t", 3)
            found.append(Entry(0, replica, severity, own))
        elif case.form == "kubectl":
            head, _, own = row.partition("] ")
            found.append(Entry(0, head.split("/")[1], "DEFAULT", own))
        else:
            found.append(Entry(0, names(case)[0], "DEFAULT", row))
    return found


def write_good(case: Case, recording: Recording, folder: Path) -> None:
    """Write the log of a run that succeeded as `good.jsonl.gz`."""
    # The service ends the others some time after the first replica has succeeded.
    if any(code not in (0, 143) for code in recording.codes.values()):
        raise UntrueCase(f"the good run failed: {recording.codes}")
    good = dataclasses.replace(case, form="jsonl", state="SUCCEEDED", error="")
    entries = arranged(good, with_service(good, recording, ""))
    (folder / "good.jsonl.gz").write_bytes(gzip.compress(rendered(good, entries)[1].encode(), 9, mtime=0))


def write_truth(case: Case, folder: Path) -> None:
    """Write `expect.json` again, for the recorded log."""
    (log,) = folder.glob("log.*")
    data = log.read_bytes()
    text = (gzip.decompress(data) if log.suffix == ".gz" else data).decode(errors="surrogateescape")
    entries = read_back(case, log.name.removesuffix(".gz"), text)
    error = json.loads((folder / "job.json").read_text())["error"]
    (folder / "expect.json").write_text(json.dumps(expected(case, entries, error), indent=1) + "\n")


def expected(case: Case, entries: list[Entry], error: str) -> dict[str, Any]:
    """The truth, with lines in the order of the file."""
    expect = truth(case, entries, error)
    if case.form == "gcloud" and expect["line"]:
        expect["line"] = [n if n is None else len(entries) - 1 - n for n in expect["line"]]
    return expect


def rendered(case: Case, entries: list[Entry]) -> tuple[str, str]:
    """The name and the text of the log file."""
    if case.form == "gcloud":
        rows = [gcloud(case, e, n) for n, e in enumerate(entries)]
        return "log.json", json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    if case.form in ("stream", "kubectl", "plain"):
        return "log.txt", "".join(plain(case, e) + "\n" for e in entries)
    lines = [
        json.dumps(
            {"t": round(e.t, 3), "replica": e.replica, "severity": e.severity, "text": e.text},
            ensure_ascii=False,
        )
        for e in entries
    ]
    return "log.jsonl", "".join(f"{line}\n" for line in lines)


def plain(case: Case, e: Entry) -> str:
    if case.form == "stream":
        return f"{e.severity}\t{time.strftime('%Y-%m-%d %H:%M:%S +0000', time.gmtime(e.t))}\t{e.replica}\t{e.text}"
    if case.form == "kubectl":
        return f"[pod/{e.replica}/pytorch] {e.text}"
    return e.text


def gcloud(case: Case, e: Entry, number: int) -> dict[str, Any]:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(e.t)) + f".{int(e.t % 1 * 1e9):09d}Z"
    row: dict[str, Any] = {"insertId": f"{number * 7919:x}k{case.seed:x}"}
    if case.platform == "kubernetes":
        row |= {
            "labels": {
                "k8s-pod/training_kubeflow_org/job-name": "train",
                "k8s-pod/training_kubeflow_org/replica-index": e.replica[-1],
            },
            "logName": f"projects/ml-prod/logs/{'stderr' if e.severity == 'ERROR' else 'stdout'}",
            "resource": {
                "labels": {
                    "cluster_name": "gpu",
                    "container_name": "pytorch",
                    "location": "us-central1",
                    "namespace_name": "ml",
                    "pod_name": e.replica,
                    "project_id": "ml-prod",
                },
                "type": "k8s_container",
            },
            "textPayload": e.text,
        }
    else:
        row |= {
            "labels": {
                "ml.googleapis.com/endpoint": "",
                "ml.googleapis.com/job_id": "71288",
                "ml.googleapis.com/trial_id": "",
            },
            "logName": f"projects/ml-prod/logs/{e.replica}",
            "resource": {
                "labels": {"job_id": "71288", "project_id": "ml-prod", "task_name": e.replica},
                "type": "ml_job",
            },
        }
        if e.replica == "service":
            row["textPayload"] = e.text
        else:
            row["jsonPayload"] = {"attrs": {"tag": e.replica}, "levelname": e.severity, "message": e.text}
    return row | {"receiveTimestamp": stamp, "severity": e.severity, "timestamp": stamp}
