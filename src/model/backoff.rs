//! How long to wait after consecutive failures. The caller counts them. It computes lengths of time
//! and never reads a clock.

use super::time::Span;

/// Delays that grow by a factor with every failure, up to a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub initial_delay: Span,
    /// How many times longer each delay is than the one before it.
    pub factor: u32,
    /// No delay is longer than this one.
    pub max_delay: Span,
}

impl Backoff {
    /// The delay after so many consecutive failures. 0 failures are treated as 1.
    pub fn delay(self, failures: u32) -> Span {
        let growth = i64::from(self.factor).saturating_pow(failures.saturating_sub(1));
        Span(self.initial_delay.0.saturating_mul(growth)).min(self.max_delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let backoff =
            Backoff { initial_delay: Span::minutes(1), factor: 2, max_delay: Span::hours(1) };
        for (failures, minutes) in
            [(0, 1), (1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (64, 60), (u32::MAX, 60)]
        {
            assert_eq!(backoff.delay(failures), Span::minutes(minutes), "{failures}");
        }
    }

    #[test]
    fn a_factor_of_one_keeps_the_wait_and_three_triples_it() {
        let steady =
            Backoff { initial_delay: Span::seconds(30), factor: 1, max_delay: Span::hours(1) };
        assert_eq!(steady.delay(9), Span::seconds(30));
        let steep =
            Backoff { initial_delay: Span::seconds(30), factor: 3, max_delay: Span::hours(1) };
        assert_eq!(steep.delay(3), Span::seconds(270));
    }

    #[test]
    fn no_wait_is_longer_than_the_longest() {
        let backoff =
            Backoff { initial_delay: Span::hours(2), factor: 2, max_delay: Span::hours(1) };
        assert_eq!(backoff.delay(1), Span::hours(1));
    }
}
