//! Somebody behind sudo: finds out who, and asks the rules before anything is shown or done.

use crate::model::claim::Claim;
use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::time::Time;
use crate::rules::access::{Deed, Guest};
use crate::store::{Filter, Store};

use super::Context;

impl Context {
    /// The user behind sudo, if it is not the account itself or root who asks.
    pub fn guest(&self) -> Option<&Guest> {
        let read = || {
            self.world.guest()?;
            Some(Guest { name: self.world.actor(), groups: self.world.groups() })
        };
        self.guest.get_or_init(read).as_ref()
    }

    /// Before anything is opened: guests have a few commands, and name no files.
    pub fn admit(&self, command: &str, for_guests: bool) -> Result<(), Refusal> {
        if self.world.guest().is_none() {
            return Ok(());
        }
        if self.globals.state.is_some() {
            return Err(self.denied("--state chooses the state, which is the account's"));
        }
        if !for_guests {
            return Err(self.denied(&format!("`poolctl {command}` is for the account's owner")));
        }
        Ok(())
    }

    /// What no guest may see, whether there is such a thing or not.
    pub fn admit_to(&self, what: &str) -> Result<(), Refusal> {
        match self.world.guest() {
            Some(_) => Err(self.denied(&format!("{what} is not yours"))),
            None => Ok(()),
        }
    }

    /// What to type next; a guest is not sent where he may not go.
    pub fn step(&self, next: &str) -> String {
        if self.world.guest().is_none() || super::tree::for_guests(next) {
            return next.to_owned();
        }
        format!("ask {}", self.world.account())
    }

    fn denied(&self, what: &str) -> Refusal {
        let (guest, account) = (self.world.actor(), self.world.account());
        Refusal::new(Exit::Denied, what)
            .because(format!("you are {guest}, and the state belongs to {account}"))
            .next("poolctl claim, get claim, release, extend, kubeconfig and credentials are yours")
    }

    /// Refuses what a guest may not do with an object.
    pub fn permit(&self, store: &Store, deed: Deed, object: &Object) -> Result<(), Refusal> {
        let Some(guest) = self.guest() else {
            return Ok(());
        };
        let what = || {
            self.denied(&format!("{} `{}` is not yours", object.kind().word(), object.key().name))
        };
        let (claim, namespace) = match object {
            Object::Claim(claim) => (Some(claim.key()), claim.namespace.clone()),
            Object::Cluster(cluster) => {
                let pool = cluster.pool.as_deref().ok_or_else(what)?;
                (cluster.claim_key(), pool.namespace.clone())
            }
            _ => return Err(what()),
        };
        let claim = claim.map(|key| claimed(store, key)).transpose()?.flatten();
        let bindings = Filter { namespace: Some(namespace), ..Filter::default() };
        let bindings = store.objects(Kind::RoleBinding, &bindings)?.into_iter();
        let bindings: Vec<_> = bindings
            .filter_map(|one| if let Object::RoleBinding(one) = one { Some(one) } else { None })
            .collect();
        if guest.may(deed, claim.as_deref(), &bindings) { Ok(()) } else { Err(what()) }
    }

    /// The same for a claim inside a transaction: another may have its name by now.
    pub fn permit_change(&self, claim: &Claim) -> Result<(), Refusal> {
        match self.guest() {
            Some(guest) if !guest.may(Deed::Change, Some(claim), &[]) => {
                Err(self.denied(&format!("claim `{}` is not yours", claim.name)))
            }
            _ => Ok(()),
        }
    }

    /// Of several objects those that a guest may see.
    pub fn visible(&self, store: &Store, found: Vec<Object>) -> Result<Vec<Object>, Refusal> {
        if self.world.guest().is_none() {
            return Ok(found);
        }
        let mut seen = Vec::new();
        for one in found {
            match self.permit(store, Deed::See, &one) {
                Ok(()) => seen.push(one),
                Err(refusal) if refusal.exit == Exit::Denied => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(seen)
    }

    /// Since when a guest may know what happened to an object: another may have had its name.
    pub fn since(&self, object: &Object) -> Time {
        match object {
            Object::Claim(one) if self.world.guest().is_some() => one.created,
            Object::Cluster(one) if self.world.guest().is_some() => one.created,
            _ => Time::default(),
        }
    }
}

/// A claim with its body.
fn claimed(store: &Store, key: Key) -> Result<Option<Box<Claim>>, Refusal> {
    let filter = Filter { namespace: Some(key.namespace), name: Some(key.name), whole: true };
    let found = store.objects(Kind::ClusterClaim, &filter)?.into_iter().next();
    Ok(found.and_then(|one| if let Object::Claim(claim) = one { Some(claim) } else { None }))
}
