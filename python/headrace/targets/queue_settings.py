"""Targets: scheduler, queue depth and read-ahead, for local storage (`path`, `block`).

They are set on every kernel from which jobs reach the storage, by the agents of its nodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.system import setting_names
from headrace.system.storage_settings import (
    AppliedSetting,
    SettingValue,
    StorageSettings,
    common,
)
from headrace.targets import Setting, TargetContext

NAMES = frozenset(setting_names.NAMES)


class QueueSettings:
    """Sets, reads and restores the settings of the disks and the file system behind one target."""

    def __init__(self, context: TargetContext, directory: Path) -> None:
        self._kernels = context.storage_settings()
        self._directory = str(directory)
        self._before = self.read()

    def read(self) -> dict[str, object]:
        """Return the current value of every setting; None if the storage does not have it.

        Where kernels differ, it is a text with each one's value.
        """
        found = {kernel.name: kernel.read_settings(self._directory) for kernel in self._reached()}
        return {
            name: common({where: values[name] for where, values in found.items()})
            for name in setting_names.NAMES
        }

    def _reached(self) -> list[StorageSettings]:
        """Return the kernels without lost nodes: a trial that needs one of these does not start.

        All of them if all are lost: they raise LauncherLostError.
        """
        return [kernel for kernel in self._kernels if not kernel.is_lost] or [*self._kernels]

    def apply(self, options: Any) -> list[Setting]:
        """Apply the settings that the options give (None: leave unchanged), read each one back."""
        asked = {name: getattr(options, name) for name in setting_names.NAMES}
        wanted = {name: value for name, value in asked.items() if value is not None}
        if not wanted:
            return []
        found = {
            kernel.name: {
                each.name: each for each in kernel.apply_settings(self._directory, wanted)
            }
            for kernel in self._reached()
        }
        return [
            self._setting(name, value, {where: each[name] for where, each in found.items()})
            for name, value in wanted.items()
        ]

    def _setting(self, name: str, asked: Any, applied: dict[str, AppliedSetting]) -> Setting:
        """Return one setting of all kernels: applied if each one applied it."""
        after: SettingValue = common({where: each.after for where, each in applied.items()})
        reason = "; ".join(
            each.reason if len(applied) == 1 else f"{where}: {each.reason}"
            for where, each in applied.items()
            if each.reason
        )
        return Setting(name, asked, self._before[name], after, applied=not reason, reason=reason)

    def restore(self) -> None:
        """Restore everything. Safe to call twice. Raises HeadraceError that names what could not be
        restored; a second call retries it."""
        failed: list[str] = []
        for kernel in self._kernels:
            try:
                kernel.restore_settings(self._directory)
            except HeadraceError as error:
                failed.append(error.message)
        if failed:
            raise HeadraceError("; ".join(failed), hint="headrace undo")
