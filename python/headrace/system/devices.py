"""Base layer: block devices and those below them (sysfs): partitions, dm, md, bcache, loop."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.system import block_queue, loops
from headrace.system.mounts import Mount, mount_of
from headrace.system.overlays import in_layer, layers_of, layers_with

_CLASS = Path("/sys/class/block")


@dataclass(frozen=True)
class Device:
    """A block device and the devices below it, as they are now."""

    name: str
    """Kernel name, such as `vda1`, `dm-0`."""
    kind: str
    """`disk`, `partition`, `loop`, `dm` (with `label`), `md` (with `level`), `bcache` …"""
    size_bytes: int
    model: str
    rotational: bool | None
    scheduler: str | None
    queue_depth: int | None
    logical_block_bytes: int | None
    physical_block_bytes: int | None
    write_cache: str | None
    detail: str
    """RAID level of an md device, name of a dm device, file of a loop device."""
    below: tuple[Device, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-compatible mapping for the record, without unknown facts."""
        own = {
            key: value
            for key, value in vars(self).items()
            if key != "below" and value not in (None, "")
        }
        return {**own, "below": [device.as_dict() for device in self.below]} if self.below else own


def _attribute(name: str, attribute: str) -> str:
    with contextlib.suppress(OSError):
        return (_CLASS / name / attribute).read_text(errors="replace").strip()
    return ""


def name_of(number: str) -> str | None:
    """Return the kernel name of the block device `major:minor`; None for an anonymous number."""
    folder = Path("/sys/dev/block") / number
    return folder.resolve().name if folder.exists() else None


def parent_disk(name: str) -> str | None:
    """Return the disk of a partition; None for other devices."""
    folder = (_CLASS / name).resolve()
    return folder.parent.name if (folder / "partition").exists() else None


def is_read_only(name: str) -> bool:
    """Return whether the kernel refuses writes to a block device. Opening it succeeds."""
    return _attribute(name, "ro") == "1"


def parts_below(name: str) -> list[str]:
    """Return the devices directly below: a partition's disk, or the members of an array or map."""
    if (disk := parent_disk(name)) is not None:
        return [disk]
    return sorted(found.name for found in (_CLASS / name).glob("slaves/*"))


def whole_disks(name: str) -> list[str]:
    """Return the lowest devices, whose queues have schedulers; a loop device counts as one."""
    below = parts_below(name)
    return sorted({disk for part in below for disk in whole_disks(part)}) if below else [name]


def _kind(name: str) -> tuple[str, str]:
    folder = _CLASS / name
    if parent_disk(name) is not None:
        return "partition", ""
    if (folder / "loop").is_dir():
        return "loop", str(loops.attached().get(name, ""))
    if (folder / "dm").is_dir():
        return "dm", _attribute(name, "dm/name")
    if (folder / "md").is_dir():
        return "md", _attribute(name, "md/level")
    if (folder / "bcache").is_dir():
        return "bcache", ""
    return ("zram" if name.startswith("zram") else "disk"), ""


def describe(name: str) -> Device:
    """Return a device with everything below it."""
    kind, detail = _kind(name)
    disk = parent_disk(name) or name
    rotational = block_queue.read_number(disk, "rotational")
    maker, model = _attribute(disk, "device/vendor"), _attribute(disk, "device/model")
    return Device(
        name=name,
        kind=kind,
        size_bytes=int(_attribute(name, "size") or 0) * 512,
        model=" ".join(
            word for word in (maker if not maker.startswith("0x") else "", model) if word
        ),
        rotational=bool(rotational) if rotational is not None else None,
        scheduler=block_queue.read_scheduler(disk),
        queue_depth=block_queue.read_depth(disk),
        logical_block_bytes=block_queue.read_number(disk, "logical_block_size"),
        physical_block_bytes=block_queue.read_number(disk, "physical_block_size"),
        write_cache=_attribute(disk, "queue/write_cache") or None,
        detail=detail,
        below=tuple(describe(part) for part in parts_below(name)),
    )


def devices_of(mount: Mount, path: Path | None = None) -> list[str]:
    """Return the block devices directly below a file system; empty when there are none.

    For overlayfs these are the devices of the layer that has the file `path`, of the layers that
    have files in the directory `path`, or of all, where this process can see the layers.
    """
    if (name := name_of(mount.device_number)) is not None:
        return [name]
    if mount.filesystem == "btrfs":
        resolved = Path(mount.source).resolve().name
        for folder in Path("/sys/fs/btrfs").glob("*/devices"):
            members = sorted(device.name for device in folder.iterdir())
            if resolved in members:
                return members
    if mount.filesystem == "overlay":
        return _devices_of_layers(mount, path)
    names = [
        Path(part).resolve().name for part in mount.source.split(":") if part.startswith("/dev/")
    ]
    return sorted(name for name in names if (_CLASS / name).exists())


def _devices_of_layers(mount: Mount, path: Path | None) -> list[str]:
    layers = layers_of(mount) if path is None else layers_with(mount, path)
    found: dict[str, None] = {}
    for layer in layers:
        with contextlib.suppress(HeadraceError):
            below = mount_of(layer)
            if below.id != mount.id:
                place = None if path is None else in_layer(mount, layer, path)
                found |= dict.fromkeys(devices_of(below, place))
    return [*found]
