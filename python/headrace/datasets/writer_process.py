"""A process that writes some of the files of a data set: started by `store.py`, a core each.

    python -m headrace.datasets.writer_process FIRST STEP

writes files FIRST, FIRST + STEP, … of the data set named by one JSON line on standard input, and says on standard
output, a JSON line each: events written, the facts of a finished file, or an error of the operating system.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace.datasets.file_of_events import write_file
from headrace.datasets.spec import DatasetSpec


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def main() -> int:
    """Runs the process; 0, or 1 after an error that was told."""
    request = json.loads(sys.stdin.readline())
    spec = DatasetSpec.model_validate(request["spec"])
    first, step = int(sys.argv[1]), int(sys.argv[2])
    try:
        for number in range(first, spec.files, step):
            facts = write_file(
                spec, number, Path(request["directory"]), lambda events: _say({"events_done": events})
            )
            _say(asdict(facts))
    except BrokenPipeError:
        return 1  # Nobody listens any more: whoever asked for the data set is gone.
    except OSError as error:
        _say({"error": error.strerror or str(error), "errno": error.errno or 0})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
