"""Which modules of a Rust crate use which, read from the source, and the cycles between them.

A module uses another if it names an item defined there: by `use`, or by a path in the code that
begins with `crate`, `super`, `self` or a submodule's name. A re-export counts for the module that
defines the item. Test modules are ignored: `use super::*` is their purpose.

Python, because the check takes a second and `make check` runs it with the import rules of the
Python package; `cargo modules` reports the same, but takes minutes to install.
"""

from __future__ import annotations

import re
from pathlib import Path

# A module: the parts of its path below the crate; () is the crate's root.
Module = tuple[str, ...]

COMMENT_OR_TEXT = re.compile(
    r"//[^\n]*"
    r"|/\*.*?\*/"
    r'|\bb?r(#*)".*?"\1'
    r'|b?"(?:\\.|[^"\\])*"'
    r"|b?'(?:\\[^']*|[^'\\\n])'",
    re.DOTALL,
)
TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub\s+)?mod\s+(\w+)\s*([{;])")
USE = re.compile(r"\b(pub(?:\s*\([^)]*\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"(?<![\w:$])(?:crate|super|self)(?:\s*::\s*\w+)+")


def without_tests(text: str) -> tuple[str, set[str]]:
    """Return the source without comments, texts and test modules, and the names of the latter."""
    text = COMMENT_OR_TEXT.sub(" ", text)
    files: set[str] = set()
    while found := TEST_MODULE.search(text):
        end = found.end()
        if found[2] == ";":
            files.add(found[1])
        depth = int(found[2] == "{")
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        text = text[: found.start()] + text[end:]
    return text, files


def paths_of(tree: str) -> list[tuple[str, str]]:
    """Return the paths of a use declaration, each with the name that it brings into scope."""
    head, brace, rest = tree.strip().partition("{")
    if not brace:
        path, _, alias = (part.strip() for part in re.sub(r"\s+", " ", head).partition(" as "))
        path = path.replace(" ", "").removesuffix("::self")
        return [(path, alias or path.rpartition("::")[2])]
    found: list[tuple[str, str]] = []
    depth, begin = 0, 0
    body = rest[: rest.rindex("}")]
    for at, letter in enumerate(body + ","):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            if each := body[begin:at].strip():
                found += paths_of(head + each)
            begin = at + 1
    return found


class Crate:
    """The modules of a crate with the paths that each uses."""

    def __init__(self, sources: Path) -> None:
        texts: dict[Module, str] = {}
        for file in sorted(sources.rglob("*.rs")):
            module = file.relative_to(sources).with_suffix("").parts
            if module != ("main",):
                texts[module[:-1] if module[-1] in ("mod", "lib") else module] = file.read_text()
        tests: set[Module] = set()
        for module, text in texts.items():
            texts[module], names = without_tests(text)
            tests |= {(*module, name) for name in names}
        self.texts = {module: text for module, text in texts.items() if module not in tests}
        # What each module brings into scope: name -> path. Submodules may import these, too.
        self.scope: dict[Module, dict[str, str]] = {}
        for module, text in self.texts.items():
            uses = [each for found in USE.finditer(text) for each in paths_of(found[2])]
            self.scope[module] = {name: path for path, name in uses}

    def module_of(self, path: str, seen_from: Module) -> Module | None:
        """Return the module that defines the item of a path; None for one of another crate."""
        parts = re.split(r"\s*::\s*", path)
        at = seen_from
        if parts[0] == "crate":
            at, parts = (), parts[1:]
        elif parts[0] == "self":
            parts = parts[1:]
        elif parts[0] == "super":
            while parts and parts[0] == "super":
                at, parts = at[:-1], parts[1:]
        elif (*at, parts[0]) not in self.texts:
            return None
        while parts and (*at, parts[0]) in self.texts:
            at, parts = (*at, parts[0]), parts[1:]
        again = self.scope[at].get(parts[0]) if parts else None
        if again and at != seen_from:
            return self.module_of(again, at) or at
        return at

    def used_by(self, module: Module) -> set[Module]:
        """Return the modules that a module uses."""
        text = self.texts[module]
        code = USE.sub("", text)
        words = set(re.findall(r"\w+", code))
        paths: list[tuple[str, bool]] = []
        for found in USE.finditer(text):
            for path, name in paths_of(found[2]):
                paths.append((path, bool(found[1]) and name not in words))
        paths += [(path, False) for path in PATH.findall(code)]
        for below in self.texts:
            if below and below[:-1] == module:
                pattern = rf"(?<![\w:]){below[-1]}(?:\s*::\s*\w+)+"
                paths += [(path, False) for path in re.findall(pattern, code)]
        used: set[Module] = set()
        for path, only_exported in paths:
            target = self.module_of(path, module)
            # A module that only re-exports what a submodule defines does not depend on it.
            below = target is not None and target[: len(module)] == module
            if target is not None and target != module and not (only_exported and below):
                used.add(target)
        return used


def cycles(sources: Path) -> list[list[str]]:
    """Return the cycles between the modules below `sources`; one of them for each group."""
    crate = Crate(sources)
    uses = {module: crate.used_by(module) for module in crate.texts}
    reached: dict[Module, set[Module]] = {}
    for module in uses:
        found: set[Module] = set()
        todo = [module]
        while todo:
            new = uses[todo.pop()] - found
            found |= new
            todo += new
        reached[module] = found
    groups = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in uses
        if module in reached[module]
    }
    return [["::".join(module) or "crate" for module in group] for group in sorted(groups)]
