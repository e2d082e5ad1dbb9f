"""Files that a job gives a size or space and then maps (sqlite, git, Java).

Recorded, replayed, simulated.
"""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.profiles.primitives import primitives
from headrace.profiles.recorder import record
from headrace.profiles.replaying import Replayer
from headrace.profiles.scenario import scenario_steps
from headrace.profiles.steps import Op, load, save

JOB = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_EXCL)
os.ftruncate(fd, 300_000)
mapped = mmap.mmap(fd, 0)
mapped[0] = 1; mapped[200_000] = 2
mapped.close()
os.posix_fallocate(fd, 0, 400_000)
private = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
private[350_000]
private.close()
os.ftruncate(fd, 250_000)
"""


def test_sizes_are_steps_and_a_replay_gives_them_to_its_own_files(tmp_path: Path) -> None:
    made = tmp_path / "new.bin"
    found = record([sys.executable, "-c", JOB, str(made)], "job", tmp_path)
    assert found.exit_code == 0
    save(found.recording, tmp_path / "job.toml")
    job = load(str(tmp_path / "job.toml"))
    number = next(index for index, file in enumerate(job.files) if file.path == str(made))
    assert job.files[number].created
    own = job.steps.take(job.steps.file == number)
    sizes = own.take((own.op == Op.TRUNCATE) | (own.op == Op.ALLOCATE))
    given = [
        (Op(op).name, *rest)
        for op, *rest in zip(
            sizes.op.tolist(), sizes.offset.tolist(), sizes.length.tolist(), strict=True
        )
    ]
    assert given == [("TRUNCATE", 300_000, 0), ("ALLOCATE", 0, 400_000), ("TRUNCATE", 250_000, 0)]
    # Pages that the job touched through a shared, writable map of its own file were written by it.
    writes = own.take(own.op == Op.WRITE)
    assert any(
        at <= 200_000 < at + length
        for at, length in zip(writes.offset.tolist(), writes.length.tolist(), strict=True)
    )
    names = [f"f{index}" for index in range(len(job.files))]
    steps = scenario_steps(job, names, sizes=True)
    mine = tmp_path / "mine.bin"
    files = {f"f{number}": mine}
    done = Replayer(files, new=frozenset(files)).run(primitives(steps, {}, 1), think=False)
    assert mine.stat().st_size == 250_000
    assert done.bytes_written == int(writes.length.sum())
    # The simulator has no such steps.
    assert not {step["do"] for step in scenario_steps(job, names)} & {
        "truncate",
        "allocate",
        "reserve",
    }
