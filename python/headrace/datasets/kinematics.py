"""Masses, decays and boosts of the generated collisions, vectorised over events. Energies in GeV.

A four-vector is a column of an array of shape (4, n): px, py, pz, E.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

HIGGS_MASS_GEV = 125.0
Z_MASS_GEV = 91.1876
"""Particle Data Group, Review of Particle Physics (2022), gauge bosons."""
Z_WIDTH_GEV = 2.4955
"""Same source."""
ELECTRON_MASS_GEV = 0.000511
MUON_MASS_GEV = 0.10566


def from_pt_rapidity(pt: Floats, rapidity: Floats, phi: Floats, mass: Floats) -> Floats:
    """Return four-vectors, shape (4, n), from transverse momentum, rapidity, azimuth and mass."""
    transverse_mass = np.hypot(mass, pt)
    return np.stack(
        [
            pt * np.cos(phi),
            pt * np.sin(phi),
            transverse_mass * np.sinh(rapidity),
            transverse_mass * np.cosh(rapidity),
        ]
    )


def to_pt_eta_phi(momentum: Floats) -> tuple[Floats, Floats, Floats]:
    """Return transverse momentum, pseudorapidity and azimuth of four-vectors of shape (4, n)."""
    px, py, pz, _ = momentum
    pt = np.hypot(px, py)
    return pt, np.arcsinh(pz / np.maximum(pt, 1e-9)), np.arctan2(py, px)


def boost(momentum: Floats, frame: Floats, frame_mass: Floats) -> Floats:
    """Boost `momentum` from the rest frame of `frame` to the frame in which `frame` is given.

    Both have shape (4, n).
    """
    along = (momentum[:3] * frame[:3]).sum(axis=0)
    energy = (frame[3] * momentum[3] + along) / frame_mass
    scale = (momentum[3] + energy) / (frame[3] + frame_mass)
    return np.concatenate([momentum[:3] + scale * frame[:3], energy[None]])


def decay(
    rng: np.random.Generator,
    parent: Floats,
    parent_mass: Floats,
    first_mass: Floats,
    second_mass: Floats,
) -> tuple[Floats, Floats]:
    """Decay each parent isotropically; return two daughters' four-vectors in its frame.

    Each has shape (4, n). The daughters' momentum in the rest frame is sqrt(lambda(M², m1², m2²)) /
    2M (Particle Data Group, Kinematics).
    """
    count = parent.shape[1]
    term = parent_mass**2 - (first_mass + second_mass) ** 2
    other = parent_mass**2 - (first_mass - second_mass) ** 2
    size = np.sqrt(np.maximum(term * other, 0.0)) / (2 * parent_mass)
    first_energy = (parent_mass**2 + first_mass**2 - second_mass**2) / (2 * parent_mass)
    cos_theta = rng.uniform(-1, 1, count)
    phi = rng.uniform(-np.pi, np.pi, count)
    sin_theta = np.sqrt(1 - cos_theta**2)
    direction = size * np.stack([sin_theta * np.cos(phi), sin_theta * np.sin(phi), cos_theta])
    first = np.concatenate([direction, first_energy[None]])
    second = np.concatenate([-direction, (parent_mass - first_energy)[None]])
    return boost(first, parent, parent_mass), boost(second, parent, parent_mass)


def breit_wigner(
    rng: np.random.Generator, lowest: Floats | float, highest: Floats, centre: float, width: float
) -> Floats:
    """Draw one mass per `highest` from a non-relativistic Breit-Wigner in [lowest, highest]."""
    low = np.arctan(2 * (np.asarray(lowest) - centre) / width)
    high = np.arctan(2 * (highest - centre) / width)
    return centre + width / 2 * np.tan(low + (high - low) * rng.random(highest.shape))


@cache
def _higgs_pair_grid() -> tuple[Floats, Floats]:
    """Return the cumulative H -> Z(*)Z(*) density on a grid of (m1, m2), and its lower edges.

    Cells are 0.25 GeV wide.
    """
    edges = np.arange(4.0, HIGGS_MASS_GEV, 0.25)
    first, second = np.meshgrid(edges + 0.125, edges + 0.125, indexing="ij")
    ratio_first, ratio_second = (first / HIGGS_MASS_GEV) ** 2, (second / HIGGS_MASS_GEV) ** 2
    triangle = (1 - ratio_first - ratio_second) ** 2 - 4 * ratio_first * ratio_second
    allowed = (first + second < HIGGS_MASS_GEV) & (first >= second) & (triangle > 0)
    triangle = np.where(allowed, triangle, 0.0)

    def propagator(mass: Floats) -> Floats:
        return mass / ((mass**2 - Z_MASS_GEV**2) ** 2 + (Z_MASS_GEV * Z_WIDTH_GEV) ** 2)

    density = (
        np.sqrt(triangle)
        * (triangle + 12 * ratio_first * ratio_second)
        * propagator(first)
        * propagator(second)
    )
    return np.cumsum(density.ravel()) / density.sum(), edges


def higgs_z_masses(rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Draw masses of the heavier and the lighter Z in H -> ZZ* for a Higgs boson of 125 GeV.

    Density of A. Djouadi, "The anatomy of electroweak symmetry breaking I", Phys. Rept. 457 (2008),
    section 2.2: two Breit-Wigner propagators times sqrt(lambda) (lambda + 12 m1² m2² / M⁴).
    """
    cumulative, edges = _higgs_pair_grid()
    cell: Any = np.searchsorted(cumulative, rng.random(count))
    first = edges[cell // len(edges)] + 0.25 * rng.random(count)
    second = edges[cell % len(edges)] + 0.25 * rng.random(count)
    return first, np.minimum(second, HIGGS_MASS_GEV - first - 1e-3)
