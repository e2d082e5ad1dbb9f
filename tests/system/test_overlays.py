"""Files of an overlay are read from the device of the layer that has them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.system.devices import devices_of
from headrace.system.mounts import mount_of
from headrace.system.storage import storage_of
from headrace.verdict.places import places_of
from headrace.watching.ledger import StorageWait
from headrace.watching.places import Places

pytestmark = pytest.mark.usefixtures("needs_root")


def do(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def lower(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A file system on a loop device, and the name of the device."""
    image, folder = tmp_path / "layer.img", tmp_path / "low er:1"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    do("mkfs.ext4", "-q", "-F", str(image))
    with ExitStack() as after:
        device = do("losetup", "-f", "--show", str(image))
        after.callback(do, "losetup", "-d", device)
        do("mount", device, str(folder))
        after.callback(do, "umount", str(folder))
        (folder / "data").mkdir()
        (folder / "data" / "old").write_bytes(bytes(4096))
        (folder / "empty").mkdir()
        yield folder, Path(device).name


@pytest.fixture
def overlay(tmp_path: Path, lower: tuple[Path, str]) -> Iterator[Path]:
    for name in ("upper", "work", "seen"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={lower[0]},upperdir={tmp_path / 'upper'},workdir={tmp_path / 'work'}"
    seen = tmp_path / "seen"
    do("mount", "-t", "overlay", "none", "-o", layers.replace(":", r"\:"), str(seen))
    yield seen
    do("umount", str(seen))


def test_the_devices_of_a_directory_are_those_of_the_layers_with_its_files(
    overlay: Path, lower: tuple[Path, str], tmp_path: Path
) -> None:
    """Only the upper layer's were counted: a job that read files of the lower one read 0 bytes."""
    upper = list(storage_of(tmp_path / "upper").device_names)
    (overlay / "empty" / "new").write_text("in the upper layer")
    assert list(storage_of(overlay / "empty").device_names) == upper
    assert list(storage_of(overlay / "data").device_names) == [*upper, lower[1]]
    assert devices_of(mount_of(overlay)) == [*upper, lower[1]]
    assert "loop" in lower[1] and storage_of(overlay / "data").disks


def test_a_file_is_on_the_device_of_its_layer(
    overlay: Path, lower: tuple[Path, str], tmp_path: Path
) -> None:
    """`why` and `watch` named the disk of the upper layer for both."""
    old, new = overlay / "data" / "old", overlay / "data" / "new"
    new.write_bytes(bytes(4096))
    upper = "+".join(storage_of(tmp_path / "upper").device_names)
    found = places_of([str(old), str(new)])
    assert [found[str(each)].name for each in (old, new)] == [lower[1], upper]
    places = Places()
    waits: list[StorageWait | None] = []
    for file in (old, new):
        descriptor = os.open(file, os.O_RDONLY)
        waits.append(places.of_descriptor(os.getpid(), descriptor))
        os.close(descriptor)
        assert places.of_path(os.getpid(), str(file)) == waits[-1]
    assert waits[0] == StorageWait("block", lower[1])
    assert waits[1] is not None and waits[1].place in ("", upper)
    (overlay / "data" / "old").write_bytes(b"changed")
    assert places_of([str(old)])[str(old)].name == upper


MAPPED = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        print(flush=True)
        sys.stdin.read()
"""


def test_a_mapped_file_is_on_the_device_of_its_layer(
    overlay: Path, lower: tuple[Path, str]
) -> None:
    os.truncate(lower[0] / "data" / "old", 12 << 20)  # more than the libraries of the program
    with subprocess.Popen(
        ["python3", "-S", "-c", MAPPED, str(overlay / "data" / "old")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        assert Places().of_largest_map(program.pid) == StorageWait("block", lower[1])
        program.communicate()
