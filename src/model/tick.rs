//! What a pass knows of the world: the time, a seed for random values, and who asked for it. It
//! reads neither a clock nor a source of randomness.

use super::hash::fnv1a;
use super::meta::Uid;
use super::time::Time;

/// Values that are read from the world once per pass.
#[derive(Clone, Debug, Default)]
pub struct Tick {
    pub now: Time,
    pub seed: u128,
    /// How many commits there were. It is the ordinal of objects that have no owner.
    pub revision: u64,
    /// The account that asked for the pass.
    pub actor: String,
    /// Whether the wall clock was moved, so that nothing expires in this pass.
    pub clock_jumped: bool,
}

impl Tick {
    /// 128 random bits. They follow from the seed, their purpose, the uid of their owner and its
    /// ordinal, so the same arguments give the same bits. They are no secret.
    pub fn random_bits(&self, purpose: &str, owner: &str, ordinal: u64) -> u128 {
        // Two finalizers of splitmix64 spread the hash of 64 bits over 128.
        let seed = self.seed.to_le_bytes();
        let bytes = purpose.bytes().chain(owner.bytes());
        let hash = fnv1a(seed.into_iter().chain(bytes).chain(ordinal.to_le_bytes()));
        (u128::from(mix_bits(hash)) << 64) | u128::from(mix_bits(hash ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// A random uid, by the same rules as `random_bits`.
    pub fn random_uid(&self, purpose: &str, owner: &str, ordinal: u64) -> Uid {
        Uid(self.random_bits(purpose, owner, ordinal))
    }

    /// Five random lower-case letters and digits.
    pub fn random_suffix(&self, purpose: &str, owner: &str, ordinal: u64) -> String {
        const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let mut bits = self.random_bits(purpose, owner, ordinal);
        let mut suffix = String::new();
        for _ in 0..5 {
            let letter = usize::try_from(bits % 36).unwrap_or_default();
            suffix.push(char::from(ALPHABET[letter]));
            bits /= 36;
        }
        suffix
    }
}

/// The finalizer of splitmix64.
fn mix_bits(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
