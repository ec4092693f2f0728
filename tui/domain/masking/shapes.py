"""Shapes of known services' secrets, in any text. Names, digests and ids match no pattern. The services
document the prefixes of their tokens, and secret scanners use them."""

from __future__ import annotations

import re

_TOKENS = (
    r"hf_[A-Za-z0-9]{16,}",  # Hugging Face
    r"gh[pousr]_[A-Za-z0-9]{20,}",  # GitHub
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"gl(?:pat|dt|rt|ptt|cbt)-[\w-]{20,}",  # GitLab
    r"sk-[A-Za-z0-9]{20,}",  # OpenAI and others
    r"sk-(?:proj|ant|or|svcacct|admin)-[\w-]{16,}",
    r"(?:AKIA|ASIA)[0-9A-Z]{16}",  # AWS key ids
    r"AIza[\w-]{30,}",  # Google API keys
    r"ya29\.[\w-]{10,}",  # Google access tokens
    r"1//0[\w-]{30,}",  # Google refresh tokens
    r"GOCSPX-[\w-]{20,}",  # Google OAuth clients
    r"xox[abeoprs]-[\w-]{10,}",  # Slack
    r"xapp-\d-[\w-]{10,}",
    r"eyJ[\w-]{10,600}\.eyJ[\w-]{4,2000}(?:\.[\w-]*)?",  # JWT
    r"npm_[A-Za-z0-9]{30,}",
    r"pypi-[\w-]{40,}",
    r"SG\.[\w-]{16,}\.[\w-]{16,}",  # SendGrid
    r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    r"dckr_pat_[\w-]{20,}",  # Docker Hub
    r"nvapi-[\w-]{20,}",  # NVIDIA
    r"r8_[A-Za-z0-9]{30,}",  # Replicate
    r"gsk_[A-Za-z0-9]{30,}",  # Groq
    r"wandb_v\d_[\w-]{20,}",  # Weights & Biases
    r"dapi[0-9a-f]{32}(?:-\d)?",  # Databricks
    r"dop_v1_[0-9a-f]{40,}",  # DigitalOcean
    r"lin_api_[A-Za-z0-9]{30,}",  # Linear
)
_EDGE = r"(?<![A-Za-z0-9_])"
PATTERNS: tuple[re.Pattern[str], ...] = (
    re.compile(
        r"-----BEGIN (?P<kind>[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END (?P=kind)-----|\Z)",
        re.DOTALL,
    ),
    re.compile(_EDGE + r"(?:" + "|".join(_TOKENS) + r")(?![A-Za-z0-9])"),
    re.compile(r"(?<=hooks\.slack\.com/services/)[\w/]{20,}"),
    re.compile(r"(?<=AccountKey=)[A-Za-z0-9+/]{40,}={0,2}"),  # Azure storage
    re.compile(r"(?i:(?<=bearer )|(?<=basic ))[\w.~+/-]{16,}=*"),
    # The password of a URL, or a user name that is a token.
    re.compile(r"(?<=://)[^/\s:@\"'\\]{20,}(?=@)"),
    re.compile(r"(?P<head>(?<![a-zA-Z0-9+.-])[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:@\"']*:)[^/\s\"']+(?=@)"),
)
"""Patterns of secrets, each searched in linear time because texts are untrusted. Each pattern applies to the
result of the previous one; the group `head` stays."""
