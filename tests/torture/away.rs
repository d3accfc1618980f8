//! Management controllers that die at any request: before they have done what they were asked, or
//! after it and before they say so. Their host boots its image all the same.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::machines::{host_status, import_hosts, reconcile_until, sandbox_on_real_clock};
use crate::rigs::{PASSWORD, USER};
use crate::served::{Answer, Server};
use crate::vendors::{Machine, Make};

use super::{Tally, points_of_each, spread};

const IMAGE: &str = "http://127.0.0.1:1/discovery.iso";
/// More requests than a host needs to boot an image.
const LAST_REQUEST: usize = 40;

/// When a controller dies at a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    BeforeTheWork,
    AfterTheWork,
}

/// What a controller keeps as its ledger.
#[derive(Default)]
struct Ledger {
    requests: AtomicUsize,
    /// How often the machine was switched on.
    starts: AtomicUsize,
}

/// A controller that gives no answer to one request.
fn controller(
    at: usize,
    death: Death,
    machine: &Arc<Mutex<Machine>>,
    ledger: &Arc<Ledger>,
) -> Server {
    let (machine, ledger) = (Arc::clone(machine), Arc::clone(ledger));
    Server::plain(move |request| {
        let number = ledger.requests.fetch_add(1, Ordering::SeqCst) + 1;
        if number == at && death == Death::BeforeTheWork {
            return Answer::status(503);
        }
        let mut machine = machine.lock().unwrap();
        let was_on = machine.on;
        let answer = machine.answer(request);
        if machine.on && !was_on {
            ledger.starts.fetch_add(1, Ordering::SeqCst);
        }
        if number == at { Answer::status(503) } else { answer }
    })
}

/// Boots a host whose controller dies at a request. True if it came to that request.
fn boot_despite_death(at: usize, death: Death) -> bool {
    let machine = Arc::new(Mutex::new(Machine::new(Make::Plain)));
    let ledger = Arc::new(Ledger::default());
    let server = controller(at, death, &machine, &ledger);
    let lab = sandbox_on_real_clock();
    let line = format!("n1,{},{USER},{PASSWORD}", server.bmc_address(""));
    import_hosts(&lab, "name,bmc,username,password", &[line]);
    let boot = format!("host boot n1 --iso {IMAGE} -q");
    lab.ok(&boot);
    reconcile_until(&lab, &format!("booted, with {death:?} at request {at}"), |lab| {
        // Nobody waits for the next try.
        if host_status(lab, "n1", "operationalStatus") == "error" {
            lab.run(&boot);
        }
        host_status(lab, "n1", "provisioning.state") == "provisioned"
            && host_status(lab, "n1", "poweredOn") == "true"
    });
    let machine = machine.lock().unwrap();
    assert_eq!((machine.on, machine.image.as_deref()), (true, Some(IMAGE)), "{death:?} {at}");
    assert_eq!(machine.booted.as_deref(), Some("Cd"), "{death:?} {at}");
    // Who was not told of a start may ask for it again.
    let most = if death == Death::AfterTheWork { 2 } else { 1 };
    let starts = ledger.starts.load(Ordering::SeqCst);
    assert!((1..=most).contains(&starts), "{starts} starts: {death:?} {at}");
    ledger.requests.load(Ordering::SeqCst) >= at
}

#[test]
fn a_controller_that_dies_at_any_request_boots_its_host() {
    let mut points = Vec::new();
    for at in 1..=LAST_REQUEST {
        points.extend([(at, Death::BeforeTheWork), (at, Death::AfterTheWork)]);
    }
    let mut tally = Tally::default();
    for (at, death) in spread(points, points_of_each(1).saturating_mul(3)) {
        let has_fired = boot_despite_death(at, death);
        tally.points += 1;
        tally.fired += usize::from(has_fired);
        tally.held += usize::from(has_fired);
    }
    tally.note("controller dies");
}
