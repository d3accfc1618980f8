//! The bar of a pool: a letter for each of its clusters, or for several if it has many. Letters
//! tell what colours tell, so that nobody needs to see colours.

use crate::model::pool::ClusterPool;
use crate::output::{Letters, Style, Tone};

/// The most letters of a bar.
pub const LONGEST_BAR: usize = 12;

/// Clusters of a pool that do the same.
struct Share {
    count: usize,
    /// In Unicode, and in ASCII.
    letters: [char; 2],
    tone: Tone,
}

/// The bar of a pool: first what is claimed, then what is there for claims, then what is not there
/// yet.
pub fn draw_bar(pool: &ClusterPool, style: Style) -> String {
    let shares = shares_of(pool);
    let letter_index = usize::from(style.letters == Letters::Ascii);
    let lengths = fit_lengths(&shares.each_ref().map(|share| share.count), LONGEST_BAR);
    let mut bar = String::new();
    for (share, length) in shares.iter().zip(lengths) {
        let letters: String = std::iter::repeat_n(share.letters[letter_index], length).collect();
        bar += &style.paint(share.tone, &letters);
    }
    bar
}

/// How many letters the bar of a pool has.
pub fn bar_length(pool: &ClusterPool) -> usize {
    fit_lengths(&shares_of(pool).map(|share| share.count), LONGEST_BAR).iter().sum()
}

fn shares_of(pool: &ClusterPool) -> [Share; 7] {
    let status = &pool.status;
    let missing = pool.spec.size.saturating_sub(status.size);
    [
        Share::new(status.claimed, ['█', '#'], Tone::Title),
        Share::new(status.ready, ['▓', 'R'], Tone::Good),
        Share::new(status.standby, ['▒', 's'], Tone::Place),
        Share::new(status.held, ['▞', 'h'], Tone::Waiting),
        Share::new(status.installing, ['░', 'i'], Tone::Waiting),
        Share::new(status.retrying.saturating_add(status.broken), ['✗', 'x'], Tone::Bad),
        Share::new(missing, ['·', '.'], Tone::Faint),
    ]
}

impl Share {
    fn new(count: u32, letters: [char; 2], tone: Tone) -> Self {
        Self { count: usize::try_from(count).unwrap_or(usize::MAX), letters, tone }
    }
}

/// The lengths of parts of a bar with these counts. A bar with room for all has a letter for each.
/// Otherwise each part that is there has at least a letter, and the longest ones are shortened.
fn fit_lengths(counts: &[usize], longest: usize) -> Vec<usize> {
    let total = counts.iter().fold(0_usize, |total, count| total.saturating_add(*count));
    if total <= longest {
        return counts.to_vec();
    }
    let mut lengths = Vec::new();
    for count in counts {
        lengths.push((count.saturating_mul(longest) / total).max(usize::from(*count > 0)));
    }
    while lengths.iter().sum::<usize>() > longest {
        let Some(widest) = lengths.iter_mut().max() else { break };
        *widest -= 1;
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(counts: &[usize], lengths: &[usize]) {
        assert_eq!(fit_lengths(counts, 6), lengths);
    }

    #[test]
    fn a_bar_has_a_letter_for_each_cluster_or_fits_and_hides_no_part() {
        check(&[1, 2, 0], &[1, 2, 0]);
        check(&[3, 3, 0], &[3, 3, 0]);
        check(&[6, 6, 0], &[3, 3, 0]);
        check(&[600, 1, 1], &[4, 1, 1]);
        check(&[0, 0, 0], &[0, 0, 0]);
    }

    #[test]
    fn the_letters_of_a_bar_tell_what_its_colours_do() {
        let mut pool = ClusterPool::default();
        pool.spec.size = 5;
        pool.status.size = 4;
        pool.status.ready = 1;
        pool.status.standby = 1;
        pool.status.held = 1;
        pool.status.retrying = 1;
        pool.status.claimed = 2;
        let ascii = Style::default();
        assert_eq!(draw_bar(&pool, ascii), "##Rshx.");
        assert_eq!(draw_bar(&pool, Style { letters: Letters::Unicode, ..ascii }), "██▓▒▞✗·");
        assert_eq!(bar_length(&pool), 7);
    }
}
