//! Management controllers that answer nonsense: the bodies of a machine that follows the standard,
//! changed at random. What is read of them ends in the state and in front of people.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::machines::{import_hosts, sandbox_on_real_clock};
use crate::rigs::{PASSWORD, USER};
use crate::sandbox::pause;
use crate::served::{Answer, Request, Server};
use crate::torture::{Tally, points_of_each};
use crate::vendors::{Machine, Make};

use super::corpus;
use super::mutate::Mutator;

/// How many controllers answer at the same time.
const CONTROLLERS: usize = 6;

/// A controller of which every other body is nonsense; `count` is how many were sent.
fn controller(number: usize, count: &Arc<AtomicUsize>) -> Server {
    let machine = Mutex::new(Machine::new(Make::Plain));
    let count = Arc::clone(count);
    let requests = AtomicUsize::new(0);
    Server::plain(move |request: &Request| {
        let mut answer: Answer = machine.lock().unwrap().answer(request);
        let turn = requests.fetch_add(1, Ordering::Relaxed);
        // The first answers lead into the tree.
        if turn % 3 == 2 && !answer.body.is_empty() {
            let mut bodies = corpus("redfish");
            bodies.insert(0, answer.body.clone());
            let mut mutator = Mutator::new(&format!("{number} {turn}"), &bodies);
            answer.body = mutator.next_input();
            count.fetch_add(1, Ordering::Relaxed);
        }
        answer
    })
}

#[test]
fn controllers_that_answer_nonsense_are_endured() {
    let lab = sandbox_on_real_clock();
    let count = Arc::new(AtomicUsize::new(0));
    let servers: Vec<Server> = (0..CONTROLLERS).map(|number| controller(number, &count)).collect();
    let lines: Vec<String> = servers
        .iter()
        .enumerate()
        .map(|(number, server)| {
            format!("node-{number},{},{USER},{PASSWORD}", server.bmc_address(""))
        })
        .collect();
    import_hosts(&lab, "name,bmc,username,password", &lines);
    let rounds = points_of_each(1).saturating_mul(8).min(200);
    for round in 0..rounds {
        let power = if round % 2 == 0 { "on" } else { "off" };
        lab.run(&format!("host power {power} --all -q"));
        let ran = lab.run("reconcile -q");
        assert!([0, 1].contains(&ran.code) && !ran.err.contains("panicked"), "{}", ran.err);
        pause(300);
    }
    let shown = lab.shell(
        "for command in events 'get host,job -A' 'get host -o yaml' 'describe host node-1' doctor; do
             poolctl $command
         done 2>&1; cat $HOME/jobs/*/log",
    );
    let is_obeyed = lab.ok("get host").contains(['\u{1b}', '\u{202e}']);
    assert!(!is_obeyed && !shown.out.contains("panicked"), "{}", shown.out);
    assert!(!shown.out.contains(PASSWORD), "{}", shown.out);
    let sent = count.load(Ordering::Relaxed);
    assert!(sent > 10, "{sent}");
    Tally { points: sent, fired: sent, held: sent }.note("fuzzed input");
    // Jobs that still talk to them end once nobody answers.
    drop(servers);
    lab.run("delete host --all -y -q");
}
