//! The questions of `init` and where their answers come from: options, a file, the terminal, and at
//! last a default. It asks and checks, and does nothing with the answers.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ipnet::IpNet;
use serde_json::Value;

use crate::model::refusal::{Exit, Refusal};
use crate::output::clean_line;
use crate::rules;
use crate::yaml;

use crate::commands::{Context, suggest};
use crate::manifest;

/// Who owns the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// The system account poolctl; others use sudo
    Account,
    /// The user who runs this command
    User,
}

/// What runs a pass every minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Schedule {
    /// A line in a crontab
    Cron,
    /// A service and a timer of systemd
    Timer,
    /// Nothing yet
    #[value(name = "none")]
    Nothing,
}

/// Where the clusters of the first pool are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// Nowhere: they are simulated
    Simulated,
    Vsphere,
    Openstack,
    /// On machines that boot a discovery image
    Baremetal,
    /// No pool is prepared
    #[value(name = "none")]
    Nothing,
}

/// What an answer must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Layout,
    Schedule,
    Target,
    Folder,
    Count,
    ObjectName,
    Domain,
    Network,
    Address,
    Words,
}

impl Form {
    /// What an answer of this form must be, in words.
    fn rule(self) -> String {
        match self {
            Self::Layout => words_of::<Layout>(),
            Self::Schedule => words_of::<Schedule>(),
            Self::Target => words_of::<Target>(),
            Self::Folder => "an absolute path, such as /etc/poolctl".to_owned(),
            Self::Count => "a number, 0 or more".to_owned(),
            Self::ObjectName => {
                "a name of a-z, 0-9 and dashes, at most 63 letters, such as lab".to_owned()
            }
            Self::Domain => {
                "words of a-z, 0-9 and dashes, separated by dots, such as lab.example.com"
                    .to_owned()
            }
            Self::Network => "a network in CIDR, such as 192.0.2.0/24".to_owned(),
            Self::Address => "an IP address, such as 192.0.2.10".to_owned(),
            Self::Words => "a text that is not empty".to_owned(),
        }
    }
}

/// The words of a choice, as help lists them.
fn words_of<Choice: ValueEnum>() -> String {
    let values = Choice::value_variants().iter().filter_map(Choice::to_possible_value);
    let words: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
    format!("one of {}", words.join(", "))
}

/// A question, with the word for its answer in a file and in `--set`.
#[derive(Clone, Copy, Debug)]
struct Question {
    key: &'static str,
    prompt: &'static str,
    form: Form,
    /// The platforms that need the answer; none if every setup does.
    targets: &'static [Target],
    default: Option<&'static str>,
}

const POOLS: &[Target] =
    &[Target::Simulated, Target::Vsphere, Target::Openstack, Target::Baremetal];
const REAL: &[Target] = &[Target::Vsphere, Target::Openstack, Target::Baremetal];
const VSPHERE: &[Target] = &[Target::Vsphere];
const OPENSTACK: &[Target] = &[Target::Openstack];

const fn question(
    key: &'static str,
    form: Form,
    targets: &'static [Target],
    prompt: &'static str,
) -> Question {
    Question { key, prompt, form, targets, default: None }
}

impl Question {
    const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    fn applies_to(&self, target: Target) -> bool {
        self.targets.is_empty() || self.targets.contains(&target)
    }
}

/// All questions, in the order in which they are asked. The first four choose the setup.
static QUESTIONS: [Question; 19] = [
    question("layout", Form::Layout, &[], "Who owns the state: account or user"),
    question("schedule", Form::Schedule, &[], "What runs a pass every minute: cron, timer or none")
        .or("cron"),
    question(
        "platform",
        Form::Target,
        &[],
        "Where clusters are made: simulated, vsphere, openstack, baremetal or none",
    )
    .or("simulated"),
    question("directory", Form::Folder, POOLS, "Folder for the manifests"),
    question("pool", Form::ObjectName, POOLS, "Name of the pool").or("lab"),
    question("size", Form::Count, POOLS, "Unclaimed clusters to keep").or("2"),
    question("baseDomain", Form::Domain, REAL, "Base domain of the clusters"),
    question("releaseImage", Form::Words, REAL, "Release image to install")
        .or("quay.io/openshift-release-dev/ocp-release:4.18.30-x86_64"),
    question("machineNetwork", Form::Network, REAL, "Network of the machines, as 192.0.2.0/24"),
    question("vipStart", Form::Address, REAL, "First address for API and ingress"),
    question("vipEnd", Form::Address, REAL, "Last address for API and ingress"),
    question("vCenter", Form::Words, VSPHERE, "Name of the vCenter"),
    question("datacenter", Form::Words, VSPHERE, "Datacenter"),
    question("computeCluster", Form::Words, VSPHERE, "vSphere cluster, as /lab/host/compute"),
    question("datastore", Form::Words, VSPHERE, "Datastore, as /lab/datastore/fast"),
    question("network", Form::Words, VSPHERE, "Network of the machines in vSphere"),
    question("cloud", Form::Words, OPENSTACK, "Name of the entry in clouds.yaml"),
    question("externalNetwork", Form::Words, OPENSTACK, "Network with floating addresses"),
    question("flavor", Form::Words, OPENSTACK, "Flavor of the machines, with 4 CPUs and 16 GiB"),
];

/// The words of all answers, as a file has them.
fn keys() -> Vec<&'static str> {
    QUESTIONS.iter().map(|question| question.key).collect()
}

/// What was answered, by the key of the question.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    values: BTreeMap<&'static str, String>,
}

impl Answers {
    /// The answers of a file in YAML: a mapping of keys to words or numbers.
    pub fn read_file(path: &Path) -> Result<Self, Refusal> {
        let name = path.display().to_string();
        let mut answers = Self::default();
        for (file, content) in manifest::read_texts(path, yaml::MAX_BYTES)? {
            let document = yaml::parse_value(&content)
                .map_err(|error| Refusal::invalid(format!("{file}: {error}")))?;
            let Some(fields) = document.as_object() else {
                return Err(Refusal::invalid(format!("{name} is not a mapping of answers")));
            };
            for (key, value) in fields {
                let answer = match value {
                    Value::String(words) => words.clone(),
                    Value::Number(number) => number.to_string(),
                    _ => {
                        let what = format!("{name}: `{key}` is neither a word nor a number");
                        return Err(Refusal::invalid(what));
                    }
                };
                answers.set(key, answer).map_err(|refusal| refusal.in_place(&name))?;
            }
        }
        Ok(answers)
    }

    /// Sets an answer, as `--set KEY=VALUE` does.
    pub fn set_pair(&mut self, pair: &str) -> Result<(), Refusal> {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(Refusal::usage(format!("`{pair}` is not KEY=VALUE"))
                .advise("--set baseDomain=lab.example.com"));
        };
        self.set(key, value.to_owned())
    }

    /// Keeps the answer to a question. Refuses a value that the question does not allow.
    pub fn set(&mut self, key: &str, value: String) -> Result<(), Refusal> {
        let Some(question) = QUESTIONS.iter().find(|question| question.key == key) else {
            let cause = suggest(key, keys())
                .unwrap_or_else(|| format!("the questions are {}", keys().join(", ")));
            return Err(Refusal::usage(format!("there is no question `{key}`")).because(cause));
        };
        question.check(&value)?;
        self.values.insert(question.key, value);
        Ok(())
    }

    /// Answers what is still open: with what is typed at the terminal, or with the default. What
    /// has neither is refused, every question at once.
    pub fn complete(&mut self, context: &Context) -> Result<(), Refusal> {
        let mut open_keys = Vec::new();
        for question in &QUESTIONS {
            if self.values.contains_key(question.key) || !question.applies_to(self.target()) {
                continue;
            }
            let default = self.default_of(question, context)?;
            let answer = if context.is_at_terminal() && !context.globals.yes {
                Some(question.ask(default.as_deref())?)
            } else {
                default
            };
            match answer {
                Some(answer) => drop(self.values.insert(question.key, answer)),
                None => open_keys.push(question.key),
            }
        }
        if !open_keys.is_empty() {
            let settings: Vec<String> =
                open_keys.iter().map(|key| format!("--set {key}=VALUE")).collect();
            let sentence = format!("questions without an answer: {}", open_keys.join(", "));
            return Err(Refusal::usage(sentence)
                .advise(format!("add {}, or answer them in --from FILE", settings.join(" "))));
        }
        if self.values.get("size").is_some_and(|size| size.parse() == Ok(0_u32)) {
            context.warn("size is 0: no cluster is kept ready, and each claim waits for one");
        }
        self.check_addresses()
    }

    /// The default of a question. Those of the layout and of the folder depend on who asks.
    fn default_of(
        &self,
        question: &Question,
        context: &Context,
    ) -> Result<Option<String>, Refusal> {
        match question.form {
            Form::Layout => {
                let chooses_state = context.globals.state.is_some()
                    || context.world.variable("POOLCTL_STATE").is_some();
                let is_for_account = rustix::process::geteuid().is_root() && !chooses_state;
                Ok(Some(if is_for_account { "account" } else { "user" }.into()))
            }
            Form::Folder if self.layout() == Layout::Account => Ok(Some("/etc/poolctl".into())),
            Form::Folder => {
                let path = context.state_path()?.with_file_name("manifests");
                Ok(Some(path.display().to_string()))
            }
            _ => Ok(question.default.map(str::to_owned)),
        }
    }

    /// Expects that the addresses are a range inside the network of the machines.
    fn check_addresses(&self) -> Result<(), Refusal> {
        let Some(network) = self.machine_network() else { return Ok(()) };
        for key in ["vipStart", "vipEnd"] {
            let Some(answer) = self.values.get(key) else { continue };
            let address: IpAddr = answer.parse().map_err(|_| refuse_answer(key, answer))?;
            if !network.contains(&address) {
                return Err(refuse_answer(key, answer)
                    .because(format!("it is outside of machineNetwork {network}")));
            }
        }
        self.check_order_of_addresses()
    }

    /// Expects that the last address does not come before the first.
    fn check_order_of_addresses(&self) -> Result<(), Refusal> {
        let Some(start) = self.values.get("vipStart") else { return Ok(()) };
        let Some(end) = self.values.get("vipEnd") else { return Ok(()) };
        let is_in_order = match (start.parse::<IpAddr>(), end.parse::<IpAddr>()) {
            (Ok(first), Ok(last)) => first.is_ipv4() == last.is_ipv4() && first <= last,
            _ => true,
        };
        if is_in_order {
            return Ok(());
        }
        Err(refuse_answer("vipEnd", end).because(format!("it comes before vipStart {start}")))
    }

    /// The answers for manifests, each as YAML, and what follows from them.
    pub fn manifest_values(&self) -> Vec<(&'static str, String)> {
        let mut values = Vec::new();
        for question in &QUESTIONS {
            let Some(answer) = self.values.get(question.key) else { continue };
            let value = match question.form {
                Form::Count | Form::ObjectName => answer.clone(),
                // A string of JSON is one of YAML, whatever letters it has.
                _ => Value::from(answer.as_str()).to_string(),
            };
            values.push((question.key, value));
        }
        if let Some(network) = self.machine_network() {
            values.push(("vipPrefix", network.prefix_len().to_string()));
        }
        values
    }

    fn machine_network(&self) -> Option<IpNet> {
        self.values.get("machineNetwork")?.parse().ok()
    }

    /// Where the state is to be.
    pub fn layout(&self) -> Layout {
        self.choice("layout").unwrap_or(Layout::User)
    }

    /// What is to run the passes.
    pub fn schedule(&self) -> Schedule {
        self.choice("schedule").unwrap_or(Schedule::Nothing)
    }

    /// The platform of the first pool.
    pub fn target(&self) -> Target {
        self.choice("platform").unwrap_or(Target::Nothing)
    }

    /// The folder of the manifests; none if they are not wanted.
    pub fn folder(&self) -> Option<PathBuf> {
        self.values.get("directory").map(PathBuf::from)
    }

    /// The name of the first pool.
    pub fn pool(&self) -> &str {
        self.values.get("pool").map_or("lab", String::as_str)
    }

    fn choice<Choice: ValueEnum>(&self, key: &str) -> Option<Choice> {
        self.values.get(key).and_then(|answer| Choice::from_str(answer, false).ok())
    }
}

impl Question {
    /// Refuses what cannot be an answer.
    fn check(&self, answer: &str) -> Result<(), Refusal> {
        let is_usable = match self.form {
            Form::Layout => Layout::from_str(answer, false).is_ok(),
            Form::Schedule => Schedule::from_str(answer, false).is_ok(),
            Form::Target => Target::from_str(answer, false).is_ok(),
            Form::Count => answer.parse::<u32>().is_ok(),
            Form::ObjectName => rules::check_dns_label("a name", answer).is_ok(),
            Form::Domain => {
                answer.split('.').all(|label| rules::check_dns_label("a name", label).is_ok())
            }
            Form::Network => answer.parse::<IpNet>().is_ok(),
            Form::Address => answer.parse::<IpAddr>().is_ok(),
            Form::Folder => Path::new(answer).is_absolute(),
            Form::Words => !answer.trim().is_empty(),
        };
        if is_usable {
            return Ok(());
        }
        let rule = self.form.rule();
        Err(refuse_answer(self.key, answer).because(format!("{}: {rule}", self.prompt)))
    }

    /// Asks at the terminal until the answer is usable. Enter takes the default.
    fn ask(&self, default: Option<&str>) -> Result<String, Refusal> {
        loop {
            let offer = default.map(|default| format!(" [{default}]")).unwrap_or_default();
            let prompt = clean_line(self.prompt);
            drop(write!(std::io::stderr(), "{prompt}{offer}: "));
            let mut line = String::new();
            let length = std::io::stdin().read_line(&mut line).map_err(|error| {
                Refusal::usage("the answer cannot be read").because(error.to_string())
            })?;
            if length == 0 {
                return Err(Refusal::new(Exit::Failed, "nothing was changed"));
            }
            let answer = if line.trim().is_empty() { default } else { Some(line.trim()) };
            let Some(answer) = answer else {
                drop(writeln!(std::io::stderr(), "an answer is needed: {}", self.form.rule()));
                continue;
            };
            match self.check(answer) {
                Ok(()) => return Ok(answer.to_owned()),
                Err(refusal) => drop(writeln!(std::io::stderr(), "{refusal}")),
            }
        }
    }
}

fn refuse_answer(key: &str, answer: &str) -> Refusal {
    Refusal::usage(format!("`{answer}` is no answer to `{key}`"))
}
