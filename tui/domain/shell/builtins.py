"""Commands that change what a script sets, or whose output depends on the script alone."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tui.domain.shell.expansion import Stop
from tui.domain.shell.parameters import OPEN, OpenValue
from tui.domain.shell.reading import ScriptReading
from tui.domain.shell.scanning import ansi_c, split_line
from tui.domain.shell.signals import Exit, Loop, Return
from tui.domain.shell.syntax import Source

_Run = Callable[[Any, list[str]], bool | None]


@dataclass(slots=True)
class _Redirects:
    """Files that are written (and whether appended to), and what follows a here-document on its line."""

    targets: list[tuple[str, bool]] = field(default_factory=list)
    words: list[Any] = field(default_factory=list)
    then: list[tuple[str, Any]] = field(default_factory=list)
    piped: Any = None


_READERS = frozenset({
    "awk", "bq", "chmod", "chown", "curl", "cut", "diff", "docker", "egrep", "file", "gcloud", "git", "grep",
    "gsutil", "head", "jq", "less", "ls", "md5sum", "mkdir", "more", "pip", "pip3", "sha256sum", "sort",
    "stat", "tail", "touch", "tr", "uniq", "wc", "yq",
})  # fmt: skip
"""Programs that change no file they are given, unless `_IN_PLACE` says so or they copy one from a bucket."""
_IN_PLACE = re.compile(r"-i$|-i\.|--in-?place|-o$|--output\b")


class Builtins:
    """The builtins of one reading."""

    def __init__(self, reading: ScriptReading) -> None:
        self._reading = reading
        self.locals: list[dict[str, Any]] = []
        self._table: dict[str, _Run] = {
            "echo": self._echo, "printf": self._printf, "cat": self._cat, "tee": self._tee,
            "source": self._source, ".": self._source, "shift": self._shift, "set": self._set,
            "exit": self._exit, "return": self._return, "break": self._break, "continue": self._continue,
            "cd": self._cd, "pwd": self._pwd, "dirname": self._dirname, "basename": self._basename,
            "read": self._read, "eval": self._eval, "let": self._let, "seq": self._seq,
            "mapfile": self._mapfile, "readarray": self._mapfile, "getopts": self._getopts,
            "trap": self._nothing, "shopt": self._nothing, ":": self._nothing, "true": self._nothing,
            "false": lambda *_: False, "umask": self._nothing, "wait": self._nothing,
            "test": lambda *_: None, "[": lambda *_: None, "sed": self._changes, "rm": self._removed,
            "mv": self._changes, "cp": self._changes, "envsubst": self._changes,
        }  # fmt: skip

    def get(self, name: str) -> _Run | None:
        """The builtin of a name."""
        return self._table.get(name)

    def _nothing(self, _node: Any, _words: list[str]) -> bool | None:
        return True

    # Output

    def _put(self, text: str) -> bool:
        if self._reading.output is not None:
            self._reading.output.append(text)
        return True

    def _echo(self, _node: Any, words: list[str]) -> bool:
        end, escapes = "\n", False
        while words and re.fullmatch(r"-[neE]+", words[0]):
            end = "" if "n" in words[0] else end
            escapes = escapes or "e" in words[0]
            words = words[1:]
        text = " ".join(words)
        return self._put((ansi_c(text) if escapes else text) + end)

    def _printf(self, _node: Any, words: list[str]) -> bool | None:
        reading = self._reading
        name = words[1] if words[:1] == ["-v"] and len(words) > 2 else ""
        words = words[2:] if name else words
        if words[:1] == ["--"]:
            words = words[1:]
        text = self._formatted(words)
        if text is None:
            if name:
                reading.state.assign(name, reading.unknown(f"printf -v {name} can't be followed"))
            reading.opaque = True
            return True
        if name:
            reading.state.assign(name, text)
            return True
        return self._put(text)

    def _formatted(self, words: list[str]) -> str | None:
        if not words or OPEN.search(words[0]):
            return None
        form, values = ansi_c(words[0].replace('\\"', '"')), words[1:]
        marks = re.findall(r"%(?:%|0?\d*[a-zA-Z])", form)
        if re.sub(r"%(?:%|0?\d*[a-zA-Z])", "", form).count("%"):
            return None
        count = len([m for m in marks if m != "%%"])
        found = ""
        while True:
            taken, values = values[:count], values[count:]
            made = self._once(form, taken)
            if made is None:
                return None
            found += made
            if not values or not count:
                return found

    def _once(self, form: str, values: list[str]) -> str | None:
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

        made = re.sub(r"%(?:%|0?\d*[a-zA-Z])", change, form)
        return None if bad else made

    def _cat(self, _node: Any, words: list[str]) -> bool | None:
        reading = self._reading
        if any(word.startswith("-") and word != "-" for word in words):
            reading.opaque = True
            return True
        for word in words or ["-"]:
            if word == "-":
                if reading.stdin is None:
                    reading.opaque = True
                else:
                    self._put(reading.stdin)
                continue
            try:
                self._put(reading.read_file(word))
            except OSError:
                reading.opaque = True
                return None
        return True

    def _tee(self, _node: Any, words: list[str]) -> bool:
        reading = self._reading
        append = words[:1] == ["-a"]
        text = reading.stdin
        for name in words[append:]:
            self._write(name, text, append=append)
        if text is None:
            reading.opaque = True
        else:
            self._put(text)
        return True

    def _write(self, name: str, text: str | None, *, append: bool) -> None:
        reading = self._reading
        path = reading.state.path(name)
        if path.startswith("/dev/"):
            return
        if text is None:
            text = reading.unknown(f"what the script writes to {name} can't be followed")
        before = ""
        if append:
            try:
                before = reading.read_file(name)
            except OSError:
                before = ""
        reading.state.files[path] = before + text

    def _changes(self, node: Any, words: list[str]) -> bool:
        """A command that changes files: those that it names are unknown."""
        reading = self._reading
        reading.opaque = True
        name = reading.source.of(node).split()[0]
        if name == "sed" and not any(word.startswith(("-i", "--in-place")) for word in words):
            return True
        if name == "cp" and len(words) == 2:
            try:
                reading.state.files[reading.state.path(words[1])] = reading.read_file(words[0])
            except OSError:
                self._write(words[1], None, append=False)
            return True
        if name != "envsubst":
            self._forget_files(words)
        return True

    def outside(self, name: str, words: list[str]) -> None:
        """A program that can't be followed: the files that it names are unknown, unless it only reads."""
        changes = any(_IN_PLACE.match(word) for word in words)
        if "cp" in words and "://" not in words[-1]:
            self._forget_files(words[-1:])
        elif changes or name.rsplit("/", 1)[-1] not in _READERS:
            self._forget_files(words)

    def _forget_files(self, words: list[str]) -> None:
        for word in words:
            name = word.partition("=")[2] if word.startswith("-") else word
            known = self._reading.state.path(name) in self._reading.state.files
            if name and (known or re.search(r"\.\w+$", name)):
                self._write(name, None, append=False)

    def _removed(self, _node: Any, words: list[str]) -> bool:
        for word in words:
            self._reading.state.files.pop(self._reading.state.path(word), None)
        return True

    def redirected(self, node: Any) -> bool | None:
        """A statement with its redirections."""
        reading = self._reading
        stdin, outer, opaque = reading.stdin, reading.output, reading.opaque
        body = node.child_by_field_name("body")
        found = _Redirects()
        for child in node.children:
            # A here-string has no field name.
            if child.type.endswith("_redirect"):
                self._redirect(child, found)
        captured = bool(found.targets) or found.piped is not None
        if captured:
            reading.output, reading.opaque = [], False
        status: bool | None = True
        try:
            if body is not None and body.type == "command":
                status = reading.run_command(body, tuple(found.words))
            elif body is not None:
                status = reading.run(body)
            made = None if reading.opaque else "".join(reading.output or [])
            for name, append in found.targets:
                self._write(name, made, append=append)
            if found.piped is not None:
                reading.output, reading.opaque, reading.stdin = outer, opaque, made
                status = reading.run_all(found.piped.named_children)
        finally:
            reading.stdin = stdin
            if captured:
                reading.output, reading.opaque = outer, opaque
        for operator, right in found.then:
            status = reading.joined(status, operator, right)
        return status

    def _redirect(self, node: Any, found: _Redirects) -> None:
        reading = self._reading
        if node.type == "herestring_redirect":
            text = reading.source.of(node.named_children[-1])
            reading.stdin = reading.expander.text(text, reading.source.line(node)) + "\n"
        elif node.type == "file_redirect":
            found.targets += self._target(node)
        else:
            text, quoted = reading.source.heredoc(node)
            line = reading.source.line(node)
            reading.stdin = text if quoted else reading.expander.document(text, line)
            # What follows `<<EOF` on its line stands below the redirection.
            found.words += node.children_by_field_name("argument")
            for i, inner in enumerate(node.children):
                if inner.type == "file_redirect":
                    found.targets += self._target(inner)
                elif inner.type in {"&&", "||"}:
                    found.then.append((inner.type, node.children[i + 1]))
                elif inner.type == "pipeline":
                    found.piped = inner

    def _target(self, node: Any) -> list[tuple[str, bool]]:
        """The file that a redirection of the output writes, and whether it appends."""
        reading = self._reading
        operator = next(c.type for c in node.children if c.type != "file_descriptor")
        number = [reading.source.of(c) for c in node.children if c.type == "file_descriptor"]
        name = reading.expander.text(reading.source.of(node.children[-1]), reading.source.line(node))
        if operator == "<":
            try:
                reading.stdin = reading.read_file(name)
            except OSError:
                reading.stdin = reading.unknown(f"{name} can't be read")
            return []
        if operator not in {">", ">>", ">|", "&>", "&>>"} or number not in ([], ["1"]):
            return []
        return [(name, ">>" in operator)]

    # Variables

    def declare(self, node: Any) -> bool | None:
        """`export`, `local`, `declare`, `readonly`, `typeset`."""
        reading = self._reading
        local = node.children[0].type in {"local", "declare", "typeset"} and self.locals
        flags = "".join(reading.source.of(c)[1:] for c in node.named_children if c.type == "word")
        for child in node.named_children:
            if child.type not in {"variable_assignment", "variable_name"}:
                if child.type not in {"word", "comment"}:
                    reading.note(child, f"`{reading.source.of(child)[:50]}` is not followed.")
                continue
            target = child if child.type == "variable_name" else child.child_by_field_name("name")
            name = reading.source.of(target).partition("[")[0]
            if local and "g" not in flags and name not in self.locals[-1]:
                self.locals[-1][name] = reading.state.variables.get(name)
                reading.state.variables.pop(name, None)
            if set(flags) & set("AinluN"):
                reading.forget(child, "is not followed")
                reading.state.assign(name, reading.unknown(f"{name} is declared with -{flags}"))
            elif child.type == "variable_assignment":
                reading.run(child)
            elif local:
                reading.state.assign(name, [] if "a" in flags else "")
        return True

    def _shift(self, _node: Any, words: list[str]) -> bool:
        count = int(words[0]) if words and words[0].isdigit() else 1
        state = self._reading.state
        if count > len(state.arguments):
            return False
        state.arguments = state.arguments[count:]
        return True

    def _set(self, _node: Any, words: list[str]) -> bool:
        if "--" in words:
            self._reading.state.arguments = words[words.index("--") + 1 :]
        return True

    def _read(self, node: Any, words: list[str]) -> bool | None:
        reading, line = self._reading, self._reading.source.line(node)
        names = [word for word in words if re.fullmatch(r"[A-Za-z_]\w*", word)]
        if "-p" in words and words.index("-p") + 1 < len(words) and names:
            names = names if words[words.index("-p") + 1] != names[0] else names[1:]
        options = [word for word in words if word.startswith("-")]
        if reading.stdin is not None and not OPEN.search(reading.stdin) and set(options) <= {"-r"}:
            return self._read_line(node, names)
        for name in names or ["REPLY"]:
            value = OpenValue(name, f"what the script reads in line {line}", line)
            reading.state.assign(name, reading.values.add(value))
        return None

    def _read_line(self, node: Any, names: list[str]) -> bool:
        """Read the next line of a known input; whether there was a whole one."""
        reading = self._reading
        text, end, reading.stdin = (reading.stdin or "").partition("\n")
        before = [c for c in node.children if c.type == "variable_assignment"]
        given = {reading.source.of(c.child_by_field_name("name")): reading.source.of(c) for c in before}
        kept = reading.state.variables.get("IFS")
        if "IFS" in given:
            value = reading.expander.text(given["IFS"].partition("=")[2], reading.source.line(node))
        else:
            value = kept if isinstance(kept, str) else " \t\n"
        for name, part in zip(names or ["REPLY"], split_line(text, value, len(names)), strict=True):
            reading.state.assign(name, part)
        return bool(end)

    def _mapfile(self, node: Any, words: list[str]) -> bool:
        reading = self._reading
        name = words[-1] if words and not words[-1].startswith("-") else "MAPFILE"
        if reading.stdin is not None and not OPEN.search(reading.stdin) and set(words) <= {"-t", name}:
            lines = reading.stdin.splitlines(keepends="-t" not in words)
            reading.stdin = ""
            reading.state.assign(name, lines)
            return True
        problem = f"{name} is filled in line {reading.source.line(node)} by what can't be followed"
        reading.state.assign(name, [reading.unknown(problem)])
        return True

    def _getopts(self, _node: Any, _words: list[str]) -> bool:
        # The script is read without arguments.
        return False

    def _let(self, node: Any, words: list[str]) -> bool | None:
        return [self._reading.arithmetic(word, node) for word in words][-1] if words else None

    # Flow

    def _status(self, words: list[str]) -> int | None:
        return int(words[0]) if words and words[0].isdigit() else 0

    def _exit(self, _node: Any, words: list[str]) -> bool:
        raise Exit(self._status(words))

    def _return(self, _node: Any, words: list[str]) -> bool:
        raise Return(self._status(words))

    def _break(self, _node: Any, words: list[str]) -> bool:
        raise Loop(int(words[0]) if words and words[0].isdigit() else 1, again=False)

    def _continue(self, _node: Any, words: list[str]) -> bool:
        raise Loop(int(words[0]) if words and words[0].isdigit() else 1, again=True)

    def _eval(self, node: Any, words: list[str]) -> bool | None:
        reading = self._reading
        reading.run_source(Source(" ".join(words), reading.source.file, reading.source.line(node)))
        return True

    def _source(self, node: Any, words: list[str]) -> bool | None:
        reading = self._reading
        name = words[0] if words else ""
        try:
            text = reading.read_file(name)
        except (OSError, ValueError):
            shown = OPEN.sub("…", name)
            reading.note(node, f"{shown} can't be read; what it sets stays open.")
            return None
        try:
            reading.run_source(Source(text, reading.state.path(name)))
        except Return:
            pass
        except Stop as error:
            raise Stop(f"{name}: {error}") from error
        return True

    # Paths and numbers

    def _cd(self, node: Any, words: list[str]) -> bool | None:
        state, words = self._reading.state, [word for word in words if not word.startswith("-")]
        if not words or OPEN.search(words[0]):
            self._reading.note(node, "the folder of this `cd` is not known; files are looked for beside the "
                                     "script.")  # fmt: skip
            return True
        state.place = state.path(words[0])
        return True

    def _pwd(self, _node: Any, _words: list[str]) -> bool:
        return self._put(self._reading.state.folder() + "\n")

    def _path(self, words: list[str], change: Callable[[str], str]) -> bool:
        words = words[1:] if words[:1] == ["--"] else words
        if len(words) != 1 or words[0].startswith("-"):
            self._reading.opaque = True
            return True
        text = words[0]
        if OPEN.search(text):
            return self._put(self._reading.expander.derived(text, "a part of a path", change) + "\n")
        return self._put(change(text) + "\n")

    def _dirname(self, _node: Any, words: list[str]) -> bool:
        return self._path(
            words, lambda text: posixpath.dirname(text.rstrip("/")) or ("/" if text[:1] == "/" else ".")
        )

    def _basename(self, _node: Any, words: list[str]) -> bool:
        suffix = words[1] if len(words) == 2 and not words[0].startswith("-") else ""

        def change(text: str) -> str:
            name = posixpath.basename(text.rstrip("/"))
            return name.removesuffix(suffix) if name != suffix else name

        return self._path(words[:1] if suffix else words, change)

    def _seq(self, _node: Any, words: list[str]) -> bool:
        if not 1 <= len(words) <= 3 or not all(re.fullmatch(r"-?\d{1,6}", word) for word in words):
            self._reading.opaque = True
            return True
        numbers = [int(word) for word in words]
        first = numbers[0] if len(numbers) > 1 else 1
        step = numbers[1] if len(numbers) == 3 else 1
        if step == 0:
            self._reading.opaque = True
            return True
        values = range(first, numbers[-1] + (1 if step > 0 else -1), step)
        return self._put("".join(f"{value}\n" for value in values[:2000]))
