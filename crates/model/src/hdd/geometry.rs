//! Disk geometry: the zone, track, cylinder and angle of each sector.
//!
//! One number describes a location: `along`, the nanoseconds that a head needs to reach it when it
//! reads the whole drive in order from sector 0, including skews. Modulo one revolution it gives
//! the angle; divided by the time per cylinder it gives the cylinder; the difference of two values
//! is the media time between them.

use super::spec::{HddSpec, HeadOrder, SeekSpec, ZoneSpec};
use crate::request::{Nanos, SECTOR_BYTES};
use crate::spec::{refuse, within, within_int, SpecError};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zone {
    pub first_sector: u64,
    pub first_cylinder: u32,
    /// Without spares.
    pub sectors_per_track: u32,
    per_track: f64,
    /// `along` at the start of the zone.
    first_along: Nanos,
    /// One revolution plus the skew to the next track of the cylinder.
    track_ns: Nanos,
    /// All tracks of a cylinder plus the skew to the next cylinder.
    cylinder_ns: Nanos,
    per_cylinder: f64,
    cylinder_skew_ns: Nanos,
    /// Time added by the last track of a cylinder beyond `track_ns`.
    step_ns: i64,
    /// Nanoseconds per sector under the head.
    pub sector_ns: f64,
}

/// Start and end of a contiguous range of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub along: Nanos,
    pub along_end: Nanos,
    pub cylinder: u32,
    pub zone: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    zones: Vec<Zone>,
    /// Zone at the start of each stretch of `1 << stretch_shift` sectors.
    stretches: Vec<u16>,
    stretch_shift: u32,
    pub capacity_sectors: u64,
    /// End of the last sector.
    pub along_end: Nanos,
    pub heads: u32,
    pub cylinders: u32,
    pub turn_ns: Nanos,
    per_turn: f64,
    /// Whether all zones have the same skews, so that a single division finds a cylinder.
    uniform: bool,
    /// The largest skew to a next cylinder.
    pub cylinder_skew_ns: Nanos,
}

impl Geometry {
    pub fn build(spec: &HddSpec) -> Result<Self, SpecError> {
        let turn_ns = (60e9 / spec.rotation_rpm).round() as Nanos;
        let skews = skews(spec)?;
        let capacity_sectors = spec.capacity_bytes / SECTOR_BYTES;
        let layout = zone_layout(spec, cylinder_ns(spec, turn_ns, skews), capacity_sectors)?;
        let (zones, cylinders) = zones(spec, layout, turn_ns, skews, capacity_sectors)?;
        let uniform = zones.windows(2).all(|pair| {
            (pair[0].track_ns, pair[0].cylinder_ns) == (pair[1].track_ns, pair[1].cylinder_ns)
        });
        let stretch_shift = (64 - capacity_sectors.leading_zeros()).saturating_sub(10);
        let mut geometry = Geometry {
            stretches: stretches(&zones, capacity_sectors, stretch_shift),
            stretch_shift,
            capacity_sectors,
            along_end: 0,
            heads: spec.heads,
            cylinders,
            turn_ns,
            per_turn: 1.0 / turn_ns as f64,
            uniform,
            cylinder_skew_ns: zones.iter().map(|zone| zone.cylinder_skew_ns).max().unwrap_or(0),
            zones,
        };
        geometry.along_end = geometry.place(capacity_sectors - 1, 1).along_end;
        Ok(geometry)
    }

    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    #[inline]
    fn zone_of(&self, sector: u64) -> usize {
        let mut zone = self.stretches[(sector >> self.stretch_shift) as usize] as usize;
        while zone + 1 < self.zones.len() && self.zones[zone + 1].first_sector <= sector {
            zone += 1;
        }
        zone
    }

    /// Return track and cylinder within the zone, and sector within the track.
    #[inline]
    fn track_of(&self, zone: &Zone, sector: u64) -> (u64, u32, u32) {
        let rest = sector - zone.first_sector;
        let per_track = u64::from(zone.sectors_per_track);
        let track = quotient(rest, per_track, zone.per_track);
        (track, track as u32 / self.heads, (rest - track * per_track) as u32)
    }

    /// Return the place of `sectors` (at least one) starting at `sector`.
    #[inline]
    pub fn place(&self, sector: u64, sectors: u32) -> Place {
        let index = self.zone_of(sector);
        let zone = &self.zones[index];
        let (track, cylinder, first) = self.track_of(zone, sector);
        let base = zone.track_along(track, cylinder);
        let along = base + whole(f64::from(first) * zone.sector_ns);
        let along_end = if first + sectors <= zone.sectors_per_track {
            base + whole(f64::from(first + sectors) * zone.sector_ns)
        } else {
            let last_sector = sector + u64::from(sectors) - 1;
            let zone = &self.zones[self.zone_of(last_sector)];
            let (track, cylinder, last) = self.track_of(zone, last_sector);
            zone.track_along(track, cylinder) + (f64::from(last + 1) * zone.sector_ns) as Nanos
        };
        Place { along, along_end, cylinder: zone.first_cylinder + cylinder, zone: index as u32 }
    }

    /// Return the elapsed part of a revolution at `along` (or at a time), in nanoseconds.
    #[inline]
    pub fn angle_ns(&self, along: Nanos) -> Nanos {
        along - quotient(along, self.turn_ns, self.per_turn) * self.turn_ns
    }

    /// Return the elapsed part of a revolution as a fraction.
    #[inline]
    pub fn angle_turns(&self, along: Nanos) -> f32 {
        (self.angle_ns(along) as i64 as f64 * self.per_turn) as f32
    }

    /// Return the zone that holds `along`.
    #[inline]
    fn zone_at(&self, along: Nanos) -> &Zone {
        if self.uniform {
            return &self.zones[0];
        }
        let after = self.zones.partition_point(|zone| zone.first_along <= along);
        &self.zones[after.max(1) - 1]
    }

    #[inline]
    pub fn cylinder_at(&self, along: Nanos) -> u32 {
        let zone = self.zone_at(along);
        let past = along - zone.first_along;
        zone.first_cylinder + quotient(past, zone.cylinder_ns, zone.per_cylinder) as u32
    }

    /// Return the start of the cylinder that holds `along`.
    fn cylinder_start(&self, along: Nanos) -> Nanos {
        let zone = self.zone_at(along);
        let past = along - zone.first_along;
        along - (past - quotient(past, zone.cylinder_ns, zone.per_cylinder) * zone.cylinder_ns)
    }

    /// Return the track within its cylinder. Equal numbers in one cylinder mean equal heads.
    pub fn track_in_cylinder(&self, along: Nanos) -> u32 {
        let within = along - self.cylinder_start(along);
        ((within / self.zone_at(along).track_ns) as u32).min(self.heads - 1)
    }

    /// Return the time of a sector under the head.
    #[inline]
    pub fn sector_ns(&self, zone: u32) -> f64 {
        self.zones[zone as usize].sector_ns
    }

    /// Return the end of the track that holds `along`.
    pub fn track_end(&self, along: Nanos) -> Nanos {
        let track = u64::from(self.track_in_cylinder(along));
        self.cylinder_start(along) + track * self.zone_at(along).track_ns + self.turn_ns
    }

    /// Return the end of the cylinder that holds `along`.
    pub fn cylinder_end(&self, along: Nanos) -> Nanos {
        let zone = self.zone_at(along);
        self.cylinder_start(along) + zone.cylinder_ns - zone.cylinder_skew_ns
    }

    /// Return the media time of `bytes` in a zone, without skews.
    #[inline]
    pub fn span_ns(&self, zone: u32, bytes: u64) -> Nanos {
        whole((bytes / SECTOR_BYTES) as i64 as f64 * self.zones[zone as usize].sector_ns)
    }

    /// Return the sustained rate of a zone in bytes per second, including skews.
    pub fn zone_rate_bytes_per_s(&self, zone: usize) -> f64 {
        let bytes =
            u64::from(self.zones[zone].sectors_per_track) * u64::from(self.heads) * SECTOR_BYTES;
        bytes as f64 / (self.zones[zone].cylinder_ns as f64 * 1e-9)
    }
}

impl Zone {
    #[inline]
    fn track_along(&self, track: u64, cylinder: u32) -> Nanos {
        let along = self.first_along + track * self.track_ns;
        along.wrapping_add_signed(i64::from(cylinder) * self.step_ns)
    }
}

/// Angular offsets of a track and of a cylinder from the one before.
#[derive(Clone, Copy)]
struct Skews {
    track_ns: Nanos,
    cylinder_ns: Nanos,
}

/// Return the media time of a cylinder including skews.
fn cylinder_ns(spec: &HddSpec, turn_ns: Nanos, skews: Skews) -> Nanos {
    u64::from(spec.heads) * turn_ns + u64::from(spec.heads - 1) * skews.track_ns + skews.cylinder_ns
}

/// Return the skews of zones that have none of their own.
fn skews(spec: &HddSpec) -> Result<Skews, SpecError> {
    let track_skew = (spec.track_skew_ms.unwrap_or(spec.head_switch_ms) * 1e6) as Nanos;
    let shortest = match &spec.seek {
        SeekSpec::Sheet { track_to_track_ms, .. } => *track_to_track_ms,
        SeekSpec::TwoPiece { short_base_ms, short_root_ms, .. } => short_base_ms + short_root_ms,
        SeekSpec::Table { time_ms, .. } => time_ms.first().copied().unwrap_or(0.0),
    };
    let step_ms = match spec.head_order {
        HeadOrder::Cylinder => shortest.max(spec.head_switch_ms),
        HeadOrder::Serpentine => shortest,
    };
    let cylinder_skew = (spec.cylinder_skew_ms.unwrap_or(step_ms) * 1e6) as Nanos;
    if track_skew < (spec.head_switch_ms * 1e6) as Nanos {
        return refuse("track_skew_ms", track_skew as f64 / 1e6, "at least head_switch_ms");
    }
    if cylinder_skew < (step_ms * 1e6) as Nanos {
        return refuse(
            "cylinder_skew_ms",
            cylinder_skew as f64 / 1e6,
            &format!("at least the step to the next cylinder, {step_ms}"),
        );
    }
    Ok(Skews { track_ns: track_skew, cylinder_ns: cylinder_skew })
}

/// Return the skews of a zone.
fn zone_skews(
    zone: Option<&ZoneSpec>,
    sectors_per_track: u32,
    turn_ns: Nanos,
    all: Skews,
) -> Result<Skews, SpecError> {
    let own = |field, sectors: Option<f64>, all: Nanos| match sectors {
        Some(sectors) => {
            let sectors = within(field, sectors, 0.0, f64::from(sectors_per_track))?;
            Ok((sectors / f64::from(sectors_per_track) * turn_ns as f64) as Nanos)
        }
        None => Ok(all),
    };
    let sectors = zone.map(|zone| (zone.track_skew_sectors, zone.cylinder_skew_sectors));
    let (track, cylinder) = sectors.unwrap_or((None, None));
    Ok(Skews {
        track_ns: own("zone.track_skew_sectors", track, all.track_ns)?,
        cylinder_ns: own("zone.cylinder_skew_sectors", cylinder, all.cylinder_ns)?,
    })
}

/// Return the zones that hold the capacity, and the number of their cylinders. `layout`: cylinders
/// and sectors per track of each zone.
fn zones(
    spec: &HddSpec,
    layout: Vec<(u32, u32)>,
    turn_ns: Nanos,
    all: Skews,
    capacity_sectors: u64,
) -> Result<(Vec<Zone>, u32), SpecError> {
    let mut zones = Vec::with_capacity(layout.len());
    let (mut sector, mut cylinder, mut along) = (0u64, 0u32, 0);
    for (index, (cylinders, sectors_per_track)) in layout.into_iter().enumerate() {
        if sector >= capacity_sectors {
            break;
        }
        let skews = zone_skews(spec.zone.get(index), sectors_per_track, turn_ns, all)?;
        let spare = spec.zone.get(index).map_or(0, |zone| zone.spare_sectors_per_track);
        let holding = sectors_per_track - spare;
        let cylinder_ns = cylinder_ns(spec, turn_ns, skews);
        zones.push(Zone {
            first_sector: sector,
            first_along: along,
            track_ns: turn_ns + skews.track_ns,
            cylinder_ns,
            per_cylinder: 1.0 / cylinder_ns as f64,
            cylinder_skew_ns: skews.cylinder_ns,
            step_ns: skews.cylinder_ns as i64 - skews.track_ns as i64,
            first_cylinder: cylinder,
            sectors_per_track: holding,
            per_track: 1.0 / f64::from(holding),
            sector_ns: turn_ns as f64 / f64::from(sectors_per_track),
        });
        sector += u64::from(cylinders) * u64::from(spec.heads) * u64::from(holding);
        cylinder += cylinders;
        along += u64::from(cylinders) * cylinder_ns;
    }
    if sector < capacity_sectors {
        return refuse(
            "zone",
            format!("zones of {} bytes", sector * SECTOR_BYTES),
            &format!("zones that hold capacity_bytes = {}", spec.capacity_bytes),
        );
    }
    Ok((zones, cylinder))
}

/// Return the zone at the start of each stretch of `1 << shift` sectors.
fn stretches(zones: &[Zone], capacity_sectors: u64, shift: u32) -> Vec<u16> {
    let mut zone = 0;
    let of_stretch = |stretch: u64| {
        while zone + 1 < zones.len() && zones[zone + 1].first_sector <= stretch << shift {
            zone += 1;
        }
        zone as u16
    };
    (0..=capacity_sectors >> shift).map(of_stretch).collect()
}

/// Truncate a number from 0 to 2^63. The cast through `i64` is a single instruction.
#[inline]
fn whole(value: f64) -> u64 {
    value as i64 as u64
}

/// Return the exact `value / divisor` by way of the reciprocal, which is much faster than an
/// integer division.
#[inline]
fn quotient(value: u64, divisor: u64, reciprocal: f64) -> u64 {
    let guess = whole(value as i64 as f64 * reciprocal);
    let back = guess * divisor;
    if back > value {
        guess - 1
    } else if value - back >= divisor {
        guess + 1
    } else {
        guess
    }
}

/// Return (cylinders, sectors per track) of each zone, outermost first.
fn zone_layout(
    spec: &HddSpec,
    cylinder_ns: Nanos,
    capacity_sectors: u64,
) -> Result<Vec<(u32, u32)>, SpecError> {
    match (&spec.rates, spec.zone.is_empty()) {
        (None, true) => refuse("zone", "no zone and no rates", "one of the two"),
        (Some(_), false) => refuse("rates", "zone and rates", "one of the two"),
        (None, false) => {
            for zone in &spec.zone {
                within_int("zone.cylinders", u64::from(zone.cylinders), 1, 1 << 24)?;
                within_int(
                    "zone.sectors_per_track",
                    u64::from(zone.sectors_per_track),
                    1,
                    1 << 20,
                )?;
                within_int(
                    "zone.spare_sectors_per_track",
                    u64::from(zone.spare_sectors_per_track),
                    0,
                    u64::from(zone.sectors_per_track) - 1,
                )?;
            }
            Ok(spec.zone.iter().map(|zone| (zone.cylinders, zone.sectors_per_track)).collect())
        }
        (Some(rates), true) => {
            let outer = within("rates.outer_bytes_per_s", rates.outer_bytes_per_s, 1e4, 1e11)?;
            let inner = rates.inner_bytes_per_s.unwrap_or(outer / 2.0);
            within("rates.inner_bytes_per_s", inner, 1e4, outer)?;
            within_int("rates.zones", u64::from(rates.zones), 1, 1024)?;
            let cylinder_s = cylinder_ns as f64 * 1e-9;
            let per_track = |rate: f64| {
                let sectors = rate * cylinder_s / f64::from(spec.heads) / SECTOR_BYTES as f64;
                (sectors.round() as u32).max(1)
            };
            let zones = rates.zones;
            let share = |zone: u32| f64::from(zone) / f64::from((zones - 1).max(1));
            let tracks: Vec<u32> =
                (0..zones).map(|zone| per_track(outer + (inner - outer) * share(zone))).collect();
            let row: u64 =
                tracks.iter().map(|&sectors| u64::from(sectors) * u64::from(spec.heads)).sum();
            let cylinders = capacity_sectors.div_ceil(row);
            if cylinders * u64::from(zones) > 1 << 24 {
                return refuse(
                    "capacity_bytes",
                    spec.capacity_bytes,
                    "a capacity that its heads and rates can reach with 16 million cylinders",
                );
            }
            Ok(tracks.into_iter().map(|sectors| (cylinders as u32, sectors)).collect())
        }
    }
}
