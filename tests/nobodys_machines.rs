//! A machine that poolctl switched on for a cluster which no longer has it is off: random histories
//! of clusters that come and go, with machines that do what jobs tell them, or fail to.

use std::collections::BTreeMap;

use poolctl::model::agent::{Agent, ClusterReference, HostState, Role};
use poolctl::model::cluster::Cluster;
use poolctl::model::condition::{Condition, ConditionReason, ConditionType};
use poolctl::model::deployment::{ClusterDeployment, Provisioning};
use poolctl::model::documents::{Secret, SecretValue, StoredValue};
use poolctl::model::driver::Driver;
use poolctl::model::host::wipe::WipeState;
use poolctl::model::host::{BareMetalHost, Bmc, CredentialsStatus, SecretRef};
use poolctl::model::infra_env::InfraEnv;
use poolctl::model::job::{HostReport, Installation, Job, JobOutcome, JobReport, Verb};
use poolctl::model::meta::{Key, LocalRef, Meta};
use poolctl::model::state::State;
use poolctl::model::template::Template;
use poolctl::model::tick::Tick;
use poolctl::model::time::Span;
use poolctl::plan;
use serde_json::json;

use crate::fixture::{NAMESPACE, Names, noon};
use crate::given_back::{INSTALL_CONFIG, INVENTORY};
use crate::machines::{import_hosts, reconcile_until, sandbox_on_real_clock};
use crate::rack::cluster as cluster_of_hosts;
use crate::rigs::{IpmiSim, PASSWORD, USER};
use crate::sandbox::{Sandbox, apply, jsonpath, move_state};
use crate::served::{Answer, Server, closed_port};
use crate::sim::dice::Dice;

const CLUSTERS: [&str; 2] = ["edge", "far"];
const HOSTS: [&str; 3] = ["n1", "n2", "n3"];
const BMH_LABEL: &str = "agent-install.openshift.io/bmh";
const HISTORIES: u64 = 300;
const STEPS: usize = 40;

fn named(name: &str) -> Meta {
    Meta { name: name.into(), namespace: NAMESPACE.into(), generation: 1, ..Meta::default() }
}

fn mac(name: &str) -> String {
    name.replace('n', "02:00:00:00:00:0")
}

fn address(name: &str) -> String {
    name.replace('n', "redfish://127.0.0.1:9/redfish/v1/Systems/")
}

fn host(name: &str) -> BareMetalHost {
    let mut host = BareMetalHost { metadata: named(name), ..BareMetalHost::default() };
    host.metadata.labels.insert("infraenvs.agent-install.openshift.io".into(), "rack".into());
    host.spec.boot_mac_address = mac(name);
    host.spec.bmc =
        Some(Bmc { address: address(name), credentials_name: "bmc".into(), ..Bmc::default() });
    let credentials = SecretRef { name: "bmc".into(), namespace: NAMESPACE.into() };
    let credentials_version = "/1".into();
    host.status.good_credentials = Some(CredentialsStatus { credentials, credentials_version });
    host.status.last_updated = Some(noon().now);
    let off = Condition::new(ConditionType::PoweredOn, "False", ConditionReason::PoweredOff, "");
    host.status.conditions.push(off);
    host
}

/// A free Agent. A found one is known by its controller alone; another reports itself.
fn agent(name: &str, found: bool) -> Agent {
    let mut agent = Agent { metadata: named(name), ..Agent::default() };
    agent.metadata.labels.insert("infraenvs.agent-install.openshift.io".into(), "rack".into());
    agent.metadata.labels.insert(BMH_LABEL.into(), name.into());
    agent.spec.approved = true;
    agent.spec.role = Role::Master;
    let inventory = INVENTORY.replace("02:00:00:00:00:01", &mac(name)).replace("node-1", name);
    let status = &mut agent.status;
    status.found_by_controller = found;
    status.host_id = format!("id-{name}");
    status.inventory = Some(serde_json::from_str(&inventory).unwrap());
    status.last_contact_time = Some(noon().now);
    status.debug_info.state = HostState::KnownUnbound;
    agent
}

fn make_cluster(name: &str) -> Cluster {
    let mut body = ClusterDeployment { metadata: named(name), ..ClusterDeployment::default() };
    body.spec.provisioning = Some(Provisioning {
        install_config_secret_ref: Some(LocalRef::to_name("install-config")),
        ..Provisioning::default()
    });
    Cluster {
        name: name.into(),
        namespace: NAMESPACE.into(),
        cluster_name: name.into(),
        base_domain: "example.com".into(),
        created: noon().now,
        driver: Driver::Agent,
        by_agents: true,
        body: Some(Box::new(body)),
        ..Cluster::default()
    }
}

/// What a machine really is.
#[derive(Clone, Debug, Default)]
struct Machine {
    on: bool,
    /// The cluster that is on its disk.
    disk: Option<String>,
    /// What it runs while it is on: a cluster, or nothing that is a cluster's.
    runs: Option<String>,
    image: String,
}

struct World {
    state: State,
    machines: BTreeMap<&'static str, Machine>,
    minutes: i64,
    dice: Dice,
    story: Vec<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut state = State::default();
        state.has_all_hosts = true;
        let stored = |key: &str| (key.to_owned(), StoredValue::Kept);
        state.secrets.load(Secret {
            metadata: named("bmc"),
            values: [stored("username"), stored("password")].into(),
            ..Secret::default()
        });
        let mut infra_env = InfraEnv { metadata: named("rack"), ..InfraEnv::default() };
        if dice.happens(50) {
            infra_env.status.iso_download_url = "http://192.0.2.1/rack.iso".into();
        }
        if dice.happens(50) {
            infra_env.metadata.annotations.insert("poolctl.dev/wipe".into(), "quick".into());
        }
        state.infra_envs.load(infra_env);
        let template = Template::new(SecretValue::new(INSTALL_CONFIG));
        state.templates.insert(Key::new(NAMESPACE, "install-config"), template);
        for name in HOSTS {
            state.hosts.load(host(name));
            state.agents.load(agent(name, dice.happens(50)));
        }
        let machines = HOSTS.map(|name| (name, Machine::default())).into();
        Self { state, machines, minutes: 0, dice, story: Vec::new() }
    }

    fn tick(&self) -> Tick {
        let noon = noon();
        Tick { now: noon.now.plus(Span::minutes(self.minutes)), ..noon }
    }

    fn settle(&mut self) {
        // A host that reports itself from the discovery image goes on doing so.
        let now = self.tick().now;
        let agent_ids: Vec<_> = self.state.agents.iter().map(|(agent_id, _)| agent_id).collect();
        for agent_id in agent_ids {
            self.state.agents.update(agent_id, |agent| agent.status.last_contact_time = Some(now));
        }
        let tick = self.tick();
        plan::settle(&mut self.state, &tick, &Names::default()).unwrap();
    }

    /// What a person or a pool does next.
    fn act(&mut self) {
        let cluster = self.dice.pick(&CLUSTERS);
        let name = self.dice.pick(&HOSTS);
        let key = Key::new(NAMESPACE, name);
        let deed = self.dice.below(8);
        self.story.push(format!("{deed} {cluster} {name}"));
        let cluster_id = self.state.find_cluster(cluster);
        let agent_id = self.state.agents.find(&key);
        let now = self.tick().now;
        match (deed, cluster_id, agent_id) {
            (0, None, _) => {
                self.state.insert_cluster(make_cluster(cluster));
            }
            (1, Some(cluster_id), _) => {
                self.state.clusters.update(cluster_id, |cluster| {
                    cluster.deleting.get_or_insert(now);
                });
            }
            (2 | 3, Some(_), Some(agent_id)) => {
                let wanted = ClusterReference::from_key(&Key::new(NAMESPACE, cluster));
                self.state.agents.update(agent_id, |agent| {
                    agent.spec.cluster_deployment_name = Some(wanted);
                });
            }
            (4, _, Some(agent_id)) => {
                self.state
                    .agents
                    .update(agent_id, |agent| agent.spec.cluster_deployment_name = None);
            }
            (5, _, Some(agent_id)) => {
                self.state.agents.update(agent_id, |agent| {
                    agent.metadata.deletion_timestamp.get_or_insert(now);
                });
            }
            (5, _, None) => {
                self.state.agents.insert(agent(name, true));
            }
            (6, _, _) => {
                let host_id = self.state.hosts.find(&key).unwrap();
                self.state.hosts.update(host_id, |host| host.spec.consumer_ref = None);
            }
            // The manifest of a host that nobody has is applied again, which says that it is on.
            (7, _, _) => {
                let host_id = self.state.hosts.find(&key).unwrap();
                self.state.hosts.update(host_id, |host| {
                    host.spec.online |= host.spec.consumer_ref.is_none();
                });
            }
            _ => {}
        }
        self.settle();
    }

    /// Hosts that report themselves do so: where they were told to register, where their controller
    /// has booted them, and where a person boots them.
    fn report_hosts(&mut self) {
        let mut booted = Vec::new();
        for (agent_id, agent) in self.state.agents.iter() {
            let name = *HOSTS.iter().find(|name| **name == agent.metadata.name).unwrap();
            let machine = &self.machines[name];
            let is_booted = match agent.state() {
                HostState::Binding | HostState::Unbinding => true,
                HostState::ReclaimingRebooting => machine.on && machine.runs.is_none(),
                HostState::UnbindingPendingUserAction => !machine.on,
                _ => false,
            };
            if is_booted && !agent.status.found_by_controller {
                booted.push((agent_id, name));
            }
        }
        let tick = self.tick();
        for (agent_id, name) in booted {
            self.story.push(format!("{name} registers"));
            let machine = self.machines.get_mut(name).unwrap();
            machine.on = true;
            machine.runs = None;
            plan::agents::register_agent(&mut self.state, agent_id, &tick).unwrap();
            let inventory = agent(name, false).status.inventory;
            self.state.agents.update(agent_id, |agent| agent.status.inventory = inventory);
        }
        self.settle();
    }

    /// Ends all live jobs: well, badly, or without a word, with what that does to the machines.
    fn work(&mut self, failing: u32) {
        self.report_hosts();
        let jobs: Vec<Job> =
            self.state.jobs.rows().filter(|job| job.ended.is_none()).cloned().collect();
        for job in jobs {
            let is_live = self.state.jobs.rows().any(|row| row.ended.is_none() && row.id == job.id);
            if !is_live {
                // It was cancelled for what another one has brought.
                continue;
            }
            let fails = self.dice.happens(failing);
            let mut reports = Vec::new();
            for host in job.hosts.clone() {
                let (_, name) = host.split_once('/').unwrap();
                let name = *HOSTS.iter().find(|known| **known == name).unwrap();
                let report = self.do_job(&job, name, fails);
                reports.push(report);
            }
            self.story.push(format!("{} {} fails: {fails}", job.verb.name(), job.object));
            let outcome = match job.verb {
                _ if fails => JobOutcome::failed("the controller answers 503"),
                Verb::Provision => JobOutcome::Installed(Installation::default()),
                _ => JobOutcome::Done,
            };
            let told = |outcome| JobReport { job: job.id, object: job.object.clone(), outcome };
            let messages = vec![told(JobOutcome::Hosts(reports)), told(outcome)];
            let tick = self.tick();
            plan::take_job_reports(&mut self.state, messages, &tick);
            self.settle();
        }
    }

    /// What a job does to a machine, and what is reported of that.
    fn do_job(&mut self, job: &Job, name: &'static str, fails: bool) -> HostReport {
        let host_id = self.state.hosts.find(&Key::new(NAMESPACE, name)).unwrap();
        let host = self.state.hosts.get(host_id).unwrap().clone();
        let machine = self.machines.get_mut(name).unwrap();
        // A job that fails may have done its work before, or half of it.
        let is_done = !fails || self.dice.happens(30);
        if is_done {
            match job.verb {
                Verb::Provision => {
                    machine.on = true;
                    machine.runs = Some(job.object.clone());
                    machine.disk = Some(job.object.clone());
                    machine.image.clear();
                }
                Verb::Deprovision | Verb::Stop => {
                    machine.on = false;
                    machine.runs = None;
                    if job.verb == Verb::Deprovision {
                        machine.image.clear();
                    }
                }
                Verb::Start | Verb::Cycle => {
                    let held_by = host.cluster().map(str::to_owned);
                    assert!(
                        machine.disk.is_none() || machine.disk == held_by,
                        "{name} boots the disk of {:?} and belongs to {held_by:?}: {:#?}",
                        machine.disk,
                        self.story
                    );
                    machine.on = true;
                    machine.runs.clone_from(&machine.disk);
                }
                Verb::Attach => {
                    // The image is that of the order, even if the host has none any more.
                    let image = host.spec.image.clone();
                    machine.image = image.map_or("of an order".into(), |image| image.url);
                    machine.on = true;
                    machine.runs = None;
                }
                Verb::Eject => machine.image.clear(),
                Verb::Wipe => {
                    machine.on = false;
                    machine.runs = None;
                    machine.disk = None;
                }
                _ => {}
            }
        }
        let can_be_asked = !fails;
        HostReport {
            host: format!("{NAMESPACE}/{name}"),
            address: address(name),
            credentials: "/1".into(),
            powered_on: can_be_asked.then_some(machine.on),
            image: can_be_asked.then(|| machine.image.clone()),
            error: if fails { "the controller answers 503".into() } else { String::new() },
            ..HostReport::default()
        }
    }

    /// Machines that run a cluster which does not have them.
    fn nobodys_machines(&self) -> Vec<String> {
        let mut machines = Vec::new();
        for (name, machine) in &self.machines {
            let host = self.state.hosts.by_key(&Key::new(NAMESPACE, *name)).unwrap();
            let Some(cluster) = machine.runs.as_deref() else { continue };
            let exists = self.state.find_cluster(cluster).is_some();
            if machine.on && (!exists || host.cluster() != Some(cluster)) {
                machines.push(format!("{name} runs {cluster}: {machine:?} {:?}", host.status));
            }
        }
        machines
    }
}

#[test]
fn no_machine_stays_on_for_a_cluster_that_no_longer_has_it_whatever_happened() {
    let mut given_back = 0;
    for seed in 0..HISTORIES {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            if world.dice.happens(60) {
                world.act();
            } else {
                world.minutes += i64::from(world.dice.below(10));
                world.settle();
                world.work(30);
            }
        }
        let before = world.nobodys_machines().len();
        given_back += before;
        // Controllers work again; the longest pause before another attempt is six hours.
        for _ in 0..12 {
            world.minutes += 6 * 60 + 1;
            world.settle();
            world.work(0);
            world.work(0);
        }
        assert_eq!(world.nobodys_machines(), [""; 0], "seed {seed}: {:#?}", world.story);
        for host in world.state.hosts.rows() {
            let status = &host.status;
            let is_marked = status.may_run_for.is_some()
                || (status.switched_on_for.is_some() && host.cluster().is_none());
            assert!(!is_marked, "seed {seed}: {status:?} {:#?}", world.story);
            let is_unwiped = status.wipe.as_ref().is_some_and(|wipe| wipe.state != WipeState::Done);
            assert!(!is_unwiped || host.hold_reason().is_some(), "seed {seed}: {status:?}");
        }
    }
    assert!(given_back > 0, "no history had a machine that was to be switched off");
}

const HOST: &str = "apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: n1, annotations: {baremetalhost.metal3.io/paused: ''}}
spec:
  online: true
  bmc: {address: redfish://192.0.2.9/redfish/v1/Systems/1, credentialsName: bmc}
  consumerRef: {kind: ClusterDeployment, name: a, namespace: default}
";

#[test]
fn a_host_is_not_deleted_while_it_is_on_for_an_installation_and_doctor_names_what_may_be_on() {
    let mut sandbox = Sandbox::new();
    apply(&sandbox, &cluster_of_hosts("a", 1, 0));
    apply(&sandbox, HOST);
    move_state(&mut sandbox, |objects| {
        let host = objects.iter_mut().find(|object| object["kind"] == "BareMetalHost").unwrap();
        host["status"]["switchedOnFor"] = "a".into();
        host["metadata"]["annotations"] = json!({});
    });
    let why = "host `n1` is switched on for cluster `a`, which is being installed";
    let refusal = sandbox.refused(4, "delete host n1 -y", why);
    assert!(refusal.contains("poolctl delete cluster a"), "{refusal}");
    sandbox.ok("doctor");
    // The cluster goes while nobody may touch the host.
    sandbox.ok("annotate host/n1 baremetalhost.metal3.io/detached= -q");
    sandbox.ok("delete cluster a -y -q");
    sandbox.ok("reconcile -q");
    assert_eq!(jsonpath(&sandbox, "host/n1", "{.spec.online}"), "false");
    assert_eq!(jsonpath(&sandbox, "host/n1", "{.spec.consumerRef}"), "");
    assert_eq!(jsonpath(&sandbox, "host/n1", "{.status.mayRunFor}"), "a");
    let ran = sandbox.run("doctor");
    let found = "may still be on for cluster `a`, which it has left: it is paused or detached";
    assert!(ran.code == 1 && ran.out.contains(found), "{ran:?}");
    let why = sandbox.ok("why host/n1");
    assert!(why.contains("it may still be on for cluster a"), "{why}");
    sandbox.refused(2, "delete host n1", "may still be on for cluster `a`");
    sandbox.ok("delete host n1 -y -q");
    sandbox.ok("doctor");
}

/// Passes do not ask for a host that is no Agent or that reports itself: such a machine stayed on
/// when somebody had switched it on.
#[test]
fn doctor_asks_controllers_and_has_switched_off_what_is_on_for_nobody() {
    let Some(sim) = IpmiSim::start() else { return };
    let lab = sandbox_on_real_clock();
    let dead = format!("ipmi://127.0.0.1:{}", closed_port());
    let lines = [("n1", sim.address()), ("n2", dead)]
        .map(|(name, address)| format!("{name},{address},{USER},{PASSWORD}"));
    import_hosts(&lab, "name,bmc,username,password", &lines);
    let powered_on = "{.status.conditions[?(@.type==\"PoweredOn\")].status}";
    reconcile_until(&lab, "seen off", |lab| jsonpath(lab, "host/n1", powered_on) == "False");
    sim.set_property("power", "1");
    lab.ok("reconcile -q");
    lab.refused(2, "doctor --ask-controllers", "--fix");
    assert!(!lab.run("doctor --fix").out.contains("n1"));
    assert_eq!(sim.property("power"), "1", "nobody has asked");
    let ran = lab.run("doctor --fix --ask-controllers");
    assert_eq!(ran.code, 1, "{ran:?}");
    for found in [
        "host `n1` was on, and no cluster has it: it is off now",
        "host `n2` may be on, and no cluster has it: ",
    ] {
        assert!(ran.out.contains(found), "{found}: {ran:?}");
    }
    assert_eq!(sim.property("power"), "0");
}

#[test]
fn doctor_names_a_machine_on_for_nobody_that_its_controller_does_not_switch_off() {
    const SYSTEM: &str = "/redfish/v1/Systems/1";
    let server = Server::plain(|request| match (request.method.as_str(), &*request.path) {
        ("GET", SYSTEM) => {
            let reset = json!({"#ComputerSystem.Reset": {"target": "/reset"}});
            Answer::json(&json!({"PowerState": "On", "Actions": reset}))
        }
        ("POST", "/reset") => Answer::error(500, "Base.1.0.InternalError", "no"),
        _ => Answer::status(404),
    });
    let lab = sandbox_on_real_clock();
    let address = server.bmc_address(SYSTEM);
    let line = format!("n1,{address},{USER},{PASSWORD}");
    import_hosts(&lab, "name,bmc,username,password", &[line]);
    reconcile_until(&lab, "seen on", |lab| jsonpath(lab, "host/n1", "{.spec.online}") == "true");
    assert!(!lab.run("doctor").out.contains("n1"));
    lab.ok("host power off n1 -q");
    let count = "{.status.errorCount}";
    reconcile_until(&lab, "failed", |lab| jsonpath(lab, "host/n1", count) == "1");
    let ran = lab.run("doctor");
    let found = "is on, and no cluster has it: ";
    assert!(ran.code == 1 && ran.out.contains(found), "{ran:?}");
}
