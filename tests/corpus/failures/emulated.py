"""Runs a case on the emulator: `vxtui launch`, a fault, and the log and the job as the verbs print them."""

from __future__ import annotations

import datetime
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.corpus.failures.harness import Entry, Recording, Run, names
from tests.shell import Home, home

START = "cd {work}/app && export REPLICA={pool}-$(({offset})) && exec {python} train.py"
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED")


class EmulatorRun(Run):
    """The processes of one case, as replicas of a job of the emulator."""

    def record(self) -> Recording:
        with tempfile.TemporaryDirectory(prefix="corpus-") as folder, home() as place:
            self.prepare(Path(folder))
            job_id = self.launch(place, Path(folder))
            job = self.follow(place, job_id)
            log = place.run("logs", job_id, "--json").stdout.splitlines()
            for row in map(json.loads, log):
                text = row["message"]
                if row["json"] is not None:
                    text = json.dumps(row["json"])
                at = datetime.datetime.fromisoformat(row["timestamp"][:26].rstrip("Z") + "+00:00").timestamp()
                self.entries.append(Entry(at, row["replica"], row["severity"], text))
            for entry in self.entries:
                entry.text = self.clean(entry.text.replace(f"{place.state}/buckets", "/gcs"), folder)
            error = (job["error"] or {}).get("message", "")
            rows = [
                {"name": r["id"], "state": r["state"], "exit_code": r["exit_code"]} for r in job["replicas"]
            ]
            told = {
                "state": job["native_state"],
                "error": self.clean(error, folder),
                "error_code": (job["error"] or {}).get("code"),
                "replicas": rows,
            }
        codes = {r["name"]: r["exit_code"] for r in rows}
        failed = next((n for n in names(self.case) if codes.get(n)), "")
        return Recording(self.entries, codes, failed, set(), self.epoch, told)

    def launch(self, place: Home, work: Path) -> str:
        """Launch the case's job. Return its id."""
        case = self.case
        self.started = time.time()
        self.settings |= {"scale": 1.0, "epoch": self.started}
        env = self.environment(work, 0, 0)
        own = (
            "RUN_SETTINGS",
            "RUN_STARTED",
            "WORK",
            "ENTRY",
            "PYTHONPATH",
            "PYTHONUNBUFFERED",
            "SMALL_DISK",
            "SERVER",
        )
        variables = [{"name": key, "value": env[key]} for key in own]
        options = case.emulator
        pools = []
        for number, count in enumerate((1, case.replicas - 1)):
            start = START.format(
                work=work,
                pool=f"workerpool{number}",
                offset="RANK - 1" if number else "0",
                python=self.python,
            )
            command = options.get("command", ["bash", "-c", start])
            spec = {"imageUri": "python", "command": command, "env": variables}
            pools.append(
                {
                    "machineSpec": {"machineType": "n1-standard-4"},
                    "replicaCount": count,
                    "containerSpec": spec,
                }
            )
        scheduling = {"timeout": "600s"} | options.get("scheduling", {})
        body = {"workerPoolSpecs": [p for p in pools if p["replicaCount"]], "scheduling": scheduling}
        profile = place.root / "run.yaml"
        profile.write_text(json.dumps({"displayName": "pretrain-{n}", "jobSpec": body}))
        place.run("emulator", "start")
        for fault in options.get("before", []):
            place.json("emulator", "fault", *fault)
        done = place.run("launch", str(profile), "--yes", "--force", "--json")
        return str(json.loads(done.stdout)["id"])

    def follow(self, place: Home, job_id: str) -> dict[str, Any]:
        """Act when a replica has printed the awaited words. Return the ended job."""
        acts = list(self.case.emulator.get("acts", []))
        until = time.time() + 120
        while time.time() < until:
            job = dict(place.json("describe", job_id))
            if job["state"] in ENDED:
                return job
            if acts and acts[0][0] in place.run("logs", job_id).stdout:
                words = [job_id if word == "JOB" else word for word in acts.pop(0)[1]]
                place.run(*words)
            time.sleep(0.5)
        return job
