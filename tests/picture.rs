//! The picture of README, `docs/picture.svg`: what a terminal shows of a claim, with its colours. It
//! is drawn from what the commands print, so it is never older than they are. `POOLCTL_BLESS=1`
//! writes it anew.

use std::fmt::Write;

use crate::architecture::root;
use crate::pages::is_blessed;
use crate::sandbox::Sandbox;

/// What is there before the picture begins.
const PREPARATION: [&str; 4] = [
    "apply -f examples/pool -q",
    "pool create nightly --fake --size 3 --running-count 1 -q",
    "pool create legacy --fake --size 1 -q",
    "pool pause legacy -q",
];

/// What is typed in the picture.
const TYPED: [&str; 3] = ["status", "claim lab ci-17 --lifetime 8h", "status"];

const COLUMNS: usize = 80;
const LETTER_WIDTH: usize = 8;
const LINE_HEIGHT: usize = 19;
const MARGIN: usize = 16;
/// Above the first line, with the three buttons of a window.
const TITLE_HEIGHT: usize = 34;

const BACKGROUND: &str = "#0d1117";
const PLAIN: &str = "#c9d1d9";
const PROMPT: &str = "#8b949e";

/// The colour that a code of a terminal stands for. None if it stands for no colour.
fn colour_of(code: &str) -> Option<&'static str> {
    match code {
        "31" | "91" => Some("#f85149"),
        "32" | "92" => Some("#3fb950"),
        "33" | "93" => Some("#d29922"),
        "34" | "94" => Some("#58a6ff"),
        "35" | "95" => Some("#bc8cff"),
        "36" | "96" => Some("#39c5cf"),
        "90" => Some(PROMPT),
        _ => None,
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The parts of a line that have one colour each, as SVG.
fn spans_of(line: &str) -> String {
    let mut spans = String::new();
    let mut colour = PLAIN;
    let mut weight = "normal";
    for (index, part) in line.split("\u{1b}[").enumerate() {
        let mut text = part;
        if index > 0 {
            let (codes, rest) = part.split_once('m').unwrap();
            text = rest;
            for code in codes.split(';') {
                if code.is_empty() || code == "0" || code == "39" {
                    colour = PLAIN;
                    weight = "normal";
                } else if code == "1" {
                    weight = "bold";
                } else if code == "2" {
                    colour = PROMPT;
                }
                colour = colour_of(code).unwrap_or(colour);
            }
        }
        if !text.is_empty() {
            let _ = write!(
                spans,
                "<tspan fill=\"{colour}\" font-weight=\"{weight}\">{}</tspan>",
                escape(text)
            );
        }
    }
    spans
}

fn draw(lines: &[String]) -> String {
    let width = COLUMNS * LETTER_WIDTH + 2 * MARGIN;
    let height = lines.len() * LINE_HEIGHT + TITLE_HEIGHT + MARGIN;
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"A cluster is claimed\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    for (index, colour) in ["#ff5f56", "#ffbd2e", "#27c93f"].iter().enumerate() {
        let x = MARGIN + 4 + index * 20;
        let _ = writeln!(picture, "<circle cx=\"{x}\" cy=\"17\" r=\"6\" fill=\"{colour}\"/>");
    }
    picture += "<g font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\">\n";
    for (index, line) in lines.iter().enumerate() {
        let y = TITLE_HEIGHT + MARGIN + index * LINE_HEIGHT;
        let _ = writeln!(
            picture,
            "<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\">{}</text>",
            spans_of(line)
        );
    }
    picture + "</g>\n</svg>\n"
}

/// What the terminal shows, with its colours.
fn play() -> Vec<String> {
    let mut sandbox = Sandbox::new();
    sandbox.set_variable("LANG", "C.UTF-8");
    for command in PREPARATION {
        sandbox.ok(command);
    }
    sandbox.ok("reconcile --wait -q");
    let mut lines = Vec::new();
    for command in TYPED {
        let ran = sandbox.shell(&format!("poolctl --color always {command} 2>&1"));
        assert_eq!(ran.code, 0, "{command}: {}", ran.out);
        lines.push(format!("\u{1b}[90m$\u{1b}[0m \u{1b}[1mpoolctl {command}\u{1b}[0m"));
        lines.extend(ran.out.trim_end().lines().map(str::to_owned));
        lines.push(String::new());
    }
    lines.pop();
    lines
}

#[test]
fn the_picture_shows_what_the_commands_print() {
    let lines = play();
    assert!(lines.iter().any(|line| line.contains("claim/ci-17 bound to cluster/lab-")));
    let picture = draw(&lines);
    let path = root().join("docs/picture.svg");
    if is_blessed() {
        std::fs::write(&path, &picture).unwrap();
    }
    let drawn = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(drawn == picture, "docs/picture.svg is old: POOLCTL_BLESS=1 draws it anew");
}

#[test]
fn colours_of_a_terminal_are_those_of_the_picture() {
    let spans = spans_of("a \u{1b}[31mb<\u{1b}[0m c");
    let expected = "<tspan fill=\"#c9d1d9\" font-weight=\"normal\">a </tspan>\
                    <tspan fill=\"#f85149\" font-weight=\"normal\">b&lt;</tspan>\
                    <tspan fill=\"#c9d1d9\" font-weight=\"normal\"> c</tspan>";
    assert_eq!(spans, expected);
}
