//! Theoretical write amplification of a drive in steady state under uniform random writes.
//!
//! With spare ratio r, a block is cleaned when its valid share is down to v = exp(-(1+r)(1-v)), and
//! each host write costs 1/(1-v) = (1+r)/(1+r+W(-(1+r)e^-(1+r))) flash writes, where W is Lambert's
//! function (Desnoyers, "Analytic models of SSD write performance", 2014; least-recently-written
//! and greedy cleaning coincide there for large blocks).

/// Return the valid share of a block when it is cleaned.
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

/// Return the flash writes per host write in the long run.
pub fn write_amplification(spare_ratio: f64) -> f64 {
    1.0 / (1.0 - victim_valid_share(spare_ratio))
}

/// Return the valid share of a block of relative age 0 (just written) to 1 (next to be cleaned).
pub fn valid_share_at_age(spare_ratio: f64, age: f64) -> f64 {
    victim_valid_share(spare_ratio).powf(age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_values() {
        for (r, expected) in
            [(0.07, 7.82), (0.1, 5.68), (0.2, 3.19), (0.28, 2.48), (0.5, 1.72), (1.0, 1.26)]
        {
            let obtained = write_amplification(r);
            assert!((obtained - expected).abs() < 0.01, "r = {r}: {obtained}");
        }
    }
}
