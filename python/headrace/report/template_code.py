"""Compiled templates, kept like compiled modules: in `__pycache__`, where that can be written.

To compile the report's templates takes as long as to render a small report.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import sys
from importlib.metadata import version
from pathlib import Path
from types import CodeType

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket


class KeptTemplateCode(BytecodeCache):
    """Reads and writes compiled templates next to the modules of this package, and keeps those of
    this process: each page has an environment of its own.

    Jinja drops those whose source has changed and those of another version of Python; the name of
    the file holds Jinja's version.
    """

    def __init__(self) -> None:
        self._version = version("jinja2")
        self._found: dict[str, tuple[str, CodeType]] = {}

    def _file(self, bucket: Bucket) -> Path:
        module = Path(__file__).with_name(f"template-{bucket.key}.py")
        return Path(importlib.util.cache_from_source(module)).with_suffix(f".jinja-{self._version}")

    def load_bytecode(self, bucket: Bucket) -> None:
        """Set the code of a template, unless none is kept that can be used."""
        checksum, code = self._found.get(bucket.key, ("", None))
        if checksum == bucket.checksum:
            bucket.code = code
            return
        with contextlib.suppress(OSError, EOFError, ValueError, pickle.UnpicklingError):
            bucket.bytecode_from_string(self._file(bucket).read_bytes())
        self._keep(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template; in this process only where Python writes no modules."""
        self._keep(bucket)
        if sys.dont_write_bytecode:
            return
        file = self._file(bucket)
        partial = file.with_name(f"{file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(bucket.bytecode_to_string())
            partial.replace(file)

    def _keep(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            self._found[bucket.key] = bucket.checksum, bucket.code


TEMPLATE_CODE = KeptTemplateCode()
"""Of this process."""
