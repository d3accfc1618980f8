//! Writes what to type next so that whoever reads it can type it: with the state that `--state` has
//! named, and behind sudo with sudo. A guest who may not type it is told whom to ask. It never
//! decides what helps.

use crate::model::kinds::Kind;
use crate::model::refusal::{NextStep, Refusal};
use crate::model::text::quote_word;

use crate::commands::{Context, tree};

/// What every command line of poolctl begins with.
const PROGRAM: &str = "poolctl";
/// The commands whose first word is a kind, or an object with its kind.
const COMMANDS_OF_ANY_KIND: [&str; 4] = ["get", "describe", "why", "events"];
/// What helps a guest where no command does.
const ASK: &str = "ask an admin";

impl Context {
    /// A text for people, with its commands of poolctl as whoever asks has to type them.
    pub fn spell_commands(&self, advice: &str) -> String {
        let sudo = self.world.sudo_words();
        let state = self.globals.state.as_ref().map(|path| path.display().to_string());
        spell_commands(advice, &sudo, state.as_deref())
    }

    /// Whether the person who asks may run a command with this first argument, such as `get claim`.
    pub fn may_run(&self, command: &str, argument: &str) -> bool {
        self.guest().is_none() || may_guests_run(command, argument)
    }

    /// What to type next as whoever asks has to type it; for a guest who may not, whom to ask.
    pub fn next_for_person(&self, next: &str) -> String {
        let may_type = self.guest().is_none() || may_guests_type(next) == Some(true);
        if may_type { self.spell_commands(next) } else { ASK.to_owned() }
    }

    /// Hints what to type next.
    pub fn hint_next(&self, next: &str) {
        let next = if self.is_denied(next) { ASK } else { next };
        self.hint(&format!("next: {next}"));
    }

    /// Whether some advice has a command that the guest who asks may not type. A sentence without a
    /// command is for everybody.
    fn is_denied(&self, advice: &str) -> bool {
        self.guest().is_some() && may_guests_type(advice) == Some(false)
    }

    /// An error with what to type next as whoever asks has to type it. If a namespace was given with
    /// `-n`, the command gets it too.
    pub(super) fn complete_next_step(&self, error: anyhow::Error) -> anyhow::Error {
        let mut refusal = match error.downcast::<Refusal>() {
            Ok(refusal) => refusal,
            Err(error) => return error,
        };
        refusal.next = refusal.next.map(|next| self.complete(next));
        refusal.into()
    }

    fn complete(&self, next: NextStep) -> NextStep {
        match next {
            NextStep::Line(line) => NextStep::Line(line),
            NextStep::Command(step) | NextStep::Advice(step) if self.is_denied(&step) => {
                NextStep::Advice(ASK.to_owned())
            }
            NextStep::Advice(advice) => NextStep::Advice(self.spell_commands(&advice)),
            NextStep::Command(command) => {
                let command = self.spell_commands(&command);
                NextStep::Command(match &self.globals.namespace {
                    Some(namespace) => format!("{command} -n {namespace}"),
                    None => command,
                })
            }
        }
    }
}

/// A text in which each command of poolctl has these words before it, and this state after its
/// first word.
pub(super) fn spell_commands(advice: &str, sudo: &str, state: Option<&str>) -> String {
    let option = state.map(|state| format!(" --state {}", quote_word(state))).unwrap_or_default();
    if sudo.is_empty() && option.is_empty() {
        return advice.to_owned();
    }
    let mut spelled = String::new();
    let mut rest = 0;
    for start in find_commands(advice) {
        spelled.push_str(&advice[rest..start]);
        spelled.push_str(sudo);
        spelled.push_str(PROGRAM);
        spelled.push_str(&option);
        rest = start + PROGRAM.len();
    }
    spelled.push_str(&advice[rest..]);
    spelled
}

/// Where the command lines of poolctl in some advice begin. One that begins with an option is complete,
/// and is left alone.
fn find_commands(advice: &str) -> Vec<usize> {
    let places = advice.match_indices(PROGRAM).map(|(start, _)| start);
    places.filter(|start| is_command(advice, *start)).collect()
}

/// Whether the program's name at this place of some advice is followed by a command of it.
fn is_command(advice: &str, start: usize) -> bool {
    let is_part_of_word = advice[..start]
        .ends_with(|letter: char| letter.is_alphanumeric() || "-_./".contains(letter));
    let mut words = advice[start + PROGRAM.len()..]
        .strip_prefix(' ')
        .unwrap_or_default()
        .split(|letter: char| !letter.is_ascii_lowercase() && letter != '-');
    !is_part_of_word && words.next().is_some_and(Context::has_command)
}

/// Whether guests may type all commands of poolctl in some advice. None if it has none.
fn may_guests_type(advice: &str) -> Option<bool> {
    let starts = find_commands(advice);
    if starts.is_empty() {
        return None;
    }
    Some(starts.into_iter().all(|start| is_for_guests(&advice[start..])))
}

/// Whether guests may type the command line that the advice begins with.
fn is_for_guests(advice: &str) -> bool {
    let end = advice.find([',', ';', '|', '`', '"', ')', '>']).unwrap_or(advice.len());
    let mut words = advice[..end].split_whitespace().skip(1);
    may_guests_run(words.next().unwrap_or_default(), words.next().unwrap_or_default())
}

/// Whether guests may run a command with this first argument: a kind, an object with its kind, the
/// verb of a noun, or anything else.
fn may_guests_run(command: &str, argument: &str) -> bool {
    if !tree::is_for_guests(command, argument) {
        return false;
    }
    if !COMMANDS_OF_ANY_KIND.contains(&command) {
        return true;
    }
    match Kind::from_word(argument.split('/').next().unwrap_or_default()) {
        Some(Kind::ClusterPool) => command == "get",
        kind => matches!(kind, Some(Kind::ClusterClaim | Kind::ClusterDeployment)),
    }
}

#[cfg(test)]
mod tests {
    use super::{may_guests_type, spell_commands};

    #[test]
    fn each_command_of_a_text_is_spelled_and_nothing_else() {
        for (text, expected) in [
            ("poolctl get pool -A", "poolctl --state 'my state.db' get pool -A"),
            (
                "poolctl plan, then poolctl reconcile",
                "poolctl --state 'my state.db' plan, then poolctl --state 'my state.db' reconcile",
            ),
            (
                "df -h \"$(dirname \"$(poolctl state path)\")\"",
                "df -h \"$(dirname \"$(poolctl --state 'my state.db' state path)\")\"",
            ),
            ("poolctl --state NEW import FILE", "poolctl --state NEW import FILE"),
            ("run the poolctl that wrote it", "run the poolctl that wrote it"),
            ("ls /var/lib/poolctl get", "ls /var/lib/poolctl get"),
            ("wait a minute", "wait a minute"),
        ] {
            assert_eq!(spell_commands(text, "", Some("my state.db")), expected);
            assert_eq!(spell_commands(text, "", None), text);
        }
        assert_eq!(
            spell_commands("poolctl kubeconfig hers >kubeconfig", "sudo -u poolctl ", None),
            "sudo -u poolctl poolctl kubeconfig hers >kubeconfig"
        );
    }

    #[test]
    fn guests_are_told_only_what_they_may_type() {
        for (text, expected) in [
            ("poolctl why claim/hers", Some(true)),
            ("poolctl get pool --show-labels", Some(true)),
            ("poolctl get claim, then poolctl release those that you do not need", Some(true)),
            ("poolctl ip claim lan hers", Some(true)),
            ("poolctl ip release hers", Some(true)),
            ("poolctl why pool/lab", Some(false)),
            ("poolctl get ippool -A", Some(false)),
            ("poolctl why ipclaim/hers", Some(false)),
            ("poolctl describe ipclaim hers", Some(false)),
            ("poolctl ip who 10.0.0.1", Some(false)),
            ("poolctl get claim, then poolctl doctor", Some(false)),
            ("poolctl events", Some(false)),
            ("leave it out, or name an address of the pool", None),
        ] {
            assert_eq!(may_guests_type(text), expected, "{text}");
        }
    }
}
