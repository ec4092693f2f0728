"""Names of secrets, and tests whether a value under a secret's name can be a secret."""

from __future__ import annotations

import re

_NAME = re.compile(
    r"(?:^|[_\-.])(?:api_?key|access_?key|key|token|secrets?|passw(?:or)?ds?|passphrase|pwd|credentials?|auth"
    r"|private|bearer)(?:$|[_\-.])",
    re.IGNORECASE,
)
_STRONG = re.compile(
    r"api[_-]?key|access[_-]?key|private[_-]?key|token|secret|passw|passphrase|pwd|credential|bearer",
    re.IGNORECASE,
)
# Words of training and of pipelines that do not mean access: --pad-token=<pad>, --eos-token-id=50256,
# --text-key=content, outputParameterKey: loss.
_ORDINARY = re.compile(
    r"(?:pad|eos|bos|unk|mask|cls|sep|image|video|special|stop|start|end|num|n|max|min|per|total|prompt|new)[_-]?tokens?"
    r"|tokens?[_-]?(?:ids?|counts?|types?|lens?|length|dir|path|file|per|limit|seen)"
    r"|(?:sort|group|primary|text|image|label|data|dataset|cache|json|dict|column|kms|parameter|artifact)[_-]?key|key[_-]?(?:name|field)",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$|projects/[\w-]+/(?:secrets|locations)/|sm://|gs://|<[\w|/ -]*>$|<\|.*\|>$")
_PATH = re.compile(
    r"(?:[.~]{0,2}/)?[\w.-]*[a-z][\w.-]*(?:/[\w.-]+)*\.[a-z]{1,5}$|(?:[.~]{0,2}/)[\w.-]{1,30}(?:/[\w.-]{1,30})*$"
)
_SWITCHES = {"", "true", "false", "none", "null", "auto", "yes", "no", "on", "off"}
MAX_PATH = 200
"""Maximum length of a path, in characters; a longer value can be a secret."""
LONG = 16
"""Minimum length at which a value with digits counts as a secret even under an ambiguous name (`key`,
`auth`)."""


def looks_secret(name: str) -> bool:
    """Return whether a secret can have this name: `WANDB_API_KEY`, `hf-token`; not `TOKENIZER` or
    `pad_token`."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return _NAME.search(apart) is not None and _ORDINARY.search(apart) is None


def is_secret(name: str, value: str) -> bool:
    """Return whether a value with this name is a secret: not a switch, a variable or the path of a secret."""
    value = value.strip()
    if not looks_secret(name) or value.lower() in _SWITCHES or _REFERENCE.match(value):
        return False
    if len(value) <= MAX_PATH and _PATH.match(value) and not _random(value):
        return False
    if _STRONG.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)):
        return True
    return len(value) >= LONG and any(c.isdigit() for c in value)


def _random(value: str) -> bool:
    """Return whether the value has a long part of mixed letters and digits, unlike a file name."""
    return any(
        len(part) >= LONG
        and any(c.isdigit() for c in part)
        and any(c.isupper() for c in part)
        and any(c.islower() for c in part)
        for part in re.split(r"[/._-]", value)
    )
