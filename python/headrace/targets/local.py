"""Targets: base of kinds that use a node's local drives, and their model in virtual time."""

from __future__ import annotations

from pydantic import BaseModel
from typing_extensions import override

from headrace.document import as_key
from headrace.errors import HeadraceError
from headrace.site import Site
from headrace.targets import ModelledStorage, Target
from headrace.targets.exports import Export, ModelledRaid
from headrace.targets.scenario import volume
from headrace.validation import made_of


def of_node(text: str, number: int) -> str:
    """Return a path or device of node `number`: `{node}` in it stands for the number."""
    return text.replace("{node}", str(number))


class LocalTarget(Target):
    """A target on the local drives of a node (`path`, `block`, `raid`)."""

    def modelled_bytes(self) -> int | None:
        """Return the size of its filesystem in virtual time; None: all of its drives."""
        return None

    def default_scheduler(self) -> str | None:
        """Return the I/O scheduler in virtual time where the options name none; None: noop."""
        return None

    def discards(self) -> bool:
        """Return True if making its filesystem discards the medium; False if it is in use."""
        return False

    @override
    def model(self, site: Site | None) -> ModelledStorage:
        """Return a volume of each node, on the drive that the options name, otherwise on the drive
        that the site's nodes have under the target's name.

        A real medium has no model: the site's nodes must name a catalog drive that substitutes for
        it.
        """
        options = self.options
        drive: str | None = getattr(options, "drive", None)
        raid: BaseModel | None = getattr(options, "raid", None)
        site_drive: str | None = None
        if drive is None:
            own = site.node.drives if site is not None else {}
            site_drive = self.name if self.name in own or len(own) != 1 else next(iter(own))
            stand_in = own.get(site_drive)
            if stand_in is None:
                raise HeadraceError(
                    f"target {self.name}: a real medium can only be simulated by a drive that "
                    "stands for it",
                    hint=(
                        f'give [site.node] drives = {{ {as_key(self.name)} = "NAME" }}; '
                        "headrace drive list names them"
                    ),
                )
            if isinstance(stand_in, str):
                drive = stand_in
            else:
                drive = stand_in.drive
                if stand_in.count > 1:
                    same = stand_in.model_dump(
                        exclude={"drive", "count", "raid"}, exclude_none=True
                    )
                    raid = ModelledRaid(level=stand_in.raid or 0, drives=stand_in.count, **same)
        given = {
            "drive": drive,
            "raid": None if raid is None else raid.model_dump(exclude={"by"}),
            "filesystem": getattr(options, "filesystem", None) or "ext4",
            "mount": getattr(options, "mount", None) or (),
            "scheduler": getattr(options, "scheduler", None) or self.default_scheduler(),
            "read_ahead": getattr(options, "read_ahead", None),
            "queue_depth": getattr(options, "queue_depth", None),
            "size": self.modelled_bytes(),
        }
        made = volume(self.name, made_of(Export, given, f"target {self.name}"), self.name)
        if not self.discards():
            made["filesystem"]["discarded"] = False
        return ModelledStorage(
            place={"volume": self.name},
            node_volumes=(made,),
            site_drive=site_drive,
            description={"drive": drive},
        )
