"""SciPy's distributions without the rest of its package."""

from __future__ import annotations

import subprocess
import sys

from scipy import stats

from headrace.special_functions import stdtr, stdtrit

CODE = """
import sys
from headrace import special_functions
{between}
from scipy import optimize, special, stats
for name in ("bdtr", "fdtrc", "gammaln", "nctdtrinc", "ndtr", "ndtri", "stdtr", "stdtrit"):
    assert getattr(special_functions, name) is getattr(special, name), name
assert special.__file__ and special.logsumexp([0.0, 0.0]) > 0
assert optimize.least_squares(lambda x: x - 1, 0.0).x[0] == 1
"""

ALONE_REFUSED = """
import sys
class Refusing:
    left = 1
    def find_spec(self, name, path, target=None):
        if name == "scipy.special._ufuncs" and self.left:
            self.left -= 1
            raise ImportError("not alone")
sys.meta_path.insert(0, Refusing())
"""


def ran(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_scipy_can_be_imported_after_them() -> None:
    ran(CODE.format(between='assert "scipy.special" not in sys.modules'))


def test_they_are_those_of_a_scipy_imported_before() -> None:
    ran("import scipy.special\n" + CODE.format(between=""))


def test_they_are_those_of_the_package_where_the_module_alone_cannot_be_imported() -> None:
    ran(ALONE_REFUSED + CODE.format(between='assert "scipy.special" in sys.modules'))


def test_they_agree_with_distributions() -> None:
    assert float(stdtrit(5, 0.975)) == stats.t.ppf(0.975, 5)
    assert abs(float(stdtr(3.5, -1.2)) - stats.t.cdf(-1.2, 3.5)) < 1e-15
