"""A profile: the configuration file of a job, with an optional header."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tui.domain.document.source import (
    Document,
    Path,
    Problem,
    ProblemSeverity,
    ProfileInvalid,
    read,
    several_documents,
)
from tui.domain.masking import is_secret, mark_declared, masked
from tui.domain.profile.body import inputs_of, located, with_inputs
from tui.domain.profile.gcloud_config import refused_tab
from tui.domain.profile.header import body_in, header_fields, top_names, unknown_references
from tui.domain.profile.parameters import (
    PARAMETER,
    Parameter,
    Value,
    fill,
    present,
    read_parameters,
    references,
)
from tui.domain.progress.pattern import VARIABLE as PROGRESS_VARIABLE
from tui.domain.progress.pattern import problems as pattern_problems
from tui.domain.progress.pattern import with_pattern
from tui.domain.spec.field_table import HEADER
from tui.domain.spec.findings import Case, Finding
from tui.domain.spec.spec_format import (
    Attachment,
    BodyInput,
    SpecFormat,
    format_of,
    no_profile,
    standing_alone,
)
from tui.domain.spec.values import describe, text
from tui.domain.vertex.field_check import Checker
from tui.domain.vertex.packaging import STAGING_FOLDER, Package, PackagedTask, PackagingError, with_task

DEFAULT_NAME = "custom-job"
_PACKAGE = "profile.package"
_PROGRESS = "profile.progress"
_PLACEHOLDERS = {"string": "x", "integer": "1", "number": "1", "boolean": "false"}


@dataclass(frozen=True, slots=True)
class Request:
    """The result of rendering: the region ("" for the region of the context) and the CustomJob in REST
    format.

    `body` is the key of the profile's body; its format converts the custom job to the resource to send. The
    task of a `package` is added to the pools earlier, see `tui.packaging.prepare`.
    """

    region: str
    body: str
    custom_job: dict[str, Any]
    package: Package | None = None
    secrets: tuple[str, ...] = ()
    """Values of the parameters that are secrets, by declaration or by name."""

    @property
    def resource(self) -> dict[str, Any]:
        """The resource to send, in REST format."""
        return format_of(self.body).resource(self.custom_job)

    @property
    def name_problem(self) -> tuple[str, str] | None:
        """Return why a launch under this name is refused, with the fix, after filling in placeholders."""
        return format_of(self.body).name_problem(self.custom_job)

    def shown(self, *, reveal: bool = False) -> dict[str, Any]:
        """Return the resource for display, with masked secrets unless `reveal`."""
        resource: dict[str, Any] = self.resource if reveal else masked(self.resource, self.secrets)[0]
        return resource


@dataclass(frozen=True, slots=True)
class Checked:
    """A request and its problems; a request with an error must not be sent."""

    request: Request
    problems: tuple[Problem, ...] = ()

    @property
    def errors(self) -> list[Problem]:
        """Problems that stop a launch."""
        return [p for p in self.problems if p.severity is ProblemSeverity.ERROR]


@dataclass(frozen=True, slots=True)
class Profile:
    """A file with a valid structure; `check` also applies the rules.

    `body` describes the job, in the format `format`. `wrapped` is true if the body is under a header, false
    if it is the top level of the file. `references` is true if `${name}` means a parameter: only in a file
    with a `parameters` block; in any other file the text is sent unchanged. `warnings` are problems with the
    file that do not stop a launch.
    """

    name: str
    display_name: str
    description: str
    region: str
    labels: Mapping[str, str]
    parameters: tuple[Parameter, ...]
    encryption: Mapping[str, str] | None
    body: Mapping[str, Any]
    format: SpecFormat
    document: Document
    wrapped: bool
    references: bool = False
    warnings: tuple[Problem, ...] = ()
    package: Mapping[str, Any] | None = None
    progress: Mapping[str, Any] | None = None

    @property
    def job_spec(self) -> Mapping[str, Any]:
        """The CustomJobSpec, without the values of parameters; empty if the body wraps no CustomJobSpec."""
        return self.format.spec(self.body) or {}

    @property
    def spec_path(self) -> Path:
        """Path of the CustomJobSpec in the file."""
        return self.format.spec_path if self.wrapped else ()

    @property
    def inputs(self) -> tuple[BodyInput, ...]:
        """Values that a launch may set in the body, in addition to the parameters."""
        return inputs_of(self.format, self.body, self._defaults(), self.document.file)

    def unset(self, names: Collection[str] = ()) -> set[Path]:
        """Return the paths of the body that have no value until a launch sets them."""
        return {e.path for e in self.inputs if e.required and e.key not in names and e.name not in names}

    def _defaults(self) -> dict[str, Any]:
        """Return the body with the defaults of the parameters."""
        defaults = {p.name: p.default for p in self.parameters if p.default is not None}
        return dict(fill(self.body, defaults)) if self.references else dict(self.body)

    def outline(self) -> dict[str, Any]:
        """Return the job in REST format with the parameters' defaults, unchecked."""
        body, _ = self.format.attach(self._defaults(), self.document.file)
        return {self.format.body: self.format.beside(body)}

    def values(self, texts: Mapping[str, str]) -> dict[str, Value]:
        """Return every parameter's value: its text in `texts`, or its default. Names of `inputs` are skipped.
        Raises ProfileInvalid with each parameter that does not exist, or has a wrong or missing value."""
        known = {p.name: p for p in self.parameters}
        values: dict[str, Value] = {}
        others = self.inputs if any(name not in known for name in texts) else ()
        keys = {*known, *(other.key for other in others), *(other.name for other in others)}
        names = dict.fromkeys((*known, *(other.name for other in others)))
        problems = [
            self.document.problem((), f"there is no parameter {name}.", _known(names), PARAMETER)
            for name in texts
            if name not in keys
        ]
        for name, parameter in known.items():
            here = ("parameters", name)
            if name in texts:
                try:
                    values[name] = parameter.parse(texts[name])
                except ValueError as error:
                    problems.append(self.document.problem(here, f"{error}.", rule=PARAMETER))
            elif parameter.default is not None:
                values[name] = parameter.default
            else:
                fix = f"Add --set {name}=VALUE."
                problems.append(self.document.problem(here, "the parameter has no default.", fix, PARAMETER))
        if problems:
            raise ProfileInvalid(problems)
        return values

    def check(
        self, parameters: Mapping[str, str] | None = None, *, region: str = "", local: bool = False
    ) -> Checked:
        """Return the request with these parameter texts, and all its problems. `region` replaces the
        profile's own; `local` is true if the job would run on this machine. Raises ProfileInvalid for
        parameters that don't exist, or have a wrong or missing value."""
        parameters = parameters or {}
        values = self.values(parameters)
        checker = Checker(replace(self.document, texts={}), references=False)
        path = (self.format.body,) if self.wrapped else ()
        filled = self._filled(self.body, values)
        if self.wrapped:
            rest = {name: words for name, words in parameters.items() if name not in values}
            filled, unset = with_inputs(filled, self.inputs if rest else (), rest, self.document)
            if unset:
                raise ProfileInvalid(unset)
        body = checker.message(filled, self.format.fields.fields, path)
        body, attached = self.format.attach(body, self.document.file)
        job = self._job(body, values, checker)
        place = region or text(self._filled(self.region, values))
        block = None
        if self.package is not None:
            filled = self._filled(self.package, values)
            block = Package.of(checker.field(filled, HEADER["package"], ("package",)))
        job, wrong = self._with_progress(job, checker, values)
        whole, unfit = self._with_package(job, block, local)
        findings = [
            self._problem(finding, attached) for finding in self.format.rules(Case(whole, place, local))
        ]
        lost = attached.problems if attached is not None else ()
        texts = {p: text(values[p.name]) for p in self.parameters}
        secrets = tuple(t for p, t in texts.items() if t and (p.secret or is_secret(p.name, t)))
        request = Request(place, self.format.body, mark_declared(job, secrets), block, secrets)
        return Checked(
            request,
            (*self.warnings, *self._kept_secrets(), *checker.problems, *wrong, *unfit, *lost, *findings),
        )

    def _job(self, body: Mapping[str, Any], values: Mapping[str, Value], checker: Checker) -> dict[str, Any]:
        """Return the custom job in REST format, from the header, the spec, and the body's other fields."""
        job: dict[str, Any] = {"displayName": text(self._filled(self.display_name, values))}
        spec = self.format.spec(body)
        if spec is not None:
            job["jobSpec"] = spec
        beside = self.format.beside(body)
        if beside:
            job[self.format.body] = beside
        if self.labels:
            job["labels"] = {k: text(v) for k, v in self._filled(self.labels, values).items()}
        if self.encryption is not None:
            kind = HEADER["encryptionSpec"]
            job["encryptionSpec"] = checker.field(
                self._filled(self.encryption, values), kind, ("encryptionSpec",)
            )
        return job

    def _kept_secrets(self) -> list[Problem]:
        """Return a warning for each declared secret whose value the file contains."""
        message = "the file contains the secret's value; everyone who may see the job can read it."
        fix = "Put the secret into Secret Manager and let the code fetch it as the job's service account."
        return [
            replace(
                self.document.problem(("parameters", p.name), message, fix, "secrets.parameter"),
                severity=ProblemSeverity.WARNING,
            )
            for p in self.parameters
            if p.secret and p.default not in (None, "")
        ]

    def render(self, texts: Mapping[str, str] | None = None) -> Request:
        """Return the request with these parameter texts. Raises ProfileInvalid for wrong values, and for
        every error of the rules."""
        checked = self.check(texts)
        if checked.errors:
            raise ProfileInvalid(checked.errors)
        return checked.request

    def _with_progress(
        self, job: dict[str, Any], checker: Checker, values: Mapping[str, Value]
    ) -> tuple[dict[str, Any], list[Problem]]:
        """Return the job with its progress pattern in the environment, and the problems with the pattern."""
        if self.progress is None:
            return job, []
        known = "jobSpec" in job or self.format.with_variable(job, PROGRESS_VARIABLE, "") is not None
        if not known:
            return job, [self._only_custom_jobs("progress", _PROGRESS)]
        block = checker.field(self._filled(self.progress, values), HEADER["progress"], ("progress",))
        pattern = text((block or {}).get("pattern") or "")
        if not pattern:
            return job, []
        problems = [
            self.document.problem(("progress", "pattern"), sentence, fix, _PROGRESS)
            for sentence, fix in pattern_problems(pattern)
        ]
        changed = self.format.with_variable(job, PROGRESS_VARIABLE, pattern)
        if changed is not None:
            return changed, problems
        return with_pattern(job, pattern, packaged=self.package is not None), problems

    def _with_package(
        self, job: dict[str, Any], block: Package | None, local: bool
    ) -> tuple[dict[str, Any], list[Problem]]:
        """Return the job with its package's task, for the rules, and the problems with the package."""
        if block is None:
            return job, []
        if "jobSpec" not in job:
            return job, [self._only_custom_jobs("package", _PACKAGE)]
        problems = [
            self.document.problem(("package", *path), sentence, fix, _PACKAGE)
            for path, sentence, fix in block.problems()
        ]
        try:
            task = PackagedTask.of_package(f"gs://{STAGING_FOLDER}/{STAGING_FOLDER}.tar.gz", block, local)
            return with_task(job, block, task), problems
        except PackagingError as error:
            return job, [*problems, self.document.problem(("package",), error.message, error.fix, _PACKAGE)]

    def _only_custom_jobs(self, block: str, rule: str) -> Problem:
        message = f"the field belongs to a custom job; a {self.format.body} has no such field."
        return self.document.problem((block,), message, "Remove it.", rule)

    def _filled(self, value: Any, values: Mapping[str, Value]) -> Any:
        """Fill in the parameters' values; a field that is a single empty parameter is left out."""
        return present(value, fill(value, values)) if self.references else value

    def _problem(self, finding: Finding, attached: Attachment | None = None) -> Problem:
        path = self._in_file(finding.path)
        return replace(
            located(self.document, attached, path, finding.sentence, finding.fix),
            id=finding.rule,
            severity=finding.severity,
            source=finding.source,
            edits=tuple(replace(e, path=self._in_file(e.path)) for e in finding.edits),
        )

    def _in_file(self, path: Path) -> Path:
        return self.format.in_file(path_in_file(path, self.spec_path), self.document.value)


def _known(known: Collection[str]) -> str:
    return f"It has {', '.join(known)}." if known else "The profile has no parameters."


def path_in_file(path: Path, spec_path: Path) -> Path:
    """Return a rule's path, converted to a path of a file with the job's spec at `spec_path`."""
    return (*spec_path, *path[1:]) if path[:1] == ("jobSpec",) else path


def load(source: str, file: str, name: str) -> Profile:
    """Read a profile, a gcloud config file, the displayName/jobSpec wrapper of one, or a REST body. Raises
    ProfileInvalid with every problem of the file's structure."""
    profile, problems = _read(source, file, name)
    if problems:
        raise ProfileInvalid(problems)
    return profile


def inspect(
    source: str,
    file: str,
    name: str,
    texts: Mapping[str, str] | None = None,
    *,
    region: str = "",
    local: bool = False,
) -> list[Problem]:
    """Return every problem of a file: of its structure, its parameters, and the rules. Parts with a wrong
    structure are hidden from the rules."""
    try:
        profile, problems = _read(source, file, name)
    except ProfileInvalid as error:
        return error.problems
    # The rules would report a dropped part as missing; it already has a problem, at its path or at the source
    # of its fix.
    spelled = profile.document.spelled
    places = (place for p in problems for place in (p.path, *(edit.path for edit in p.edits)))
    left_out = {spelled(place) for place in places if place}
    problems_found = problems_of(profile, texts, region=region, local=local)
    every = [*problems, *(p for p in problems_found if not _within(spelled(p.path), left_out))]
    # A path that appears twice does not identify the location of an edit.
    return [replace(p, edits=()) for p in every] if profile.document.repeated else every


def problems_of(
    profile: Profile,
    texts_set: Mapping[str, str] | None = None,
    *,
    region: str = "",
    local: bool = False,
) -> list[Problem]:
    """Return the problems with a profile's parameters and of the rules; a field without a value has no
    problems yet."""
    texts, unset = _placeholders(profile, texts_set or {})
    try:
        checked = profile.check(texts, region=region, local=local)
    except ProfileInvalid as error:
        return error.problems
    unset |= profile.unset(texts)
    return [p for p in checked.problems if not _within(p.path, unset)]


def _within(path: tuple[str | int, ...], places: set[tuple[str | int, ...]]) -> bool:
    return any(path[: len(place)] == place for place in places)


def _placeholders(
    profile: Profile, parameters: Mapping[str, str]
) -> tuple[dict[str, str], set[tuple[str | int, ...]]]:
    """Return the texts of all parameters, and the paths that use a parameter without a value."""
    bare = {p.name: p for p in profile.parameters if p.default is None and p.name not in parameters}
    texts = {name: text(p.choices[0]) if p.choices else _PLACEHOLDERS[p.type] for name, p in bare.items()}
    raw = {k: v for k, v in profile.document.fields.items() if k != "parameters"}
    places = {path for name, path in references(raw) if name in bare} if bare else set()
    return {**texts, **parameters}, places


def _read(source: str, file: str, name: str) -> tuple[Profile, list[Problem]]:
    """Return the profile with its valid parts, and the problems of its structure."""
    document = read(source, file, repeated=True, several=True)
    if not isinstance(document.value, Mapping) and not document.several:
        message = f"the file must have fields at the top level, not {describe(document.value)}."
        raise ProfileInvalid([document.problem((), message, rule="profile.type")])
    names = top_names(document.value)
    bare = standing_alone(names)
    if document.second and (bare is None or bare.family == "vertex"):
        raise ProfileInvalid([several_documents(document)])
    if other := no_profile(names):
        fix = (
            "`vxtui profiles import FILE` converts the file to a profile; a profile's templatePath "
            "may name it too."
        )
        raise ProfileInvalid(
            [document.problem((), f"the file must be a profile, not {other}.", fix, "profile.other")]
        )
    if bare is None and document.repeated:
        raise ProfileInvalid(list(document.repeated))
    if bare is None:
        return _with_header(document, name)
    profile, problems = _bare(document, name, bare)
    tab = refused_tab(source, file) if bare.family == "vertex" else None
    return profile, [tab, *problems] if tab else problems


def _bare(document: Document, name: str, format: SpecFormat) -> tuple[Profile, list[Problem]]:
    body, problems, warnings = format.bare(document)
    title = format.title(body) or name or DEFAULT_NAME
    profile = Profile(
        name, title, "", format.place(body), {}, (), None, body, format, document, wrapped=False,
        warnings=tuple(warnings),
    )  # fmt: skip
    return profile, problems


def _with_header(document: Document, name: str) -> tuple[Profile, list[Problem]]:
    raw = {key: value for key, value in document.value.items() if key != "parameters"}
    referring = "parameters" in document.value
    known_fields = header_fields()
    checker = Checker(document, references=referring, header=known_fields)
    header = checker.message(raw, known_fields, ())
    parameters, problems = read_parameters(document.value.get("parameters"), document, ("parameters",))
    problems = [*checker.problems, *problems]
    body, unfit = body_in(document, header)
    format = format_of(body)
    fields = format.as_fields(header.get(body)) or {}
    known = {p.path for p in problems}
    problems += [p for p in unfit if p.path not in known]
    unknown = unknown_references(raw, {p.name for p in parameters}, document, referring)
    if referring:
        problems += unknown
    profile = Profile(
        name,
        str(header.get("displayName") or format.title(fields) or name or DEFAULT_NAME),
        str(header.get("description") or ""),
        str(header.get("region") or format.place(fields)),
        header.get("labels") or {},
        parameters,
        header.get("encryptionSpec"),
        fields,
        format,
        document,
        wrapped=True,
        references=referring,
        warnings=(*checker.warnings, *(() if referring else unknown)),
        package=header.get("package"),
        progress=header.get("progress"),
    )
    return profile, problems
