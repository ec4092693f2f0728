"""Declaration of a fault: words and options. The fault's verb, help, request and line in the list follow from
it.

The module uses only the standard library, because the command line imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tui.emulator.faults.limit import LONGEST_SECONDS, MOST_TIMES, number

Options = dict[str, Any]
"""All fields of a request, checked."""
Answer = dict[str, Any]
Act = Callable[[Any, Options | None], Answer]
"""A function that acts on the `Targets` of `tui.emulator.fault_targets`."""
NO_FAULTS = "no faults"


@dataclass(frozen=True, slots=True)
class Option:
    """One field of a fault's request, and the option of the fault's verb."""

    flag: str = ""
    """Flag such as `--cut-every`; "" for a field that another option also sets."""
    help: str = ""
    field: str = ""
    """Name in the request, by default the name of the flag."""
    type: type = float
    """Type of the value: float, int, bool or str; object for a value that the fault itself checks."""
    metavar: str = "SECONDS"
    least: float = 0.0
    most: float = LONGEST_SECONDS
    value: str = ""
    """Value that the flag sets, for a flag that selects one of several values."""
    values: tuple[str, ...] = ()
    """Accepted values."""
    several: bool = False
    """Whether the field is a list of texts."""
    pair: str = ""
    """Field set by the second half of the option's A:B."""
    says: str = ""
    """Text for an option that is set: a format of the answer's fields."""

    @property
    def name(self) -> str:
        return self.field or self.flag.lstrip("-").replace("-", "_")

    @property
    def default(self) -> Any:
        return [] if self.several else self.type()

    def read(self, request: Mapping[str, Any]) -> Any:
        """Return the checked value in a request. Raises ValueError naming the field."""
        value = request.get(self.name, self.default)
        if self.several:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise ValueError(f"{self.name} must be a list of strings, not {value!r}")
            unknown = [item for item in value if self.values and item not in self.values]
            if unknown:
                raise ValueError(f"{self.name}: {unknown[0]!r} must be one of {', '.join(self.values)}")
        elif self.type is object:
            return request.get(self.name)
        elif self.type is bool:
            return bool(value)
        elif self.type is str:
            if not isinstance(value, str):
                raise ValueError(f"{self.name} must be a string, not {value!r}")
            if value and self.values:
                known = {text.lower(): text for text in self.values}
                if value.lower() not in known:
                    raise ValueError(f"{self.name} must be one of {', '.join(self.values)}, not {value!r}")
                return known[value.lower()]
        else:
            return self.type(number(request, self.name, self.least, self.most))
        return value

    def shown(self, answer: Mapping[str, Any]) -> str:
        """Return the option's text for the fault in force, or "" if the option is not set."""
        value = answer.get(self.name)
        if not value or not self.says or self in LIMITS or (self.value and value != self.value):
            return ""
        return self.says.format(**{k: ", ".join(v) if isinstance(v, list) else v for k, v in answer.items()})

    def limit(self, answer: Mapping[str, Any]) -> str:
        """Return the text for the remaining duration or calls."""
        left = {FOR: "left_seconds", TIMES: "left_times"}.get(self, "")
        value = answer.get(left) or answer.get(self.name)
        return self.says.format(value) if self in LIMITS and value else ""


FOR = Option("--for", "Clear the fault after this time.", "lasts", says="for {:g} s")
TIMES = Option(
    "--times", "Only for this many calls.", type=int, metavar="INTEGER", most=MOST_TIMES, says="{} times"
)
LIMITS = (FOR, TIMES)
"""Options that limit a fault but do not enable one."""


@dataclass(frozen=True, slots=True)
class FaultEntry:
    """One fault. `act` sets the fault if it receives options, and returns the fault in force."""

    name: str
    """Name of the verb, and the value of `do` in the request."""
    title: str
    """Format of the answer's fields: name of the fault in the list."""
    help: str
    options: tuple[Option, ...]
    act: Act
    argument: str = ""
    """Field set by the verb's argument; `job` is found as other verbs find a job."""
    exclusive: tuple[str, ...] = ()
    """Fields that exclude each other in one request."""
    once: bool = False
    """Whether the fault happens once, so that it is not in force afterwards."""
    added: bool = False
    """Whether each request adds a fault. The answer is then a list under the fault's name."""
    doing: str = ""
    """Verb for the progress message, as in "Preempting JOB", for a fault of a job."""
    note: str = ""
    """Note printed on stderr after the fault was set."""

    def read(self, request: Mapping[str, Any]) -> Options:
        """Return all fields of a request. Raises ValueError naming the invalid field."""
        options = {option.name: option.read(request) for option in self.options}
        for field in {option.name for option in self.options if option.value}:
            choices = [option.value for option in self.options if option.name == field]
            if options[field] and options[field] not in choices:
                raise ValueError(f"{field} must be one of {', '.join(choices)}, not {options[field]!r}")
        if self.argument:
            options[self.argument] = Option(field=self.argument, type=str).read(request)
        return options

    def words(self, answer: Mapping[str, Any]) -> str:
        """Return one line about the fault in force."""
        words = [text for option in self.options if (text := option.shown(answer))]
        if words:
            words += [option.limit(answer) for option in self.options]
        return f"{self.title.format(**answer).strip()}: {', '.join(filter(None, words)) or NO_FAULTS}"


class FaultRegistry(dict[str, FaultEntry]):
    """Faults by name, in the order of the help."""

    def add(self, name: str, title: str, *options: Option, **words: Any) -> Callable[[Act], Act]:
        """Register the decorated function as a fault; its docstring is the help of the verb."""

        def register(act: Act) -> Act:
            self[name] = FaultEntry(name, title, (act.__doc__ or "").strip(), options, act, **words)
            return act

        return register
