//! Whether an InfraEnv has an image, and whether that is as it should be.

use crate::model::agent::INFRA_ENV;
use crate::model::condition;
use crate::model::infra_env::{IMAGE_CREATED, InfraEnv};
use crate::model::refusal::Refusal;

use crate::commands::why::causes::{Around, Chain, images, infraenv_iso};

impl Around<'_> {
    pub(super) fn infra_env(&self, one: &InfraEnv) -> Result<Chain, Refusal> {
        let (name, at) = (&one.metadata.name, &self.at);
        let make = images::command(name, at);
        let said = condition::find(&one.status.conditions, IMAGE_CREATED);
        let wrong = said.filter(|said| {
            ["ImageCreationError", "MissingClusterDeployment"].contains(&said.reason.as_str())
        });
        let what = match said {
            Some(said) if said.status == "True" => "image",
            _ => "Ignition",
        };
        let first = match one.status.created_time {
            None => format!("infraenv {name} has no image yet"),
            Some(time) => {
                let place = one.image().map(|url| format!(", {url}")).unwrap_or_default();
                format!("infraenv {name} has an {what} of {time}{place}")
            }
        };
        Ok(if let Some(wrong) = wrong {
            Chain::of(first, make).after(wrong.message.clone())
        } else if infraenv_iso::is_stale(self.store, one)? {
            let why = "its spec, or an NMStateConfig that it selects, was changed after that";
            Chain::of(first, make).after(why.into())
        } else if one.status.created_time.is_none() {
            Chain::of(first, make)
        } else {
            Chain::of(first, format!("poolctl get agent -l {INFRA_ENV}={name}{at}"))
        })
    }
}
