//! `pool create`: makes a pool from options, and its template from a file. A pool that could make no
//! cluster is refused. Fields that have no option are set with `edit`, or with a manifest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::edits::{PutMode, put_object};
use crate::model::annotations::FAKE_INSTALL_DURATION;
use crate::model::documents::{ClusterImageSet, ImageSetSpec, Secret, SecretValue};
use crate::model::driver::{Driver, FAKE_CLUSTER};
use crate::model::inventory::InventoryEntry;
use crate::model::kinds::Kind;
use crate::model::meta::{Key, LocalRef, Meta};
use crate::model::object::{Object, Resource};
use crate::model::pool::{ClusterPool, PoolSpec, PoolStatus};
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::time::Span;
use crate::output::{Answer, Name};
use crate::store::NeededObject;
use crate::{plan, rules};

use crate::commands::customization_warnings;
use crate::commands::pool::platform_options::{PlatformOptions, option_of_field};
use crate::commands::{Context, RunCommand};
use crate::manifest;

/// How much of a command is only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DryRun {
    /// Print the manifests, and look at no state
    Client,
}

/// Arguments of `pool create`. With `--dry-run -o yaml` it prints the manifests instead.
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
    #[command(flatten)]
    platform: PlatformOptions,
    /// Secret with the pull secret for the images of clusters
    #[arg(long, value_name = "SECRET")]
    pull_secret: Option<String>,
    /// File with the install-config template of the clusters
    #[arg(long, value_name = "FILE")]
    install_config: Option<PathBuf>,
    /// Customization of the pool's inventory; may be repeated
    #[arg(long = "customization", value_name = "CUSTOMIZATION")]
    customizations: Vec<String>,
    /// Print the manifests with -o yaml instead of creating anything
    #[arg(long, value_enum, value_name = "MODE")]
    dry_run: Option<DryRun>,
}

impl RunCommand for Create {
    const NAME: &'static str = "create";
    const ABOUT: &'static str = "Create a pool of clusters";
    const EXAMPLE: &'static str = "poolctl pool create demo --fake --size 3 --running-count 1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let key = context.key(Kind::ClusterPool, &self.name)?;
        let pool = self.pool_to_create(&key)?;
        let object = Object::ClusterPool(Box::new(pool.clone()));
        rules::check_object(&object)?;
        refuse_missing_options(&object)?;
        refuse_without_driver(&pool)?;
        let template_text = self.read_template()?;
        self.refuse_without_template(&pool)?;
        if self.dry_run.is_some() {
            return self.show_manifests(context, pool, template_text);
        }
        let image_set = pool.spec.image_set_ref.name.clone();
        let needs = needed_objects(&pool);
        let template = template_text.map(|text| template_secret(&key, text));
        let store = context.open_or_create_state()?;
        let scope = Scope::pool(key.clone());
        let ((), passed) = context.door(&store).change_if_accepted(
            &scope,
            &needs,
            |state, tick| {
                if state.pools.find(&key).is_some() {
                    let sentence = format!("there is a pool `{}` already", key.name);
                    let command = format!("poolctl pool scale {} --size {}", key.name, self.size);
                    return Err(Refusal::conflict(sentence).next(command));
                }
                // The pool comes last, after what it refers to.
                let mut objects = Vec::new();
                if self.fake && state.image_sets.find(&Key::new("", &*image_set)).is_none() {
                    objects.push(fake_image_set(&image_set).into_object());
                }
                objects.extend(template.map(Resource::into_object));
                objects.push(Object::ClusterPool(Box::new(pool)));
                for object in objects {
                    put_object(state, object, PutMode::Apply, tick)?;
                }
                Ok(())
            },
            |state, ()| refuse_missing_dependencies(state, &key),
        )?;
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

/// Refuses a pool that lacks fields of its platform for which there are options.
fn refuse_missing_options(pool: &Object) -> Result<(), Refusal> {
    let mut options = Vec::new();
    let mut causes = Vec::new();
    for field in rules::missing_fields(pool) {
        if let Some(option) = option_of_field(&field) {
            options.push(option);
            causes.push(format!("{option} is missing ({field})"));
        }
    }
    if options.is_empty() {
        return Ok(());
    }
    let sentence = format!("pool `{}` lacks options of its platform", pool.key().name);
    let refusal = Refusal { causes, ..Refusal::invalid(sentence) };
    Err(refusal.advise(format!("add {}", options.join(", "))))
}

/// What the pool names and the scope of a new pool does not have.
fn needed_objects(pool: &ClusterPool) -> Vec<NeededObject> {
    let spec = &pool.spec;
    let secrets = [
        spec.pull_secret_ref.as_ref().map(|secret| secret.name.as_str()),
        spec.install_config_secret_template_ref.as_ref().map(|secret| secret.name.as_str()),
        spec.platform.credentials(),
        spec.platform.certificates(),
    ];
    let image_set = Key::new("", &*spec.image_set_ref.name);
    let mut needs = vec![NeededObject { kind: Kind::ClusterImageSet, key: image_set }];
    for name in secrets.into_iter().flatten() {
        let key = Key::new(&*pool.metadata.namespace, name);
        needs.push(NeededObject { kind: Kind::Secret, key });
    }
    needs
}

/// Refuses a pool that names what does not exist.
fn refuse_missing_dependencies(state: &State, key: &Key) -> Result<(), Refusal> {
    let Some(pool) = state.pools.by_key(key) else { return Ok(()) };
    let missing = plan::missing_dependencies(state, pool);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Refusal { causes: missing, ..refuse_useless(&key.name) }
        .advise("create what is missing first, or let `poolctl init` write all manifests"))
}

/// Refuses a pool that no driver installs as it is, whatever else it has.
fn refuse_without_driver(pool: &ClusterPool) -> Result<(), Refusal> {
    let Some(problem) = plan::driver_problem(pool) else { return Ok(()) };
    let advice = match pool.driver() {
        Driver::Agent => "--platform agentBareMetal --agent-selector LABEL=VALUE, or --fake",
        _ => "--fake, or another platform",
    };
    Err(refuse_useless(&pool.metadata.name).because(problem).advise(advice))
}

fn refuse_useless(pool: &str) -> Refusal {
    Refusal::invalid(format!("pool `{pool}` could make no cluster; it was not created"))
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
        let platform = self.platform.platform()?;
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
            pull_secret_ref: self.pull_secret.clone().map(LocalRef::to_name),
            running_count: self.running_count,
            size: self.size,
            ..PoolSpec::default()
        };
        Ok(ClusterPool { metadata, spec, status: PoolStatus::default() })
    }

    /// Refuses hosts without a template: no field of a pool says how many of them a cluster has.
    fn refuse_without_template(&self, pool: &ClusterPool) -> Result<(), Refusal> {
        if !pool.picks_hosts() || self.fake || self.install_config.is_some() {
            return Ok(());
        }
        Err(Refusal::usage("a pool of hosts needs an install-config")
            .because("its replicas say how many hosts a cluster has")
            .advise("add --install-config FILE"))
    }

    /// The template of the pool, if a file is given. The file must be YAML.
    fn read_template(&self) -> Result<Option<String>, Refusal> {
        let Some(path) = &self.install_config else {
            return Ok(None);
        };
        let template = std::fs::read_to_string(path)
            .map_err(|error| manifest::refuse_unreadable(&path.display().to_string(), &error))?;
        crate::yaml::parse_value(&template)
            .map_err(|error| Refusal::invalid(format!("{}: {error}", path.display())))?;
        Ok(Some(template))
    }

    /// Prints what would be created, as manifests that `apply` takes.
    fn show_manifests(
        &self,
        context: &Context,
        pool: ClusterPool,
        template: Option<String>,
    ) -> anyhow::Result<()> {
        let key = Key::new(&*pool.metadata.namespace, &*pool.metadata.name);
        if self.fake && self.image_set.is_none() {
            let image_set = fake_image_set(&pool.spec.image_set_ref.name);
            let image_set_key = Key::new("", &*image_set.metadata.name);
            let document = image_set.into_object().to_wire();
            show_manifest(context, Kind::ClusterImageSet, &image_set_key, document)?;
        }
        if let Some(template) = template {
            let name = template_name(&key.name);
            let secret_key = Key::new(&*key.namespace, &*name);
            // Whoever reads this has given the template.
            let document = json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": &key.namespace},
                "stringData": {"install-config.yaml": template},
            });
            show_manifest(context, Kind::Secret, &secret_key, document)?;
        }
        let document = Object::ClusterPool(Box::new(pool)).to_wire();
        show_manifest(context, Kind::ClusterPool, &key, document)
    }
}

/// The Secret with the template of a pool.
fn template_secret(pool: &Key, template: String) -> Secret {
    let metadata = Meta {
        name: template_name(&pool.name),
        namespace: pool.namespace.clone(),
        ..Meta::default()
    };
    let data = BTreeMap::from([("install-config.yaml".to_owned(), SecretValue::new(template))]);
    Secret { metadata, string_data: Some(data), ..Secret::default() }
}

/// Shows an object that is not created, without the fields that poolctl would write.
fn show_manifest(
    context: &Context,
    kind: Kind,
    key: &Key,
    mut document: Value,
) -> anyhow::Result<()> {
    if let Some(fields) = document.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "generation", "creationTimestamp", "deletionTimestamp"] {
            metadata.remove(field);
        }
    }
    let name = Name::of(kind, key);
    let line = format!("{name} created (dry run)\n");
    context.answer(Answer::text(line).with_name(name).with_document(document))
}
