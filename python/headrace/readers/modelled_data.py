"""The files that a modelled job reads: a data set that need not exist, or the user's own files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.datasets.layout import FileLayout, layout_of_dataset
from headrace.datasets.own_check import typical_filled
from headrace.datasets.own_layout import layout_of_own_file
from headrace.datasets.spec import Codec, Format
from headrace.datasets.trees import TreeFacts, tree_facts
from headrace.errors import HeadraceError
from headrace.readers.options import Reader, ReadingOptions
from headrace.readers.own_columns import matching, reads


@dataclass(frozen=True)
class ModelledData:
    """One representative file, and the number of files."""

    layout: FileLayout
    format: Format
    codec: Codec
    level: int | None
    files: int
    description: str
    own: TreeFacts | None = None

    @property
    def compressed(self) -> bool:
        """Whether baskets and pages are compressed."""
        return self.level != 0

    @property
    def stored_share(self) -> float:
        """Stored bytes per uncompressed byte."""
        stored = sum(piece.compressed_bytes for piece in self.layout.pieces)
        return stored / max(1, sum(piece.uncompressed_bytes for piece in self.layout.pieces))

    def columns(self, wanted: Sequence[str] | None, reader: Reader) -> list[str] | None:
        """Return the columns of the layout that a reader reads in a job, patterns resolved.

        Raises HeadraceError for a missing column.
        """
        if self.own is None:
            return None if wanted is None else list(wanted)
        every = {column.name: column for column in self.own.columns}
        chosen = matching(list(every), wanted, str(self.own.file))
        read = (every[name] for name in chosen if reads(reader, self.format, every[name]))
        return list(dict.fromkeys(column.requested for column in read))

    def besides(self, columns: Sequence[str] | None, reader: Reader) -> list[str]:
        """Return the columns that a reader requests besides those that it reads."""
        if self.own is None or reader != "rdataframe" or self.format != "ttree":
            return []
        paths = {column.path for column in self.own.columns}
        read = set(columns or ())
        collections = {_parent(column.path) for column in self.own.columns if column.name in read}
        return [
            column.name
            for column in self.own.columns
            if _parent(column.path) in collections & paths and column.name not in read
        ]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def modelled_data(options: ReadingOptions) -> ModelledData:
    """Return what a job with these options reads.

    Raises HeadraceError for user files that cannot be read.
    """
    own = options.own
    if own is None:
        data = options.generated
        layout = layout_of_dataset(data)
        what = "of the data set's first clusters"
        return ModelledData(layout, data.format, data.codec, data.level, data.files, what)
    files = own.find()
    chosen = typical_filled(own, files)
    facts = tree_facts(chosen.path, own.tree)
    if not facts.events:
        raise HeadraceError(f"{chosen.path}: tree {facts.name} has no events")
    layout = layout_of_own_file(chosen.path, facts.name, facts.counted)
    sizes = sorted(file.bytes for file in files)
    stands = (
        f", for {len(files)} files of {sizes[0]} to {sizes[-1]} bytes" if len(files) > 1 else ""
    )
    what = f"of {chosen.path.name}{stands}"
    return ModelledData(layout, facts.format, facts.codec, facts.level, len(files), what, facts)
