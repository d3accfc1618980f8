//! What a pass knows of the world: the time, a seed, and who asked. Chance follows from them.

use super::hash::fnv1a;
use super::meta::Uid;
use super::time::Time;

/// Read once per pass.
#[derive(Clone, Debug, Default)]
pub struct Tick {
    pub now: Time,
    pub seed: u128,
    /// Commits so far: the ordinal of objects that have no owner.
    pub revision: u64,
    pub actor: String,
    /// The clock moved by itself: nothing expires in this pass.
    pub jumped: bool,
}

impl Tick {
    /// 128 bits that follow from the seed, what they are for, their owner and its ordinal.
    pub fn draw(&self, purpose: &str, owner: &str, ordinal: u64) -> u128 {
        // Two finalizers of splitmix64 spread the hash over 128 bits: spread, not secrecy.
        let seed = self.seed.to_le_bytes();
        let bytes = purpose.bytes().chain(owner.bytes());
        let hash = fnv1a(seed.into_iter().chain(bytes).chain(ordinal.to_le_bytes()));
        (u128::from(mix(hash)) << 64) | u128::from(mix(hash ^ 0x9e37_79b9_7f4a_7c15))
    }

    pub fn uid(&self, purpose: &str, owner: &str, ordinal: u64) -> Uid {
        Uid(self.draw(purpose, owner, ordinal))
    }

    /// Five random lower-case letters and digits.
    pub fn suffix(&self, purpose: &str, owner: &str, ordinal: u64) -> String {
        const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let mut bits = self.draw(purpose, owner, ordinal);
        let mut next = || {
            let digit = usize::try_from(bits % 36).unwrap_or_default();
            bits /= 36;
            char::from(ALPHABET[digit])
        };
        (0..5).map(|_| next()).collect()
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
