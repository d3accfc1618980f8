//! Prints the table of the torture suite, which tests were skipped, and why, as the last lines of
//! `cargo test`. The harness of the tests hides what a passing test prints, and offers no hook after
//! the last of them; so this is a program of its own. Cargo runs it after `main`, because it goes by
//! the names of targets.

mod skips;
#[path = "torture/table.rs"]
mod table;

fn main() {
    // Tools that ask for the names of tests take every line for one.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let rows = table::rows();
    print!("{}", table::drawn_table(&std::fs::read_to_string(&rows).unwrap_or_default()));
    let _ = std::fs::remove_file(rows);
    let path = skips::list();
    // Without a skipped test there is no list.
    let list = std::fs::read_to_string(&path).unwrap_or_default();
    print!("{}", skips::summary(&list));
    let _ = std::fs::remove_file(path);
}
