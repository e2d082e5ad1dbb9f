"""Targets: base of kinds that use a node's local drives, and their model in virtual time."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from headrace.errors import HeadraceError
from headrace.site import Site
from headrace.targets import ModelledStorage, Target
from headrace.targets.exports import Export, ModelledRaid
from headrace.targets.scenario import volume
from headrace.validation import made_of


class LocalTarget(Target):
    """A target on the local drives of a node (`path`, `block`, `raid`)."""

    @override
    def model(self, site: Site | None) -> ModelledStorage:
        """Return a volume of each node, on the drive that the options name, otherwise on the drive
        that the site's nodes have under the target's name.

        A real medium has no model: the site's nodes must name a catalog drive that substitutes for
        it.
        """
        options = self.options
        given: dict[str, Any] = {
            field: getattr(options, field, None)
            for field in (
                "drive",
                "raid",
                "filesystem",
                "mount",
                "scheduler",
                "read_ahead",
                "queue_depth",
            )
        }
        if given["drive"] is None:
            own = site.node.drives if site is not None else {}
            stand_in = own.get(self.name) or (next(iter(own.values())) if len(own) == 1 else None)
            if stand_in is None:
                raise HeadraceError(
                    f"target {self.name}: a real medium can only be simulated by a drive that "
                    "stands for it",
                    hint=(
                        f'give [site.node] drives = {{ {self.name} = "NAME" }}; headrace drive '
                        "list names them"
                    ),
                )
            if isinstance(stand_in, str):
                given["drive"] = stand_in
            else:
                given["drive"] = stand_in.drive
                if stand_in.count > 1:
                    chunk = {} if stand_in.chunk is None else {"chunk": stand_in.chunk}
                    given["raid"] = ModelledRaid(
                        level=stand_in.raid or 0, drives=stand_in.count, **chunk
                    )
        given["filesystem"] = given["filesystem"] or "ext4"
        given["mount"] = given["mount"] or ()
        if given["raid"] is not None:
            given["raid"] = given["raid"].model_dump(exclude={"by"})
        made = volume(self.name, made_of(Export, given, f"target {self.name}"))
        return ModelledStorage(
            place={"volume": self.name}, node_volumes=(made,), description={"drive": given["drive"]}
        )
