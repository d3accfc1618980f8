//! A machine that poolctl switched on for a cluster is off once the cluster no longer has it,
//! however far the installation got and whichever way the host comes back.

use poolctl::model::agent::{Agent, ClusterReference, HostState, Role};
use poolctl::model::cluster::Cluster;
use poolctl::model::condition::{Condition, ConditionReason, ConditionType};
use poolctl::model::deployment::{ClusterDeployment, Provisioning};
use poolctl::model::documents::{Secret, SecretValue, StoredValue};
use poolctl::model::driver::Driver;
use poolctl::model::host::{BareMetalHost, Bmc, ConsumerRef, CredentialsStatus, Image, SecretRef};
use poolctl::model::infra_env::InfraEnv;
use poolctl::model::ip_lease::IpLease;
use poolctl::model::job::{HostReport, Installation, Job, JobOutcome, JobReport, Verb};
use poolctl::model::lease::ClusterHolder;
use poolctl::model::meta::{Key, LocalRef, Meta};
use poolctl::model::state::State;
use poolctl::model::template::Template;
use poolctl::model::tick::Tick;
use poolctl::model::time::Span;
use poolctl::plan;

use crate::fixture::{NAMESPACE, Names, noon};

const CLUSTER: &str = "edge";
pub const ADDRESS: &str = "redfish://127.0.0.1:9/redfish/v1/Systems/1";
pub const INVENTORY: &str = r#"{"hostname": "node-1",
    "cpu": {"count": 16, "architecture": "x86_64"},
    "memory": {"physicalBytes": 68719476736, "usableBytes": 68719476736},
    "disks": [{"id": "/dev/disk/by-id/sda", "name": "sda", "path": "/dev/sda", "driveType": "SSD",
        "sizeBytes": 480000000000, "bootable": true, "installationEligibility": {"eligible": true}}],
    "interfaces": [{"name": "eth0", "macAddress": "02:00:00:00:00:01", "type": "physical",
        "ipV4Addresses": ["1.2.3.4/24"], "hasCarrier": true}],
    "routes": [{"destination": "0.0.0.0", "family": 2, "gateway": "1.2.3.1", "interface": "eth0"}],
    "boot": {"currentBootMode": "uefi"},
    "systemVendor": {"manufacturer": "Acme", "productName": "R7"}}"#;
pub const INSTALL_CONFIG: &str = "baseDomain: example.com\nmetadata: {name: edge}\n\
    controlPlane: {name: master, replicas: 1}\ncompute: [{name: worker, replicas: 0}]\n\
    networking: {machineNetwork: [{cidr: 1.2.3.0/24}]}\nplatform: {none: {}}\npullSecret: '{}'\n";

fn named(name: &str) -> Meta {
    Meta { name: name.into(), namespace: NAMESPACE.into(), generation: 1, ..Meta::default() }
}

/// A machine that is off, with a controller that takes its credentials.
fn host() -> BareMetalHost {
    let mut host = BareMetalHost { metadata: named("n1"), ..BareMetalHost::default() };
    host.metadata.labels.insert("infraenvs.agent-install.openshift.io".into(), "rack".into());
    host.spec.boot_mac_address = "02:00:00:00:00:01".into();
    host.spec.bmc =
        Some(Bmc { address: ADDRESS.into(), credentials_name: "bmc".into(), ..Bmc::default() });
    host.spec.consumer_ref = Some(ConsumerRef {
        kind: "ClusterDeployment".into(),
        name: CLUSTER.into(),
        namespace: NAMESPACE.into(),
        ..ConsumerRef::default()
    });
    let credentials = SecretRef { name: "bmc".into(), namespace: NAMESPACE.into() };
    let credentials_version = "/1".into();
    host.status.good_credentials = Some(CredentialsStatus { credentials, credentials_version });
    host.status.last_updated = Some(noon().now);
    host.status.conditions.push(Condition::new(
        ConditionType::PoweredOn,
        "False",
        ConditionReason::PoweredOff,
        "",
    ));
    host
}

/// The Agent of that machine, bound to the cluster and ready. A found Agent is known by its
/// controller alone; another runs the discovery image and reports itself.
fn agent(found: bool) -> Agent {
    let mut agent = Agent { metadata: named("n1"), ..Agent::default() };
    agent.metadata.labels.insert("infraenvs.agent-install.openshift.io".into(), "rack".into());
    agent.metadata.labels.insert("agent-install.openshift.io/bmh".into(), "n1".into());
    agent.spec.cluster_deployment_name =
        Some(ClusterReference::from_key(&Key::new(NAMESPACE, CLUSTER)));
    agent.spec.approved = true;
    agent.spec.role = Role::Master;
    let status = &mut agent.status;
    status.bound_to = Some(ClusterReference::from_key(&Key::new(NAMESPACE, CLUSTER)));
    status.found_by_controller = found;
    status.host_id = "h1".into();
    status.inventory = Some(serde_json::from_str(INVENTORY).unwrap());
    status.last_contact_time = Some(noon().now);
    status.debug_info.state = HostState::Known;
    agent
}

fn cluster() -> Cluster {
    let mut body = ClusterDeployment { metadata: named(CLUSTER), ..ClusterDeployment::default() };
    body.spec.provisioning = Some(Provisioning {
        install_config_secret_ref: Some(LocalRef::to_name("install-config")),
        ..Provisioning::default()
    });
    Cluster {
        name: CLUSTER.into(),
        namespace: NAMESPACE.into(),
        cluster_name: CLUSTER.into(),
        base_domain: "example.com".into(),
        created: noon().now,
        driver: Driver::Agent,
        by_agents: true,
        attempts_limit: Some(1),
        body: Some(Box::new(body)),
        ..Cluster::default()
    }
}

/// What is otherwise in a lab: the cluster waits before its installation, and the host is on
/// because its owner wishes it so.
const NOT_BEGUN: fn(&mut BareMetalHost, &mut Cluster) = |_, cluster| cluster.paused = true;
const OWNERS_WISH: fn(&mut BareMetalHost, &mut Cluster) = |host, _| host.spec.online = true;

/// A cluster of one host whose installation begins now.
fn lab(found: bool, otherwise: &[fn(&mut BareMetalHost, &mut Cluster)]) -> State {
    let (mut host, mut cluster) = (host(), cluster());
    for change in otherwise {
        change(&mut host, &mut cluster);
    }
    let mut state = State::default();
    state.has_all_hosts = true;
    let stored = |key: &str| (key.to_owned(), StoredValue::Kept);
    state.secrets.load(Secret {
        metadata: named("bmc"),
        values: [stored("username"), stored("password")].into(),
        ..Secret::default()
    });
    state.infra_envs.load(InfraEnv { metadata: named("rack"), ..InfraEnv::default() });
    state.hosts.load(host);
    state.agents.load(agent(found));
    let template = Template::new(SecretValue::new(INSTALL_CONFIG));
    state.templates.insert(Key::new(NAMESPACE, "install-config"), template);
    state.load_cluster(cluster);
    settle(&mut state, &noon());
    state
}

pub fn settle(state: &mut State, tick: &Tick) {
    plan::settle(state, tick, &Names::default()).unwrap();
}

pub fn later(minutes: i64) -> Tick {
    let noon = noon();
    Tick { now: noon.now.plus(Span::minutes(minutes)), ..noon }
}

pub fn live_job(state: &State, verb: Verb) -> Job {
    let live = state.jobs.rows().find(|job| job.ended.is_none() && job.verb == verb);
    live.unwrap_or_else(|| {
        let cluster =
            state.clusters.rows().next().map(|cluster| (cluster.phase(), &cluster.shortage));
        let agent = state.agents.rows().next().map(|agent| &agent.status.debug_info);
        panic!("no live {}: {cluster:?} {agent:?} {:?}", verb.name(), state.jobs)
    })
    .clone()
}

fn end_job(state: &mut State, job: &Job, outcome: JobOutcome, tick: &Tick) {
    let report = |outcome| JobReport { job: job.id, object: job.object.clone(), outcome };
    let powered_on = match &outcome {
        JobOutcome::Installed(_) => Some(true),
        _ => (job.verb == Verb::Deprovision).then_some(false),
    };
    let seen = HostReport {
        host: format!("{NAMESPACE}/n1"),
        address: ADDRESS.into(),
        credentials: "/1".into(),
        powered_on,
        image: Some(String::new()),
        ..HostReport::default()
    };
    plan::take_job_reports(
        state,
        vec![report(JobOutcome::Hosts(vec![seen])), report(outcome)],
        tick,
    );
    settle(state, tick);
}

/// Somebody deletes the cluster; the next pass begins to give back what it has.
pub fn delete_cluster(state: &mut State) {
    let cluster = state.find_cluster(CLUSTER).unwrap();
    state.clusters.update(cluster, |cluster| cluster.deleting = Some(noon().now));
}

/// The cluster is gone, and nothing that is done for the host from now on switches it on.
fn assert_off_for_good(state: &mut State, how: &str) {
    assert!(state.find_cluster(CLUSTER).is_none(), "{how}: the cluster is still there");
    // Later than every pause before another attempt.
    for minutes in [30, 90, 24 * 60] {
        settle(state, &later(minutes));
        let host = state.hosts.rows().next().unwrap();
        assert!(!host.spec.online && host.spec.image.is_none(), "{how}: {:?}", host.spec);
        assert_eq!(host.status.switched_on_for, None, "{how}");
        let starts = state.jobs.rows().filter(|job| job.host().is_some() && job.ended.is_none());
        let starts = starts.filter(|job| !matches!(job.verb, Verb::State | Verb::Inspect));
        assert_eq!(starts.count(), 0, "{how}: {:?}", state.jobs);
    }
}

#[test]
fn a_host_is_off_after_its_cluster_was_deleted_while_it_was_preparing() {
    for found in [true, false] {
        let mut state = lab(found, &[]);
        let provision = live_job(&state, Verb::Provision);
        assert_eq!(provision.hosts, [format!("{NAMESPACE}/n1")]);
        assert!(state.hosts.rows().next().unwrap().spec.online);
        delete_cluster(&mut state);
        settle(&mut state, &later(1));
        let deprovision = live_job(&state, Verb::Deprovision);
        end_job(&mut state, &deprovision, JobOutcome::Done, &later(2));
        assert_off_for_good(&mut state, "deleted while preparing");
    }
}

#[test]
fn a_host_is_off_after_the_image_of_its_cluster_could_not_be_made_or_booted() {
    for found in [true, false] {
        let mut state = lab(found, &[]);
        let provision = live_job(&state, Verb::Provision);
        let why = "agent create image: exit code 3";
        end_job(&mut state, &provision, JobOutcome::failed(why), &later(1));
        delete_cluster(&mut state);
        settle(&mut state, &later(2));
        let deprovision = live_job(&state, Verb::Deprovision);
        end_job(&mut state, &deprovision, JobOutcome::Done, &later(3));
        assert_off_for_good(&mut state, why);
    }
}

#[test]
fn a_host_is_off_after_its_agent_was_deleted_or_its_environment_went_with_the_cluster() {
    let mut state = lab(true, &[]);
    let environment = state.infra_envs.find(&Key::new(NAMESPACE, "rack")).unwrap();
    state.infra_envs.update(environment, |environment| {
        environment.spec.cluster_ref =
            Some(ClusterReference::from_key(&Key::new(NAMESPACE, CLUSTER)));
    });
    delete_cluster(&mut state);
    settle(&mut state, &later(1));
    let deprovision = live_job(&state, Verb::Deprovision);
    end_job(&mut state, &deprovision, JobOutcome::Done, &later(2));
    assert_eq!(state.agents.rows().count(), 0);
    assert_off_for_good(&mut state, "its InfraEnv was of the cluster");
}

#[test]
fn a_host_that_was_never_switched_on_for_its_cluster_stays_as_its_owner_has_it() {
    // poolctl did not switch it on, and so does not switch it off either.
    let mut state = lab(false, &[NOT_BEGUN, OWNERS_WISH]);
    let agent = state.agents.find(&Key::new(NAMESPACE, "n1")).unwrap();
    state.agents.update(agent, |agent| agent.spec.cluster_deployment_name = None);
    settle(&mut state, &noon());
    let host = state.hosts.rows().next().unwrap();
    assert!(host.spec.online && host.spec.consumer_ref.is_none(), "{:?}", host.spec);
}

/// The address of the host, which runs as a node of the cluster.
pub fn running_node() -> State {
    let mut state = lab(true, &[]);
    let holder = ClusterHolder { agent: Some("n1".into()), ..ClusterHolder::new(CLUSTER) };
    state.ip_leases.load(IpLease {
        namespace: NAMESPACE.into(),
        claim: "edge-n1".into(),
        pool: "nodes".into(),
        address: Some("1.2.3.4".parse().unwrap()),
        holder: Some(holder),
        ..IpLease::default()
    });
    let provision = live_job(&state, Verb::Provision);
    end_job(&mut state, &provision, JobOutcome::Installed(Installation::default()), &later(1));
    let at = state.agents.find(&Key::new(NAMESPACE, "n1")).unwrap();
    state.agents.update(at, |agent| agent.status.debug_info.state = HostState::Installed);
    state
}

fn has_address(state: &State) -> bool {
    state.ip_leases.rows().count() == 1
}

/// What its management controller says of the host, in a job of its own.
fn controller_says(state: &mut State, verb: Verb, powered_on: bool, tick: &Tick) {
    let job = live_job(state, verb);
    let seen = HostReport {
        host: format!("{NAMESPACE}/n1"),
        address: ADDRESS.into(),
        credentials: "/1".into(),
        powered_on: Some(powered_on),
        ..HostReport::default()
    };
    let report = |outcome| JobReport { job: job.id, object: job.object.clone(), outcome };
    plan::take_job_reports(
        state,
        vec![report(JobOutcome::Hosts(vec![seen])), report(JobOutcome::Done)],
        tick,
    );
    settle(state, tick);
}

#[test]
fn a_node_that_is_unbound_keeps_its_address_until_its_controller_reports_it_off() {
    // Once it is known to run, once it was off some time ago and may have been switched on since.
    for was_on in [true, false] {
        let mut state = running_node();
        let power = if was_on { "True" } else { "False" };
        let host = state.hosts.find(&Key::new(NAMESPACE, "n1")).unwrap();
        state.hosts.update(host, |host| {
            host.status.conditions.retain(|condition| condition.kind != "PoweredOn");
            host.status.conditions.push(Condition {
                kind: ConditionType::PoweredOn.into(),
                status: power.into(),
                ..Condition::default()
            });
        });
        let agent = state.agents.find(&Key::new(NAMESPACE, "n1")).unwrap();
        state.agents.update(agent, |agent| agent.spec.cluster_deployment_name = None);
        settle(&mut state, &later(5));
        assert!(has_address(&state), "was on: {was_on}");
        let agent = state.agents.rows().next().unwrap();
        assert!(agent.status.bound_to.is_none(), "{:?}", agent.status.debug_info);
        assert!(
            plan::agents::why_kept_back(&state, agent).unwrap().contains("reported that it is off")
        );
        // It is switched off unasked: a job of its cluster may be about to switch it on.
        controller_says(&mut state, Verb::Stop, false, &later(7));
        assert!(!has_address(&state), "was on: {was_on}");
    }
}

#[test]
fn a_host_that_poolctl_leaves_alone_keeps_its_address_when_its_cluster_is_gone() {
    let mut state = running_node();
    let host = state.hosts.find(&Key::new(NAMESPACE, "n1")).unwrap();
    state.hosts.update(host, |host| {
        host.metadata.annotations.insert("baremetalhost.metal3.io/detached".into(), String::new());
    });
    delete_cluster(&mut state);
    settle(&mut state, &later(2));
    let deprovision = live_job(&state, Verb::Deprovision);
    let report =
        JobReport { job: deprovision.id, object: deprovision.object, outcome: JobOutcome::Done };
    plan::take_job_reports(&mut state, vec![report], &later(3));
    settle(&mut state, &later(3));
    assert!(state.find_cluster(CLUSTER).is_none() && has_address(&state));
    // Once it is attached again it is switched off, and its controller says so.
    state.hosts.update(host, |host| host.metadata.annotations.clear());
    settle(&mut state, &later(4));
    controller_says(&mut state, Verb::Stop, false, &later(5));
    assert!(!has_address(&state));
}

#[test]
fn a_host_that_has_lost_its_agent_is_off_after_its_cluster_too() {
    let mut state = running_node();
    let agent = state.agents.find(&Key::new(NAMESPACE, "n1")).unwrap();
    state.agents.remove(agent);
    delete_cluster(&mut state);
    settle(&mut state, &later(2));
    let deprovision = live_job(&state, Verb::Deprovision);
    end_job(&mut state, &deprovision, JobOutcome::Done, &later(3));
    assert_off_for_good(&mut state, "its Agent was gone");
    assert_eq!(state.hosts.rows().next().unwrap().spec.consumer_ref, None);
}

/// What a person does to a state.
type Edit = fn(&mut State);

#[test]
fn a_host_that_a_person_takes_from_its_cluster_or_whose_cluster_was_lost_is_switched_off() {
    let edits: [(&str, Edit); 2] = [
        ("consumerRef removed", |state| {
            let host = state.hosts.find(&Key::new(NAMESPACE, "n1")).unwrap();
            state.hosts.update(host, |host| host.spec.consumer_ref = None);
        }),
        ("cluster lost", |state| {
            let cluster = state.find_cluster(CLUSTER).unwrap();
            state.clusters.remove(cluster);
        }),
    ];
    for (how, edit) in edits {
        let mut state = running_node();
        let agent = state.agents.find(&Key::new(NAMESPACE, "n1")).unwrap();
        state.agents.remove(agent);
        edit(&mut state);
        assert_eq!(plan::find_lost_hosts(&state).len(), 1, "{how}");
        settle(&mut state, &later(5));
        let host = state.hosts.rows().next().unwrap();
        assert!(!host.spec.online && host.spec.consumer_ref.is_none(), "{how}: {:?}", host.spec);
        assert_eq!(host.status.may_run_for.as_deref(), Some(CLUSTER), "{how}");
        controller_says(&mut state, Verb::Stop, false, &later(6));
        let host = state.hosts.rows().next().unwrap();
        assert_eq!(host.status.may_run_for, None, "{how}");
        let reasons: Vec<String> =
            state.events.iter().map(|(event, _)| event.reason.clone()).collect();
        assert!(reasons.contains(&"HostGivenBack".to_owned()), "{how}: {reasons:?}");
    }
}

#[test]
fn a_host_that_is_held_or_whose_cluster_was_left_running_is_not_switched_off() {
    // Held as it was before a restore, which does not know its cluster.
    let mut state = running_node();
    let agent = state.agents.find(&Key::new(NAMESPACE, "n1")).unwrap();
    state.agents.remove(agent);
    let host = state.hosts.find(&Key::new(NAMESPACE, "n1")).unwrap();
    state.hosts.update(host, |host| {
        host.metadata.annotations.insert("poolctl.dev/hold".into(), "used since".into());
    });
    let cluster = state.find_cluster(CLUSTER).unwrap();
    state.clusters.remove(cluster);
    settle(&mut state, &later(5));
    assert!(state.hosts.get(host).unwrap().spec.online);

    let mut state = running_node();
    let cluster = state.find_cluster(CLUSTER).unwrap();
    state.clusters.update(cluster, |cluster| cluster.preserve = true);
    delete_cluster(&mut state);
    settle(&mut state, &later(5));
    assert!(state.find_cluster(CLUSTER).is_none());
    let host = state.hosts.rows().next().unwrap();
    assert!(host.spec.online && host.status.switched_on_for.is_none(), "{:?}", host.status);
    assert!(plan::find_lost_hosts(&state).is_empty());
}

#[test]
fn a_host_that_its_controller_could_not_bring_back_is_off() {
    let mut state = lab(false, &[]);
    let environment = state.infra_envs.find(&Key::new(NAMESPACE, "rack")).unwrap();
    state.infra_envs.update(environment, |environment| {
        environment.status.iso_download_url = "http://192.0.2.1/rack.iso".into();
    });
    let provision = live_job(&state, Verb::Provision);
    end_job(&mut state, &provision, JobOutcome::Installed(Installation::default()), &later(1));
    let agent = state.agents.find(&Key::new(NAMESPACE, "n1")).unwrap();
    state.agents.update(agent, |agent| agent.spec.cluster_deployment_name = None);
    settle(&mut state, &later(2));
    assert_eq!(state.agents.get(agent).unwrap().state(), HostState::Reclaiming);
    // It runs its last cluster until it is off, and boots the image only then.
    controller_says(&mut state, Verb::Stop, false, &later(3));
    let attach = live_job(&state, Verb::Attach);
    let report = JobReport {
        job: attach.id,
        object: attach.object,
        outcome: JobOutcome::failed("virtual media answer 503"),
    };
    plan::take_job_reports(&mut state, vec![report], &later(4));
    settle(&mut state, &later(90));
    let host = state.hosts.rows().next().unwrap();
    assert!(!host.spec.online && host.spec.image.is_none(), "{:?}", host.spec);
}

/// It was called provisioned, and nobody ever booted it from the image.
#[test]
fn a_host_whose_controller_broke_off_before_the_reset_is_not_provisioned_and_is_tried_again() {
    let url = "http://192.0.2.1/tools.iso";
    let mut state = lab(true, &[NOT_BEGUN]);
    let host_id = state.hosts.find(&Key::new(NAMESPACE, "n1")).unwrap();
    state.hosts.update(host_id, |host| {
        host.spec.image = Some(Image::live(url));
        host.spec.online = true;
    });
    settle(&mut state, &later(1));
    let attach = live_job(&state, Verb::Attach);
    let seen = HostReport {
        host: format!("{NAMESPACE}/n1"),
        address: ADDRESS.into(),
        credentials: "/1".into(),
        image: Some(url.to_owned()),
        error: "it does not answer".to_owned(),
        ..HostReport::default()
    };
    let told = |outcome| JobReport { job: attach.id, object: attach.object.clone(), outcome };
    let messages =
        vec![told(JobOutcome::Hosts(vec![seen])), told(JobOutcome::failed("it does not answer"))];
    plan::take_job_reports(&mut state, messages, &later(2));
    settle(&mut state, &later(2));
    let status = &state.hosts.get(host_id).unwrap().status;
    assert_eq!(status.provisioning.state, "provisioning");
    assert_eq!(status.operational_status, "error");
    settle(&mut state, &later(10));
    live_job(&state, Verb::Attach);
}
