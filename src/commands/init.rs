//! `init`: sets up poolctl on a machine: state, schedule and the manifests of a first pool. It says
//! what it is going to do, asks, and does only what is not done yet.

mod answers;
mod checks;
mod pool_manifest;
mod steps;

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::drivers::probe::Finding;
use crate::model::refusal::{Exit, Refusal};
use crate::model::text::quote_word;
use crate::output::{Answer, Entry, Name};

use crate::commands::driver::pool_check;
use crate::commands::init::answers::{Answers, Layout, Schedule, Target};
use crate::commands::init::steps::{Place, Progress, Step};
use crate::commands::{Context, RunCommand, count_of};

/// Arguments of `init`. What is not given is asked at a terminal. Elsewhere it has its default, and
/// what has none is refused.
#[derive(Args)]
pub struct Init {
    /// Who owns the state; by default the account poolctl for root, and else the user
    #[arg(long, value_enum, value_name = "LAYOUT")]
    layout: Option<Layout>,
    /// What runs a pass every minute; cron by default
    #[arg(long, value_enum, value_name = "SCHEDULE")]
    schedule: Option<Schedule>,
    /// Where the clusters of the first pool are made; simulated by default
    #[arg(long, value_enum, value_name = "PLATFORM")]
    platform: Option<Target>,
    /// Folder for the manifests; by default /etc/poolctl, or `manifests` beside the user's state
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// File in YAML with answers by their keys, such as `baseDomain: lab.example.com`
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Answer to a question, such as baseDomain=lab.example.com; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Show what is to be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

impl RunCommand for Init {
    const NAME: &'static str = "init";
    const ABOUT: &'static str = "Set up the state, a schedule and the manifests of a first pool";
    const DESCRIPTION: &'static str = "\
It makes the folder of the state, checks clock, disk and programs, chooses what runs passes (a line \
of cron or a timer), and writes the manifests of a first pool with comments. The manifests are \
tried in a state that is thrown away before they are written.

It asks for what no option and no file of answers says. It says what it will change before it \
changes anything, and a second run changes only what is missing.";
    const EXAMPLE: &'static str = "\
poolctl init --layout user --schedule none --platform simulated \\
  --directory \"$HOME/lab\" -y";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        // A state that is there and cannot be used is told before anything is asked.
        match context.open_existing_state() {
            Err(refusal) if refusal.exit != Exit::NotFound => return Err(refusal.into()),
            _ => {}
        }
        let mut answers = self.read_answers()?;
        answers.complete(context)?;
        let place = Place::choose(context, answers.layout())?;
        let findings = checks::check_machine(context, &place.state, answers.target());
        report_findings(context, &findings)?;
        let manifest = pool_manifest::pool_manifest(&answers);
        if let Some(manifest) = &manifest {
            pool_manifest::try_manifest(context, manifest, answers.pool())?;
        }
        let steps = steps::find_steps(context, &place, &answers, manifest)?;
        report_steps(context, &steps)?;
        if self.dry_run {
            context.hint("nothing was changed");
            return Ok(());
        }
        perform_steps(context, &steps, &self.command_line())?;
        suggest_next_commands(context, &place, &answers);
        Ok(())
    }
}

impl Init {
    /// The answers of the file, and over them those of the options.
    fn read_answers(&self) -> Result<Answers, Refusal> {
        let mut answers = match &self.from {
            Some(path) => Answers::read_file(path)?,
            None => Answers::default(),
        };
        for pair in &self.settings {
            answers.set_pair(pair)?;
        }
        for (key, value) in self.chosen_options() {
            answers.set(key, value)?;
        }
        Ok(answers)
    }

    /// The options that choose the setup, as answers.
    fn chosen_options(&self) -> Vec<(&'static str, String)> {
        let mut options = Vec::new();
        options.extend(self.layout.map(|layout| ("layout", word_of(layout))));
        options.extend(self.schedule.map(|schedule| ("schedule", word_of(schedule))));
        options.extend(self.platform.map(|platform| ("platform", word_of(platform))));
        if let Some(path) = &self.directory {
            // Passes and crontabs begin elsewhere.
            let absolute_path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            options.push(("directory", absolute_path.display().to_string()));
        }
        options
    }

    /// The command that was typed, for whoever has to type it again.
    fn command_line(&self) -> String {
        let mut line = String::from("poolctl init");
        if let Some(path) = &self.from {
            let _ = write!(line, " --from {}", quote_word(&path.display().to_string()));
        }
        for (key, value) in self.chosen_options() {
            let _ = write!(line, " --{key} {}", quote_word(&value));
        }
        for pair in &self.settings {
            let _ = write!(line, " --set {}", quote_word(pair));
        }
        line
    }
}

/// The word of a choice on the command line.
fn word_of(choice: impl ValueEnum + Copy) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Shows what the checks of the machine came to. The first that failed is refused.
fn report_findings(context: &Context, findings: &[Finding]) -> anyhow::Result<()> {
    let mut entries = Vec::new();
    for finding in findings {
        entries.push(context.entry(
            None,
            || pool_check::row(context, finding),
            || pool_check::document(context, finding),
        ));
    }
    context.answer(Answer::list(entries))?;
    match findings.iter().find(|finding| finding.has_failed()) {
        Some(finding) => {
            Err(Refusal::invalid(format!("the {} is not fit for a state", finding.step))
                .because(finding.detail.as_str())
                .advise(finding.next.as_str())
                .into())
        }
        None => Ok(()),
    }
}

/// Shows each step, and how far it is.
fn report_steps(context: &Context, steps: &[Step]) -> anyhow::Result<()> {
    let mut entries: Vec<Entry> = Vec::new();
    for step in steps {
        let progress = step.progress.name();
        entries.push(context.entry(
            step.path().map(|path| Name::plain(path.display().to_string())),
            || vec![("setup", step.subject.clone()), ("state", progress.to_owned())],
            || json!({"setup": step.subject, "state": progress}),
        ));
    }
    context.answer(Answer::list(entries).after_gap())
}

/// Asks, and does what is left to do. A step that fails leaves those before it done.
fn perform_steps(context: &Context, steps: &[Step], command: &str) -> Result<(), Refusal> {
    let open_steps: Vec<&Step> =
        steps.iter().filter(|step| step.progress == Progress::Open).collect();
    if open_steps.is_empty() {
        context.hint("nothing is left to do");
        return Ok(());
    }
    let count = count_of(open_steps.len(), "thing");
    context.confirm(&format!("{count} of this list will be made"), command)?;
    for step in open_steps {
        step.perform(context)?;
        context.hint(&format!("made {}", step.subject));
    }
    Ok(())
}

/// Says which commands come next.
fn suggest_next_commands(context: &Context, place: &Place, answers: &Answers) {
    let mut commands: Vec<String> = Vec::new();
    commands.extend(steps::describe_open_schedule(place, answers.schedule()).map(str::to_owned));
    if answers.target() != Target::Nothing
        && let Some(folder) = answers.folder()
    {
        let secrets = pool_manifest::secret_commands(answers.target());
        commands.extend(secrets.iter().map(|command| (*command).to_owned()));
        let folder = quote_word(&folder.display().to_string());
        commands.push(format!("poolctl apply -f {folder}"));
        commands.push(format!("poolctl driver check --pool {}", answers.pool()));
        commands.push(format!("poolctl claim {} --wait", answers.pool()));
    }
    for command in commands {
        context.hint_next(&command);
    }
}
