//! The manifests that `init` writes: a template with comments for each kind of platform, filled
//! with the answers, and tried on an empty state before anybody sees it.

use crate::edits::{PutMode, put_object};
use crate::model::refusal::Refusal;
use crate::reconcile::Door;
use crate::store::Store;

use crate::commands::init::answers::{Answers, Target};
use crate::commands::pool::render::TrialRender;
use crate::commands::scope::EditedObject;
use crate::commands::{Context, scope};
use crate::manifest::{self, ReadOptions};

const SIMULATED: &str = include_str!("simulated.yaml");
/// What pools on every real platform have: a release and addresses.
const COMMON: &str = include_str!("common.yaml");
const VSPHERE: &str = include_str!("vsphere.yaml");
const OPENSTACK: &str = include_str!("openstack.yaml");
const BAREMETAL: &str = include_str!("baremetal.yaml");

/// The manifests of the pool that was asked for; none if no pool is to be prepared.
pub fn pool_manifest(answers: &Answers) -> Option<String> {
    let mut manifest = match answers.target() {
        Target::Nothing => return None,
        Target::Simulated => SIMULATED.to_owned(),
        Target::Vsphere => format!("{COMMON}{VSPHERE}"),
        Target::Openstack => format!("{COMMON}{OPENSTACK}"),
        Target::Baremetal => format!("{COMMON}{BAREMETAL}"),
    };
    for (key, value) in answers.manifest_values() {
        manifest = manifest.replace(&format!("${{{key}}}"), &value);
    }
    Some(manifest)
}

/// The commands that make the Secrets which the manifests name and do not have.
pub fn secret_commands(target: Target) -> &'static [&'static str] {
    match target {
        Target::Simulated | Target::Nothing => &[],
        Target::Vsphere => &[
            "poolctl secret create pull-secret --from-file=.dockerconfigjson=FILE",
            "poolctl secret create vsphere-creds --prompt username --prompt password",
            "poolctl secret create vsphere-certs --from-file=FILE",
        ],
        Target::Openstack => &[
            "poolctl secret create pull-secret --from-file=.dockerconfigjson=FILE",
            "poolctl secret create openstack-creds --from-file=clouds.yaml=FILE",
        ],
        Target::Baremetal => {
            &["poolctl secret create pull-secret --from-file=.dockerconfigjson=FILE"]
        }
    }
}

/// Applies a manifest to an empty state that is thrown away, and renders the install-config of the
/// pool's first cluster. What is refused here would be refused later, too.
pub fn try_manifest(context: &Context, manifest: &str, pool: &str) -> Result<(), Refusal> {
    let folder = tempfile::tempdir().map_err(|error| {
        Refusal::invalid("there is no folder to try the manifests in").because(error.to_string())
    })?;
    let path = folder.path().join("pool.yaml");
    std::fs::write(&path, manifest).map_err(|error| Refusal::unwritable(&path, &error))?;
    let namespace = context.namespace()?;
    let options = ReadOptions { namespace: &namespace, ..ReadOptions::default() };
    let manifests = manifest::read(&[path], &options)?;
    for warning in &manifests.warnings {
        context.warn(warning);
    }
    let edited: Vec<EditedObject> =
        manifests.objects.iter().map(EditedObject::from_object).collect();
    let store = Store::open_or_create(&folder.path().join("state.db"))?;
    // Nothing is planned: a cluster that is only tried must not be installed.
    let door = Door { store: &store, world: &context.world, plans_changes: false };
    let scope = scope::scope_of(&store, &edited)?;
    door.change(&scope, &scope::needs_of(&edited), |state, tick| {
        for object in manifests.objects {
            put_object(state, object, PutMode::Apply, tick)?;
        }
        Ok(())
    })?;
    TrialRender::load(context, &store, pool, None)?.render(context).map(drop)
}
