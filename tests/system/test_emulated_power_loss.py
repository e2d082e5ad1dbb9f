"""Power is lost while a file system on an emulated disk is written to: it recovers, its check finds
nothing, and every file that was on stable storage (fsync had returned) is whole."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import threading
import time
from pathlib import Path

import pytest

from headrace.catalog import entry
from headrace.system import emulator, signatures
from headrace.system.journal import Journal, JournalEntry
from headrace.system.mounts import mount
from headrace.system.owned import work_directory
from headrace.system.waiting import wait_until

pytestmark = pytest.mark.usefixtures("needs_root")

CHECKS = {
    "ext4": ["e2fsck", "-f", "-n"],
    "xfs": ["xfs_repair", "-n"],
    "btrfs": ["btrfs", "check", "--readonly"],
}


class Writer(threading.Thread):
    """Writes files until it gets an error; remembers those that were flushed."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__()
        self.folder = folder
        self.chance = random.Random(seed)
        self.flushed: dict[str, str] = {}
        self.failure: OSError | None = None

    def run(self) -> None:
        directory = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for number in range(10_000):
                data = self.chance.randbytes(self.chance.randrange(1, 300_000))
                name = f"file-{number}"
                handle = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
                try:
                    os.write(handle, data)
                    if self.chance.random() < 0.5:
                        os.fsync(handle)
                        os.fsync(directory)
                        self.flushed[name] = hashlib.sha256(data).hexdigest()
                finally:
                    os.close(handle)
        except OSError as error:
            self.failure = error
        finally:
            os.close(directory)


def unmount(journal: Journal, mounted: JournalEntry, device: Path) -> None:
    """Unmount it, everywhere: a server that another test started since has it in its own mount
    namespace, and the file system would go on there as it was."""
    assert journal.undo(mounted).done
    assert wait_until(lambda: not signatures.holders(device), 120, 0.05)


def lose_power(journal: Journal, folder: Path, filesystem: str, seed: int, drive: str) -> int:
    """One loss; returns how many files had been flushed."""
    directory, _ = work_directory(journal, folder)
    storage = {"drives": [entry("drives", drive).table]}
    device = emulator.attach(journal, storage, 512 << 20, directory, seed=seed)
    subprocess.run(
        [f"mkfs.{filesystem}", "-q", str(device.device)], check=True, stdout=subprocess.DEVNULL
    )
    place = directory / "mount"
    place.mkdir()
    mounted = mount(journal, str(device.device), place, filesystem)
    writer = Writer(place, seed)
    writer.start()
    time.sleep(random.Random(seed).uniform(0.5, 2.0))
    fault = device.power_loss()
    subprocess.run(["sync", "-f", str(place)], stderr=subprocess.DEVNULL, check=False)
    writer.join(120)
    assert not writer.is_alive()
    assert writer.failure is not None, "the drive was away"
    unmount(journal, mounted, device.device)
    device.lift(fault)
    mounted = mount(journal, str(device.device), place, filesystem)
    for name, digest in writer.flushed.items():
        assert hashlib.sha256((place / name).read_bytes()).hexdigest() == digest, name
    unmount(journal, mounted, device.device)
    checked = subprocess.run(
        [*CHECKS[filesystem], str(device.device)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert device.report().faults_fired[fault] >= 1
    device.detach()
    return len(writer.flushed)


@pytest.mark.parametrize("filesystem", sorted(CHECKS))
def test_a_filesystem_recovers(journal: Journal, tmp_path: Path, filesystem: str) -> None:
    assert lose_power(journal, tmp_path, filesystem, 1, "seagate-st3750640ns") > 3


@pytest.mark.heavy
@pytest.mark.parametrize("drive", ["wd-wd3200bekt", "kingston-ssdnow-v-128gb"])
def test_many_times(journal: Journal, tmp_path: Path, drive: str) -> None:
    for seed in range(30):
        lose_power(journal, tmp_path, sorted(CHECKS)[seed % 3], seed, drive)
