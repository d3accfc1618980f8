//! Somebody behind sudo: finds out who, and whether that is an admin or a guest, and asks the rules
//! before anything is shown or done.

use crate::model::claim::Claim;
use crate::model::documents::{RoleBinding, SettingsSpec};
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::{Exit, Refusal};
use crate::model::time::Time;
use crate::rules::access::{Deed, Person, shown_to_guests};
use crate::store::{Filter, Store};

use crate::commands::Context;

impl Context {
    /// The user behind sudo, unless that is an owner of the state.
    pub fn guest(&self) -> Option<&Person> {
        self.guest.get_or_init(|| self.find_guest()).as_ref()
    }

    fn find_guest(&self) -> Option<Person> {
        if !self.world.is_behind_sudo() {
            return None;
        }
        let person = Person { name: self.world.actor(), groups: self.world.groups() };
        // Whoever is not known as an owner is none.
        let is_owner = self.is_owner(&person).unwrap_or(false);
        (!is_owner).then_some(person)
    }

    /// Whether somebody behind sudo may do what the account may. Only the state in the default
    /// place decides that. In a state of their own, brought with --state or POOLCTL_STATE, people
    /// could name themselves as admins, and have the account read files and run programs for them.
    fn is_owner(&self, person: &Person) -> Result<bool, Refusal> {
        let path = self.world.default_state_path()?;
        // Root could read it anyway.
        if self.world.is_root_over(&path) {
            return Ok(true);
        }
        let settings = match Store::open(&path) {
            Err(absent) if absent.exit == Exit::NotFound => SettingsSpec::default(),
            store => self.door(&store?).settings()?,
        };
        Ok(person.is_admin(settings.admins.as_ref()))
    }

    /// Asked before a command does anything: guests have a few commands, and name no files.
    pub fn admit(&self, command: &str, for_guests: bool) -> Result<(), Refusal> {
        let Some(guest) = self.guest() else {
            return Ok(());
        };
        if !for_guests {
            self.is_owner(guest).map_err(|refusal| {
                let account = self.world.account();
                refusal
                    .because("a state that cannot be read does not say who its admins are")
                    .advise(format!("sudo -u {account} env -u SUDO_UID poolctl {command} ..."))
            })?;
            return Err(self.denied(&format!("`poolctl {command}` is for the account's owner")));
        }
        if self.globals.state.is_some() {
            return Err(self.denied("--state chooses the state, which is the account's"));
        }
        if let Some(name) = self.world.own_variable() {
            return Err(Refusal::new(Exit::Denied, format!("{name} is set, behind sudo"))
                .because("the state is another account's, and so is how it is used")
                .advise(format!(
                    "env -u {name} ...; if the account is yours, env -u SUDO_UID ..."
                )));
        }
        Ok(())
    }

    /// What no guest may see, whether there is such a thing or not.
    pub fn admit_to(&self, what: &str) -> Result<(), Refusal> {
        match self.guest() {
            Some(_) => Err(self.denied(&format!("{what} is not yours"))),
            None => Ok(()),
        }
    }

    /// What to type next; a guest is not sent where he may not go.
    pub fn step(&self, next: &str) -> String {
        if self.guest().is_none() || crate::commands::tree::for_guests(next) {
            return next.to_owned();
        }
        format!("ask {}", self.world.account())
    }

    fn denied(&self, what: &str) -> Refusal {
        let (guest, account) = (self.world.actor(), self.world.account());
        Refusal::new(Exit::Denied, what)
            .because(format!(
                "you are {guest}, and the state belongs to {account} and to its admins \
                 (poolctl explain settings.spec.admins)"
            ))
            .advise(
                "poolctl status, get, claim, extend, release, kubeconfig, credentials are yours",
            )
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
            Object::ClusterClaim(claim) => (Some(claim.key()), claim.namespace.clone()),
            Object::ClusterDeployment(cluster) => {
                let pool = cluster.pool.as_deref().ok_or_else(what)?;
                (cluster.claim_key(), pool.namespace.clone())
            }
            _ => return Err(what()),
        };
        let claim = claim.map(|key| store.whole::<Claim>(&key)).transpose()?.flatten();
        let filter = Filter { namespace: Some(namespace), ..Filter::default() };
        let bindings = store.list::<RoleBinding>(&filter)?;
        if guest.may(deed, claim.as_ref(), &bindings) { Ok(()) } else { Err(what()) }
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

    /// A pool as whoever asks may see it: guests see all pools, but only what concerns them.
    pub fn visible_pool(&self, pool: ClusterPool) -> ClusterPool {
        if self.guest().is_some() { shown_to_guests(pool) } else { pool }
    }

    /// Of several objects those that a guest may see.
    pub fn visible(&self, store: &Store, found: Vec<Object>) -> Result<Vec<Object>, Refusal> {
        if self.guest().is_none() {
            return Ok(found);
        }
        let mut seen = Vec::new();
        for object in found {
            if let Object::ClusterPool(pool) = object {
                seen.push(Object::ClusterPool(Box::new(self.visible_pool(*pool))));
                continue;
            }
            match self.permit(store, Deed::See, &object) {
                Ok(()) => seen.push(object),
                Err(refusal) if refusal.exit == Exit::Denied => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(seen)
    }

    /// Since when a guest may know what happened to an object: another may have had its name.
    pub fn since(&self, object: &Object) -> Time {
        match object {
            Object::ClusterClaim(one) if self.guest().is_some() => one.created,
            Object::ClusterDeployment(one) if self.guest().is_some() => one.created,
            _ => Time::default(),
        }
    }
}
