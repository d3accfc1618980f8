//! `-f`, `-R` and `-k`: the manifests that a command is given, and the objects that they name. It
//! changes nothing.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::tick::Tick;
use crate::store::Store;

use crate::commands::Context;
use crate::manifest::{self, Manifests, ReadOptions};

/// The options by which a command is given manifests.
#[derive(Args)]
pub struct ManifestFiles {
    /// File or folder with manifests in YAML or JSON, or - for stdin
    #[arg(short, long, value_name = "FILE|DIR|-")]
    filename: Vec<PathBuf>,
    /// Also read the folders below a folder
    #[arg(short = 'R', long, requires = "filename")]
    recursive: bool,
    /// Folder with a kustomization.yaml, whose resources and patches are read
    #[arg(short = 'k', long, value_name = "DIR", conflicts_with = "filename")]
    kustomize: Option<PathBuf>,
}

/// Whether a change is only planned and shown. There is no server, so both words mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    None,
    Client,
    Server,
}

/// The option of a command that can rehearse its change.
#[derive(Args)]
pub struct Rehearsal {
    /// Show what would be changed, and change nothing
    #[arg(
        long,
        value_enum,
        value_name = "client|server|none",
        num_args = 0..=1,
        require_equals = true,
        default_value = "none",
        default_missing_value = "client",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub dry_run: DryRun,
}

impl DryRun {
    /// What the answer says after the result; none if the change is made.
    pub fn remark(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Client => Some("(dry run)"),
            Self::Server => Some("(server dry run)"),
        }
    }
}

impl ManifestFiles {
    /// Whether any of the options is given; if none is, a command may read what is named otherwise.
    pub fn is_given(&self) -> bool {
        !self.filename.is_empty() || self.kustomize.is_some()
    }

    /// Reads the manifests. Objects that name no namespace are in that of the kustomization or of
    /// the command.
    pub fn read(&self, context: &Context, is_lenient: bool) -> Result<Manifests, Refusal> {
        self.read_with(context, is_lenient, None)
    }

    /// Reads the manifests of objects that are to be created. Those with a `generateName` get a name.
    pub fn read_new(&self, context: &Context) -> Result<Manifests, Refusal> {
        let revision = match context.open_existing_state() {
            Err(absent) if absent.exit == Exit::NotFound => 0,
            store => store?.read_revision()?,
        };
        let name_maker = context.world.name_maker(revision.unsigned_abs());
        self.read_with(context, false, Some(&name_maker))
    }

    fn read_with(
        &self,
        context: &Context,
        is_lenient: bool,
        name_maker: Option<&Tick>,
    ) -> Result<Manifests, Refusal> {
        let mut namespace = context.namespace()?;
        if let Some(folder) = &self.kustomize {
            let kustomization = manifest::read_kustomization(folder)?;
            if let Some(name) = &kustomization.namespace {
                namespace.clone_from(name);
            }
            let options =
                ReadOptions { namespace: &namespace, is_lenient, moves_state: false, name_maker };
            return manifest::read_kustomized(&kustomization, &options);
        }
        let paths = if self.filename.is_empty() {
            return Err(Refusal::usage("a file is needed").next("poolctl apply -f FILE"));
        } else if self.recursive {
            manifest::folders_below(&self.filename)?
        } else {
            self.filename.clone()
        };
        let options =
            ReadOptions { namespace: &namespace, is_lenient, moves_state: false, name_maker };
        manifest::read(&paths, &options)
    }

    /// The objects in the state that the manifests name. One that does not exist is refused, unless
    /// it may be missing.
    pub fn find_objects(
        &self,
        context: &Context,
        store: &Store,
        may_be_missing: bool,
    ) -> Result<Vec<Object>, Refusal> {
        // Manifests are read with the rights of the account.
        context.refuse_guest("a file of the account")?;
        let mut objects = Vec::new();
        for named in self.read(context, true)?.objects {
            let key = named.key();
            match Context::load_object_by_key(store, named.kind(), &key) {
                Err(absent) if absent.exit == Exit::NotFound && may_be_missing => {}
                object => objects.push(object?),
            }
        }
        Ok(objects)
    }
}
