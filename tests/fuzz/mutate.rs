//! Changes texts at random, always in the same way for the same seed: bytes, numbers, pieces of other
//! texts, and words that mean something to somebody.

use crate::sim::dice::Dice;

/// The longest input.
const MAX_BYTES: usize = 64 << 10;

/// What programs stumble over.
const WORDS: [&str; 36] = [
    "\u{0}",
    "\u{1b}[31m",
    "\u{202e}",
    "\u{feff}",
    "\u{fffd}",
    "é",
    "\r\n",
    "\t",
    "'",
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    "[[[[[[[[[[[[[[[[",
    "(",
    "&a",
    "*a",
    "<<: ",
    "!!binary ",
    "---\n",
    "%",
    "~",
    "null",
    "true",
    "-1",
    "0",
    "1e999",
    "18446744073709551616",
    "9223372036854775807",
    "NaN",
    "..",
    "/",
    "::",
    "*",
];

/// Makes inputs of the texts of a corpus.
pub struct Mutator<'a> {
    corpus: &'a [Vec<u8>],
    dice: Dice,
}

impl<'a> Mutator<'a> {
    /// The name is the seed.
    pub fn new(name: &str, corpus: &'a [Vec<u8>]) -> Self {
        let seed = name.bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(131) + u64::from(byte));
        Self { corpus, dice: Dice::new(seed) }
    }

    /// A text of the corpus with one to eight changes.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.any_text().to_vec();
        for _ in 0..self.dice.between(1, 8) {
            self.change(&mut input);
        }
        input.truncate(MAX_BYTES);
        input
    }

    fn any_text(&mut self) -> &'a [u8] {
        let number = self.below(self.corpus.len());
        &self.corpus[number]
    }

    /// A number from 0 to `end` - 1; 0 if `end` is 0.
    fn below(&mut self, end: usize) -> usize {
        let end = u32::try_from(end).unwrap();
        usize::try_from(self.dice.below(end)).unwrap()
    }

    /// A short piece of a text, from its begin to its end.
    fn piece(&mut self, length: usize) -> (usize, usize) {
        let begin = self.below(length + 1);
        let most = self.dice.pick(&[1_usize, 4, 16, 256]).min(length - begin);
        (begin, begin + self.below(most + 1))
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let (begin, end) = self.piece(input.len());
        match self.dice.below(8) {
            0 => drop(input.drain(begin..end)),
            1 => {
                let piece = input[begin..end].to_vec();
                let times = self.below(40);
                drop(input.splice(begin..begin, piece.repeat(times)));
            }
            2 | 3 => {
                let word = self.dice.pick(&WORDS);
                drop(input.splice(begin..end, word.bytes()));
            }
            4 => {
                let other = self.any_text();
                let (other_begin, other_end) = self.piece(other.len());
                drop(input.splice(begin..end, other[other_begin..other_end].iter().copied()));
            }
            5 => self.change_number(input, begin),
            6 if begin < input.len() => {
                input[begin] ^= 1_u8 << self.dice.below(8);
            }
            _ => {
                let byte = self.dice.below(256).to_le_bytes()[0];
                input.insert(begin, byte);
            }
        }
    }

    /// Puts another number in place of the next one.
    fn change_number(&mut self, input: &mut Vec<u8>, begin: usize) {
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let Some(first) = input[begin..].iter().position(is_digit) else { return };
        let first = begin + first;
        let digits = input[first..].iter().take_while(|byte| is_digit(byte)).count();
        let numbers =
            ["0", "00", "-0", "1", "31", "32", "127", "128", "255", "256", "65536", "1e9"];
        let number = self.dice.pick(&numbers);
        drop(input.splice(first..first + digits, number.bytes()));
    }
}

#[test]
fn the_same_seed_makes_the_same_inputs() {
    let corpus = [b"a: 12\n".to_vec(), b"[b, c]".to_vec()];
    let inputs = |name: &str| {
        let mut mutator = Mutator::new(name, &corpus);
        (0..50).map(|_| mutator.next_input()).collect::<Vec<_>>()
    };
    assert_eq!(inputs("one"), inputs("one"));
    assert_ne!(inputs("one"), inputs("another"));
}
