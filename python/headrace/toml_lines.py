"""Base layer: the line of each field of a TOML file, by the TOML grammar of tree-sitter."""

from __future__ import annotations

import tomllib

import tree_sitter
import tree_sitter_toml

FieldPath = tuple[str | int, ...]

DEEPEST = 34
"""Length of the longest paths with a line of their own: what is deeper is refused
(`headrace.document`). The search is recursive and must end before Python's recursion does."""


def lines_of(raw: bytes) -> dict[FieldPath, int]:
    """Return the 1-based line of every table, field and array item of a TOML file, down to
    `DEEPEST`."""
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language()))
    lines: dict[FieldPath, int] = {}
    _collect(parser.parse(raw).root_node, lines)
    return lines


def _keys(node: tree_sitter.Node) -> FieldPath:
    """Return the parts of a bare, quoted or dotted key, `DEEPEST` at most."""
    last: list[tree_sitter.Node] = []
    while node.type == "dotted_key":  # `a.b.c` is `a.b` and `c`
        node, *others = node.named_children
        last = [*others, *last][:DEEPEST]
    return tuple(map(_key, [node, *last][:DEEPEST]))


def _key(node: tree_sitter.Node) -> str:
    text = (node.text or b"").decode()
    return next(iter(tomllib.loads(f"{text} = 0"))) if node.type == "quoted_key" else text


def _collect(root: tree_sitter.Node, lines: dict[FieldPath, int]) -> None:
    """Record the line of every table, field and array item of the syntax tree."""
    counts: dict[FieldPath, int] = {}
    current: dict[FieldPath, FieldPath] = {}  # array of tables -> path of its current element

    def absolute(keys: FieldPath) -> FieldPath:
        for end in range(len(keys), 0, -1):
            if keys[:end] in current:
                return current[keys[:end]] + keys[end:]
        return keys

    def mark(path: FieldPath, node: tree_sitter.Node) -> None:
        for end in range(1, len(path) + 1):
            lines.setdefault(path[:end], node.start_point[0] + 1)

    def value(path: FieldPath, node: tree_sitter.Node) -> None:
        if len(path) >= DEEPEST:
            return
        if node.type == "inline_table":
            for child in node.named_children:
                if child.type == "pair":
                    pair(path, child)
        elif node.type == "array":
            items = [child for child in node.named_children if child.type != "comment"]
            for index, item in enumerate(items):
                mark((*path, index), item)
                value((*path, index), item)

    def pair(prefix: FieldPath, node: tree_sitter.Node) -> None:
        path = prefix + _keys(node.named_children[0])
        mark(path, node)
        value(path, node.named_children[-1])

    for node in root.named_children:
        if node.type == "pair":
            pair((), node)
        elif node.type in ("table", "table_array_element"):
            keys = _keys(node.named_children[0])
            if node.type == "table_array_element":
                parent = absolute(keys[:-1]) + keys[-1:] if len(keys) > 1 else keys
                index = counts.get(parent, 0)
                counts[parent] = index + 1
                prefix: FieldPath = (*parent, index)
                current[keys] = prefix
            else:
                prefix = absolute(keys)
            mark(prefix, node)
            for child in node.named_children[1:]:
                if child.type == "pair":
                    pair(prefix, child)
