"""The layout of a file that Headrace did not write, with the reads that open it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from headrace.datasets.layout import FileLayout, layout_of_file
from headrace.datasets.trees import opened

_FOLDER_BYTES = 42
"""Bytes that uproot reads of the head of a folder, and beyond its list of keys."""
_KEYS_BESIDES = 8

_HEAD_BYTES = 403
"""Bytes that uproot reads at the start of a file: the header and the key of the first directory."""


def layout_of_own_file(path: Path, name: str, counted: Collection[str] = ()) -> FileLayout:
    """Return the layout of a tree in a file that Headrace did not write, with the opening reads.

    `counted`: the trees whose events are counted to choose this one. Raises HeadraceError as
    `layout_of_file` does.
    """
    layout = layout_of_file(path, name)
    with opened(path) as file:
        head = file.file
        keys = int(file.fSeekKeys), int(file.fNbytesKeys)
        classes = int(head.fSeekInfo), int(head.fNbytesInfo)
        parts = [(0, min(_HEAD_BYTES, layout.file_bytes)), keys]
        if not layout.header_bytes:
            parts.append((layout.metadata_offset, layout.metadata_bytes))
        else:
            ntuple: Any = file[name]
            anchor = ntuple._members
            parts.append((int(anchor["fSeekHeader"]), int(anchor["fNBytesHeader"])))
            parts.append((int(anchor["fSeekFooter"]), int(anchor["fNBytesFooter"])))
            places = [group.page_list_link.locator for group in ntuple.footer.cluster_group_records]
            parts += [(int(place.offset), int(place.num_bytes)) for place in places]
        folders = dict(_folders(file, ""))
        others = [_place(file.key(each)) for each in counted if each != name]

    def within(places: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        end = layout.file_bytes
        return tuple((at, size) for at, size in places if size > 0 and at >= 0 and at + size <= end)

    above = [place for each in folders if name.startswith(f"{each}/") for place in folders[each]]
    return layout._replace(
        opening=within(parts),
        classes=within([classes]),
        folders=within([place for places in folders.values() for place in places]),
        above=within(above),
        counted=within(others),
    )


def _folders(directory: Any, above: str) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield every folder of a file with the places of its head and of its list of keys."""
    for name, kind in directory.classnames(recursive=False, cycle=False).items():
        if str(kind).startswith("TDirectory"):
            key, inner = directory.key(name), directory[name]
            head = int(key.fSeekKey) + int(key.fKeylen), _FOLDER_BYTES
            keys = int(inner.fSeekKeys), int(inner.fNbytesKeys) + _KEYS_BESIDES
            yield f"{above}{name}", [head, keys]
            yield from _folders(inner, f"{above}{name}/")


def _place(key: Any) -> tuple[int, int]:
    return int(key.fSeekKey), int(key.fNbytes)
