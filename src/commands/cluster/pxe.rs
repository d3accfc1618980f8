//! `cluster pxe`: takes out of the image of a cluster what its hosts boot by network while it is
//! installed. It never serves the files: the web server of the images does.

use std::path::PathBuf;

use clap::Args;

use crate::drivers::image::find_image;
use crate::drivers::image_folder;
use crate::drivers::job_folder::JobFolder;
use crate::drivers::pxe::write_pxe_files;
use crate::model::cluster::Cluster;
use crate::model::documents::SettingsSpec;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;
use crate::render::pxe::PxeNames;
use crate::store::Store;

use crate::commands::{Context, RunCommand};

/// Kinds of images: of a new cluster, and of nodes that join one.
const IMAGES: [&str; 2] = ["agent", "node"];

/// Arguments of `cluster pxe`. The image of the cluster must have been made by its installation.
#[derive(Args)]
pub struct Pxe {
    /// Cluster whose hosts boot by network
    #[arg(value_name = "CLUSTER")]
    name: String,
}

impl RunCommand for Pxe {
    const NAME: &'static str = "pxe";
    const ABOUT: &'static str =
        "Write kernel, initrd, rootfs and iPXE script of a cluster that is being installed";
    const EXAMPLE: &'static str = "poolctl cluster pxe CLUSTER";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let cluster = context.find::<Cluster>(&store, &self.name)?;
        let door = context.door(&store);
        let (job, image) = find_image_of_job(context, &store, &cluster)?;
        let settings: SettingsSpec = door.read_settings()?;
        let (Some(directory), Some(url)) = (&settings.iso_directory, &settings.iso_url) else {
            return Err(Refusal::conflict("there is no place for the files")
                .because("isoDirectory and isoURL of the Settings are not set")
                .next("poolctl explain settings.spec.isoDirectory")
                .into());
        };
        // What is in the folder of a job is removed with its image.
        let job_id = job.id.to_string();
        let folder = directory.join(&job_id);
        image_folder::create_image_folder(&folder)
            .map_err(|error| Refusal::unwritable(&folder, &error))?;
        let base_url = format!("{}/{job_id}", url.trim_end_matches('/'));
        let names = PxeNames { base_url, name: cluster.name.clone() };
        write_pxe_files(&image, &folder, &names).map_err(|why| {
            Refusal::invalid("the files for a boot by network were not made").because(why)
        })?;
        context.hint("then: poolctl host power cycle HOST --boot pxe");
        let result = format!(
            "kernel, initrd, rootfs and script are in {}; hosts boot {}",
            folder.display(),
            names.url_of(&names.script())
        );
        context.report_change(Kind::ClusterDeployment, &cluster.key(), &result)
    }
}

/// The job that installs hosts of a cluster now, and the image that it has made for them.
fn find_image_of_job(
    context: &Context,
    store: &Store,
    cluster: &Cluster,
) -> Result<(Job, PathBuf), Refusal> {
    let jobs = store.jobs_of_object(&cluster.name)?.into_iter().rev();
    for job in jobs.filter(|job| job.ended.is_none()) {
        let folder = JobFolder::for_job(&context.door(store).jobs_folder(), &job.id.to_string());
        let work = folder.file_path("work");
        for kind in IMAGES {
            // A job that has no work folder yet has no image either.
            if let Ok(Some(image)) = find_image(&work, kind) {
                return Ok((job, image));
            }
        }
    }
    let name = &cluster.name;
    let option = context.namespace_option(&cluster.namespace);
    Err(Refusal::not_found(format!("cluster `{name}` has no image now"))
        .because("it has one from `agent create image` until its installation is over")
        .next(format!("poolctl why cluster/{name}{option}")))
}
