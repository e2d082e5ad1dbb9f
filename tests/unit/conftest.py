"""What the tests of this folder start with: Hypothesis, as all of them want it."""

from __future__ import annotations

import hypothesis_profile as hypothesis_profile
