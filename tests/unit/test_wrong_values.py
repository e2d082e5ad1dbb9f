"""Values that no option takes: the message has the option, what was given and what is wrong."""

from __future__ import annotations

import pytest

from headrace.cli import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("calibrate x.toml --check abc", "'--check': not a whole number (given: abc)"),
        ("calibrate x.toml --check 1.5", "'--check': not a whole number (given: 1.5)"),
        ("calibrate x.toml --check=", "'--check': not a whole number (given: \"\")"),
        ("calibrate x.toml --check -1", "must be greater than or equal to 0 (given: -1)"),
        ("calibrate x.toml --limit x", "'--limit': not a number (given: x)"),
        ("calibrate x.toml --check \udcff", "'--check': not UTF-8 text (given: \\udcff)"),
        ("reproduce --threads 99999999999999999999", "than or equal to 1024 (given: 9999"),
        ("drive learn /dev/null --out x --minutes y", "not a number (given: y)"),
        ("drive learn /dev/null --out x --minutes 11", "(given: 11); allowed: 0.5 to 10 minutes"),
        # An empty path was the current folder: `report` wrote into it.
        ("report . --output=", "'--output': empty, not a path (given: \"\")"),
        ("compare a ", "'b': empty, not a path (given: \"\")"),
        ("trace plot a  --out x.png", "'traces': empty, not a path (given: \"\")"),
    ],
)
def test_a_refused_value_is_named(
    words: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sys.argv", ["headrace", *words.split(" ")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_device_that_is_none_is_a_problem_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["drive", "learn", "/dev/none", "--out", "x.toml"]
    monkeypatch.setattr("sys.argv", ["headrace", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, "(given: /dev/none); allowed: a block device" in said) == (2, True)
    assert said.startswith("command line: DEVICE: not found")
