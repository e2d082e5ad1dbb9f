//! Named random streams: a seed and a name determine one sequence, independent of other streams.
//!
//! Every random component owns a stream with a unique name ("job/17/offsets"). An additional draw
//! in one component therefore changes no other component, and results do not depend on the order of
//! events.

/// A stream of random numbers (xoshiro256++ of Blackman and Vigna, seeded through SplitMix64).
#[derive(Clone, Debug)]
pub struct Stream {
    state: [u64; 4],
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Return a 64-bit hash of a name (FNV-1a with a final mix).
pub fn name_hash(name: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    splitmix(&mut hash)
}

impl Stream {
    /// Create the stream of a seed and a name.
    pub fn new(seed: u64, name: &str) -> Self {
        Self::numbered(seed, name, 0)
    }

    /// Create stream `number` of a family with a common name, without building a string.
    pub fn numbered(seed: u64, name: &str, number: u64) -> Self {
        let mut mix =
            seed ^ name_hash(name).rotate_left(17) ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let state =
            [splitmix(&mut mix), splitmix(&mut mix), splitmix(&mut mix), splitmix(&mut mix)];
        Stream { state }
    }

    /// Return the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Return a uniform number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Return a uniform integer in [0, limit); 0 if `limit` is 0. (Lemire's multiplication; bias
    /// below 2^-40 for the limits used here.)
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// Return an exponentially distributed number with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::Stream;

    #[test]
    fn equal_names_give_equal_numbers_and_others_do_not() {
        let draw = |seed, name| {
            let mut stream = Stream::new(seed, name);
            [stream.bits(), stream.bits(), stream.bits()]
        };
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
    }

    #[test]
    fn means_are_right() {
        let mut stream = Stream::new(7, "means");
        let n = 200_000;
        let uniform: f64 = (0..n).map(|_| stream.unit()).sum::<f64>() / f64::from(n);
        let exponential: f64 = (0..n).map(|_| stream.exponential(3.0)).sum::<f64>() / f64::from(n);
        assert!((uniform - 0.5).abs() < 0.003, "{uniform}");
        assert!((exponential - 3.0).abs() < 0.03, "{exponential}");
        assert!((0..1000).all(|_| stream.below(7) < 7));
    }
}
