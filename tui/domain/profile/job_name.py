"""Names of jobs: the placeholders of a profile's `displayName`. A launch fills in `{profile}`, `{n}`,
`{date}`, `{user}` and `{git}`; other braces stay."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tui.domain.spec.values import PLACEHOLDER


@dataclass(frozen=True, slots=True)
class NameFacts:
    """Values of the placeholders. `git` is a short commit; `date` is a date like 20261121."""

    profile: str
    date: str
    user: str
    git: str

    def of(self, placeholder: str) -> str:
        """Return the text of a placeholder other than `n`."""
        return str(getattr(self, placeholder))


def is_template(name: str) -> bool:
    """Return whether a name has placeholders."""
    return PLACEHOLDER.search(name) is not None


def prefix(template: str, facts: NameFacts) -> str | None:
    """Return the prefix of names numbered by `{n}`; `None` for a template without `{n}`."""
    start, counter, _ = template.partition("{n}")
    return expand(start, facts) if counter else None


def expand(template: str, facts: NameFacts, existing: Iterable[str] = ()) -> str:
    """Return the name with its placeholders filled in; `{n}` is 1 above the highest number in `existing`."""
    parts = PLACEHOLDER.split(template)
    # The odd parts are placeholders.
    filled = [part if at % 2 == 0 or part == "n" else facts.of(part) for at, part in enumerate(parts)]
    counters = [at for at in range(1, len(parts), 2) if parts[at] == "n"]
    if counters:
        number = re.compile(
            "".join(r"(\d+)" if at == counters[0] else r"\d+" if at in counters else re.escape(part)
                    for at, part in enumerate(filled))
        )  # fmt: skip
        used = [int(match[1]) for name in existing if (match := number.fullmatch(name))]
        for at in counters:
            filled[at] = str(max(used, default=0) + 1)
    return "".join(filled)
