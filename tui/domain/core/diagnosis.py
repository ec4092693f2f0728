"""Explains why a job ended, with a fix, from messages of the platform and output of the programs.

The patterns of the platform's messages are documented (docs/facts/vertex.md 13.1), as are the exit codes of
the kernel and of the trainer (docs/facts/vertex.md 13.2). The first matching rule wins.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass, replace

_EXIT = re.compile(
    r"(?:replica (?P<replica>\S+) )?(?:ran out[ -]of[ -]memory and )?"
    r"exited with a non-zero status of (?P<code>\d+)",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause in plain words, and the next step."""

    meaning: str
    fix: str
    guess: bool = False
    """Whether the diagnosis comes from the log rather than from the platform's message."""
    keys: str = ""
    """The fix in terms of the screen's keys; "" if the screen shows `fix`."""
    short: str = ""
    """The cause in a cell of a list, e.g. `OOM worker-2`."""

    @property
    def on_screen(self) -> str:
        """The fix, for a user of the job's screen."""
        return self.keys or self.fix


def _rule(pattern: str, meaning: str, fix: str, keys: str = "") -> tuple[re.Pattern[str], Diagnosis]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL), Diagnosis(meaning, fix, keys=keys)


_ERROR_RULES = (
    _rule(
        r"ran out[ -]of[ -]memory|Replicas low on memory",
        "The machine's own memory was used up (not the GPU's).",
        "Take a larger or highmem machine, fewer data loader workers, or smaller batches on the host.",
    ),
    _rule(
        r"resources are insufficient in region|\bSTOCKOUT\b",
        "There was no free capacity for these machines; this is not a quota.",
        "Try another region or GPU, FLEX_START with a maximum wait, or a reservation.",
    ),
    _rule(
        r"exceed quota limits|_training_\w+.{0,40}quota|quota.{0,80}_training_",
        "The training quota of this region is too small for the job.",
        "Ask for more quota, or launch where it fits; `vxtui quotas` shows them. Spot has its own quotas.",
        "4 shows the quotas; ask for more there, or launch where it fits. Spot has its own quotas.",
    ),
    _rule(
        r"machine type \"?[\w-]+\"? is not supported",
        "This machine type is not offered for training, or not in this region.",
        "Choose another machine type or region in the profile.",
    ),
    _rule(
        r"permission to act as service[ _]?account",
        "The launching account may not act as the job's service account, or that account does not exist.",
        "Grant roles/iam.serviceAccountUser on that account to the launching account.",
    ),
    _rule(
        r"does not have permission to access artifact registry"
        r"|vertex-ai-restricted.{0,200}(?:denied|permission)",
        "The platform may not pull the image.",
        "Grant roles/artifactregistry.reader on the repository to the Vertex service agents named above.",
    ),
    _rule(
        r"image\b.{0,200}?does not exist|ImagePullBackOff|ErrImagePull|manifest unknown|failed to pull image",
        "The image or its tag was not found.",
        "Check the image's address, tag, region and platform.",
    ),
    _rule(
        r"internal error: the (?:process that ran|emulator failed|job could not be run|custom job was)",
        "The emulator could not run the job to its end, e.g. because its runner was killed.",
        "Launch the job again; runner.log in the job's directory and `vxtui emulator logs` show more.",
    ),
    _rule(
        r"internal error",
        "The platform failed; a wrong image address has been seen to look like this too.",
        "Check the image's address first, then launch again.",
    ),
)
_LOG_RULES = (
    _rule(
        r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError",
        "A GPU's memory was used up.",
        "Smaller batches with accumulation, activation checkpointing, sharding, or a larger GPU.",
    ),
    _rule(
        r"ModuleNotFoundError: No module named",
        "A Python package is missing in the image.",
        "Build it into the image; for a job on this machine, install it here.",
    ),
    _rule(
        r"does not have storage\.\w+\.\w+ access",
        "The job's account may not use the bucket.",
        "Grant the account a storage role on the bucket.",
    ),
    _rule(
        r"insufficient shared memory|bus error",
        "/dev/shm was too small for the data loader.",
        "Use num_workers=0 or the file_system sharing strategy.",
    ),
    _rule(
        r"CUDA driver version is insufficient|no kernel image is available",
        "The image's CUDA does not fit the GPU or its driver.",
        "Build on another CUDA base image.",
    ),
    _rule(r"exec format error", "The image was built for another processor.", "Build it for linux/amd64."),
    _rule(
        r"watchdog caught collective operation timeout|NCCL.{0,80}time(?:d )?out",
        "A collective hung: a replica was gone or too slow.",
        "Check the first failed replica, and the first errors in the log.",
        "Check the first failed replica; e and E go through the errors of the log.",
    ),
    _rule(
        r"RendezvousTimeoutError|RendezvousConnectionError|DistNetworkError|not all \d+ nodes came",
        "The replicas did not find each other in time.",
        "Check that each replica started, and check its first error.",
    ),
    _rule(
        r"No space left on device",
        "A disk was full.",
        "Give the pool a larger boot disk, or write to the bucket.",
    ),
)


def explain_exit(code: int) -> str:
    """The meaning of an exit code: a signal's name, or a documented meaning."""
    known = {
        1: "an error of the program",
        2: "wrong usage",
        75: "stopped after a checkpoint, to continue later",
    }
    known |= {76: "the other nodes did not join in time", 77: "another node ended the attempt"}
    known |= {69: "the checkpoint storage did not answer", 71: "replicas of the state differed"}
    known[74] = "the last checkpoint was not saved"
    # On Kubernetes the trainer adds 128 to codes after which a restart may help.
    known |= {128 + code: known[code] for code in (69, 71, 74, 75, 76, 77)}
    known |= {126: "the command can't be run", 127: "the command was not found"}
    known[128] = "the program can't be started"
    if code in known:
        return known[code]
    if code > 128:
        try:
            name = signal.Signals(code - 128).name
        except ValueError:
            return "an error of the program"
        return f"ended by {name}" + (", often out of memory (OOM)" if name == "SIGKILL" else "")
    return "an error of the program"


def diagnose(
    message: str, lines: Iterable[str] = (), *, whole: bool = False, job: str = "JOB", exception: str = ""
) -> Diagnosis:
    """Diagnose the platform's error `message`, whose traceback ends with `exception`. `lines` are the last
    ones of the failed replica; `whole` means that they are its complete log. `job` is its name in commands.
    """
    for pattern, diagnosis in _ERROR_RULES:
        if pattern.search(message):
            return diagnosis
    text = "\n".join(lines)
    for pattern, diagnosis in _LOG_RULES:
        if pattern.search(f"{exception}\n{text}"):
            return replace(diagnosis, guess=True)
    exit_ = _EXIT.search(message)
    if exit_:
        replica = exit_["replica"] or "A replica"
        code = int(exit_["code"])
        option = f" --replica {exit_['replica']}" if exit_["replica"] else ""
        fix = f"Read its log: `vxtui logs {job}{option}`."
        keys = "enter on it in Replicas shows its complete log."
        if text:
            keys = f"Its last lines are below; {keys}"
        elif whole:
            fix = "It wrote nothing: check its command, arguments and image, and its events."
            keys = "It wrote nothing: check its command, arguments and image in Spec, and look at Events."
        return Diagnosis(f"{replica} ended with code {code}: {explain_exit(code)}.", fix, keys=keys)
    fix = f"The log may say more: `vxtui logs {job} --severity error`."
    return Diagnosis("", fix, keys="The log may say more; e and E go through its errors.")
