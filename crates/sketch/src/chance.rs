//! Numbers by chance, the same in each run.

/// xorshift64* (Vigna 2016). The seed must not be 0.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 0 on, and below 1.
    pub fn below_one(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 on, and below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit
    }
}
