//! The two notations of test cases that are data, see the documentation of `main.rs`. Reads them;
//! what their words mean is known to the test that plays them. Lines that begin with `#` are
//! comments.

/// A name and the lines below it: steps and expectations, in the order in which they are played.
pub struct Scenario<'a> {
    pub name: &'a str,
    pub lines: Vec<&'a str>,
}

/// The scenarios of a file, which are separated by empty lines.
pub fn scenarios(file: &str) -> Vec<Scenario<'_>> {
    let mut scenarios = Vec::new();
    for block in file.split("\n\n") {
        let mut lines = block.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        if let Some(name) = lines.next() {
            scenarios.push(Scenario { name, lines: lines.collect() });
        }
    }
    scenarios
}

/// The rows of a file, one a line.
pub fn rows(file: &str) -> impl Iterator<Item = &str> {
    file.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The columns of a row.
pub fn columns(row: &str) -> Vec<&str> {
    row.split(" | ").collect()
}

/// The first word of a line, and what follows it.
pub fn first_word(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}

/// Fails with everything that did not hold, and expects that at least so many cases were tried:
/// a file that is read wrongly must not pass because nothing was found in it.
pub fn assert_all_hold(tried: usize, at_least: usize, failures: &[String]) {
    assert!(tried >= at_least, "only {tried} cases were tried, not {at_least}");
    assert!(failures.is_empty(), "{} of {tried}:\n{}", failures.len(), failures.join("\n"));
}
