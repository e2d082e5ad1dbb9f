//! Rounding of times, with the results of the standard library but without its calls: processors
//! that every x86-64 program runs on have no instruction for it.

/// Numbers from here on have no fraction.
const WHOLE: f64 = (1_u64 << 52) as f64;

/// Return `value.ceil() as u64`.
#[inline]
pub fn up(value: f64) -> u64 {
    let whole = value as u64;
    whole + u64::from(value < WHOLE && (whole as f64) < value)
}

/// Return `value.round() as u64`.
#[inline]
pub fn nearest(value: f64) -> u64 {
    let whole = value as u64;
    whole + u64::from(value < WHOLE && value - whole as f64 >= 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rounds_as_the_library_does(any in prop::num::f64::ANY, digits in 0..20_i32) {
            let near = (any % 1e3).abs() * 10_f64.powi(digits);
            for value in [any, near, near.trunc(), near.trunc() + 0.5] {
                prop_assert_eq!(up(value), value.ceil() as u64, "{} up", value);
                prop_assert_eq!(nearest(value), value.round() as u64, "{} to nearest", value);
            }
        }
    }
}
