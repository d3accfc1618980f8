//! `pool create`: makes a pool from options, and its template from a file. Fields that have no
//! option are set with `edit`, or with a manifest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use crate::edits::{PutMode, put_object};
use crate::model::annotations::FAKE_INSTALL_DURATION;
use crate::model::documents::{ClusterImageSet, ImageSetSpec, Secret, SecretValue};
use crate::model::driver::FAKE_CLUSTER;
use crate::model::inventory::InventoryEntry;
use crate::model::kinds::Kind;
use crate::model::meta::{Key, LocalRef, Meta};
use crate::model::object::{Object, Resource};
use crate::model::platform::{Platform, platform_names};
use crate::model::pool::{ClusterPool, PoolSpec, PoolStatus};
use crate::model::refusal::Refusal;
use crate::model::state::Scope;
use crate::model::time::Span;
use crate::rules;
use crate::store::NeededObject;

use crate::commands::customization_warnings;
use crate::commands::{Context, RunCommand, suggest};
use crate::manifest;

#[derive(Args)]
pub struct Create {
    /// Name of the pool
    name: String,
    /// Simulate clusters; no platform, image set or credentials are needed
    #[arg(long)]
    fake: bool,
    /// How long a simulated installation takes, such as 3s
    #[arg(long, requires = "fake", value_name = "DURATION")]
    fake_install_duration: Option<Span>,
    /// Number of unclaimed clusters to keep
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    size: u32,
    /// Number of unclaimed clusters that run; the others hibernate
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    running_count: u32,
    /// Maximum number of clusters, including claimed clusters
    #[arg(long, allow_negative_numbers = true)]
    max_size: Option<u32>,
    /// Maximum number of clusters that are installed or destroyed at the same time
    #[arg(long, allow_negative_numbers = true)]
    max_concurrent: Option<u32>,
    /// Base domain of the clusters
    #[arg(long, required_unless_present = "fake")]
    base_domain: Option<String>,
    /// ClusterImageSet that clusters are installed from
    #[arg(long, required_unless_present = "fake", value_name = "IMAGESET")]
    image_set: Option<String>,
    /// Platform of the clusters: openstack, vsphere, baremetal, none, ...
    #[arg(long, default_value = "none", value_name = "PLATFORM")]
    platform: String,
    /// File with the install-config template of the clusters
    #[arg(long, value_name = "FILE")]
    install_config: Option<PathBuf>,
    /// Customization of the pool's inventory; may be repeated
    #[arg(long = "customization", value_name = "CUSTOMIZATION")]
    customizations: Vec<String>,
}

impl RunCommand for Create {
    const NAME: &'static str = "create";
    const ABOUT: &'static str = "Create a pool of clusters";
    const EXAMPLE: &'static str = "poolctl pool create demo --fake --size 3 --running-count 1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let key = context.key(Kind::ClusterPool, &self.name)?;
        let pool = self.pool_to_create(&key)?;
        rules::check_object(&Object::ClusterPool(Box::new(pool.clone())))?;
        let template = self.read_template(&key)?;
        let image_set = pool.spec.image_set_ref.name.clone();
        let needs = [
            NeededObject { kind: Kind::ClusterImageSet, key: Key::new("", &*image_set) },
            NeededObject {
                kind: Kind::Secret,
                key: Key::new(&*key.namespace, template_name(&self.name)),
            },
        ];
        let store = context.open_or_create_state()?;
        let scope = Scope::pool(key.clone());
        let ((), passed) = context.door(&store).change(&scope, &needs, |state, tick| {
            if state.pools.find(&key).is_some() {
                return Err(Refusal::conflict(format!("there is a pool `{}` already", key.name))
                    .next(format!("poolctl pool scale {} --size {}", key.name, self.size)));
            }
            // The pool comes last, after what it refers to.
            let mut objects = Vec::new();
            if self.fake && state.image_sets.find(&needs[0].key).is_none() {
                objects.push(fake_image_set(&image_set).into_object());
            }
            objects.extend(template.map(Resource::into_object));
            objects.push(Object::ClusterPool(Box::new(pool)));
            for object in objects {
                put_object(state, object, PutMode::Apply, tick)?;
            }
            Ok(())
        })?;
        context.report_change(Kind::ClusterPool, &key, "created")?;
        customization_warnings::warn_about_customizations(
            context,
            &passed.state,
            &[(Kind::ClusterPool, key.clone())],
        );
        context.report_limits(&passed);
        Ok(context.report_pass(&passed)?)
    }
}

/// The name of the Secret with the template of a pool.
fn template_name(pool: &str) -> String {
    format!("{pool}-install-config")
}

/// A release that only the simulation installs.
fn fake_image_set(name: &str) -> ClusterImageSet {
    let metadata = Meta { name: name.into(), ..Meta::default() };
    let spec = ImageSetSpec { release_image: "example.com/simulated:1".into() };
    ClusterImageSet { metadata, spec, status: None }
}

impl Create {
    fn pool_to_create(&self, key: &Key) -> Result<ClusterPool, Refusal> {
        let platform = self.platform_to_use()?;
        let mut annotations = BTreeMap::new();
        if self.fake {
            annotations.insert(FAKE_CLUSTER.to_owned(), "true".to_owned());
        }
        if let Some(duration) = self.fake_install_duration {
            annotations.insert(FAKE_INSTALL_DURATION.to_owned(), duration.to_string());
        }
        let mut inventory = Vec::new();
        for name in &self.customizations {
            inventory.push(InventoryEntry { kind: String::new(), name: name.clone() });
        }
        let metadata =
            Meta { name: key.name.clone(), namespace: key.namespace.clone(), ..Meta::default() };
        let template =
            self.install_config.as_ref().map(|_| LocalRef::to_name(template_name(&key.name)));
        let spec = PoolSpec {
            annotations,
            base_domain: self.base_domain.clone().unwrap_or_else(|| "example.com".into()),
            image_set_ref: LocalRef::to_name(
                self.image_set.clone().unwrap_or_else(|| "simulated".into()),
            ),
            install_config_secret_template_ref: template,
            inventory: (!inventory.is_empty()).then_some(inventory),
            max_concurrent: self.max_concurrent,
            max_size: self.max_size,
            platform,
            running_count: self.running_count,
            size: self.size,
            ..PoolSpec::default()
        };
        Ok(ClusterPool { metadata, spec, status: PoolStatus::default() })
    }

    fn platform_to_use(&self) -> Result<Platform, Refusal> {
        Platform::named(&self.platform).ok_or_else(|| {
            let cause = suggest(&self.platform, platform_names())
                .unwrap_or_else(|| format!("the platforms are {}", platform_names().join(", ")));
            Refusal::usage(format!("there is no platform `{}`", self.platform)).because(cause)
        })
    }

    /// The Secret with the template of the pool, if a file is given. The file must be YAML.
    fn read_template(&self, key: &Key) -> Result<Option<Secret>, Refusal> {
        let Some(path) = &self.install_config else {
            return Ok(None);
        };
        let template = std::fs::read_to_string(path)
            .map_err(|error| manifest::refuse_unreadable(&path.display().to_string(), &error))?;
        crate::yaml::parse_value(&template)
            .map_err(|error| Refusal::invalid(format!("{}: {error}", path.display())))?;
        let metadata = Meta {
            name: template_name(&key.name),
            namespace: key.namespace.clone(),
            ..Meta::default()
        };
        let data = BTreeMap::from([("install-config.yaml".to_owned(), SecretValue::new(template))]);
        Ok(Some(Secret { metadata, string_data: Some(data), ..Secret::default() }))
    }
}
