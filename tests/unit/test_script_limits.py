"""A script that grows, loops or reads without end is a profile or a problem: soon, and in little memory."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from random import Random
from time import process_time

import pytest

from tests.benchmarks.hostile_scripts import script, surroundings_in
from tui.config.regular_file import open_regular, read_regular
from tui.domain.interchange import from_text
from tui.domain.interchange.gcloud_script import read_call
from tui.domain.profile import ProfileInvalid
from tui.domain.shell import patterns, state
from tui.verbs.profiles.interchange import configs, surroundings

CALL = "gcloud ai custom-jobs create --display-name=$a\n"
GROWING = {
    "a value": "a=x\n" + "a=$a$a\n" * 26,
    "an array": "a=(x)\n" + 'a=("${a[@]}" "${a[@]}")\n' * 26,
    "braces": "echo {1..999}{1..999}{1..999}\n",
    "a replacement": "a=x\n" + "a=$a$a\n" * 15 + "a=${a//x/$a}\n",
    "a file": "a=x\necho $a > f\n" + "cat f f f > g\ncat g > f\n" * 20,
    "defaults": 'b=x\n' + "b=$b$b\n" * 18 + "a=${OUTSIDE:-$b}\n" + "[[ $a$a$a$a$a = x ]]\n",
    "pipes": "a|" * 10_000 + "a\n",
}  # fmt: skip


@pytest.mark.parametrize("name", GROWING)
def test_a_script_that_grows_is_refused_with_its_line(name: str) -> None:
    began = process_time()
    with pytest.raises(ProfileInvalid, match=r"run\.sh:\d+:1: the script (makes|has|takes) "):
        from_text(GROWING[name] + CALL, "run.sh", configs(Path()), surroundings(Path()))
    assert process_time() - began < 10


def test_a_slow_parse_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_SECONDS", 0.2)
    with pytest.raises(ProfileInvalid, match="the script takes more than"):
        from_text(CALL + ")" * 100_000, "run.sh", configs(Path()), surroundings(Path()))


@pytest.mark.parametrize("wide", ["'%999999999s'", "'%0999999999d'"])
def test_a_wide_conversion_is_not_followed(wide: str) -> None:
    with pytest.raises(ProfileInvalid, match="printf -v a can't be followed"):
        from_text(f"printf -v a {wide} 1\n{CALL}", "run.sh", configs(Path()), surroundings(Path()))


def test_stars_are_matched_in_linear_time() -> None:
    text = "a" * 100_000
    assert patterns.removed(text, "##", "*a" * 25 + "b") == text
    assert patterns.removed(text + "b", "##", "*a" * 25 + "b") == ""
    assert patterns.removed(text, "%", "a*") == text[:-1]


def test_patterns_are_those_of_bash() -> None:
    random, wanted, lines = Random(29), [], []
    for _ in range(400):
        text = "".join(random.choices("abc/.-", k=random.randint(0, 9)))
        parts = ["a", "b", "/", ".", "*", "?", "[ab]", "[!a]", r"\*"]
        pattern = "".join(random.choices(parts, k=random.randint(1, 4)))
        operator = random.choice(["#", "##", "%", "%%", "/", "//", "/#", "/%"])
        if operator[0] == "/":
            # In bash's syntax a slash ends the pattern.
            pattern = pattern.replace("/", "c")
            lines.append(f"x='{text}'; echo \"${{x{operator}{pattern}/_}}\"")
            wanted.append(patterns.replaced(text, operator, pattern, "_"))
        else:
            lines.append(f"x='{text}'; echo \"${{x{operator}{pattern}}}\"")
            wanted.append(patterns.removed(text, operator, pattern))
    command = ["bash", "-c", "\n".join(lines)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() == wanted


@pytest.mark.parametrize("name", ["/etc/passwd", "../outside", "link", "x/../../outside", "/proc/self/maps"])
def test_a_file_outside_the_folder_is_a_parameter_and_a_note(name: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    folder = tmp_path / "scripts"
    folder.mkdir()
    surroundings_in(folder)
    for read in (f"$(<{name})", f"$(cat {name})"):
        text = f"a={read}\n" + CALL
        found, call, _, _ = read_call(text, "run.sh", surroundings(folder))
        assert call.words[-1].text == "--display-name=${a}"
        assert [note for note in found.notes if "lies outside the script's folder and is not read." in note]
    found = read_call(f"a=1\nsource {name}\n" + CALL, "run.sh", surroundings(folder))[0]
    assert "line 2: " in found.notes[0] and "lies outside" in found.notes[0]


def test_a_file_beside_the_script_is_read_by_any_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "name").write_text("b")
    for name in ("name", "./name", f"{tmp_path}/name", '"$(dirname "$0")/name"', "x/../name"):
        for read in (f"$(cat {name})", f"$(< {name})", f"$(<{name} )"):
            found, call, _, _ = read_call(f"a={read}\n{CALL}", "run.sh", surroundings(tmp_path))
            assert (call.words[-1].text, found.notes) == ("--display-name=b", []), read
    call = read_call(f'a=$(< "$(dirname "$0")/none")\n{CALL}', "run.sh", surroundings(tmp_path))[1]
    assert call.words[-1].text == "--display-name=${a}"


@pytest.mark.parametrize("name", ["fifo", "big"])
def test_only_a_regular_file_of_a_bounded_size_is_read(name: str, tmp_path: Path) -> None:
    surroundings_in(tmp_path)
    text = f"source ./{name}\na=$(<{name})\n{CALL}"
    found, call, _, _ = read_call(text, "run.sh", surroundings(tmp_path))
    assert found.notes == [f"line 1: ./{name} can't be read; its variables stay unknown."]
    assert call.words[-1].text == "--display-name=${a}"


def test_random_scripts_are_a_profile_or_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_SECONDS", 0.1)
    surroundings_in(tmp_path)
    for seed in range(20):
        began = process_time()
        with suppress(ProfileInvalid):
            from_text(script(Random(seed)), "run.sh", configs(tmp_path), surroundings(tmp_path, "1"))
        assert process_time() - began < 10, seed


def test_a_regular_file_is_opened_up_to_its_limit(tmp_path: Path) -> None:
    surroundings_in(tmp_path)
    for path in (tmp_path / "fifo", Path("/dev/zero"), Path("/dev/tty"), tmp_path, tmp_path / "none"):
        with pytest.raises(OSError, match=r"must be a file, not a pipe|No such"):
            open_regular(path, 10)
    for path, limit in ((tmp_path / "big", 2_999_999), (Path("/proc/self/maps"), 10)):
        with pytest.raises(OSError, match="has more than"):
            read_regular(path, limit)
    assert len(read_regular(tmp_path / "big", 3_000_000)) == 3_000_000
    assert tmp_path / "big" not in [link.resolve() for link in Path("/proc/self/fd").iterdir()]
