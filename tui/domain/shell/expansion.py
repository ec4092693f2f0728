"""Expands the words of a command like bash."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tui.domain.log.pattern import PatternError
from tui.domain.shell import arithmetic, patterns
from tui.domain.shell.parameters import OPEN, OpenValue, OpenValues
from tui.domain.shell.scanning import ansi_c, braces, end_of
from tui.domain.shell.state import ShellBudget, State

_NAME = re.compile(r"[A-Za-z_]\w*|\d+|[@*#?$!_-]", re.ASCII)
_BRACED = re.compile(
    r"(?P<sign>[!#]?)(?P<name>[A-Za-z_]\w*|\d+|[@*#?])(?:\[(?P<index>[^\]]*)\])?"
    r"(?P<operator>:?[-=+?]|##?|%%?|//|/#|/%|/|\^\^?|,,?|:)?(?P<rest>.*)",
    re.DOTALL | re.ASCII,
)
_BLANK = " \t\n"


@dataclass(slots=True)
class _Fields:
    """The words so far from one word of the source."""

    split: bool
    budget: ShellBudget
    separators: str = _BLANK
    done: list[str] = field(default_factory=list)
    open: list[str] | None = None
    """The pieces of the last word; `None` before the first piece."""

    @property
    def text(self) -> str:
        return "".join(self.open or ())

    def add(self, text: str) -> None:
        self.budget.spend(len(text))
        self.open = self.open or []
        self.open.append(text)

    def end(self) -> None:
        if self.open is not None:
            self.done.append(self.text)
            self.budget.spend(len(self.done[-1]))
        self.open = None

    def unquoted(self, text: str) -> None:
        if not self.split:
            self.add(text)
            return
        blank = re.escape("".join(c for c in self.separators if c in _BLANK))
        other = re.escape("".join(c for c in self.separators if c not in _BLANK))
        if not self.separators:
            self.add(text) if text else None
            return
        around = f"[{blank}]*" if blank else ""
        either = [*([f"{around}[{other}]{around}"] if other else []), *([f"[{blank}]+"] if blank else [])]
        parts = re.split("|".join(either), text)
        for i, part in enumerate(parts):
            if i:
                # A separator that is not a blank also ends an empty word.
                if other and self.open is None and i < len(parts):
                    self.open = []
                self.end()
            if part:
                self.add(part)

    def several(self, values: list[str], quoted: bool) -> None:
        for i, value in enumerate(values):
            if i and self.split:
                self.end()
            elif i:
                self.add(" ")
            self.add(value) if quoted else self.unquoted(value)


class Stop(Exception):
    """`${X:?words}` ended a script."""


@dataclass(slots=True)
class Expander:
    """Expands words in a state; `substitute` returns the output of a command."""

    state: State
    values: OpenValues
    environment: Callable[[str], str | None]
    substitute: Callable[[str, int], str]
    line: int = 0

    def words(self, source: str, line: int) -> list[str]:
        """Expand one word of the source into a list of words."""
        self.line = line
        if re.match(r"[^'\"]*[<>]\(", source):
            return [self.unknown("a file made by <(…) can't be followed")]
        words: list[str] = []
        for word in braces(source, self.state.budget.spend):
            fields = _Fields(split=True, budget=self.state.budget, separators=self._separators())
            self._expand(self._home(word), fields)
            fields.end()
            words += fields.done
        return words

    def text(self, source: str, line: int) -> str:
        """Expand a word without splitting, as in an assignment."""
        self.line = line
        fields = _Fields(split=False, budget=self.state.budget)
        self._expand(self._home(source), fields)
        return fields.text

    def pattern(self, source: str, line: int) -> str:
        """Expand a word as a pattern, with quoted parts literal."""
        self.line = line
        result, at = "", 0
        while at < len(source):
            end = end_of(source, at) if source[at] in "\\'\"$`" else at + 1
            part = source[at:end]
            if part[0] in "'\"\\" or part.startswith("$'"):
                result += re.sub(r"([*?\[\]\\])", r"\\\1", self.text(part, line))
            else:
                name = _NAME.match(source, at + 1) if part == "$" else None
                end = name.end() if name else end
                result += self.text(source[at:end], line) if part[0] in "$`" else part
            at = end
        return result

    def document(self, source: str, line: int) -> str:
        """Expand the body of a here-document whose delimiter is not quoted."""
        self.line = line
        fields = _Fields(split=False, budget=self.state.budget)
        self._quoted(source, fields, "$`\\")
        return fields.text

    def _home(self, word: str) -> str:
        return '"$HOME"' + word[1:] if word == "~" or word.startswith("~/") else word

    def _expand(self, source: str, fields: _Fields) -> None:
        at = 0
        while at < len(source):
            char = source[at]
            if char == "\\":
                if source[at + 1 : at + 2] != "\n":
                    fields.add(source[at + 1 : at + 2])
                at += 2
            elif char == "'":
                end = end_of(source, at)
                fields.add(source[at + 1 : end - 1])
                at = end
            elif source.startswith("$'", at):
                end = end_of(source, at)
                escaped = ansi_c(source[at + 2 : end - 1])
                # Remove the character, because it would be an open value.
                fields.add(OPEN.sub("\ufffd", escaped))
                at = end
            elif char == '"' or source.startswith('$"', at):
                at += char == "$"
                end = end_of(source, at)
                inner = source[at + 1 : end - 1]
                if not re.fullmatch(r"\$(@|\{\w+\[@\][^}]*\}|\{@\})", inner):
                    fields.add("")
                self._quoted(inner, fields, '$`"\\')
                at = end
            elif char in "$`":
                at = self._dollar(source, at, fields, quoted=False)
            else:
                end = at + 1
                while end < len(source) and source[end] not in "\\'\"$`":
                    end += 1
                fields.add(source[at:end])
                at = end

    def _quoted(self, source: str, fields: _Fields, escaped: str) -> None:
        at = 0
        while at < len(source):
            char = source[at]
            if char == "\\":
                following = source[at + 1 : at + 2]
                if following != "\n":
                    fields.add(following if following and following in escaped else char + following)
                at += 2
            elif char in "$`":
                at = self._dollar(source, at, fields, quoted=True)
            else:
                end = at + 1
                while end < len(source) and source[end] not in "\\$`":
                    end += 1
                fields.add(source[at:end])
                at = end

    def _dollar(self, source: str, at: int, fields: _Fields, *, quoted: bool) -> int:
        """Expand the expression that begins at `at`; return the position after it."""
        put = fields.add if quoted else fields.unquoted
        if source[at] == "`":
            end = end_of(source, at)
            put(self.substitute(re.sub(r"\\([\\`$])", r"\1", source[at + 1 : end - 1]), self.line))
            return end
        if source.startswith("$((", at):
            end = end_of(source, at)
            if source[end - 2 : end] == "))":
                put(self.number(source[at + 3 : end - 2]))
                return end
        if source.startswith("$(", at):
            end = end_of(source, at)
            put(self.substitute(source[at + 2 : end - 1], self.line))
            return end
        if source.startswith("${", at):
            end = end_of(source, at)
            fields.several(*self._braced(source[at + 2 : end - 1], quoted))
            return end
        match = _NAME.match(source, at + 1)
        if match is None:
            fields.add("$")
            return at + 1
        name = match[0][0] if match[0][0].isdigit() else match[0]
        if name in "@*":
            fields.several(self._all(name, self.state.arguments, quoted), quoted)
        else:
            put(self._value(name))
        return at + 1 + len(name)

    def number(self, source: str) -> str:
        """Return the value of `$((…))`, as text."""
        text = self.text(source, self.line) if re.search(r"[$`]", source) else source
        if OPEN.search(text):
            return self.derived(text, f"$(({source}))", arithmetic.value_of)
        try:
            return str(arithmetic.value_of(text, self.state.variables))
        except arithmetic.NotArithmetic as error:
            name = error.name
            if name and name not in self.state.variables:
                return self.derived(self._value(name), f"$(({source}))", lambda v: arithmetic.value_of(
                    text, {**self.state.variables, name: v}))  # fmt: skip
            return self.unknown(f"$(({source})) can't be computed")

    def evaluate(self, text: str) -> bool | None:
        """Run `((…))` with its assignments. Return whether the last value is not zero (`None`: unknown)."""
        status: bool | None = None
        for part in text.split(","):
            part = part.strip()  # noqa: PLW2901
            match = re.fullmatch(r"([A-Za-z_]\w*)\s*(\+\+|--|[-+*/%]?=(?!=))\s*(.*)", part, re.DOTALL)
            prefix = re.fullmatch(r"(\+\+|--)\s*([A-Za-z_]\w*)", part)
            if prefix:
                match = re.fullmatch(r"([A-Za-z_]\w*)(\+\+|--)(.*)", prefix[2] + prefix[1])
            if match is None:
                value = self.number(part)
            else:
                name, operator, rest = match.groups()
                step = f"{name}{operator[0]}1" if operator in {"++", "--"} else rest
                step = f"{name}{operator[0]}({rest})" if len(operator) == 2 and rest else step
                if name not in self.state.variables and self.known(name) is None:
                    self.state.assign(name, "0")
                value = self.number(step)
                self.state.assign(name, value)
            status = value != "0" if re.fullmatch(r"-?\d+", value) else None
        return status

    # Variables

    def unknown(self, problem: str) -> str:
        """Return an open value that can't be followed: an error if it reaches the service."""
        return self.values.add(OpenValue("?", problem, self.line, problem=problem))

    def derived(self, text: str, source: str, change: Callable[[str], object]) -> str:
        """Return the result of an operation on a text with open values, as a separate parameter."""
        bad = next((v for v in self.values.of(text) if v.problem), None)
        if bad is not None:
            return self.unknown(bad.problem)
        default, now = self.values.default(text), self.values.now(text)
        whole = re.match(r"\$\{([A-Za-z_]\w*)", source)
        name = whole[1] if whole else self.values.of(text)[0].name
        try:
            changed_default = None if default is None else str(change(default))
            current = None if now is None else str(change(now))
        except (ValueError, ArithmeticError, arithmetic.NotArithmetic):
            return self.unknown(f"{source} can't be computed")
        return self.values.add(
            OpenValue(name, f"{source} in line {self.line}", self.line, changed_default, current)
        )

    def _value(self, name: str) -> str:
        known = self.known(name)
        return known if known is not None else self._unset(name)

    def known(self, name: str) -> str | None:
        """Return the value of a name in the script or the environment; `None` for an unset name."""
        if name.isdigit():
            n = int(name)
            if n == 0:
                return self.state.script
            return self.state.arguments[n - 1] if n <= len(self.state.arguments) else None
        if name == "#":
            return str(len(self.state.arguments))
        if name == "$":
            return self.values.add(OpenValue("pid", "the number of the script's process, $$", self.line))
        if name in "?!-":
            return "0" if name == "?" else self.unknown(f"${name} is known only while the script runs")
        value = self.state.variables.get(name)
        if isinstance(value, list):
            return value[0] if value else None
        if value is not None:
            return value
        if name in self.state.unset:
            return None
        if name in {"PWD", "OLDPWD"}:
            return self.state.folder()
        return self._from_environment(name)

    def _from_environment(self, name: str) -> str | None:
        value = self.environment(name)
        if value is None:
            return None
        return self.values.add(
            OpenValue(name, f"${name}, from the environment of the import", self.line, value, value)
        )

    def _unset(self, name: str) -> str:
        if name in self.state.unset:
            return ""
        if name.isdigit():
            if self.state.depth:
                return ""
            words = f"argument {name} of the script"
            return self.values.add(OpenValue(f"arg{name}", words, self.line, now=""))
        return self.values.add(OpenValue(name, f"${name} of the command line", self.line, now=""))

    def _all(self, sign: str, values: list[str], quoted: bool) -> list[str]:
        return [self._separators()[:1].join(values)] if quoted and sign == "*" and values else values

    def _separators(self) -> str:
        """Return the characters that separate words in an unquoted value."""
        separators = self.state.variables.get("IFS", _BLANK)
        return separators if isinstance(separators, str) else _BLANK

    def _list(self, name: str) -> list[str]:
        if name in "@*":
            return self.state.arguments
        value = self.state.variables.get(name)
        if isinstance(value, list):
            return value
        return [value] if value is not None else []

    def _braced(self, inner: str, quoted: bool) -> tuple[list[str], bool]:
        """Return the values of `${inner}` and whether they are quoted."""
        match = _BRACED.fullmatch(inner)
        if match is None:
            return [self.unknown(f"${{{inner}}} can't be followed")], quoted
        sign, name, index, operator, rest = match.group("sign", "name", "index", "operator", "rest")
        if operator is None and rest:
            return [self.unknown(f"${{{inner}}} can't be followed")], quoted
        if index in {"@", "*"} or name in "@*":
            return self._of_list(inner, index or name, match, quoted), quoted
        if name == "#" or (sign == "#" and operator):
            return [self.unknown(f"${{{inner}}} can't be followed")], quoted
        if sign == "!":
            value = self._indirect(inner, name, index)
            name = name if OPEN.search(value) else value
        current = self._element(name, index) if index is not None else self.known(name)
        if sign == "#":
            length = self._open(current or "", inner, len)
            return [length], quoted
        if operator in {":-", "-", ":=", "=", ":+", "+", ":?", "?"}:
            return [self._optional(name, index, operator, rest, current, quoted)], quoted
        if current is None:
            current = self._unset(name) if index is None else ""
        return [self._changed(current, inner, operator, rest)], quoted

    def _indirect(self, inner: str, name: str, index: str | None) -> str:
        target = self.known(name) if index is None else self._element(name, index)
        if target is None or OPEN.search(target) or not re.fullmatch(r"[A-Za-z_]\w*", target):
            return self.unknown(f"${{{inner}}} names an unknown variable")
        return target

    def _element(self, name: str, index: str) -> str | None:
        number = self.number(index)
        values = self._list(name)
        if not re.fullmatch(r"-?\d+", number):
            return self.unknown(f"{name}[{index}] can't be followed")
        return values[int(number)] if -len(values) <= int(number) < len(values) else None

    def _of_list(self, inner: str, sign: str, match: re.Match[str], quoted: bool) -> list[str]:
        values, operator, rest = self._list(match["name"]), match["operator"], match["rest"]
        if match["sign"] == "#" and not operator:
            return [str(len(values))]
        if match["sign"]:
            return [self.unknown(f"${{{inner}}} can't be followed")]
        if operator in {":+", "+"}:
            return self.words(rest, self.line) if values else []
        if operator in {":-", "-"}:
            values = values or self.words(rest, self.line)
        elif operator == ":":
            limits = [self.number(part) for part in rest.split(":")]
            if not all(re.fullmatch(r"\d+", limit) for limit in limits):
                return [self.unknown(f"${{{inner}}} can't be followed")]
            whole = [self.state.script, *values] if match["name"] in "@*" else values
            start = int(limits[0])
            values = whole[start : start + int(limits[1]) if len(limits) > 1 else None]
        elif operator:
            values = [self._changed(value, inner, operator, rest) for value in values]
        return self._all(sign, values, quoted)

    def _optional(  # noqa: PLR0917 - the parts of `${name[index]operator rest}`
        self, name: str, index: str | None, operator: str, rest: str, current: str | None, quoted: bool
    ) -> str:
        strict = operator.startswith(":")
        known = None if current is None else self.values.now(current)
        missing = current is None or (strict and known == "" and not self._is_parameter(current))
        word = self._word(rest, quoted)
        if operator[-1] == "+":
            return "" if missing else word
        if operator[-1] == "?":
            if current is None:
                return self._needed(name, word)
            if missing:
                raise Stop(f"{name}: {word}")
            return current
        if not missing:
            return current or ""
        if index is None and name not in self.state.variables and not OPEN.search(word):
            word = self._with_default(name, word)
        if operator[-1] == "=" and index is None:
            self.state.variables[name] = word
        return word

    def _is_parameter(self, value: str) -> bool:
        return any(v.default is not None for v in self.values.of(value))

    def _word(self, rest: str, quoted: bool) -> str:
        if not quoted:
            return self.text(rest, self.line)
        fields = _Fields(split=False, budget=self.state.budget)
        at = 0
        while at < len(rest):
            end = end_of(rest, at) if rest[at] == '"' else at
            if end > at:
                self._quoted(rest[at + 1 : end - 1], fields, '$`"\\')
            else:
                stop = next((i for i in range(at, len(rest)) if rest[i] == '"' and rest[i - 1] != "\\"), -1)
                end = stop if stop > at else len(rest)
                self._quoted(rest[at:end], fields, '$`"\\}')
            at = end
        return fields.text

    def _with_default(self, name: str, word: str) -> str:
        if name in self.state.unset or (name.isdigit() and self.state.depth):
            return word
        shown = f"arg{name}" if name.isdigit() else name
        words = f"argument {name} of the script" if name.isdigit() else f"${name} of the command line"
        return self.values.add(OpenValue(shown, words, self.line, word, word))

    def _needed(self, name: str, word: str) -> str:
        if (self.state.depth and name.isdigit()) or name in self.state.unset:
            raise Stop(f"{name}: {word}")
        shown = f"arg{name}" if name.isdigit() else name
        return self.values.add(OpenValue(shown, OPEN.sub("…", word) or f"${name} of the command line",
                                         self.line, now=""))  # fmt: skip

    def _open(self, value: str, inner: str, change: Callable[[str], object]) -> str:
        if OPEN.search(value):
            return self.derived(value, f"${{{inner}}}", change)
        return str(change(value))

    def _changed(self, value: str, inner: str, operator: str | None, rest: str) -> str:
        if operator is None:
            return value
        change = self._change(operator, rest)
        if change is None:
            return self.unknown(f"${{{inner}}} can't be followed")
        try:
            return self._open(value, inner, change)
        except PatternError:
            return self.unknown(f"${{{inner}}} can't be followed")

    def _change(self, operator: str, rest: str) -> Callable[[str], str] | None:
        if operator[0] in "#%":
            pattern = self.pattern(rest, self.line)
            return None if OPEN.search(pattern) else lambda v: patterns.removed(v, operator, pattern)
        if operator[0] == "/":
            searched, by = self._halves(rest)
            if OPEN.search(searched + by):
                return None
            return lambda v: patterns.replaced(v, operator, searched, by)
        if operator[0] in "^,":
            return None if rest else lambda v: patterns.cased(v, operator)
        limits = [self.number(part.strip()) for part in rest.split(":")]
        if len(limits) > 2 or not all(re.fullmatch(r"-?\d+", limit) for limit in limits):
            return None
        start = int(limits[0])
        return lambda v: _cut(v, start, int(limits[1]) if len(limits) > 1 else None)

    def _halves(self, rest: str) -> tuple[str, str]:
        at = 0
        while at < len(rest) and rest[at] != "/":
            at = end_of(rest, at) if rest[at] in "\\'\"$`" else at + 1
        return self.pattern(rest[:at], self.line), self.text(rest[at + 1 :], self.line)


def _cut(text: str, start: int, length: int | None) -> str:
    start = max(len(text) + start, 0) if start < 0 else start
    if length is None:
        return text[start:]
    return text[start:length] if length < 0 else text[start : start + length]
