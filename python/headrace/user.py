"""Base layer: the user that runs Headrace, for names of files that users must not share."""

from __future__ import annotations

import os
import pwd


def user_name() -> str:
    """Return the name of the effective user, or its number when it has no name (in containers).

    `$USER` is not used: after `runuser` or `setpriv` it names another user.
    """
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
