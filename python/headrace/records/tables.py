"""The tables of a record: `jobs.parquet` and `series/*.parquet` (docs/records.md).

Imported when the first table is written or read: pyarrow takes long to import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

JOB_COLUMNS = pa.schema(
    [
        ("trial", pa.string()),
        ("job", pa.int32()),
        ("slot", pa.int32()),
        ("node", pa.int32()),
        ("file", pa.string()),
        ("exit", pa.string()),
        ("cause", pa.string()),
        ("start_s", pa.float64()),
        ("end_s", pa.float64()),
        ("wall_s", pa.float64()),
        ("user_s", pa.float64()),
        ("system_s", pa.float64()),
        ("on_cpu_s", pa.float64()),
        ("wait_cpu_s", pa.float64()),
        ("wait_block_s", pa.float64()),
        ("wait_network_s", pa.float64()),
        ("other_s", pa.float64()),
        ("residue_s", pa.float64()),
        ("ledger_source", pa.string()),
        ("events", pa.int64()),
        ("bytes_uncompressed", pa.int64()),
        ("bytes_asked", pa.int64()),
        ("bytes_served", pa.int64()),
        ("bytes_device", pa.int64()),
        ("bytes_unique", pa.int64()),
        ("bytes_written", pa.int64()),
        ("read_calls", pa.int64()),
        ("request_repeats", pa.int64()),
        ("open_s", pa.float64()),
        ("peak_rss_bytes", pa.int64()),
        (
            "phases",
            pa.list_(
                pa.struct(
                    [("name", pa.string()), ("start_s", pa.float64()), ("end_s", pa.float64())]
                )
            ),
        ),
        ("results", pa.string()),
    ]
)
"""Columns of jobs.parquet (docs/records.md)."""


WORTH_COMPRESSING = 64
"""Rows of a table."""


def write_jobs(rows: Sequence[Mapping[str, object]], path: Path) -> None:
    """Write one row per job. Columns missing from a row are null."""
    _write(pa.Table.from_pylist(rows, schema=JOB_COLUMNS), path)


def write_series(rows: Sequence[Mapping[str, object]], path: Path) -> None:
    """Write the rows of a probe; the first ones decide the columns."""
    _write(pa.Table.from_pylist(rows), path)


def _write(table: Any, path: Path) -> None:
    # Compressed, few rows take more room, and the compressor of each column half of the time.
    compression = "zstd" if table.num_rows >= WORTH_COMPRESSING else "none"
    pq.write_table(table, path, compression=compression)


def read_table(path: Path, columns: Sequence[str] | None = None) -> Any:
    """Return a table, or these columns of those that it has. Raises OSError or pa.ArrowException.

    `pyarrow.parquet.read_table` would import what reads folders of files. Without threads for
    columns: where they cannot be started (`ulimit -u`), Arrow fails, crashes or hangs.
    """
    with pq.ParquetFile(path) as file:
        return file.read(None if columns is None else list(columns), use_threads=False)
