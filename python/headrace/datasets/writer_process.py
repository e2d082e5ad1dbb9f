"""A process that writes some of the files of a data set: started by `writers.py`, one per core.

    python -m headrace.datasets.writer_process

It reads one JSON line from standard input: the data set, the directory and the numbers of the files
to write. It writes JSON lines to standard output: events written, the facts of a finished file, or
an operating system error.
"""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from headrace.datasets.file_of_events import write_file
from headrace.datasets.spec import DatasetSpec
from headrace.system.ending import end_without_search


def _say(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)


def main() -> int:
    """Run the process. Return 0, or 1 after a reported error."""
    end_without_search()
    # Ctrl-C reaches every process of the terminal; the parent process decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    request = json.loads(sys.stdin.readline())
    spec = DatasetSpec.model_validate(request["spec"])
    try:
        for number in request["numbers"]:
            facts = write_file(
                spec,
                number,
                Path(request["directory"]),
                lambda events: _say({"events_done": events}),
            )
            _say(asdict(facts))
    except BrokenPipeError:
        return 1  # The process that requested the data set has ended.
    except OSError as error:
        _say({"error": error.strerror or str(error), "errno": error.errno or 0})
        return 1
    except MemoryError:
        _say({"error": "not enough memory", "errno": 12})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
