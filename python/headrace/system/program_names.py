"""Base layer: what a user calls a program, such as the script that an interpreter runs.

Arguments are left out because they may be secret.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_INTERPRETER = re.compile(r"(python|perl|ruby|node|java|bash|sh|dash|zsh|ksh|Rscript|R)[0-9.]*")
_SHELLS = ("bash", "sh", "dash", "zsh", "ksh")


class _Options(NamedTuple):
    """Options before the script: letters, which may be written together, and words."""

    code: str = ""
    """Letters after which comes a program text."""
    module: str = ""
    """Letters after which comes the name of a module."""
    value: str = ""
    """Letters with a value: the rest of the word, else the next word."""
    rest: str = ""
    """Letters whose value is the rest of the word."""
    code_words: tuple[str, ...] = ()
    script_words: tuple[str, ...] = ()
    """Words after which comes the script."""
    value_words: tuple[str, ...] = ()


_SHELL = _Options(code="c", value="oO", value_words=("--rcfile", "--init-file"))
_OPTIONS = {
    # https://docs.python.org/3/using/cmdline.html, perlrun(1), ruby(1), node(1), java(1), bash(1)
    "python": _Options("c", "m", "WX", value_words=("--check-hash-based-pycs",)),
    "perl": _Options("eE", value="I", rest="CDFMilmx0"),
    "ruby": _Options("e", value="IrCEF", rest="KTWi0x"),
    "node": _Options("ep", value="rC", code_words=("--eval", "--print"),
                     value_words=("--require", "--import", "--loader", "--experimental-loader",
                                  "--conditions", "--env-file")),
    "java": _Options(script_words=("-jar", "-m", "--module"),
                     value_words=("-cp", "-classpath", "--class-path", "-p", "--module-path",
                                  "--add-modules", "--add-opens", "--add-exports", "--add-reads",
                                  "--patch-module", "--source", "--upgrade-module-path")),
    "Rscript": _Options("e"),
    "R": _Options("e", value="fgd"),
    **dict.fromkeys(_SHELLS, _SHELL),
}  # fmt: skip
_WRAPPERS = frozenset({
    "apptainer", "chronic", "conda", "doas", "dumb-init", "env", "flock", "ltrace", "mamba",
    "micromamba", "mpiexec", "mpirun", "nice", "nohup", "orterun", "perf", "prterun", "script",
    "setsid", "singularity", "srun", "stdbuf", "strace", "su", "sudo", "systemd-run", "taskset",
    "time", "timeout", "tini", "unshare", "xvfb-run",
})  # fmt: skip
"""Programs that start another one, which is what the user means."""
_NO_FILES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""A script that comes through a pipe, as of `bash <(…)`."""
_DEEPEST = 8
"""A wrapper in a wrapper …"""


def program_name(pid: int, short: str) -> str:
    """Return the program's name, with the script that an interpreter runs.

    `short` is the kernel's name of the process, returned when its command line cannot be read or
    names something else. What a terminal would obey, such as ESC, is a `?`.
    """
    return _printable(_named(_argv(pid), short)[0])


def job_name(pid: int, short: str) -> str:
    """Return the same of what the process runs for its user: of `bash -c`, `conda run`, `timeout`
    and the like, the name of the program that they have started."""
    name, wraps = _named(_argv(pid), short)
    of_conda = name.endswith((" conda", " mamba"))
    for _ in range(_DEEPEST):
        child = next(_children(pid), None) if wraps else None
        if child is None:
            break
        pid, argv = child, _argv(child)
        if not argv:  # it ends, or has not begun
            break
        found, wraps = _named(argv, _kernel_name(child))
        # `conda run` writes a script for a shell, with a name that says nothing.
        wraps |= of_conda and found.partition(" ")[0] in _SHELLS
        name = found if not wraps else name
    return _printable(name)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def _argv(pid: int) -> list[str]:
    """Return the command line of a process; empty when it cannot be read, or has none."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return [word.decode(errors="replace") for word in words if word.strip()]
    return []


def _kernel_name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_bytes().decode(errors="replace").strip()
    return "?"


def _children(pid: int) -> Iterator[int]:
    """Yield the living children of a process, the oldest first."""
    with contextlib.suppress(OSError, ValueError):
        for task in sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda each: int(each.name)):
            yield from map(int, (task / "children").read_text().split())


def _named(argv: list[str], short: str) -> tuple[str, bool]:
    """Return the name of a program, and whether its user means the program that it starts."""
    if not argv:
        return short, False
    name = Path(argv[0].split()[0]).name.rstrip(":")
    found = _INTERPRETER.fullmatch(name)
    if found is None:
        # A process can overwrite its command line; the kernel's name is used then.
        name = name if name.startswith(short[:15]) else short
        return name, name in _WRAPPERS
    script, code = _script(found[1], argv[1:])
    if not script:
        return name, code and found[1] in _SHELLS
    return f"{name} {script}", script in _WRAPPERS


def _script(kind: str, words: list[str]) -> tuple[str, bool]:
    """Return what an interpreter runs, empty if that has no name, and whether it is program text
    among its arguments."""
    options, left = _OPTIONS[kind], iter(words)
    for word in left:
        if word in options.script_words:
            return _file(next(left, "")), False
        if word in options.code_words:
            return "", True
        if word.startswith("--file=") and kind == "R":
            return _file(word.removeprefix("--file=")), False
        if word == "--":
            return _file(next(left, "")), False
        if word in options.value_words:
            next(left, None)
        elif word.startswith("--") or (kind == "java" and word[0] in "-@"):
            continue
        elif word[0] in "-+" and len(word) > 1:
            letter, value = _valued(options, word[1:])
            if letter and letter in options.code:
                return "", True
            if letter and letter in options.module:
                return f"-m {value or next(left, '')}".strip(), False
            if letter and letter in options.value and not value:
                value = next(left, "")
            if letter == "f" and kind == "R":
                return _file(value), False
        elif word == "-" or kind == "R":
            return "", False
        elif word.startswith(_NO_FILES):
            return "", True
        else:
            return word.rpartition(".")[2] if _is_class(kind, word) else _file(word), False
    return "", False


def _valued(options: _Options, letters: str) -> tuple[str, str]:
    """Return the first letter that has a value, and the rest of the word."""
    for at, letter in enumerate(letters):
        if letter in options.code + options.module + options.value + options.rest:
            return letter, letters[at + 1 :]
    return "", ""


def _is_class(kind: str, word: str) -> bool:
    return kind == "java" and "/" not in word and not word.endswith(".java")


def _file(word: str) -> str:
    return Path(word).name
