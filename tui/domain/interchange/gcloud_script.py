"""Where a text calls `gcloud ai custom-jobs create`, or `hp-tuning-jobs create`."""

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
"""What a fence says of a text that a shell would read."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a script is read: its folder, the environment, its files, and which of its commands is meant.

    `command` is a number from 1 or a display name; "" where there is only one.
    """

    base: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[str], str] | None = None
    command: str = ""


def is_command(text: str) -> bool:
    """Whether the text calls gcloud, alone or in a script."""
    if re.search(r"(?m)^[ \t$%]*gcloud\s", text) or re.match(r"#!.*sh\b", text):
        return True
    return "gcloud" in text and re.search(r"\b(custom|hp-tuning)-jobs\s", text) is not None


def read_call(text: str, file: str, around: Surroundings) -> tuple[Script, Call, list[Word], str]:
    """The script, its call that is meant, the words after `create`, and which of the commands it is.

    Raises:
        ProfileInvalid: where bash would refuse the script, or no call or more than one is meant.
    """
    if file.endswith(_MARKDOWN):
        text = _fenced(text)
    # A pasted prompt is no part of the command.
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
    """The commands between a Markdown file's fences, in the lines where they stand."""
    found, inside = [], False
    for line in text.splitlines():
        fence = re.match(r"\s*(?:```|~~~)\s*(\w*)", line)
        if fence:
            inside = not inside and fence[1] in _SHELLS
        found.append("" if fence or not inside else line)
    return "\n".join(found)


def _chosen(script: Script, file: str, wanted: str) -> tuple[Call, list[Word], str]:
    """The call that is meant, with the words after `create`, and its command."""
    found = [
        (call, rest, command)
        for call in script.calls
        for command in (CUSTOM, TUNING)
        if (rest := _create(call.words, command)) is not None
    ]
    if not wanted and len(found) == 1:
        return found[0]
    names = [_name(rest) for _, rest, _ in found]
    if wanted.isdigit() and 1 <= int(wanted) <= len(found):
        return found[int(wanted) - 1]
    if wanted and names.count(wanted) == 1:
        return found[names.index(wanted)]
    message = f"expected one `gcloud ai custom-jobs create`, found {len(found)}"
    shown = [f"{i} in line {call.line} ({name or 'no name'})"
             for i, ((call, _, _), name) in enumerate(zip(found, names, strict=True), 1)]  # fmt: skip
    message += (": " + ", ".join(shown[:20]) if found else "") + "."
    fix = "Choose one with --command NUMBER or --command DISPLAY_NAME." if found else ""
    told = [Problem(file, 0, "", note, id="gcloud.script") for note in script.notes if not found]
    raise ProfileInvalid([Problem(file, 1, "", message, fix, "gcloud.command"), *told])


def _name(words: list[Word]) -> str:
    """The display name among a call's words."""
    texts = [word.text for word in words]
    for text, following in zip(texts, [*texts[1:], ""], strict=True):
        name, equals, value = text.partition("=")
        if name == "--display-name":
            return value if equals else following
    return ""


def _create(words: tuple[Word, ...], command: str) -> list[Word] | None:
    """The words after `gcloud [alpha|beta] ai COMMAND create`; with or without flags between them."""
    wanted = ["ai", command, "create"]
    rest: list[Word] = []
    for i, word in enumerate(words[1:], 1):
        if not wanted:
            return [*rest, *words[i:]]
        if word.text == wanted[0]:
            wanted.pop(0)
        elif word.text.startswith("-"):
            rest.append(word)
        elif word.text not in {"alpha", "beta"} and not (rest and "=" not in rest[-1].text):
            return None
        elif rest and word.text not in {"alpha", "beta"}:
            rest.append(word)
    return None if wanted else rest
