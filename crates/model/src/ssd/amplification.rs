//! Write amplification in theory: where a drive under uniform random writes ends.
//!
//! With spare ratio r a block is cleaned when it is down to the valid share v = exp(-(1+r)(1-v)), and each
//! write of the host costs 1/(1-v) = (1+r)/(1+r+W(-(1+r)e^-(1+r))) writes of flash, W being Lambert's
//! function (Desnoyers, "Analytic models of SSD write performance", 2014; least recently written and
//! greedy cleaning meet there for large blocks).

/// The share of valid units in a block when its turn to be cleaned comes.
pub fn victim_valid_share(spare_ratio: f64) -> f64 {
    let a = 1.0 + spare_ratio;
    // v -> exp(-a(1-v)) has its second fixed point at 1; Newton from 0 finds the lower one.
    let mut v: f64 = 0.0;
    for _ in 0..200 {
        let e = (-a * (1.0 - v)).exp();
        let next = v + (e - v) / (1.0 - a * e);
        if (next - v).abs() < 1e-14 {
            return next;
        }
        v = next;
    }
    v
}

/// Writes of flash a write of the host, in the long run.
pub fn write_amplification(spare_ratio: f64) -> f64 {
    1.0 / (1.0 - victim_valid_share(spare_ratio))
}

/// The share of valid units in a block of relative age 0 (just written) to 1 (next to be cleaned).
pub fn valid_share_at_age(spare_ratio: f64, age: f64) -> f64 {
    victim_valid_share(spare_ratio).powf(age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_values() {
        for (r, expected) in [(0.07, 7.82), (0.1, 5.68), (0.2, 3.19), (0.28, 2.48), (0.5, 1.72), (1.0, 1.26)]
        {
            let obtained = write_amplification(r);
            assert!((obtained - expected).abs() < 0.01, "r = {r}: {obtained}");
        }
    }
}
