"""Launch scripts are read as bash reads them: the same words reach gcloud."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.launch_scripts.corpus import FOLDER_FILES, SCRIPTS
from tests.unit.launch_scripts.recorder import recorded
from tui.domain.interchange import from_text
from tui.domain.interchange.gcloud_script import Surroundings
from tui.domain.profile import Profile, ProfileInvalid, load
from tui.domain.shell import NotRead, Script, read_script
from tui.domain.shell.scanning import ansi_c, word

ENVIRONMENT = {"HOME": "/home/me", "PROJECT_ID": "from-outside"}


def filled(script: Script, text: str) -> str:
    """A word with its parameters' defaults; one without has none in the environment, so bash has nothing."""
    done = re.sub(r"(?<!\$)\$\{(\w+)\}", lambda m: (script.values[m[1]].now or "").replace("${", "$${"), text)
    return done.replace("$${", "${")


def read_calls(text: str, folder: Path) -> tuple[Script, list[dict[str, object]]]:
    script = read_script(
        text, "launch.sh", "gcloud", base=str(folder), environment=ENVIRONMENT,
        read=lambda name: (folder / name).read_text(),
    )  # fmt: skip
    calls = []
    for call in script.calls:
        assert not any(word.problem for word in call.words), call
        words = [filled(script, word.text) for word in call.words[1:]]
        stdin = filled(script, call.stdin.text) if call.stdin and "--config=-" in words else None
        written = {name: filled(script, word.text) for name, word in call.files.items()}
        files = {w[9:]: written[w[9:]] for w in words if w.startswith("--config=") and w[9:] in written}
        calls.append({"words": words, "stdin": stdin, "files": files})
    return script, calls


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_the_words_of_a_script_are_those_of_bash(name: str, tmp_path: Path) -> None:
    for file, text in FOLDER_FILES.items():
        (tmp_path / file).write_text(text)
    wanted = recorded(SCRIPTS[name], tmp_path, ENVIRONMENT)
    assert wanted, "bash calls nothing"
    assert read_calls(SCRIPTS[name], tmp_path)[1] == wanted


# Generated scripts

names = st.sampled_from(["A", "B", "C", "D"])
plain = st.text("abz019 /._-*?", min_size=0, max_size=8)
defaults = plain.map(lambda text: text.replace(" ", "_"))
patterns_ = st.sampled_from(["*/", "/*", "a*", "?", "*.b", "[a-c]", "_*", "*-*"])


@st.composite
def words(draw: st.DrawFn, depth: int = 0) -> str:
    """A quoted word or part of one."""
    kind = draw(st.integers(0, 9))
    name = draw(names)
    operator = draw(st.sampled_from(["#", "##", "%", "%%"]))
    inner = [
        draw(plain),
        f"${name}",
        f"${{{name}}}",
        f"${{{name}:-{draw(defaults)}}}",
        f"${{{name}{operator}{draw(patterns_)}}}",
        f"${{{name}/{draw(st.sampled_from('abz'))}/{draw(st.sampled_from('xy'))}}}",
        f"${{#{name}}}",
        f"${{{name}:{draw(st.integers(0, 4))}:{draw(st.integers(0, 4))}}}",
        f"${{{name}^^}}",
        f"${{{name}:+{draw(defaults)}}}",
    ][kind]
    quoted = f'"{inner}"'
    return quoted if depth > 2 or draw(st.booleans()) else quoted + draw(words(depth + 1))


@st.composite
def statements(draw: st.DrawFn, depth: int = 0) -> str:
    name, value = draw(names), draw(words())
    # bash 5.2 keeps a mark of an empty quoted part in the word of `case`: it gets a variable.
    kind = draw(st.integers(0, 11 if depth < 2 else 5))
    inner = draw(statements(depth + 1)) if kind > 5 else ""
    ifs = draw(st.sampled_from(["", ",", ": "]))
    sign = draw(st.sampled_from(["==", "<", "+", "&&", "||", "*", "%", "!="]))
    test = f"(( N {sign} {draw(st.integers(1, 4))} ))"
    return [
        f"{name}={value}",
        f"L+=({value} {draw(words())})",
        f"gcloud ai {value} \\\n  ${name} --x={draw(words())}",
        f'gcloud ai "${{L[@]}}" {value}',
        f"(( N {draw(st.sampled_from(['+=', '-=', '=', '*=']))} {draw(st.integers(1, 3))} ))",
        f"cat > f.yaml <<EOF\na: ${{{name}}}\n  b: \\$x 'q'\nEOF\ngcloud ai --config=f.yaml",
        f"for {name} in a {value} {{1..3}}; do\n{inner}\ndone",
        f"if [[ {value} == {draw(words())} ]]; then\n{inner}\nelse\ngcloud ai no\nfi",
        f'f() {{\nlocal {name}=$1; shift\n{inner}\ngcloud ai "$@" ${name}\n}}\nf {value} {draw(words())}',
        f"if {test}; then\n{inner}\nfi\n! {test} || (( N++ ))\n{test} && gcloud ai $N",
        f'while IFS={ifs!r} read -r {name} E; do gcloud ai "${name}" "$E"; done <<< {value}',
        f'T={value}\ncase "$T" in a*|b) {inner} ;; *) gcloud ai other ;; esac',
    ][kind]


scripts = st.lists(statements(), min_size=1, max_size=6).map(
    lambda parts: (
        "set -f\nA=a/b.c\nB='x  y'\nC=\nD=zab-1\nL=()\nN=2\n" + "\n".join(parts) + '\ngcloud ai end $A "$D"\n'
    )
)


def agree(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert read_calls(text, Path(folder))[1] == recorded(text, Path(folder), ENVIRONMENT), text


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(scripts)
def test_bash_and_the_reader_agree(text: str) -> None:
    agree(text)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(scripts)
def test_bash_and_the_reader_agree_on_many(text: str) -> None:
    agree(text)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=("Co", "Cs"))))
def test_a_quoted_word_is_printable_and_read_back(text: str) -> None:
    quoted = word(text)
    assert quoted.isprintable()
    (call,) = read_script(f"gcloud {quoted}", "launch.sh", "gcloud").calls
    assert filled(Script((), {}), call.words[1].text) == text


def test_bash_reads_a_quoted_word_in_every_locale() -> None:
    odd = "\x01\x1b[2J a'b\\\n\t\r\x7f\x85\u2066é😀1\U000e0001\ufdd0"
    for locale in ("C", "C.UTF-8"):
        done = subprocess.run(
            ["bash", "-c", f"printf %s {word(odd)}1"], env={"LC_ALL": locale}, capture_output=True, check=True
        )
        assert done.stdout.decode() == odd + "1"


@pytest.mark.parametrize(
    ("escapes", "text"),
    [
        (r"\xc3\xa9\303\251\u00e9", "ééé"),
        (r"\x4\101\UFFFFFFFF\ud800\xff", "\x04A" + "\ufffd" * 5),
        (r"\q\e\\", "\\q\x1b\\"),
    ],
)
def test_escapes_are_bytes(escapes: str, text: str) -> None:
    assert ansi_c(escapes) == text


# What can't be followed


@pytest.mark.parametrize(
    ("line", "words_of_it"),
    [
        ("gcloud ai --x=<(date)", "can't be followed"),
        ("A=${B@Q}\ngcloud ai $A", "can't be followed"),
        ('mapfile -t L < f\ngcloud ai "${L[@]}"', "line 1"),
        ("declare -A M=([a]=1)\ngcloud ai ${M[a]}", "M"),
    ],
)
def test_what_cannot_be_followed_is_an_error_where_it_reaches_gcloud(line: str, words_of_it: str) -> None:
    (call,) = read_script(line, "f", "gcloud").calls
    assert words_of_it in next(word.problem for word in call.words if word.problem)


def test_broken_syntax_beside_a_call_has_its_line() -> None:
    with pytest.raises(NotRead) as caught:
        read_script("echo\ngcloud ai --x='open\n", "f", "gcloud")
    assert caught.value.line == 2 and "not closed" in str(caught.value)


def test_substitutions_and_arguments_are_parameters_with_their_command() -> None:
    script = read_script('TS=$(date +%s)\ngcloud ai "$TS" "$1" "${2:-two}" "$HOME"', "f", "gcloud",
                         environment={"HOME": "/h"})  # fmt: skip
    assert [w.text for w in script.calls[0].words[2:]] == ["${TS}", "${arg1}", "${arg2}", "${HOME}"]
    assert script.values["TS"].help == "$(date +%s) in line 1" and script.values["TS"].default is None
    assert script.values["arg2"].default == "two" and script.values["HOME"].default == "/h"


# The import

POOL = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/i"


def imported(text: str, command: str = "") -> Profile:
    found = from_text(text, "launch.sh", lambda _: {}, Surroundings(command=command))
    return load(found.text, "launch.yaml", found.name)


def test_one_of_several_commands_is_chosen_by_number_or_name() -> None:
    text = f"for n in a b c; do gcloud ai custom-jobs create --display-name=job-$n {POOL}; done"
    with pytest.raises(ProfileInvalid, match=r"2 in line 1 \(job-b\)") as caught:
        imported(text)
    assert "--command" in caught.value.problems[0].fix
    assert imported(text, "3").display_name == "job-c"
    assert imported(text, "job-b").display_name == "job-b"


def test_a_config_on_standard_input_is_the_job_with_its_parameters() -> None:
    text = """gcloud ai custom-jobs create --display-name=x --config=- <<YAML
workerPoolSpecs:
- machineSpec: {machineType: n1-standard-4}
  replicaCount: ${N:-2}
  containerSpec:
    imageUri: gcr.io/p/i
    args: ["$RUN", "\\${KEPT}"]
YAML
"""
    profile = imported(text)
    (pool,) = profile.check({"RUN": "r"}).request.resource["jobSpec"]["workerPoolSpecs"]
    assert pool["replicaCount"] in {2, "2"} and pool["containerSpec"]["args"] == ["r", "${KEPT}"]


def test_what_cannot_be_followed_is_an_error_with_its_line() -> None:
    with pytest.raises(ProfileInvalid) as caught:
        imported(f"\ngcloud ai custom-jobs create --display-name=${{X@Q}} {POOL}")
    (found,) = caught.value.problems
    assert found.line == 2 and "can't be followed" in found.message


@pytest.mark.parametrize(
    "change",
    [
        "yq -i '.x = 1' f.yaml",
        "python3 fill.py --out=f.yaml",
        "sed -i s/a/b/ f.yaml",
        "./fill f.yaml",
        "mv g f.yaml",
        "gcloud storage cp gs://b/f.yaml f.yaml",
    ],
)
def test_a_config_that_another_program_changes_is_unknown(change: str, tmp_path: Path) -> None:
    text = f"cat > f.yaml <<EOF\na: b\nEOF\n{change}\ngcloud ai custom-jobs create --config=f.yaml\n"
    call = read_script(text, "s.sh", "gcloud", base=str(tmp_path)).calls[-1]
    assert "f.yaml can't be followed" in call.files["f.yaml"].problem
    for harmless in ("gsutil cp f.yaml gs://b/f.yaml", "yq .x f.yaml", "cat f.yaml", "grep a f.yaml"):
        (call,) = read_script(text.replace(change, harmless), "s.sh", "gcloud", base=str(tmp_path)).calls
        assert not call.files["f.yaml"].problem and call.files["f.yaml"].text == "a: b\n"
