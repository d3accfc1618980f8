//! Every command under faults. The commands and what they are run with come from the command tree,
//! so that a new command is tortured by itself: each is killed, or told of an error, at a system
//! call, and then the state must be whole and usable. Each test is one point of every command;
//! `durability.rs`, `faults.rs` and `migrations.rs` go through all points of a few.

use std::cell::Cell;

use poolctl::model::refusal::Exit;

use crate::everywhere::run_examples;
use crate::sandbox::has_program;

/// What a shell reports of a program that was killed.
const KILLED: i32 = 137;

/// What happens to a command, as strace injects it.
struct Fault {
    /// The system call.
    call: &'static str,
    /// At the Nth of them, or from the Nth on.
    when: &'static str,
    what: &'static str,
    /// In how many commands it must have fired at least.
    at_least: usize,
}

/// Has strace run each command of an example, and looks at the state afterwards. The exit codes of
/// the commands and the findings are printed in lines of their own.
fn surroundings(fault: &Fault) -> String {
    let Fault { call, when, what, .. } = fault;
    format!(
        "poolctl() {{
             strace -qq -o $HOME/trace.$$ -e trace={call} -e inject={call}:{what}:when={when} \
                 poolctl \"$@\"
             code=$?
             echo $code >> $HOME/codes
             return $code
         }}
         look_at_state() {{
             echo; echo CODES $(cat $HOME/codes) END
             echo FIRED $(cat $HOME/trace.* | grep -c -e INJECTED -e SIGKILL)
             command poolctl reconcile -q; echo RECONCILE $?
             command poolctl doctor | grep -E '^(constraints|journal|addresses|links) ' |
                 grep -v ' ok ' | sed 's/^/WRONG /'
             command poolctl label pool lab tortured=yes -q >/dev/null; echo LABEL $?
         }}
         trap look_at_state EXIT
         set +e"
    )
}

/// The words of the line of the output that begins with a word.
fn words_after<'a>(output: &'a str, first_word: &str) -> Vec<&'a str> {
    let line = output.lines().rev().find(|line| line.split(' ').next() == Some(first_word));
    line.map(|line| line.split(' ').skip(1).collect()).unwrap_or_default()
}

/// Runs the example of every command under a fault.
fn torture(fault: &Fault) {
    if !has_program("strace") {
        return;
    }
    let fired = Cell::new(0);
    run_examples(&surroundings(fault), |path, example, ran| {
        let told = format!("{path:?}: {example}: {}{}", ran.out, ran.err);
        assert!(!ran.err.contains("panicked"), "{told}");
        let codes = words_after(&ran.out, "CODES");
        assert_eq!(codes.last(), Some(&"END"), "{told}");
        for code in &codes[..codes.len() - 1] {
            let code: i32 = code.parse().unwrap();
            let is_documented = Exit::ALL.iter().any(|exit| i32::from(*exit as u8) == code);
            assert!(code == 0 || code == KILLED || is_documented, "{code}: {told}");
        }
        if words_after(&ran.out, "FIRED") != ["0"] {
            fired.set(fired.get() + 1);
        }
        assert!(!ran.out.lines().any(|line| line.starts_with("WRONG ")), "{told}");
        let reconciled = words_after(&ran.out, "RECONCILE");
        assert!(reconciled == ["0"] || reconciled == ["1"], "{told}");
        // The pool itself may have been deleted by the command.
        let labelled = words_after(&ran.out, "LABEL");
        assert!(labelled == ["0"] || labelled == ["3"] || labelled == ["4"], "{told}");
    });
    assert!(fired.get() >= fault.at_least, "{} of {}", fired.get(), fault.at_least);
}

#[test]
fn every_command_may_be_killed_before_its_commit_is_on_the_disk() {
    torture(&Fault { call: "fsync", when: "1", what: "signal=KILL", at_least: 20 });
}

#[test]
fn every_command_may_be_killed_in_the_middle_of_writing() {
    torture(&Fault { call: "pwrite64", when: "4", what: "signal=KILL", at_least: 20 });
}

#[test]
fn every_command_meets_a_full_disk() {
    torture(&Fault { call: "pwrite64", when: "3+", what: "error=ENOSPC", at_least: 20 });
}

#[test]
fn every_command_meets_a_disk_that_fails() {
    torture(&Fault { call: "fsync,fdatasync", when: "1", what: "error=EIO", at_least: 20 });
}

#[test]
fn every_command_meets_a_lock_that_is_not_granted() {
    torture(&Fault { call: "flock", when: "1", what: "error=ENOLCK", at_least: 20 });
}
