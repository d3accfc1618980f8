//! README, the book in `docs/` and the READMEs of `examples/`, tried: their examples run and print
//! what the pages say, their commands and links exist, their sentences are short. The pages are
//! found by listing the folders, so a new one is tried without being named here; `pages.rs` says
//! how a block is marked.

use std::path::Path;

use crate::architecture::root;
use crate::pages::{Page, chapters, is_blessed, pages, readme};
use crate::sandbox::Sandbox;

/// What fits on one page, in bytes.
const LONGEST_README: usize = 4_500;

/// The most words of a sentence that somebody understands at first reading whose first language is
/// another one.
const LONGEST_SENTENCE: usize = 30;

#[test]
fn the_pages_are_found_and_their_blocks_are_of_a_known_kind() {
    assert!(chapters().len() > 30);
    let with_examples = pages().iter().filter(|page| !page.script().is_empty()).count();
    assert!(with_examples > 20, "{with_examples}");
    for page in pages() {
        for block in &page.blocks {
            let path = page.path.display();
            assert!(block.is_of_a_known_kind(), "{path}: `{}`: {}", block.info, block.text);
        }
    }
}

/// Each page on its own, so that all that fail are told.
#[test]
fn the_examples_of_every_page_run_and_print_what_it_says() {
    let pages = pages();
    let is_blessed = is_blessed();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> =
            pages.iter().map(|page| scope.spawn(move || page.failure(is_blessed))).collect();
        runs.into_iter().filter_map(|run| run.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_readme_claims_and_releases_a_cluster() {
    let (_, ran) = readme().run();
    assert!(ran.out.contains("claim/ci-17 bound to cluster/lab-"), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("claim/ci-17 released"), "{}{}", ran.out, ran.err);
}

/// Also those for machines that only a reader has.
#[test]
fn every_command_of_the_pages_is_one() {
    let sandbox = Sandbox::new();
    let mut parsed_lines = 0;
    for page in pages() {
        for line in page.commands() {
            // The shell says which words they are.
            let line = line.replace("2>&1", "").replace("2>/dev/null", "");
            let line = crate::sandbox::in_one_line(&line);
            let first_command = line.split("&& poolctl").next().unwrap();
            let command = first_command.split(['>', '|']).next().unwrap();
            let print_words = "poolctl() { printf '%s\\n' poolctl \"$@\"; }";
            let words = sandbox.shell(&format!("{print_words}\n{command}")).out;
            let parsed = poolctl::commands::tree().try_get_matches_from(words.lines());
            let error = parsed.err().map(|error| error.to_string());
            assert_eq!(error, None, "{}: {line}", page.path.display());
            parsed_lines += 1;
        }
    }
    assert!(parsed_lines > 80, "{parsed_lines}");
}

#[test]
fn every_document_of_the_pages_is_yaml() {
    for page in pages() {
        for block in page.blocks.iter().filter(|block| block.info == "yaml") {
            let document = poolctl::yaml::parse_value(&block.text);
            assert!(document.is_ok(), "{}: {}", page.path.display(), block.text);
        }
    }
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    for page in pages() {
        let folder = page.path.parent().unwrap();
        for link in page.links().filter(|link| !link.starts_with("https://")) {
            let from = page.path.display();
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.path.clone() } else { folder.join(file) };
            assert!(target.is_relative(), "{from}: `{link}` is not relative");
            assert!(root().join(&target).is_file(), "{from}: `{link}` leads nowhere");
            if !heading.is_empty() {
                let anchors = Page::read(&target).anchors();
                let is_there = anchors.iter().any(|anchor| anchor == heading);
                assert!(is_there, "{from}: `{link}` is none of {anchors:?}");
            }
        }
    }
}

#[test]
fn the_list_of_chapters_has_each_page_of_the_book_once() {
    let summary = Page::read(Path::new("docs/SUMMARY.md"));
    let mut listed: Vec<&str> = summary.links().collect();
    listed.sort_unstable();
    let mut expected = Vec::new();
    for chapter in chapters() {
        let path = chapter.path.strip_prefix("docs").unwrap().display().to_string();
        if path != "SUMMARY.md" {
            expected.push(path);
        }
    }
    expected.sort_unstable();
    assert_eq!(listed, expected);
    let settings = std::fs::read_to_string(root().join("docs/book.toml")).unwrap();
    assert!(settings.contains("src = \".\""), "{settings}");
}

/// How many symptoms the chapter has at least: the worst ones.
const LEAST_SYMPTOMS: usize = 25;

#[test]
fn each_symptom_says_what_it_looks_like_why_and_what_to_type() {
    let chapter = std::fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let sections = chapter.split("\n## ").flat_map(|part| part.split("\n### ").skip(1));
    let symptoms: Vec<&str> = sections.collect();
    assert!(symptoms.len() >= LEAST_SYMPTOMS, "{}", symptoms.len());
    for symptom in symptoms {
        let title = symptom.lines().next().unwrap();
        // A transcript shows what it looks like.
        let is_seen = symptom.contains("**It looks like this:**") || symptom.contains("```console");
        assert!(is_seen, "{title}");
        let text = symptom.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("**Why:**") && text.contains("**What to type:**"), "{title}");
    }
}

#[test]
fn the_readme_is_one_page_with_a_picture_and_what_ci_runs() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(text.len() <= LONGEST_README, "{} bytes", text.len());
    let readme = readme();
    for target in ["docs/SUMMARY.md", "docs/picture.svg", "docs/tutorial.md"] {
        assert!(readme.links().any(|link| link == target), "{target}");
    }
    let ci = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    for command in ["cargo test", "sh examples/quickstart/run.sh"] {
        assert!(ci.contains(command) && text.contains(command), "{command}");
    }
}

/// The parts of prose that are read on their own: headings, paragraphs, items of lists and cells of
/// tables.
fn passages(prose: &str) -> Vec<String> {
    let mut passages = vec![String::new()];
    for line in prose.lines() {
        let line = line.trim();
        if line.starts_with('|') {
            passages.extend(line.trim_matches('|').split(" | ").map(str::to_owned));
            passages.push(String::new());
            continue;
        }
        let is_item = line.starts_with("- ")
            || line.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok());
        if line.is_empty() || line.starts_with('#') || is_item {
            passages.push(String::new());
        }
        if let Some(passage) = passages.last_mut() {
            passage.push(' ');
            *passage += line;
        }
        if line.starts_with('#') {
            passages.push(String::new());
        }
    }
    passages
}

/// A passage without the code and the addresses in it: what stands between backticks is one word,
/// and of a link there is its text.
fn without_code(passage: &str) -> String {
    let mut plain = String::new();
    for (index, part) in passage.split('`').enumerate() {
        plain += if index % 2 == 0 { part } else { "code" };
    }
    let mut without_links = String::new();
    for (index, part) in plain.split("](").enumerate() {
        let text =
            if index == 0 { part } else { part.split_once(')').map_or("", |(_, text)| text) };
        without_links += text;
    }
    without_links
}

/// The sentences of a page that are too long.
fn long_sentences(page: &Page) -> Vec<String> {
    let mut long_sentences = Vec::new();
    for passage in passages(&page.prose) {
        let plain = without_code(&passage);
        let mut sentence: Vec<&str> = Vec::new();
        for word in plain.split_whitespace() {
            sentence.push(word);
            let bare_word = word.trim_end_matches([')', '*', '"']);
            if !bare_word.ends_with(['.', '?', '!']) {
                continue;
            }
            if sentence.len() > LONGEST_SENTENCE {
                long_sentences.push(sentence.join(" "));
            }
            sentence.clear();
        }
        if sentence.len() > LONGEST_SENTENCE {
            long_sentences.push(sentence.join(" "));
        }
    }
    long_sentences
}

#[test]
fn no_sentence_is_too_long_to_be_understood_at_once() {
    let mut failures = Vec::new();
    for page in pages() {
        for sentence in long_sentences(&page) {
            let words = sentence.split(' ').count();
            failures.push(format!("{}: {words} words: {sentence}", page.path.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn sentences_are_counted_as_people_read_them() {
    let short = "A [pool](pools.md#create-a-pool) is `a b c d e f`. It has two clusters.";
    assert_eq!(without_code(short), "A [pool is code. It has two clusters.");
    assert_eq!(passages("a\nb\n\n- c\n| d | e |\n").len(), 6);
}
