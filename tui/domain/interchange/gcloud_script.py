"""Finds the calls of `gcloud ai custom-jobs create` or `hp-tuning-jobs create` in a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tui.domain.profile import Problem, ProfileInvalid
from tui.domain.shell import Call, NotRead, Script, Word, read_script

CUSTOM, TUNING = "custom-jobs", "hp-tuning-jobs"
"""The commands that create a job."""
_MARKDOWN = (".md", ".markdown")
_SHELLS = {"", "bash", "console", "sh", "shell", "zsh"}
"""Info strings of Markdown fences that contain shell code."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of a script: its folder, environment and files, and the command to import. `command`
    is a number from 1 or a display name; "" for the only command."""

    base: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[str], str] | None = None
    command: str = ""


def is_command(text: str) -> bool:
    """Return whether the text calls gcloud, alone or in a script."""
    if re.search(r"(?m)^[ \t$%]*gcloud\s", text) or re.match(r"#!.*sh\b", text):
        return True
    return "gcloud" in text and re.search(r"\b(custom|hp-tuning)-jobs\s", text) is not None


def read_call(text: str, file: str, around: Surroundings) -> tuple[Script, Call, list[Word], str]:
    """Return the script, the selected call, the words after `create`, and the name of the command. Raises
    ProfileInvalid if bash would refuse the script, or if not exactly one call matches."""
    if file.endswith(_MARKDOWN):
        text = _fenced(text)
    # Drop a pasted prompt.
    plain = re.sub(r"(?m)^([ \t]*)[$%](?=[ \t]+gcloud\s)", r"\1 ", text)
    try:
        script = read_script(
            plain, file, "gcloud", base=around.base, environment=around.environment, read=around.read
        )
    except NotRead as error:
        problem = Problem(file, error.line, "", error.message, id="profile.syntax", column=error.column)
        raise ProfileInvalid([problem]) from error
    return (script, *_chosen(script, file, around.command))


def _fenced(text: str) -> str:
    """Return the commands between a Markdown file's fences, on their original lines."""
    lines, inside = [], False
    for line in text.splitlines():
        fence = re.match(r"\s*(?:```|~~~)\s*(\w*)", line)
        if fence:
            inside = not inside and fence[1] in _SHELLS
        lines.append("" if fence or not inside else line)
    return "\n".join(lines)


def _chosen(script: Script, file: str, selector: str) -> tuple[Call, list[Word], str]:
    """Return the selected call, the words after `create`, and the name of the command."""
    calls = [
        (call, rest, command)
        for call in script.calls
        for command in (CUSTOM, TUNING)
        if (rest := _create(call.words, command)) is not None
    ]
    if not selector and len(calls) == 1:
        return calls[0]
    names = [_name(rest) for _, rest, _ in calls]
    if selector.isdigit() and 1 <= int(selector) <= len(calls):
        return calls[int(selector) - 1]
    if selector and names.count(selector) == 1:
        return calls[names.index(selector)]
    message = f"there must be one `gcloud ai custom-jobs create`, not {len(calls)}"
    shown = [f"{i} in line {call.line} ({name or 'no name'})"
             for i, ((call, _, _), name) in enumerate(zip(calls, names, strict=True), 1)]  # fmt: skip
    message += (": " + ", ".join(shown[:20]) if calls else "") + "."
    fix = "Choose a command with --command NUMBER or --command DISPLAY_NAME." if calls else ""
    notes = [Problem(file, 0, "", note, id="gcloud.script") for note in script.notes if not calls]
    raise ProfileInvalid([Problem(file, 1, "", message, fix, "gcloud.command"), *notes])


def _name(words: list[Word]) -> str:
    """Return the display name among a call's words."""
    texts = [word.text for word in words]
    for text, following in zip(texts, [*texts[1:], ""], strict=True):
        name, equals, value = text.partition("=")
        if name == "--display-name":
            return value if equals else following
    return ""


def _create(words: tuple[Word, ...], command: str) -> list[Word] | None:
    """Return the words after `gcloud [alpha|beta] ai COMMAND create`, with or without flags between them."""
    expected = ["ai", command, "create"]
    rest: list[Word] = []
    for i, word in enumerate(words[1:], 1):
        if not expected:
            return [*rest, *words[i:]]
        if word.text == expected[0]:
            expected.pop(0)
        elif word.text.startswith("-"):
            rest.append(word)
        elif word.text not in {"alpha", "beta"} and not (rest and "=" not in rest[-1].text):
            return None
        elif rest and word.text not in {"alpha", "beta"}:
            rest.append(word)
    return None if expected else rest
