//! Access of people who use poolctl through sudo: finds out who they are and whether they are
//! admins or guests, and asks the rules before anything is shown or done. Without sudo nobody is a
//! guest.

use crate::model::claim::{Claim, ClaimCounts};
use crate::model::documents::{RoleBinding, SettingsSpec};
use crate::model::ip_lease::IpLease;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::{Exit, NextStep, Refusal};
use crate::model::time::Time;
use crate::rules::access::{
    AccessAction, Person, check_open_claims, check_quota, redact_pool_for_guests,
};
use crate::store::{Filter, Store};

use crate::commands::{Audience, Context};

impl Context {
    /// The user behind sudo, unless that user is an owner of the state.
    pub fn guest(&self) -> Option<&Person> {
        self.guest.get_or_init(|| self.find_guest()).as_ref()
    }

    /// The person behind sudo, unless that person is an admin of the state. A state that cannot be
    /// read names no admins, so that nobody gets more rights by damaging it.
    fn find_guest(&self) -> Option<Person> {
        if !self.world.is_behind_sudo() {
            return None;
        }
        let person = Person { name: self.world.actor_name(), groups: self.world.group_names() };
        // A state that cannot be read makes nobody its owner.
        let is_owner = self.is_owner(&person).unwrap_or(false);
        (!is_owner).then_some(person)
    }

    /// Whether a person behind sudo may do everything that the account may. Only the state in the
    /// default place decides that. In a state of their own, given with --state or POOLCTL_STATE,
    /// people could make themselves admins, and have the account read files and run programs.
    fn is_owner(&self, person: &Person) -> Result<bool, Refusal> {
        let path = self.world.default_state_path()?;
        // Root can read the state anyway.
        if self.world.is_root_over(&path) {
            return Ok(true);
        }
        let settings = match Store::open(&path) {
            Err(absent) if absent.exit == Exit::NotFound => SettingsSpec::default(),
            store => self.door(&store?).read_settings()?,
        };
        Ok(person.is_admin(settings.admins.as_ref()))
    }

    /// Refuses a command that guests may not use. It is called before the command does anything.
    /// Guests may not choose the state, nor set variables of poolctl.
    pub(super) fn check_command_access(
        &self,
        command: &str,
        audience: Audience,
    ) -> Result<(), Refusal> {
        let Some(guest) = self.guest() else {
            return Ok(());
        };
        if audience == Audience::Owner {
            self.is_owner(guest).map_err(|refusal| {
                let account = self.world.account_name();
                refusal.because("the state cannot be read, so its admins are not known").next(
                    NextStep::Line(format!("sudo -u {account} env -u SUDO_UID poolctl {command}")),
                )
            })?;
            return Err(self.denied(&format!("`poolctl {command}` is for the account's owner")));
        }
        if self.globals.state.is_some() {
            return Err(self.denied("--state cannot be used with sudo"));
        }
        if self.globals.i_know {
            return Err(self.denied("--i-know cannot be used with sudo"));
        }
        if let Some(name) = self.world.first_own_variable() {
            return Err(Refusal::new(Exit::Denied, format!("{name} must not be set with sudo"))
                .because("the state belongs to another account, whose environment applies")
                .advise(format!(
                    "env -u {name} COMMAND, or env -u SUDO_UID COMMAND if the account is yours"
                )));
        }
        Ok(())
    }

    /// Refuses guests before the object is looked for, so that they do not learn whether it exists.
    pub fn refuse_guest(&self, object: &str) -> Result<(), Refusal> {
        match self.guest() {
            Some(_) => Err(self.denied(&format!("{object} is not yours"))),
            None => Ok(()),
        }
    }

    /// Whether there is a command of this name.
    pub fn has_command(name: &str) -> bool {
        crate::commands::tree::tree().find_subcommand(name).is_some()
    }

    /// A refusal of something that guests may not do. It tells them who they are and which commands
    /// are for them.
    fn denied(&self, problem: &str) -> Refusal {
        let guest = self.world.actor_name();
        let account = self.world.account_name();
        Refusal::new(Exit::Denied, problem)
            .because(format!(
                "you are {guest}, and the state belongs to {account} and to its admins \
                 (poolctl explain settings.spec.admins)"
            ))
            .advise(
                "use poolctl status, get, claim, extend, release, ip claim, ip release, kubeconfig \
                 or credentials; for anything else, ask an admin",
            )
    }

    /// Refuses a deed that a guest may not do with an object.
    pub fn check_permission(
        &self,
        store: &Store,
        deed: AccessAction,
        object: &Object,
    ) -> Result<(), Refusal> {
        let Some(guest) = self.guest() else {
            return Ok(());
        };
        let (claim_key, namespace) = match object {
            Object::ClusterClaim(claim) => (Some(claim.key()), claim.namespace.clone()),
            Object::ClusterDeployment(cluster) => {
                let Some(pool) = &cluster.pool else { return Err(self.deny_object(object)) };
                (cluster.claim_key(), pool.namespace.clone())
            }
            _ => return Err(self.deny_object(object)),
        };
        let claim = match claim_key {
            Some(claim_key) => store.find_whole::<Claim>(&claim_key)?,
            None => None,
        };
        let filter = Filter { namespace: Some(namespace), ..Filter::default() };
        let bindings = store.list::<RoleBinding>(&filter)?;
        if guest.may(deed, claim.as_ref(), &bindings) {
            Ok(())
        } else {
            Err(self.deny_object(object))
        }
    }

    fn deny_object(&self, object: &Object) -> Refusal {
        self.denied(&format!("{} `{}` is not yours", object.kind().word(), object.key().name))
    }

    /// Refuses a guest who may not change a claim. It is called inside the transaction, because
    /// the name may be that of another person's claim by now.
    pub fn check_claim_permission(&self, claim: &Claim) -> Result<(), Refusal> {
        match self.guest() {
            Some(guest) if !guest.may(AccessAction::Change, Some(claim), &[]) => {
                Err(self.denied(&format!("claim `{}` is not yours", claim.name)))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a guest who may not change a claim of an address: it must be one that the guest has
    /// made. It is called inside the transaction, too, like the check of other claims.
    pub fn check_ip_claim_permission(&self, lease: &IpLease) -> Result<(), Refusal> {
        match self.guest() {
            Some(guest) if lease.owner() != Some(guest.name.as_str()) => {
                Err(self.denied(&format!("ipclaim `{}` is not yours", lease.claim)))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a further claim of a guest who has as many as the Settings allow. It is called inside
    /// the transaction that makes the claim: of two at once, one may be too many.
    pub fn check_quota_of_guest(&self, store: &Store) -> Result<(), Refusal> {
        let Some(guest) = self.guest() else { return Ok(()) };
        let quota = self.door(store).read_settings()?.quota.unwrap_or_default();
        check_quota(&quota, count_claims(store, guest)?)
    }

    /// The same for new claims of addresses, which count like those of clusters but wait for none.
    pub fn check_quota_for_addresses(
        &self,
        store: &Store,
        new_claims: usize,
    ) -> Result<(), Refusal> {
        let Some(guest) = self.guest() else { return Ok(()) };
        let Some(further_claims) = new_claims.checked_sub(1) else { return Ok(()) };
        let quota = self.door(store).read_settings()?.quota.unwrap_or_default();
        let ClaimCounts { open, .. } = count_claims(store, guest)?;
        let open = open.saturating_add(u32::try_from(further_claims).unwrap_or(u32::MAX));
        check_open_claims(&quota, open)
    }

    /// A pool as the person who asks may see it: guests see all pools, but only what concerns them.
    pub fn redact_pool(&self, pool: ClusterPool) -> ClusterPool {
        if self.guest().is_some() { redact_pool_for_guests(pool) } else { pool }
    }

    /// The objects that the person who asks may see.
    pub fn filter_visible(
        &self,
        store: &Store,
        objects: Vec<Object>,
    ) -> Result<Vec<Object>, Refusal> {
        if self.guest().is_none() {
            return Ok(objects);
        }
        let mut visible = Vec::new();
        for object in objects {
            if let Object::ClusterPool(pool) = object {
                visible.push(Object::ClusterPool(Box::new(self.redact_pool(*pool))));
                continue;
            }
            match self.check_permission(store, AccessAction::See, &object) {
                Ok(()) => visible.push(object),
                Err(refusal) if refusal.exit == Exit::Denied => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(visible)
    }

    /// The instant from which on a guest may know what happened to an object: before it, another
    /// person's object may have had the name.
    pub fn visible_since(&self, object: &Object) -> Time {
        match object {
            Object::ClusterClaim(claim) if self.guest().is_some() => claim.created,
            Object::ClusterDeployment(cluster) if self.guest().is_some() => cluster.created,
            _ => Time::default(),
        }
    }
}

/// The claims of a guest: those of addresses count like those of clusters.
fn count_claims(store: &Store, guest: &Person) -> Result<ClaimCounts, Refusal> {
    let ClaimCounts { open, waiting } = store.count_claims_of(&guest.name)?;
    let addresses = store.count_ip_claims_of(&guest.name)?;
    Ok(ClaimCounts { open: open.saturating_add(addresses), waiting })
}
