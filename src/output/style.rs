//! How text for people looks on their terminal: whether it has colours, which letters it may use and
//! how wide it is. Nothing depends on a colour: words or letters say the same.

use super::wrap::WIDTH;

/// The letters that a terminal can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Letters {
    #[default]
    Ascii,
    Unicode,
}

/// Whether text has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colors {
    #[default]
    Plain,
    Ansi,
}

/// What a part of a text says, which its colour repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// It is as it should be, or it is new: green.
    Good,
    /// It waits or passes by itself: yellow.
    Waiting,
    /// It is broken, or it goes: red.
    Bad,
    /// Where something is: cyan.
    Place,
    /// It heads what follows: bold.
    Title,
    /// It can be left unread: faint.
    Faint,
}

/// How text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    pub colors: Colors,
    pub letters: Letters,
    /// In letters.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self { colors: Colors::Plain, letters: Letters::Ascii, width: WIDTH }
    }
}

impl Tone {
    /// The parameter of the sequence by which a terminal changes to the colour.
    fn parameter(self) -> u8 {
        match self {
            Self::Good => 32,
            Self::Waiting => 33,
            Self::Bad => 31,
            Self::Place => 36,
            Self::Title => 1,
            Self::Faint => 2,
        }
    }
}

impl Style {
    /// A part of a text in its colour. It must hold no line feed.
    pub fn paint(self, tone: Tone, part: &str) -> String {
        match self.colors {
            Colors::Ansi if !part.is_empty() => {
                format!("\u{1b}[{}m{part}\u{1b}[0m", tone.parameter())
            }
            _ => part.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_surrounds_a_part_only_where_colours_are_shown() {
        let plain = Style::default();
        assert_eq!(plain.paint(Tone::Bad, "no"), "no");
        let colored = Style { colors: Colors::Ansi, ..plain };
        assert_eq!(colored.paint(Tone::Bad, "no"), "\u{1b}[31mno\u{1b}[0m");
        assert_eq!(colored.paint(Tone::Bad, ""), "");
    }
}
