//! What every command has: the global options, the world, the state, and how to speak.

use std::cell::{OnceCell, RefCell};
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::Value;

use crate::model::documents::SecretValue;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::{Object, Resource};
use crate::model::refusal::{Exit, Refusal, nearest};
use crate::model::time::Span;
use crate::output::{Answer, Entry, Format, Name, Row, clean, clean_lines};
use crate::reconcile::{Door, Passed};
use crate::rules;
use crate::rules::access::{Deed, Person};
use crate::store::{Filter, Store};
use crate::world::World;

use crate::commands::target;

/// How long a prompt sleeps before it looks for signals.
const SLICE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum When {
    #[default]
    Auto,
    Always,
    Never,
}

/// Options of every command.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// State file
    #[arg(long, global = true, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Namespace; $POOLCTL_NAMESPACE, else default
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long, global = true, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    #[arg(
        short,
        long,
        global = true,
        help = Format::help(),
        value_name = "FORMAT",
        default_value = "table",
        hide_default_value = true
    )]
    pub output: Format,
    /// Colours: auto, always or never
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub color: When,
    /// Print names only, no hints
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say yes to every question
    #[arg(short, long, global = true)]
    pub yes: bool,
    /// Leave the pass to cron
    #[arg(long, global = true)]
    pub no_reconcile: bool,
}

pub struct Context {
    pub globals: Globals,
    pub world: World,
    pub(super) guest: OnceCell<Option<Person>>,
    /// What was answered in documents, which are one when the command is done.
    answered: RefCell<Answer>,
}

impl Context {
    pub fn new(globals: Globals) -> Result<Self, Refusal> {
        let (world, guest) = (World::new()?, OnceCell::new());
        Ok(Self { globals, world, guest, answered: RefCell::default() })
    }

    pub fn path(&self) -> Result<PathBuf, Refusal> {
        self.globals.state.clone().map_or_else(|| self.world.state_path(), Ok)
    }

    /// The state, for looking. There must be one.
    pub fn look(&self) -> Result<Store, Refusal> {
        self.in_time(Store::open(&self.path()?)?)
    }

    /// The state, for changing; made if there is none.
    pub fn open(&self) -> Result<Store, Refusal> {
        self.in_time(Store::open_or_create(&self.path()?)?)
    }

    /// A rehearsed clock goes on where the last command left it.
    fn in_time(&self, store: Store) -> Result<Store, Refusal> {
        if self.world.stands() {
            self.world.wait(store.mark()?.1.now, Span::default());
        }
        Ok(store)
    }

    pub fn door<'a>(&'a self, store: &'a Store) -> Door<'a> {
        Door { store, world: &self.world, pass: !self.globals.no_reconcile }
    }

    pub fn namespace(&self) -> Result<String, Refusal> {
        let given = self.globals.namespace.as_deref();
        let name = given.or_else(|| self.world.variable("POOLCTL_NAMESPACE")).unwrap_or("default");
        rules::label("a namespace", name)
            .map_err(|refusal| Refusal { exit: Exit::Usage, ..refusal })?;
        Ok(name.to_owned())
    }

    /// The namespace to look in, none for all of them.
    pub fn namespaces(&self) -> Result<Option<String>, Refusal> {
        if self.globals.all_namespaces { Ok(None) } else { self.namespace().map(Some) }
    }

    /// A name from the command line, as a key of its kind.
    pub fn key(&self, kind: Kind, name: &str) -> Result<Key, Refusal> {
        rules::name_of(kind, name).map_err(|refusal| Refusal { exit: Exit::Usage, ..refusal })?;
        let namespace = if kind.namespaced() { self.namespace()? } else { String::new() };
        Ok(Key::new(namespace, name))
    }

    /// A resource that must be there and may be seen.
    pub fn find<R: Resource>(&self, store: &Store, name: &str) -> Result<R, Refusal> {
        let object = self.find_object(store, R::KIND, name)?;
        R::from_object(object).ok_or_else(|| {
            let kind = R::KIND.word();
            Refusal::not_found(format!("there is no {kind} `{name}`"))
        })
    }

    /// An object of a kind that is known only now; it must be there and may be seen.
    pub fn find_object(&self, store: &Store, kind: Kind, name: &str) -> Result<Object, Refusal> {
        if !matches!(kind, Kind::ClusterClaim | Kind::ClusterDeployment) {
            self.admit_to(&format!("{} `{}`", kind.word(), target::bare(kind, name)))?;
        }
        let found = self.there(store, kind, name)?;
        self.permit(store, Deed::See, &found)?;
        Ok(found)
    }

    /// An object that must be there; otherwise says where it is, or what is called alike.
    pub fn there(&self, store: &Store, kind: Kind, name: &str) -> Result<Object, Refusal> {
        let name = &target::bare(kind, name);
        let key = self.key(kind, name)?;
        let filter = Filter { whole: true, ..Filter::named(&key) };
        let object = store.objects(kind, &filter)?.into_iter().next();
        object.ok_or_else(|| {
            if kind != Kind::ClusterPool && self.guest().is_some() {
                return Refusal::not_found(format!("there is no {} `{name}`", kind.word()));
            }
            let namespace = kind.namespaced().then_some(key.namespace.as_str());
            absent(store, kind, name, namespace)
        })
    }

    #[expect(clippy::unused_self, reason = "commands speak through their context")]
    /// Text for stdout. A reader that went away is no error.
    pub fn print(&self, text: &str) -> anyhow::Result<()> {
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
            written => written.context("stdout cannot be written"),
        }
    }

    /// A value as it is; on a terminal without what would move its cursor.
    pub fn print_value(&self, text: &str) -> anyhow::Result<()> {
        if std::io::stdout().is_terminal() {
            return self.print(&clean_lines(text));
        }
        self.print(text)
    }

    /// Whether the answer is whole documents: then nothing else of it needs to be made.
    pub fn wants_documents(&self) -> bool {
        self.globals.output.is_whole()
    }

    /// Whether people read the answer: then it is neither documents nor names alone.
    pub fn is_for_people(&self) -> bool {
        self.globals.output.is_for_people() && !self.globals.quiet
    }

    /// A thing of a list, with what the format shows of it.
    pub fn entry(
        &self,
        name: Option<Name>,
        row: impl FnOnce() -> Row,
        document: impl FnOnce() -> Value,
    ) -> Entry {
        let row = if self.is_for_people() { row() } else { Row::new() };
        let document = if self.wants_documents() { document() } else { Value::Null };
        Entry { name, row, document }
    }

    /// What the command has to say, in the format that was asked for. People see it at once; of
    /// documents a program can read only one, so they wait until the command is done.
    pub fn answer(&self, answer: Answer) -> anyhow::Result<()> {
        if self.wants_documents() && !answer.is_stream() {
            self.answered.borrow_mut().append(answer);
            return Ok(());
        }
        self.print_answer(answer)
    }

    /// Prints the documents of what was answered so far.
    pub fn conclude(&self) -> anyhow::Result<()> {
        if self.wants_documents() { self.print_answer(self.answered.take()) } else { Ok(()) }
    }

    fn print_answer(&self, answer: Answer) -> anyhow::Result<()> {
        let is_verbatim = answer.is_verbatim() && self.is_for_people();
        let text = answer.render(&self.globals.output, self.globals.quiet)?;
        if is_verbatim { self.print_value(&text) } else { self.print(&text) }
    }

    /// What became of an object: `clusterpool/lab scaled`, with -q the bare name.
    pub fn changed(&self, kind: Kind, key: &Key, what: &str) -> anyhow::Result<()> {
        self.answer(Answer::change(kind, key, what))
    }

    /// Says what a pass could not do, and fails if a pool's changes were undone.
    pub fn finish(&self, passed: &Passed) -> Result<(), Refusal> {
        for warning in &passed.warnings {
            self.warn(warning);
        }
        passed.check()
    }

    /// ` -n NAMESPACE`, where a command needs it to find an object.
    pub fn in_namespace(&self, namespace: &str) -> String {
        let usual = self.world.variable("POOLCTL_NAMESPACE").unwrap_or("default");
        if namespace.is_empty() || namespace == usual {
            String::new()
        } else {
            format!(" -n {namespace}")
        }
    }

    /// A hint for stderr.
    pub fn hint(&self, text: &str) {
        if !self.globals.quiet {
            drop(writeln!(std::io::stderr(), "{}", clean(text)));
        }
    }

    #[expect(clippy::unused_self, reason = "commands speak through their context")]
    pub fn warn(&self, text: &str) {
        drop(writeln!(std::io::stderr(), "warning: {}", clean(text)));
    }

    /// Whether stderr is a terminal that can redraw a line.
    pub fn draws(&self) -> bool {
        let dumb = self.world.variable("TERM").is_none_or(|term| term == "dumb");
        std::io::stderr().is_terminal() && !dumb && self.world.variable("CI").is_none()
    }

    /// Whether somebody sits at the keyboard.
    #[expect(clippy::unused_self, reason = "commands speak through their context")]
    pub fn at_terminal(&self) -> bool {
        std::io::stdin().is_terminal()
    }

    /// Asks for what must not be seen.
    pub fn ask_hidden(&self, prompt: &str, instead: &str) -> Result<SecretValue, Refusal> {
        let stdin = std::io::stdin();
        let wrong = |why: String| {
            Refusal::usage("there is no terminal to ask at").because(why).advise(instead)
        };
        if !self.at_terminal() {
            return Err(wrong("stdin is not a terminal".into()));
        }
        let shown = tcgetattr(&stdin).map_err(|error| wrong(error.to_string()))?;
        let mut hidden = shown.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Now, &hidden)
            .map_err(|error| wrong(error.to_string()))?;
        drop(write!(std::io::stderr(), "{}", clean(prompt)));
        self.world.catch_signals();
        let mut answer = String::new();
        // Looked at in slices: Ctrl-C must not leave a terminal that shows nothing.
        let read = loop {
            if let Some(caught) = self.world.interrupted() {
                break Err(Refusal::new(Exit::by_signal(caught.signal), "interrupted"));
            }
            let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
            if poll(&mut ready, Some(&SLICE)).is_ok_and(|ready| ready > 0) {
                break stdin.read_line(&mut answer).map_err(|error| wrong(error.to_string()));
            }
        };
        let _ = tcsetattr(&stdin, OptionalActions::Now, &shown);
        drop(writeln!(std::io::stderr()));
        read?;
        if answer.trim().is_empty() {
            return Err(wrong("nothing was typed".into()));
        }
        Ok(SecretValue::new(answer.trim_end_matches(['\n', '\r'])))
    }

    /// Whether stdout takes colours; documents never do.
    pub fn colors(&self) -> bool {
        if !self.globals.output.is_for_people() {
            return false;
        }
        match self.globals.color {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                let plain = self.world.variable("NO_COLOR").is_some()
                    || self.world.variable("TERM").is_none_or(|term| term == "dumb");
                std::io::stdout().is_terminal() && !plain
            }
        }
    }

    /// Asks before a loss. Without a terminal only `-y` will do.
    pub fn confirm(&self, loss: &str, command: &str) -> Result<(), Refusal> {
        if self.globals.yes {
            return Ok(());
        }
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return Err(Refusal::usage(format!("{loss}, and there is no terminal to ask at"))
                .next(format!("{command} -y")));
        }
        drop(write!(std::io::stderr(), "{}. Go on? [y/N] ", clean(loss)));
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        if read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(());
        }
        Err(Refusal::new(Exit::Failed, "nothing was changed"))
    }
}

/// Not here: elsewhere, or called otherwise.
fn absent(store: &Store, kind: Kind, name: &str, namespace: Option<&str>) -> Refusal {
    let place =
        namespace.map(|namespace| format!(" in namespace `{namespace}`")).unwrap_or_default();
    let refusal = Refusal::not_found(format!("there is no {} `{name}`{place}", kind.word()));
    let all = match store.names(kind) {
        Ok(all) => all,
        // That it is absent is not known of a state that cannot be read.
        Err(unreadable) => return unreadable,
    };
    let word = kind.word();
    if let Some(other) = all.iter().find(|key| key.name == name) {
        return refusal
            .because(format!("it is in namespace `{}`", other.namespace))
            .advise(format!("poolctl get {word} {name} -n {}", other.namespace));
    }
    let here =
        all.iter().filter(|key| namespace.is_none_or(|namespace| key.namespace == namespace));
    match nearest(name, here.map(|key| key.name.as_str())) {
        Some(near) => refusal.because(format!("did you mean `{near}`?")),
        None => refusal
            .advise(format!("poolctl get {word}{}", if namespace.is_some() { " -A" } else { "" })),
    }
}
