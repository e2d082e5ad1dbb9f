"""Base layer: the distributions that intervals and tests need, as SciPy's compiled functions.

`import scipy.special` also imports, for arrays of other libraries, what wraps these functions, with
numpy.f2py and more: ten times the CPU time of the functions alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import cast

import numpy as np

_PACKAGE = "scipy.special"
_NAMES = ("bdtr", "fdtrc", "gammaln", "nctdtrinc", "ndtr", "ndtri", "stdtr", "stdtrit")


def _compiled() -> ModuleType:
    """Return the module of the compiled functions, or the whole package where SciPy keeps them
    elsewhere."""
    if _PACKAGE not in sys.modules:
        try:
            found = _without_package()
        except (ImportError, AttributeError):
            found = None
        if found is not None and all(hasattr(found, name) for name in _NAMES):
            return found
    return importlib.import_module(_PACKAGE)


def _without_package() -> ModuleType | None:
    """Import the compiled module below an empty package; the real one can be imported later."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        return None
    empty = ModuleType(_PACKAGE)
    empty.__path__ = list(spec.submodule_search_locations)
    sys.modules[_PACKAGE] = empty
    try:
        return importlib.import_module(f"{_PACKAGE}._ufuncs")
    finally:
        del sys.modules[_PACKAGE]


_functions = _compiled()


def _function(name: str) -> np.ufunc:
    return cast("np.ufunc", getattr(_functions, name))


bdtr = _function("bdtr")
"""Binomial distribution, of (k, n, p)."""
fdtrc = _function("fdtrc")
"""Complement of the F distribution, of (degrees, degrees, x)."""
gammaln = _function("gammaln")
nctdtrinc = _function("nctdtrinc")
"""Noncentrality of a t distribution, of (degrees, probability, t)."""
ndtr = _function("ndtr")
"""Normal distribution."""
ndtri = _function("ndtri")
"""Quantile of the normal distribution."""
stdtr = _function("stdtr")
"""Student's t distribution, of (degrees, t)."""
stdtrit = _function("stdtrit")
"""Quantile of Student's t distribution, of (degrees, probability)."""
