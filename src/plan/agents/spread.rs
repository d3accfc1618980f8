//! Hosts in the order in which they are tried for masters: those first whose place, such as a rack,
//! has the fewest masters yet. It changes no Agent.

use std::collections::{HashMap, VecDeque};

use crate::model::agent::Agent;

/// A host that is tried next.
pub struct QueuedHost<'a, K> {
    /// Where it stood before.
    pub order: usize,
    /// The place that it is in, for `SpreadQueue::choose`.
    pub place: usize,
    pub key: K,
    pub agent: &'a Agent,
}

/// The hosts of a place, in the order in which they were given.
struct Place<'a, K> {
    chosen: usize,
    waiting: VecDeque<(usize, K, &'a Agent)>,
}

/// Hosts that wait to be tried. Without a label all are in one place, and their order stays.
pub struct SpreadQueue<'a, K> {
    label: Option<String>,
    places: Vec<Place<'a, K>>,
    places_by_value: HashMap<String, usize>,
}

impl<'a, K> SpreadQueue<'a, K> {
    /// Hosts with the same value of the label are in one place; so are those that have none.
    pub fn new(label: Option<&str>, hosts: Vec<(K, &'a Agent)>) -> Self {
        let label = label.map(str::to_owned);
        let mut queue = Self { label, places: Vec::new(), places_by_value: HashMap::new() };
        for (order, (key, agent)) in hosts.into_iter().enumerate() {
            let place = queue.place_of(agent);
            if let Some(place) = queue.places.get_mut(place) {
                place.waiting.push_back((order, key, agent));
            }
        }
        queue
    }

    /// The place of a host, which is made if it is new.
    fn place_of(&mut self, agent: &Agent) -> usize {
        let label = self.label.as_ref().and_then(|label| agent.metadata.labels.get(label));
        let value = label.cloned().unwrap_or_default();
        let places = &mut self.places;
        *self.places_by_value.entry(value).or_insert_with(|| {
            places.push(Place { chosen: 0, waiting: VecDeque::new() });
            places.len() - 1
        })
    }

    /// Counts a host that is a master whatever is chosen.
    pub fn count(&mut self, agent: &Agent) {
        let place = self.place_of(agent);
        self.choose(place);
    }

    /// Counts a host of this place that was chosen.
    pub fn choose(&mut self, place: usize) {
        if let Some(place) = self.places.get_mut(place) {
            place.chosen += 1;
        }
    }

    /// The host that is tried next.
    pub fn pop(&mut self) -> Option<QueuedHost<'a, K>> {
        let mut best: Option<(usize, usize, usize)> = None;
        for (index, place) in self.places.iter().enumerate() {
            let Some((order, ..)) = place.waiting.front() else { continue };
            let rank = (place.chosen, *order, index);
            best = Some(best.map_or(rank, |best| best.min(rank)));
        }
        let (_, _, place) = best?;
        let (order, key, agent) = self.places.get_mut(place)?.waiting.pop_front()?;
        Some(QueuedHost { order, place, key, agent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(rack: &str) -> Agent {
        let mut agent = Agent::default();
        if !rack.is_empty() {
            agent.metadata.labels.insert("rack".into(), rack.into());
        }
        agent
    }

    /// The numbers of so many hosts, in the order in which they are chosen.
    fn choose(label: Option<&str>, racks: &[&str], masters: &[&str], count: usize) -> Vec<usize> {
        let hosts: Vec<Agent> = racks.iter().map(|rack| host(rack)).collect();
        let mut queue = SpreadQueue::new(label, hosts.iter().enumerate().collect());
        for rack in masters {
            queue.count(&host(rack));
        }
        let mut chosen = Vec::new();
        while chosen.len() < count {
            let Some(next) = queue.pop() else { break };
            queue.choose(next.place);
            chosen.push(next.key);
        }
        chosen
    }

    #[test]
    fn masters_are_in_as_many_racks_as_there_are() {
        let racks = ["1", "1", "1", "2", "2", "3", ""];
        assert_eq!(choose(Some("rack"), &racks, &[], 3), [0, 3, 5]);
        assert_eq!(choose(Some("rack"), &racks, &[], 5), [0, 3, 5, 6, 1]);
        assert_eq!(choose(Some("rack"), &racks, &["1", "3"], 2), [3, 6]);
        assert_eq!(choose(Some("row"), &racks, &[], 3), [0, 1, 2]);
        assert_eq!(choose(None, &racks, &[], 3), [0, 1, 2]);
        assert_eq!(choose(Some("rack"), &["1", "2"], &[], 3), [0, 1]);
    }
}
