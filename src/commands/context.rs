//! What every command has at hand: the global options, the world, the state, and the ways to answer
//! and to ask. It decides nothing about the objects that it reads and shows.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::io::{ErrorKind, IsTerminal, Stdin, Write};
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
use crate::model::refusal::{Exit, NextStep, Refusal, nearest_name};
use crate::model::time::Span;
use crate::output::{Answer, Entry, Format, Name, Row, WIDTH, clean_line, clean_lines, wrap_line};
use crate::reconcile::{Door, PassOutcome};
use crate::rules;
use crate::rules::access::{AccessAction, Person};
use crate::store::{Filter, LockWait, Store};
use crate::world::World;

use crate::commands::selector::Selector;
use crate::commands::target;

/// How long a prompt waits for input before it looks for signals: a tenth of a second.
const PROMPT_SLICE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// What follows the sentence about a loss.
const QUESTION: &str = "Go on? [y/N]";

/// When answers are coloured, as `--color` says. `auto` colours them on a terminal, unless the
/// environment says that it takes no colours.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum ColorChoice {
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
    /// State file to use
    #[arg(long, global = true, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Namespace; else $POOLCTL_NAMESPACE
    #[arg(short, long, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Use all namespaces
    #[arg(short = 'A', long, global = true)]
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
    pub color: ColorChoice,
    /// Draw with ASCII letters, as with LANG=C
    #[arg(long, global = true)]
    pub ascii: bool,
    /// Print only names, and no hints
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Answer yes to every question
    #[arg(short, long, global = true)]
    pub yes: bool,
    /// Only store the change, for the next pass
    #[arg(long, global = true)]
    pub no_reconcile: bool,
    /// Longest wait for others; default 60s
    #[arg(long, global = true, value_name = "TIME")]
    pub lock_timeout: Option<Span>,
    /// Change a state on a network disk
    #[arg(long, global = true)]
    pub i_know: bool,
}

/// What a command is run with. It opens the state only when it is asked to.
pub struct Context {
    pub globals: Globals,
    pub world: World,
    /// The namespace that the command works in without `-n`.
    default_namespace: String,
    /// Who asks, if that is a guest behind sudo; found out when it is needed.
    pub(super) guest: OnceCell<Option<Person>>,
    /// What is to be told once a command that only reads is done.
    late_warning: OnceCell<String>,
    /// What was answered as documents so far. They are printed as one when the command is done.
    answered: RefCell<Answer>,
    /// The warnings of passes so far: a command that waits runs many passes, and says each once.
    pass_warnings: RefCell<BTreeSet<String>>,
}

impl Context {
    /// Reads the environment: who asks, and the namespace that is the default. It opens no state.
    /// Fails if the environment contradicts itself.
    pub fn new(globals: Globals) -> Result<Self, Refusal> {
        let world = World::new()?;
        let default_namespace = world.default_namespace();
        Ok(Self {
            globals,
            world,
            default_namespace,
            guest: OnceCell::new(),
            late_warning: OnceCell::new(),
            answered: RefCell::default(),
            pass_warnings: RefCell::default(),
        })
    }

    /// The path of the state file, whether there is one or not.
    pub fn state_path(&self) -> Result<PathBuf, Refusal> {
        self.globals.state.clone().map_or_else(|| self.world.state_path(), Ok)
    }

    /// Opens the state, which must exist: for commands that only look, or change what is there.
    pub fn open_existing_state(&self) -> Result<Store, Refusal> {
        let store = Store::open(&self.state_path()?);
        self.prepare_state(store.map_err(|refusal| self.point_to_account(refusal))?)
    }

    /// Tells a person who has no state where that of the machine is.
    fn point_to_account(&self, refusal: Refusal) -> Refusal {
        match self.world.account_of_machine() {
            Some(account) if refusal.exit == Exit::NotFound && self.globals.state.is_none() => {
                refusal
                    .because(format!("the pools of this machine belong to account {account}"))
                    .next(NextStep::Line(format!("sudo -u {account} poolctl status")))
            }
            _ => refusal,
        }
    }

    /// Opens the state, and creates it if there is none.
    pub fn open_or_create_state(&self) -> Result<Store, Refusal> {
        self.prepare_state(Store::open_or_create(&self.state_path()?)?)
    }

    /// How the command waits for others that write, and what it says meanwhile.
    pub fn lock_wait(&self) -> LockWait {
        let limit = self.globals.lock_timeout.unwrap_or(LockWait::LIMIT);
        LockWait { limit, report: report_lock_wait, trusts_network: self.globals.i_know }
    }

    /// Warns of what makes the answer of a command doubtful that has read the state.
    pub(super) fn print_late_warning(&self) {
        if let Some(warning) = self.late_warning.get() {
            self.warn(warning);
        }
    }

    /// What a command is refused for that has not found an object in a state with several names: the
    /// object may be in the log beside another name, so nobody may say that it does not exist.
    pub(super) fn doubt_absence(&self, error: anyhow::Error) -> anyhow::Error {
        let is_absence =
            error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.exit == Exit::NotFound);
        if !is_absence {
            return error;
        }
        match self.state_path().and_then(|path| Store::open(&path)) {
            Ok(store) => store.find_second_name().map_or(error, anyhow::Error::from),
            Err(_) => error,
        }
    }

    /// Tells the store how to wait for others, and to stay open as long as the program. Moves a clock
    /// that stands to the last pass of the state, so that a rehearsal of several commands goes on where
    /// the last one left it.
    fn prepare_state(&self, store: Store) -> Result<Store, Refusal> {
        let store = store.with_lock_wait(self.lock_wait());
        store.leave_open();
        if self.world.is_clock_standing() {
            self.world.wait_until(store.read_mark()?.now, Span::default());
        }
        store.set_time(self.world.now());
        if let Some(refusal) = store.find_second_name() {
            let next = refusal.next.map(|next| format!("; next: {next}")).unwrap_or_default();
            let causes = refusal.causes.join("; ");
            // Whoever opens the state twice is warned once.
            self.late_warning.get_or_init(|| format!("{}: {causes}{next}", refusal.what));
        }
        Ok(store)
    }

    /// The door through which a command changes the state. A pass follows the change unless
    /// `--no-reconcile` is given.
    pub fn door<'a>(&'a self, store: &'a Store) -> Door<'a> {
        Door { store, world: &self.world, plans_changes: !self.globals.no_reconcile }
    }

    /// The namespace that the command works in. A name that cannot be one is refused with exit 2.
    pub fn namespace(&self) -> Result<String, Refusal> {
        let given = self.globals.namespace.as_deref();
        let name = given.unwrap_or(&self.default_namespace);
        rules::check_dns_label("a namespace", name)
            .map_err(|refusal| Refusal { exit: Exit::Usage, ..refusal })?;
        Ok(name.to_owned())
    }

    /// The namespace to look in, or none with `--all-namespaces`.
    pub fn namespace_filter(&self) -> Result<Option<String>, Refusal> {
        if self.globals.all_namespaces { Ok(None) } else { self.namespace().map(Some) }
    }

    /// The namespace in which objects of a kind are listed. None lists them everywhere: with
    /// `--all-namespaces`, and for a kind without namespaces.
    pub fn namespace_filter_of(&self, kind: Kind) -> Result<Option<String>, Refusal> {
        if kind.is_namespaced() { self.namespace_filter() } else { Ok(None) }
    }

    /// All objects of a kind in the namespaces that the command works in, with their documents. With
    /// a selector, only those whose labels match.
    pub fn select_objects(
        &self,
        store: &Store,
        kind: Kind,
        selector: Option<&Selector>,
    ) -> Result<Vec<Object>, Refusal> {
        let namespace = self.namespace_filter_of(kind)?;
        let mut objects =
            store.list_objects(kind, &Filter { namespace, name: None, whole: true })?;
        if let Some(selector) = selector {
            objects.retain(|object| selector.matches(&object.labels()));
        }
        Ok(objects)
    }

    /// The key of a name from the command line, in the namespace of the command if its kind has
    /// one. A name that no object of the kind can have is refused with exit 2.
    pub fn key(&self, kind: Kind, name: &str) -> Result<Key, Refusal> {
        rules::check_name(kind, name)
            .map_err(|refusal| Refusal { exit: Exit::Usage, ..refusal })?;
        let namespace = if kind.is_namespaced() { self.namespace()? } else { String::new() };
        Ok(Key::new(namespace, name))
    }

    /// The same for an object that may be called in another way: an Agent by its hostname, too. A
    /// hostname that several Agents have is refused.
    pub fn find_key(&self, store: &Store, kind: Kind, name: &str) -> Result<Key, Refusal> {
        let key = self.key(kind, name)?;
        if kind != Kind::Agent || self.guest().is_some() || store.has_agent(&key)? {
            return Ok(key);
        }
        let filter = Filter { namespace: Some(key.namespace.clone()), ..Filter::default() };
        let mut agents = store.list_agent_facts(&filter)?;
        agents.retain(|agent| agent.hostname.eq_ignore_ascii_case(name));
        match agents.as_slice() {
            [] => Ok(key),
            [agent] => Ok(agent.key()),
            _ => {
                let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
                Err(Refusal::conflict(format!("{} agents have the hostname `{name}`", names.len()))
                    .because(format!("they are {}", names.join(", ")))
                    .next("poolctl get agent -o wide"))
            }
        }
    }

    /// A resource by its name; refused if it does not exist or may not be seen.
    pub fn find<R: Resource>(&self, store: &Store, name: &str) -> Result<R, Refusal> {
        let object = self.find_object(store, R::KIND, name)?;
        R::from_object(object)
            .ok_or_else(|| Refusal::not_found(format!("there is no {} `{name}`", R::KIND.word())))
    }

    /// As `find`, without what is kept beside its row: a whole IPPool has the name of each lease.
    pub fn find_row<R: Resource>(&self, store: &Store, name: &str) -> Result<R, Refusal> {
        let object = self.find_object_by(store, R::KIND, name, Filter::named)?;
        R::from_object(object)
            .ok_or_else(|| Refusal::not_found(format!("there is no {} `{name}`", R::KIND.word())))
    }

    /// An object of the kind that was typed; refused if it does not exist or may not be seen.
    pub fn find_object(&self, store: &Store, kind: Kind, name: &str) -> Result<Object, Refusal> {
        self.find_object_by(store, kind, name, Filter::named_whole)
    }

    /// As `find_object`, by a filter that is made of the key of the object.
    fn find_object_by(
        &self,
        store: &Store,
        kind: Kind,
        name: &str,
        filter: fn(&Key) -> Filter,
    ) -> Result<Object, Refusal> {
        if !matches!(kind, Kind::ClusterClaim | Kind::ClusterDeployment) {
            self.refuse_guest(&format!("{} `{}`", kind.word(), target::without_kind(kind, name)))?;
        }
        let object = self.load_object(store, kind, name, filter)?;
        self.check_permission(store, AccessAction::See, &object)?;
        Ok(object)
    }

    /// An object by its name, whoever asks, which a filter made of its key finds. If there is none,
    /// the refusal says in which other namespace it is, or which object is called nearly so.
    pub fn load_object(
        &self,
        store: &Store,
        kind: Kind,
        name: &str,
        filter: fn(&Key) -> Filter,
    ) -> Result<Object, Refusal> {
        let name = &target::without_kind(kind, name);
        let key = self.find_key(store, kind, name)?;
        let object = store.list_objects(kind, &filter(&key))?.into_iter().next();
        object.ok_or_else(|| {
            // Guests are told no names of objects that are not theirs.
            if kind != Kind::ClusterPool && self.guest().is_some() {
                let word = kind.word();
                return Refusal::not_found(format!("there is no {word} `{name}`"))
                    .next(format!("poolctl get {word}"));
            }
            absent_object(store, kind, &key)
        })
    }

    /// The object with this key, whoever asks and whatever namespace the command works in.
    pub fn load_object_by_key(store: &Store, kind: Kind, key: &Key) -> Result<Object, Refusal> {
        let object = store.list_objects(kind, &Filter::named_whole(key))?.into_iter().next();
        object.ok_or_else(|| absent_object(store, kind, key))
    }

    /// Writes to stdout. A reader that went away, such as `head`, is no error.
    #[expect(clippy::unused_self, reason = "commands speak through their context")]
    pub fn print(&self, output: &str) -> anyhow::Result<()> {
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(output.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
            written => written.context("stdout cannot be written"),
        }
    }

    /// Writes a portion of a long list to stdout, for those who hand it on.
    pub fn print_portion(&self, portion: &str) -> Result<(), Refusal> {
        self.print(portion).map_err(|error| Refusal::new(Exit::Failed, error.to_string()))
    }

    /// Prints a value unchanged; on a terminal without the characters that would move its cursor.
    pub fn print_value(&self, value: &str) -> anyhow::Result<()> {
        if std::io::stdout().is_terminal() {
            return self.print(&clean_lines(value));
        }
        self.print(value)
    }

    /// Whether the answer is made of whole documents. Then its rows and lines need not be made.
    pub fn wants_documents(&self) -> bool {
        self.globals.output.shows_documents()
    }

    /// Whether the answer is made of rows and lines of text, and not of names alone.
    pub fn wants_rows(&self) -> bool {
        self.globals.output.shows_rows() && !self.globals.quiet
    }

    /// Whether people read the answer, so that hints help them.
    pub fn is_for_people(&self) -> bool {
        self.globals.output.is_for_people() && !self.globals.quiet
    }

    /// An entry of a list. Its row or its document is made only if the format shows it.
    pub fn entry(
        &self,
        name: Option<Name>,
        row: impl FnOnce() -> Row,
        document: impl FnOnce() -> Value,
    ) -> Entry {
        let row = if self.wants_rows() { row() } else { Row::new() };
        let document = if self.wants_documents() { document() } else { Value::Null };
        Entry { name, row, document }
    }

    /// Answers in the format that was asked for. People see an answer at once. A program can read
    /// only one document, so documents are kept until `print_documents` prints them together.
    pub fn answer(&self, answer: Answer) -> anyhow::Result<()> {
        if self.wants_documents() && !answer.is_stream() {
            self.answered.borrow_mut().append(answer);
            return Ok(());
        }
        self.print_answer(answer)
    }

    /// Prints the documents of all answers so far as one.
    pub fn print_documents(&self) -> anyhow::Result<()> {
        if self.wants_documents() { self.print_answer(self.answered.take()) } else { Ok(()) }
    }

    /// Prints an answer. If it cannot be printed, what was committed is told on stderr: nobody
    /// shall take an exit code for a sign that nothing happened.
    fn print_answer(&self, mut answer: Answer) -> anyhow::Result<()> {
        let changes = answer.take_changes();
        let printed = self.try_to_print_answer(answer);
        if printed.is_err() {
            for change in &changes {
                self.warn(&format!("this is done and stays, only the answer is lost: {change}"));
            }
        }
        printed
    }

    fn try_to_print_answer(&self, answer: Answer) -> anyhow::Result<()> {
        let is_verbatim = answer.is_verbatim() && self.wants_rows();
        let rendered = answer.render(&self.globals.output, self.globals.quiet)?;
        if is_verbatim { self.print_value(&rendered) } else { self.print(&rendered) }
    }

    /// Answers what became of an object: `clusterpool/lab scaled`, with -q the bare name.
    pub fn report_change(&self, kind: Kind, key: &Key, result: &str) -> anyhow::Result<()> {
        self.answer(Answer::change(kind, key, result))
    }

    /// Warns of what the command asked for and a limit does not allow.
    pub fn report_limits(&self, passed: &PassOutcome) {
        for sentence in rules::find_limited_values(&passed.state) {
            self.warn(&sentence);
        }
    }

    /// Warns of what a pass could not do, once for each. It is refused if the changes of a pool were undone.
    pub fn report_pass(&self, passed: &PassOutcome) -> Result<(), Refusal> {
        for warning in &passed.warnings {
            if self.pass_warnings.borrow_mut().insert(warning.clone()) {
                self.warn(warning);
            }
        }
        passed.check_refused_pools()
    }

    /// ` -n NAMESPACE` for a command that is suggested, or nothing if it finds the object without.
    pub fn namespace_option(&self, namespace: &str) -> String {
        if namespace.is_empty() || namespace == self.default_namespace {
            String::new()
        } else {
            format!(" -n {namespace}")
        }
    }

    /// The name of an object as it is typed here: with its namespace only if it is another one than
    /// commands work in.
    pub fn short_name(&self, key: &Key) -> String {
        if self.namespace_option(&key.namespace).is_empty() {
            key.name.clone()
        } else {
            key.to_string()
        }
    }

    /// Writes a hint to stderr, unless `--quiet` is given.
    pub fn hint(&self, message: &str) {
        if !self.globals.quiet {
            let message = self.spell_commands(message);
            drop(writeln!(std::io::stderr(), "{}", clean_line(&message)));
        }
    }

    /// Writes a warning to stderr, even with `--quiet`.
    pub fn warn(&self, message: &str) {
        let message = self.spell_commands(message);
        drop(writeln!(std::io::stderr(), "warning: {}", clean_line(&message)));
    }

    /// Whether stdin is a terminal, so that somebody can be asked.
    #[expect(clippy::unused_self, reason = "commands speak through their context")]
    pub fn is_at_terminal(&self) -> bool {
        std::io::stdin().is_terminal()
    }

    /// Asks for a value at the terminal, which does not show what is typed. `instead` is what to
    /// type where there is no terminal.
    pub fn ask_hidden(&self, prompt: &str, instead: &str) -> Result<SecretValue, Refusal> {
        let stdin = std::io::stdin();
        if !self.is_at_terminal() {
            return Err(cannot_ask("stdin is not a terminal", instead));
        }
        let visible = tcgetattr(&stdin).map_err(|error| cannot_ask(error.to_string(), instead))?;
        let mut hidden = visible.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Now, &hidden)
            .map_err(|error| cannot_ask(error.to_string(), instead))?;
        drop(write!(std::io::stderr(), "{}", clean_line(prompt)));
        let line = self.read_line_unless_interrupted(&stdin, instead);
        let _ = tcsetattr(&stdin, OptionalActions::Now, &visible);
        drop(writeln!(std::io::stderr()));
        let line = line?;
        if line.trim().is_empty() {
            return Err(cannot_ask("nothing was typed", instead));
        }
        Ok(SecretValue::new(line.trim_end_matches(['\n', '\r'])))
    }

    /// Reads a line, and looks for signals while it waits: Ctrl-C ends the reading, so that the
    /// caller can make the terminal show again what is typed.
    fn read_line_unless_interrupted(
        &self,
        stdin: &Stdin,
        instead: &str,
    ) -> Result<String, Refusal> {
        self.world.catch_signals();
        loop {
            if let Some(caught) = self.world.take_signal() {
                return Err(Refusal::new(Exit::by_signal(caught.signal), "interrupted"));
            }
            let mut polled = [PollFd::new(stdin, PollFlags::IN)];
            if poll(&mut polled, Some(&PROMPT_SLICE)).is_ok_and(|ready| ready > 0) {
                let mut line = String::new();
                stdin
                    .read_line(&mut line)
                    .map_err(|error| cannot_ask(error.to_string(), instead))?;
                return Ok(line);
            }
        }
    }

    /// Asks before something is lost. Without a terminal it is refused, with `command -y` as what
    /// to type next.
    pub fn confirm(&self, loss: &str, command: &str) -> Result<(), Refusal> {
        // The variable is for scripts written for `oc`, which never asks.
        if self.globals.yes || self.world.variable("POOLCTL_YES") == Some("true") {
            return Ok(());
        }
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return Err(Refusal::usage(format!("{loss}, and there is no terminal to ask on"))
                .next(format!("{command} -y")));
        }
        let sentence = format!("{}.", clean_line(loss));
        // The question is never broken: it stands below a long sentence.
        let is_long = sentence.chars().count() + QUESTION.len() >= WIDTH;
        let gap = if is_long { "\n" } else { " " };
        drop(write!(std::io::stderr(), "{}{gap}{QUESTION} ", wrap_line(&sentence)));
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        if read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(());
        }
        Err(Refusal::new(Exit::Failed, "nothing was changed"))
    }
}

/// Says on stderr what the command waits for, even with `--quiet`: it would look as if it hung.
fn report_lock_wait(sentence: &str) {
    drop(writeln!(std::io::stderr(), "{}", clean_line(sentence)));
}

/// Why nobody can be asked at a terminal, and what to type instead.
fn cannot_ask(cause: impl Into<String>, instead: &str) -> Refusal {
    Refusal::usage("there is no terminal to ask on").because(cause).advise(instead)
}

/// Why an object is not found: it is in another namespace, or another name was meant.
fn absent_object(store: &Store, kind: Kind, key: &Key) -> Refusal {
    let Key { namespace, name } = key;
    let namespace = kind.is_namespaced().then_some(namespace);
    let word = kind.word();
    let place =
        namespace.map(|namespace| format!(" in namespace `{namespace}`")).unwrap_or_default();
    let refusal = Refusal::not_found(format!("there is no {word} `{name}`{place}"));
    let keys = match store.list_names(kind) {
        Ok(keys) => keys,
        // An object is not absent because the state cannot be read.
        Err(unreadable) => return unreadable,
    };
    if keys.contains(key) {
        return refusal.because("its document is lost").next("poolctl doctor");
    }
    if let Some(key_elsewhere) = keys.iter().find(|key| key.name == *name) {
        let elsewhere = &key_elsewhere.namespace;
        return refusal
            .because(format!("it is in namespace `{elsewhere}`"))
            .advise(format!("poolctl get {word} {name} -n {elsewhere}"));
    }
    let in_place = keys.iter().filter(|key| namespace.is_none_or(|place| key.namespace == *place));
    match nearest_name(name, in_place.map(|key| key.name.as_str())) {
        Some(near) => refusal.because(format!("did you mean `{near}`?")),
        None => refusal
            .advise(format!("poolctl get {word}{}", if namespace.is_some() { " -A" } else { "" })),
    }
}
