"""Rules about secrets in a job, which all who may see the job can read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui.domain.masking import looks_secret, mask_text, masked
from tui.domain.vertex.custom_job_spec import task_of
from tui.domain.vertex.rules.base import Case, Finding, Rule, Severity

_FIX = "Put it into Secret Manager and let the code fetch it as the job's service account."
_STRONG = re.compile(r"api|access|token|secret|passw|pwd|credential|bearer", re.IGNORECASE)
# Words of training, not of access: --pad-token=<pad>, --eos-token-id=50256, --text-key=content.
_ORDINARY = re.compile(
    r"(?:pad|eos|bos|unk|mask|cls|sep|image|video|special|stop|start|end|num|max|per)[_-]?token"
    r"|token[_-]?(?:ids?|counts?|types?|lens?|length|dir|path|file)"
    r"|(?:sort|group|primary|text|image|label|data|dataset|cache|json|dict|column)[_-]?key|key[_-]?(?:name|field)",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\$|projects/[\w-]+/secrets/|sm://|gs://|/")
LONG = 16
"""From here on a value with digits in it counts as a secret though its name says little (`key`, `auth`)."""


def environment(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name, task = task_of(pool)
        for i, variable in enumerate(task.get("env") or []):
            key, value = str(variable.get("name") or ""), str(variable.get("value") or "")
            if (looks_secret(key) or mask_text(value) != value) and _meant(key, value):
                sentence = f"{key} looks like a secret; all who may see the job can read it."
                yield Finding((*path, name, "env", i, "value"), sentence, _FIX)


def arguments(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name, task = task_of(pool)
        for field in ("command", "args"):
            given = [str(text) for text in task.get(field) or []]
            for i, (text, seen) in enumerate(zip(given, masked(given)[0], strict=True)):
                flag, equals, value = text.partition("=") if text.startswith("-") else ("", "", text)
                flag = flag if equals else given[i - 1] if i else ""
                if seen != text and _meant(flag, value):
                    sentence = "this argument looks like a secret; all who may see the job can read it."
                    yield Finding((*path, name, field, i), sentence, _FIX)


def _meant(name: str, value: str) -> bool:
    """The value can be a secret itself: no variable, no place of one, no switch, no word of training."""
    if len(value) < 2 or _PLACE.match(value):
        return False
    if mask_text(value) != value:
        return True
    if _ORDINARY.search(name) or value.lower() in {"true", "false", "none", "auto"}:
        return False
    return bool(_STRONG.search(name)) or (len(value) >= LONG and any(c.isdigit() for c in value))


RULES = (
    Rule("secrets.environment", "vertex facts 1.9", environment, Severity.WARNING),
    Rule("secrets.arguments", "vertex facts 1.9", arguments, Severity.WARNING),
)
