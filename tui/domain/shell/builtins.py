"""Builtin commands of a script, and programs whose output depends only on the script."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Any

from tui.domain.shell.expansion import Stop
from tui.domain.shell.parameters import OPEN, OpenValue
from tui.domain.shell.reading import Exit, Loop, Return, ScriptReading
from tui.domain.shell.scanning import ansi_c, split_line
from tui.domain.shell.syntax import ScriptSource

_Builtin = Callable[[ScriptReading, Any, list[str]], bool | None]


_READERS = frozenset({
    "awk", "bq", "chmod", "chown", "curl", "cut", "diff", "docker", "egrep", "file", "gcloud", "git", "grep",
    "gsutil", "head", "jq", "less", "ls", "md5sum", "mkdir", "more", "pip", "pip3", "sha256sum", "sort",
    "stat", "tail", "touch", "tr", "uniq", "wc", "yq",
})  # fmt: skip
"""Programs that change none of their argument files, unless `_IN_PLACE` matches or they copy from a
bucket."""
_MARK = re.compile(r"%(?:%|0?\d{0,3}[a-zA-Z])")
"""A conversion of printf."""
_IN_PLACE = re.compile(r"-i$|-i\.|--in-?place|-o$|--output\b")


def _nothing(_reading: ScriptReading, _node: Any, _words: list[str]) -> bool | None:
    return True


# Output


def _put(reading: ScriptReading, text: str) -> bool:
    reading.state.budget.spend(len(text))
    if reading.output is not None:
        reading.output.append(text)
    return True


def _echo(reading: ScriptReading, _node: Any, words: list[str]) -> bool:
    end, escapes = "\n", False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        end = "" if "n" in words[0] else end
        escapes = escapes or "e" in words[0]
        words = words[1:]
    text = " ".join(words)
    return _put(reading, (ansi_c(text) if escapes else text) + end)


def _printf(reading: ScriptReading, _node: Any, words: list[str]) -> bool | None:
    name = words[1] if words[:1] == ["-v"] and len(words) > 2 else ""
    words = words[2:] if name else words
    if words[:1] == ["--"]:
        words = words[1:]
    text = _formatted(words)
    if text is None:
        if name:
            reading.state.assign(name, reading.unknown(f"printf -v {name} can't be followed"))
        reading.opaque = True
        return True
    if name:
        reading.state.assign(name, text)
        return True
    return _put(reading, text)


def _formatted(words: list[str]) -> str | None:
    if not words or OPEN.search(words[0]):
        return None
    form, values = ansi_c(words[0].replace('\\"', '"')), words[1:]
    marks = _MARK.findall(form)
    if _MARK.sub("", form).count("%"):
        return None
    count = len([m for m in marks if m != "%%"])
    text = ""
    while True:
        arguments, values = values[:count], values[count:]
        line = _once(form, arguments)
        if line is None:
            return None
        text += line
        if not values or not count:
            return text


def _once(form: str, values: list[str]) -> str | None:
    rest, bad = iter(values), False

    def change(match: re.Match[str]) -> str:
        nonlocal bad
        mark = match[0]
        if mark == "%%":
            return "%"
        value = next(rest, "")
        if mark == "%s":
            return value
        if mark[-1] == "d" and re.fullmatch(r"-?(0|[1-9]\d*)?", value):
            return mark % int(value or 0)
        if mark[-1] == "s" and not OPEN.search(value):
            return mark % value
        bad = True
        return ""

    formatted = _MARK.sub(change, form)
    return None if bad else formatted


def _cat(reading: ScriptReading, _node: Any, words: list[str]) -> bool | None:
    if any(word.startswith("-") and word != "-" for word in words):
        reading.opaque = True
        return True
    for word in words or ["-"]:
        if word == "-":
            if reading.stdin is None:
                reading.opaque = True
            else:
                _put(reading, reading.stdin)
            continue
        try:
            _put(reading, reading.read_file(word))
        except OSError:
            reading.opaque = True
            return None
    return True


def _tee(reading: ScriptReading, _node: Any, words: list[str]) -> bool:
    append = words[:1] == ["-a"]
    text = reading.stdin
    for name in words[append:]:
        write_file(reading, name, text, append=append)
    if text is None:
        reading.opaque = True
    else:
        _put(reading, text)
    return True


def write_file(reading: ScriptReading, name: str, text: str | None, *, append: bool) -> None:
    path = reading.state.path(name)
    if path.startswith("/dev/"):
        return
    if text is None:
        text = reading.unknown(f"the script's output to {name} can't be followed")
    before = ""
    if append:
        try:
            before = reading.read_file(name)
        except OSError:
            before = ""
    reading.state.budget.spend(len(before) + len(text))
    reading.state.files[path] = before + text


def _changes(reading: ScriptReading, node: Any, words: list[str]) -> bool:
    """Run a command that changes files: forget the content of the files that it names."""
    reading.opaque = True
    name = reading.source.of(node).split()[0]
    if name == "sed" and not any(word.startswith(("-i", "--in-place")) for word in words):
        return True
    if name == "cp" and len(words) == 2:
        try:
            reading.state.files[reading.state.path(words[1])] = reading.read_file(words[0])
        except OSError:
            write_file(reading, words[1], None, append=False)
        return True
    if name != "envsubst":
        _forget_files(reading, words)
    return True


def forget_written_files(reading: ScriptReading, name: str, words: list[str]) -> None:
    """Run an unknown program: forget the content of the files that it names, unless it only reads."""
    changes = any(_IN_PLACE.match(word) for word in words)
    if "cp" in words and "://" not in words[-1]:
        _forget_files(reading, words[-1:])
    elif changes or name.rsplit("/", 1)[-1] not in _READERS:
        _forget_files(reading, words)


def _forget_files(reading: ScriptReading, words: list[str]) -> None:
    for word in words:
        name = word.partition("=")[2] if word.startswith("-") else word
        known = reading.state.path(name) in reading.state.files
        if name and (known or re.search(r"\.\w+$", name)):
            write_file(reading, name, None, append=False)


def _removed(reading: ScriptReading, _node: Any, words: list[str]) -> bool:
    for word in words:
        reading.state.files.pop(reading.state.path(word), None)
    return True


# Variables


def _shift(reading: ScriptReading, _node: Any, words: list[str]) -> bool:
    count = _number(words, 1)
    state = reading.state
    if count > len(state.arguments):
        return False
    state.arguments = state.arguments[count:]
    return True


def _set(reading: ScriptReading, _node: Any, words: list[str]) -> bool:
    if "--" in words:
        reading.state.arguments = words[words.index("--") + 1 :]
    return True


def _read(reading: ScriptReading, node: Any, words: list[str]) -> bool | None:
    line = reading.source.line(node)
    names = [word for word in words if re.fullmatch(r"[A-Za-z_]\w*", word)]
    if "-p" in words and words.index("-p") + 1 < len(words) and names:
        names = names if words[words.index("-p") + 1] != names[0] else names[1:]
    options = [word for word in words if word.startswith("-")]
    if reading.stdin is not None and not OPEN.search(reading.stdin) and set(options) <= {"-r"}:
        return _read_line(reading, node, names)
    for name in names or ["REPLY"]:
        value = OpenValue(name, f"the input of line {line}", line)
        reading.state.assign(name, reading.values.add(value))
    return None


def _read_line(reading: ScriptReading, node: Any, names: list[str]) -> bool:
    """Read the next line of known input; return whether the line was complete."""
    text, end, reading.stdin = (reading.stdin or "").partition("\n")
    before = [c for c in node.children if c.type == "variable_assignment"]
    assignments = {reading.source.of(c.child_by_field_name("name")): reading.source.of(c) for c in before}
    kept = reading.state.variables.get("IFS")
    if "IFS" in assignments:
        value = reading.expander.text(assignments["IFS"].partition("=")[2], reading.source.line(node))
    else:
        value = kept if isinstance(kept, str) else " \t\n"
    for name, part in zip(names or ["REPLY"], split_line(text, value, len(names)), strict=True):
        reading.state.assign(name, part)
    return bool(end)


def _mapfile(reading: ScriptReading, node: Any, words: list[str]) -> bool:
    name = words[-1] if words and not words[-1].startswith("-") else "MAPFILE"
    if reading.stdin is not None and not OPEN.search(reading.stdin) and set(words) <= {"-t", name}:
        lines = reading.stdin.splitlines(keepends="-t" not in words)
        reading.stdin = ""
        reading.state.assign(name, lines)
        return True
    problem = f"{name} is set in line {reading.source.line(node)} by a command that can't be followed"
    reading.state.assign(name, [reading.unknown(problem)])
    return True


def _getopts(_reading: ScriptReading, _node: Any, _words: list[str]) -> bool:
    # The script is read without command-line arguments.
    return False


def _let(reading: ScriptReading, _node: Any, words: list[str]) -> bool | None:
    return [reading.expander.evaluate(word) for word in words][-1] if words else None


# Control flow


def _number(words: list[str], default: int) -> int:
    """Return the first argument, or `default` if it is not a number."""
    return int(words[0]) if words and words[0].isdigit() else default


def _exit(_reading: ScriptReading, _node: Any, words: list[str]) -> bool:
    raise Exit(_number(words, 0))


def _return(_reading: ScriptReading, _node: Any, words: list[str]) -> bool:
    raise Return(_number(words, 0))


def _break(_reading: ScriptReading, _node: Any, words: list[str]) -> bool:
    raise Loop(_number(words, 1), again=False)


def _continue(_reading: ScriptReading, _node: Any, words: list[str]) -> bool:
    raise Loop(_number(words, 1), again=True)


def _eval(reading: ScriptReading, node: Any, words: list[str]) -> bool | None:
    file, line = reading.source.file, reading.source.line(node)
    reading.run_source(ScriptSource(" ".join(words), file, reading.state.budget, line))
    return True


def _source(reading: ScriptReading, node: Any, words: list[str]) -> bool | None:
    name = words[0] if words else ""
    try:
        text = reading.read_file(name)
    except (OSError, ValueError):
        shown = OPEN.sub("…", name)
        reading.note(node, f"{shown} can't be read; its variables stay unknown.")
        return None
    try:
        reading.run_source(ScriptSource(text, reading.state.path(name), reading.state.budget))
    except Return:
        pass
    except Stop as error:
        raise Stop(f"{name}: {error}") from error
    return True


# Paths and numbers


def _cd(reading: ScriptReading, node: Any, words: list[str]) -> bool | None:
    state, words = reading.state, [word for word in words if not word.startswith("-")]
    if not words or OPEN.search(words[0]):
        reading.note(node, "the folder of this `cd` is unknown; files are searched beside the script.")
        return True
    state.place = state.path(words[0])
    return True


def _pwd(reading: ScriptReading, _node: Any, _words: list[str]) -> bool:
    return _put(reading, reading.state.folder() + "\n")


def _path(reading: ScriptReading, words: list[str], change: Callable[[str], str]) -> bool:
    words = words[1:] if words[:1] == ["--"] else words
    if len(words) != 1 or words[0].startswith("-"):
        reading.opaque = True
        return True
    text = words[0]
    if OPEN.search(text):
        return _put(reading, reading.expander.derived(text, "a part of a path", change) + "\n")
    return _put(reading, change(text) + "\n")


def _dirname(reading: ScriptReading, _node: Any, words: list[str]) -> bool:
    return _path(
        reading, words, lambda text: posixpath.dirname(text.rstrip("/")) or ("/" if text[:1] == "/" else ".")
    )


def _basename(reading: ScriptReading, _node: Any, words: list[str]) -> bool:
    suffix = words[1] if len(words) == 2 and not words[0].startswith("-") else ""

    def change(text: str) -> str:
        name = posixpath.basename(text.rstrip("/"))
        return name.removesuffix(suffix) if name != suffix else name

    return _path(reading, words[:1] if suffix else words, change)


def _seq(reading: ScriptReading, _node: Any, words: list[str]) -> bool:
    if not 1 <= len(words) <= 3 or not all(re.fullmatch(r"-?\d{1,6}", word) for word in words):
        reading.opaque = True
        return True
    numbers = [int(word) for word in words]
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) == 3 else 1
    if step == 0:
        reading.opaque = True
        return True
    values = range(first, numbers[-1] + (1 if step > 0 else -1), step)
    return _put(reading, "".join(f"{value}\n" for value in values[:2000]))


BUILTINS: dict[str, _Builtin] = {
    "echo": _echo, "printf": _printf, "cat": _cat, "tee": _tee,
    "source": _source, ".": _source, "shift": _shift, "set": _set,
    "exit": _exit, "return": _return, "break": _break, "continue": _continue,
    "cd": _cd, "pwd": _pwd, "dirname": _dirname, "basename": _basename,
    "read": _read, "eval": _eval, "let": _let, "seq": _seq,
    "mapfile": _mapfile, "readarray": _mapfile, "getopts": _getopts,
    "trap": _nothing, "shopt": _nothing, ":": _nothing, "true": _nothing,
    "false": lambda *_: False, "umask": _nothing, "wait": _nothing,
    "test": lambda *_: None, "[": lambda *_: None, "sed": _changes, "rm": _removed,
    "mv": _changes, "cp": _changes, "envsubst": _changes,
}  # fmt: skip
