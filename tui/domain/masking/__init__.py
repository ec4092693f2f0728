"""Masks secrets in every output: screens, verbs, exports, audit journal, messages and crash reports.

A text is a secret if its shape is (`shapes`: tokens of known services, private keys, passwords in URLs), if
its name is (`names`: `HF_TOKEN`, `--api-key`), or if a profile declares it (`secret: true` on a parameter).
`structure` finds secrets in a specification. A job's output and the profile's file are not masked.
"""

from tui.domain.masking.names import is_secret, looks_secret
from tui.domain.masking.structure import concealed, mark_declared, mask_value, masked, secrets_in
from tui.domain.masking.text import MASK, mask_text, remember

__all__ = [
    "MASK",
    "concealed",
    "is_secret",
    "looks_secret",
    "mark_declared",
    "mask_text",
    "mask_value",
    "masked",
    "remember",
    "secrets_in",
]
