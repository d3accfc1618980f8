//! Acts: one file per provider. Reports what became of jobs, decides nothing.
//!
//! Every driver has the same verbs: provision, deprovision, add-nodes, start, stop, health. Each
//! may be begun again for another job, can be cancelled and has a deadline; it is done, has failed
//! (of use to try again or not), or still works. Real drivers are processes under a supervisor:
//! `place` is the folder of a job, `supervise` the process, `task` what it gives to a driver,
//! `dispatch` the choice of the driver, `journal` what programs print on its way into the `log`.

mod add_nodes;
mod agent;
mod certificate_requests;
mod controller;
mod credentials;
pub mod discovery;
mod dispatch;
mod exec;
mod fake;
mod files;
mod http;
mod image;
mod installer;
mod ipmi;
mod journal;
mod kube;
pub mod log;
mod machines;
pub mod place;
mod power;
pub mod process;
pub mod programs;
mod redfish;
mod release;
mod scrub;
pub mod shelf;
pub mod stream;
pub mod supervise;
mod task;
mod trust;

use std::collections::BTreeMap;
use std::path::Path;

use crate::model::documents::SecretValue;
use crate::model::driver::Driver;
use crate::model::job::{Failure, Health, Installation, Job, Outcome, Report, Verb};
use crate::model::meta::{Steering, is_true};
use crate::model::order::{Ending, Verdict};
use crate::model::time::{Span, Time};

use place::{Place, Standing};

/// A live job, with what its driver goes by.
pub struct Work<'a> {
    pub job: &'a Job,
    pub cluster_name: &'a str,
    pub base_domain: &'a str,
    pub annotations: BTreeMap<String, String>,
    /// Where the folders of jobs are.
    pub jobs: &'a Path,
}

impl Work<'_> {
    fn place(&self) -> Place {
        Place::of(self.jobs, &self.job.id.to_string())
    }
}

/// What became of a job, if there is anything to say.
pub fn collect(work: &Work<'_>, now: Time) -> Vec<Report> {
    match work.job.driver {
        Driver::Fake => fake::collect_report(work, now).into_iter().collect(),
        Driver::Missing => Vec::new(),
        Driver::Installer | Driver::Agent | Driver::Exec | Driver::Ipmi | Driver::Redfish => {
            supervised(work)
        }
    }
}

/// Whether nobody but the pass will end the job when it is late: a supervisor does it itself,
/// unless it is held up.
pub fn is_unattended(work: &Work<'_>) -> bool {
    let place = || work.place();
    !work.job.driver.supervised() || place().is_orphaned() || place().is_long_overdue()
}

/// Whether somebody has begun to work on the job.
pub fn is_begun(work: &Work<'_>) -> bool {
    work.job.driver.supervised() && work.place().file_path("started").exists()
}

fn supervised(work: &Work<'_>) -> Vec<Report> {
    let place = work.place();
    let mut hosts = None;
    let over = match place.standing() {
        Standing::NotStarted if work.job.begun => {
            Some(broke_off("its folder is gone; what it made may be there still".into(), false))
        }
        Standing::NotStarted => return Vec::new(),
        Standing::Running => None,
        Standing::Interrupted => Some(broke_off("its supervisor is gone".into(), false)),
        Standing::Over(ending) => {
            hosts = Some(ending.hosts.clone()).filter(|all| !all.is_empty()).map(Outcome::Hosts);
            Some(over(&place, work.job.verb, &ending))
        }
    };
    let saved = match work.job.verb {
        Verb::Provision => {
            Some(left(&place, &Ending::default())).filter(|one| one.metadata.is_some())
        }
        Verb::AddNodes => Some(nodes(&place)).filter(|one| one.nodes.is_some()),
        Verb::Deprovision
        | Verb::Start
        | Verb::Stop
        | Verb::Health
        | Verb::Cycle
        | Verb::State
        | Verb::Attach
        | Verb::Eject
        | Verb::Inspect
        | Verb::Wipe => None,
    };
    let saved = saved.map(Outcome::Saved);
    let goes_on = over.is_none();
    let said = Some(&place).filter(|_| goes_on && work.job.verb == Verb::Provision);
    let said = said.and_then(Place::last_message).map(Outcome::Progress);
    let installs = matches!(work.job.verb, Verb::Provision | Verb::AddNodes);
    let hears = goes_on && installs && work.job.driver == Driver::Agent;
    let image = |text: String| Some(text).filter(|text| !text.is_empty());
    let boots = place.boot_image().filter(|_| hears).map(|text| Outcome::Boots(image(text)));
    let (job, object) = (work.job.id, &work.job.object);
    let report = |outcome| Report { job, object: object.clone(), outcome };
    saved.into_iter().chain(said).chain(boots).chain(hosts).chain(over).map(report).collect()
}

fn broke_off(message: String, later: bool) -> Outcome {
    Outcome::BrokeOff { message, later }
}

fn over(place: &Place, verb: Verb, ending: &Ending) -> Outcome {
    let Ending { verdict, message, .. } = ending.clone();
    match verdict {
        Verdict::BrokeOff => return broke_off(message, false),
        Verdict::Later => return broke_off(message, true),
        Verdict::Failed => return Outcome::Failed { message, how: Failure::Usual },
        Verdict::Hopeless => return Outcome::Failed { message, how: Failure::Hopeless },
        Verdict::NothingMade => return Outcome::Failed { message, how: Failure::NothingMade },
        Verdict::Succeeded => {}
    }
    match verb {
        Verb::Provision => Outcome::Installed(left(place, ending)),
        Verb::Health => match &ending.health {
            Some(health) => Outcome::Healthy(Health {
                machines: health.machines.clone(),
                nodes_ready: health.nodes_ready,
                operators_ready: health.operators_ready,
                settle: crate::model::power::SETTLE,
            }),
            None => Outcome::failed("the driver said nothing of the cluster's health"),
        },
        Verb::Deprovision
        | Verb::Start
        | Verb::Stop
        | Verb::Cycle
        | Verb::State
        | Verb::Attach
        | Verb::Eject
        | Verb::Inspect
        | Verb::AddNodes
        | Verb::Wipe => Outcome::Done,
    }
}

/// The nodes of a cluster that others have joined.
fn nodes(place: &Place) -> Installation {
    Installation {
        nodes: place.read_saved("nodes.json").map(SecretValue::new),
        ..Installation::default()
    }
}

/// What a job has saved so far.
fn left(place: &Place, ending: &Ending) -> Installation {
    let value = |name: &str| place.read_saved(name).map(SecretValue::new);
    Installation {
        infra_id: ending.infra_id.clone(),
        cluster_id: ending.cluster_id.clone(),
        kubeconfig: value("kubeconfig"),
        password: value("kubeadmin-password"),
        metadata: value("metadata.json"),
        nodes: value("nodes.json"),
    }
}

/// On a cluster, as a label: it counts as running before its operators do.
const SKIP_OPERATORS: &str = "hive.openshift.io/resume-skips-cluster-operators";

/// How a simulated cluster does that was told to start or stop; others need a job to tell.
pub fn health(driver: Driver, steering: &Steering, name: &str) -> Option<Health> {
    if driver != Driver::Fake {
        return None;
    }
    Some(skipping(fake::simulated_health(&steering.annotations, name), steering))
}

/// Health, as far as it matters for this cluster.
pub fn skipping(health: Health, steering: &Steering) -> Health {
    if steering.labels.get(SKIP_OPERATORS).is_some_and(|value| is_true(value)) {
        return Health { operators_ready: true, settle: Span::default(), ..health };
    }
    health
}

/// When a job will be over, if its driver knows.
pub fn due(work: &Work<'_>) -> Option<Time> {
    (work.job.driver == Driver::Fake).then(|| fake::completion_time(work))
}
