//! What people do to pools and customizations: the edits of the commands, through the door. Each
//! may be refused, as the command would be.

use std::collections::BTreeMap;

use poolctl::edits::{DeleteOutcome, PutMode, delete_object, put_object};
use poolctl::model::annotations::{FAKE_FAIL_EVERY, REFRESH};
use poolctl::model::customization::{Customization, CustomizationSpec, Patch, PatchOperation};
use poolctl::model::documents::{ClusterImageSet, ImageSetSpec};
use poolctl::model::driver::FAKE_CLUSTER;
use poolctl::model::inventory::InventoryEntry;
use poolctl::model::kinds::Kind;
use poolctl::model::meta::{Key, LocalRef, Meta};
use poolctl::model::object::Object;
use poolctl::model::platform::Platform;
use poolctl::model::pool::{
    ClaimLifetime, ClusterPool, HibernationConfig, PoolSpec, PoolStatus, RECONCILE_PAUSE,
};
use poolctl::model::refusal::Refusal;
use poolctl::model::state::Scope;
use poolctl::model::time::Span;
use poolctl::rules;
use poolctl::store::NeededObject;

use super::step::{CustomizationDeed, Field, PoolDeed, Refresh};
use super::world::{NAMESPACE, SimWorld};

const IMAGE_SET: &str = "simulated";
/// The value of `poolctl.dev/fake-fail-every` with which every installation fails.
const ALWAYS: &str = "1";

/// The key of a pool, a claim or a customization.
pub fn key_of(name: &str) -> Key {
    Key::new(NAMESPACE, name)
}

fn image_set_key() -> Key {
    Key::new("", IMAGE_SET)
}

fn image_set() -> Object {
    let metadata = Meta { name: IMAGE_SET.into(), ..Meta::default() };
    let spec = ImageSetSpec { release_image: "example.com/simulated:1".into() };
    Object::ClusterImageSet(Box::new(ClusterImageSet { metadata, spec, status: None }))
}

/// Makes a pool of simulated clusters, as `pool create --fake` does.
pub fn make_pool(world: &SimWorld, name: &str, size: u32) -> Result<(), Refusal> {
    let key = key_of(name);
    let metadata = Meta { name: name.into(), namespace: NAMESPACE.into(), ..Meta::default() };
    let spec = PoolSpec {
        annotations: BTreeMap::from([(FAKE_CLUSTER.to_owned(), "true".to_owned())]),
        base_domain: format!("{name}.example.com"),
        image_set_ref: LocalRef::to_name(IMAGE_SET),
        platform: Platform::named("none").unwrap_or_default(),
        size,
        ..PoolSpec::default()
    };
    let pool = ClusterPool { metadata, spec, status: PoolStatus::default() };
    let pool = Object::ClusterPool(Box::new(pool));
    rules::check_object(&pool)?;
    let needs = [NeededObject { kind: Kind::ClusterImageSet, key: image_set_key() }];
    world.change(&Scope::pool(key.clone()), &needs, |state, tick| {
        if state.pools.find(&key).is_some() {
            return Err(Refusal::conflict("there is a pool of this name"));
        }
        if state.image_sets.find(&image_set_key()).is_none() {
            put_object(state, image_set(), PutMode::Apply, tick)?;
        }
        put_object(state, pool, PutMode::Apply, tick).map(drop)
    })
}

/// Changes the manifest of a pool, as `patch` does.
pub fn edit_pool(
    world: &SimWorld,
    name: &str,
    edit: impl FnOnce(&mut ClusterPool),
) -> Result<(), Refusal> {
    let key = key_of(name);
    let needs = [NeededObject { kind: Kind::ClusterPool, key: key.clone() }];
    world.change(&Scope::pool(key.clone()), &needs, |state, tick| {
        let Some(mut pool) = state.pools.by_key(&key).cloned() else {
            return Err(Refusal::not_found("there is no pool of this name"));
        };
        edit(&mut pool);
        let pool = Object::ClusterPool(Box::new(pool));
        rules::check_object(&pool)?;
        put_object(state, pool, PutMode::Replace, tick).map(drop)
    })
}

pub fn set_field(pool: &mut ClusterPool, field: Field, value: Option<u32>) {
    let spec = &mut pool.spec;
    let hours = value.map(|value| Span::hours(i64::from(value)));
    match field {
        Field::Size => spec.size = value.unwrap_or_default(),
        Field::RunningCount => spec.running_count = value.unwrap_or_default(),
        Field::MaxSize => spec.max_size = value,
        Field::MaxConcurrent => spec.max_concurrent = value,
        Field::InstallAttemptsLimit => spec.install_attempts_limit = value,
        Field::ResumeTimeout => {
            let resume_timeout = value.map(|value| Span::minutes(i64::from(value)));
            spec.hibernation_config = Some(HibernationConfig { resume_timeout });
        }
        Field::Lifetime => {
            spec.claim_lifetime = Some(ClaimLifetime { default: hours, maximum: None });
        }
        Field::HibernateAfter => spec.hibernate_after = hours,
    }
}

/// Lists the customizations of a pool. Without any it has no inventory.
pub fn list_customizations(pool: &mut ClusterPool, customizations: &[String]) {
    let mut inventory = Vec::new();
    for name in customizations {
        inventory.push(InventoryEntry { kind: String::new(), name: name.clone() });
    }
    pool.spec.inventory = if inventory.is_empty() { None } else { Some(inventory) };
}

pub fn set_refresh(pool: &mut ClusterPool, policy: Refresh) {
    pool.metadata.annotations.insert(REFRESH.into(), policy.word().into());
}

/// Whether every installation of the pool's new clusters fails, because its configuration is wrong.
pub fn is_spoiled(pool: &ClusterPool) -> bool {
    pool.spec.annotations.get(FAKE_FAIL_EVERY).is_some_and(|value| value == ALWAYS)
}

/// Makes a pool another version: its clusters are stale from now on.
fn renew(pool: &mut ClusterPool, edit: u32) {
    pool.spec.base_domain = format!("v{edit}.{}.example.com", pool.metadata.name);
}

pub fn do_to_pool(world: &mut SimWorld, name: &str, deed: PoolDeed) -> Result<(), Refusal> {
    let edit = world.next_edit();
    match deed {
        PoolDeed::Pause => edit_pool(world, name, |pool| {
            pool.metadata.annotations.insert(RECONCILE_PAUSE.into(), "true".into());
        }),
        PoolDeed::Resume => edit_pool(world, name, |pool| {
            pool.metadata.annotations.remove(RECONCILE_PAUSE);
        }),
        PoolDeed::Spoil => edit_pool(world, name, |pool| {
            pool.spec.annotations.insert(FAKE_FAIL_EVERY.into(), ALWAYS.into());
            renew(pool, edit);
        }),
        PoolDeed::Correct => edit_pool(world, name, |pool| {
            pool.spec.annotations.remove(FAKE_FAIL_EVERY);
            renew(pool, edit);
        }),
        PoolDeed::Renew => edit_pool(world, name, |pool| renew(pool, edit)),
        PoolDeed::Delete => {
            let key = key_of(name);
            delete(world, Kind::ClusterPool, &key, &Scope::pool(key.clone()))
        }
    }
}

/// Asks for the deletion of an object, as `delete` does.
pub fn delete(world: &SimWorld, kind: Kind, key: &Key, scope: &Scope) -> Result<(), Refusal> {
    let needs = [NeededObject { kind, key: key.clone() }];
    world.change(scope, &needs, |state, tick| {
        if delete_object(state, kind, key, tick) != DeleteOutcome::NotFound {
            return Ok(());
        }
        Err(Refusal::not_found(format!("there is no {} of this name", kind.word())))
    })
}

pub fn remove_image_set(world: &SimWorld) -> Result<(), Refusal> {
    delete(world, Kind::ClusterImageSet, &image_set_key(), &Scope::Whole)
}

pub fn restore_image_set(world: &SimWorld) -> Result<(), Refusal> {
    let needs = [NeededObject { kind: Kind::ClusterImageSet, key: image_set_key() }];
    world.change(&Scope::Whole, &needs, |state, tick| {
        put_object(state, image_set(), PutMode::Apply, tick).map(drop)
    })
}

pub fn is_image_set_missing(world: &SimWorld) -> Result<bool, Refusal> {
    Ok(world.store().find::<ClusterImageSet>(&image_set_key())?.is_none())
}

pub fn do_to_customization(
    world: &mut SimWorld,
    name: &str,
    deed: CustomizationDeed,
) -> Result<(), Refusal> {
    let key = key_of(name);
    let scope = scope_of_customization(world, name)?;
    let edit = world.next_edit();
    let exists = world.store().find::<Customization>(&key)?.is_some();
    match deed {
        CustomizationDeed::Delete => return delete(world, Kind::Customization, &key, &scope),
        CustomizationDeed::Make if exists => {
            return Err(Refusal::conflict("there is a customization of this name"));
        }
        CustomizationDeed::Break | CustomizationDeed::Mend if !exists => {
            return Err(Refusal::not_found("there is no customization of this name"));
        }
        CustomizationDeed::Make | CustomizationDeed::Break | CustomizationDeed::Mend => {}
    }
    let is_broken = deed == CustomizationDeed::Break;
    let operation = if is_broken { PatchOperation::Test } else { PatchOperation::Replace };
    let customization = customization(name, operation, &format!("{name}-{edit}"));
    rules::check_object(&customization)?;
    let needs = [NeededObject { kind: Kind::Customization, key }];
    world.change(&scope, &needs, |state, tick| {
        put_object(state, customization, PutMode::Apply, tick).map(drop)
    })?;
    if !is_broken {
        world.troubles.save(name);
    }
    Ok(())
}

/// A customization that sets the name of its cluster in DNS, or tests for a name that no cluster
/// has.
fn customization(name: &str, op: PatchOperation, value: &str) -> Object {
    let metadata = Meta { name: name.into(), namespace: NAMESPACE.into(), ..Meta::default() };
    let patch =
        Patch { op, path: "/metadata/name".into(), value: Some(value.into()), ..Patch::default() };
    let spec =
        CustomizationSpec { install_config_patches: vec![patch], ..CustomizationSpec::default() };
    Object::Customization(Box::new(Customization { metadata, spec, ..Customization::default() }))
}

/// The pools that list a customization.
fn scope_of_customization(world: &SimWorld, name: &str) -> Result<Scope, Refusal> {
    let mut keys = Vec::new();
    for pool in world.store().list_all::<ClusterPool>()? {
        if pool.spec.inventory.iter().flatten().any(|entry| entry.name == name) {
            keys.push(pool.key());
        }
    }
    Ok(Scope::Pools(keys))
}
