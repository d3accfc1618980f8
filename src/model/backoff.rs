//! How long to wait after failures that follow one another. It computes lengths of time; it never
//! reads a clock and never counts the failures.

use super::time::Span;

/// Waits that grow by a factor with every failure, up to a longest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Span,
    /// How many times longer each wait is than the one before it.
    pub factor: u32,
    /// No wait is longer than this one.
    pub longest: Span,
}

impl Backoff {
    /// The wait after an attempt that failed. The first attempt is number 1; 0 counts as 1, because
    /// a failure that nobody counted is not longer ago for that.
    pub fn delay(self, attempt: u32) -> Span {
        let growth = i64::from(self.factor).saturating_pow(attempt.saturating_sub(1));
        Span(self.first.0.saturating_mul(growth)).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let backoff = Backoff { first: Span::minutes(1), factor: 2, longest: Span::hours(1) };
        for (attempt, minutes) in
            [(0, 1), (1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (64, 60), (u32::MAX, 60)]
        {
            assert_eq!(backoff.delay(attempt), Span::minutes(minutes), "{attempt}");
        }
    }

    #[test]
    fn a_factor_of_one_keeps_the_wait_and_three_triples_it() {
        let steady = Backoff { first: Span::seconds(30), factor: 1, longest: Span::hours(1) };
        assert_eq!(steady.delay(9), Span::seconds(30));
        let steep = Backoff { first: Span::seconds(30), factor: 3, longest: Span::hours(1) };
        assert_eq!(steep.delay(3), Span::seconds(270));
    }

    #[test]
    fn no_wait_is_longer_than_the_longest() {
        let backoff = Backoff { first: Span::hours(2), factor: 2, longest: Span::hours(1) };
        assert_eq!(backoff.delay(1), Span::hours(1));
    }
}
