//! Manifests in the shapes that metal3 publishes: each is taken, or refused by its field and the
//! rule. `cases/metal3_shapes.txt` has them.

use crate::sandbox::Sandbox;

const SHAPES: &str = include_str!("cases/metal3_shapes.txt");

/// What becomes of a shape.
enum Expected<'a> {
    Taken,
    Skipped(&'a str),
    Refused(&'a str),
}

/// The shapes: what each is, what is expected, and its manifest.
fn shapes() -> Vec<(&'static str, Expected<'static>, &'static str)> {
    let mut shapes = Vec::new();
    for block in SHAPES.split("\n== ").skip(1) {
        let (head, manifest) = block.split_once('\n').unwrap();
        let (name, outcome) = head.split_once("; ").unwrap();
        let expected = match outcome.split_once(' ') {
            None if outcome == "taken" => Expected::Taken,
            Some(("skipped", words)) => Expected::Skipped(words),
            Some(("refused", words)) => Expected::Refused(words),
            _ => panic!("{name}: {outcome}"),
        };
        shapes.push((name, expected, manifest));
    }
    shapes
}

#[test]
fn what_metal3_publishes_is_taken_or_refused_by_field_and_rule() {
    let shapes = shapes();
    assert!(shapes.len() > 20);
    for (name, expected, manifest) in shapes {
        for verb in ["apply -f", "import"] {
            let sandbox = Sandbox::new();
            let file = sandbox.write_file("shape.yaml", manifest);
            let ran = sandbox.run(&format!("{verb} {file}"));
            let is_skipped = ran.err.contains("skipped");
            match expected {
                Expected::Taken => {
                    assert_eq!((ran.code, is_skipped), (0, false), "{verb} {name}: {}", ran.err);
                }
                Expected::Skipped(words) => {
                    let is_said = is_skipped && ran.err.contains(words);
                    assert_eq!((ran.code, is_said), (0, true), "{verb} {name}: {}", ran.err);
                }
                Expected::Refused(words) => {
                    let is_said = ran.err.contains(words);
                    assert_eq!((ran.code, is_said), (1, true), "{verb} {name}: {}", ran.err);
                    assert_eq!(sandbox.run("get ippool,ipclaim -A -q").out, "", "{name}");
                }
            }
        }
    }
}
