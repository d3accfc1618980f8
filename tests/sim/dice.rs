//! Random numbers that follow from a seed alone.

/// Dice that always fall the same way for the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits, by splitmix64.
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number from 0 to `end` - 1. `end` is at least 1.
    pub fn below(&mut self, end: u32) -> u32 {
        let number = self.roll() % u64::from(end.max(1));
        u32::try_from(number).unwrap_or_default()
    }

    /// A number from `first` to `last`.
    pub fn between(&mut self, first: u32, last: u32) -> u32 {
        first + self.below(last - first + 1)
    }

    /// One of some values, of which there is at least one.
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
        let index = usize::try_from(self.below(count)).unwrap_or_default();
        values[index]
    }

    /// Whether something happens that happens so many times in a hundred.
    pub fn happens(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }
}
