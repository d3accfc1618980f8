//! `infraenv pxe`: takes out of the discovery image of an InfraEnv what hosts boot by network. It
//! never serves the files: the web server of the images does.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::causes::command_to_make_image;
use crate::drivers::pxe::write_pxe_files;
use crate::model::documents::SettingsSpec;
use crate::model::infra_env::InfraEnv;
use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;
use crate::render::pxe::PxeNames;
use crate::store::copies;

use crate::commands::infraenv::images;
use crate::commands::{Context, RunCommand};

/// Arguments of `infraenv pxe`.
#[derive(Args)]
pub struct Pxe {
    /// InfraEnv whose hosts boot by network
    #[arg(value_name = "INFRAENV")]
    name: String,
    /// Discovery image to take the files from; by default the one below isoDirectory of the
    /// Settings
    #[arg(long, value_name = "FILE", requires_all = ["out", "url"])]
    iso: Option<PathBuf>,
    /// Folder to write to; by default that of the image
    #[arg(long, value_name = "DIR", requires = "iso")]
    out: Option<PathBuf>,
    /// URL of that folder, from which hosts fetch the files
    #[arg(long, value_name = "URL", requires = "iso")]
    url: Option<String>,
}

/// Where the image is, where the files go, and how hosts reach them.
struct Places {
    image: PathBuf,
    folder: PathBuf,
    base_url: String,
}

impl RunCommand for Pxe {
    const NAME: &'static str = "pxe";
    const ABOUT: &'static str = "Write kernel, initrd, rootfs and iPXE script of a discovery image, for hosts without \
         virtual media";
    const EXAMPLE: &'static str = "poolctl infraenv pxe rack";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let infra_env = context.find::<InfraEnv>(&store, &self.name)?;
        let settings = context.door(&store).read_settings()?;
        let places = self.choose_places(context, &settings, &infra_env)?;
        let names = PxeNames { base_url: places.base_url, name: infra_env.metadata.name.clone() };
        write_pxe_files(&places.image, &places.folder, &names).map_err(|why| {
            Refusal::invalid("the files for a boot by network were not made").because(why)
        })?;
        context.hint("then: poolctl host power cycle HOST --boot pxe");
        let result = format!(
            "kernel, initrd, rootfs and script are in {}; hosts boot {}",
            places.folder.display(),
            names.url_of(&names.script())
        );
        context.report_change(Kind::InfraEnv, &infra_env.key(), &result)
    }
}

impl Pxe {
    fn choose_places(
        &self,
        context: &Context,
        settings: &SettingsSpec,
        infra_env: &InfraEnv,
    ) -> anyhow::Result<Places> {
        if let (Some(image), Some(folder), Some(url)) = (&self.iso, &self.out, &self.url) {
            check_url(url)?;
            check_folder(folder)?;
            return Ok(Places {
                image: image.clone(),
                folder: std::path::absolute(folder)?,
                base_url: url.trim_end_matches('/').to_owned(),
            });
        }
        let image = images::find_image_file(settings, infra_env);
        let url = infra_env.image_url().and_then(|url| url.rsplit_once('/'));
        let (Some(image), Some((base_url, _))) = (image, url) else {
            let name = &infra_env.metadata.name;
            let option = context.namespace_option(&infra_env.metadata.namespace);
            return Err(Refusal::not_found(format!(
                "infraenv `{name}` has no image below isoDirectory of the Settings"
            ))
            .next(command_to_make_image(name, &option))
            .into());
        };
        let folder = copies::parent_folder(&image).to_owned();
        Ok(Places { image, folder, base_url: base_url.to_owned() })
    }
}

/// Refuses a URL that iPXE cannot fetch from, or that would be more than one word of its script.
fn check_url(url: &str) -> Result<(), Refusal> {
    let is_word = !url.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    let is_fetchable =
        url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https" | "tftp"));
    if is_word && is_fetchable {
        return Ok(());
    }
    Err(Refusal::usage(format!("--url `{url}` is not an http, https or tftp URL")))
}

fn check_folder(folder: &Path) -> Result<(), Refusal> {
    if folder.is_dir() {
        return Ok(());
    }
    let folder = folder.display();
    Err(Refusal::usage(format!("--out: there is no folder `{folder}`"))
        .advise(format!("mkdir -p {folder}")))
}
