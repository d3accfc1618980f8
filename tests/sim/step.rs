//! The steps of a history, and how each is written: a word, and what it is done to.
//!
//! ```text
//! pool p1 3              a pool of this size is made
//! set p1 maxSize 4       a field of a pool is changed; `none` takes it away
//! list p1 a b            the inventory of a pool; without names it has none
//! refresh p1 fast        how stale clusters are replaced
//! do p1 pause            what people do to a pool, a customization or a cluster:
//! do-customization a break
//! do-cluster 2 retry     clusters are numbered in the order in which they were made
//! health 2 nodes         a cluster is sick from now on, until it is `healthy`
//! claim c1 p1 8          a claim, for so many hours, or without an end
//! release c1
//! extend c1 4
//! move c1 p2
//! begin cloud-away       a trouble begins, and another one ends
//! end cloud-away
//! doom a                 clusters with this customization fail until it is mended
//! images gone            the image set is deleted, or made again (`back`)
//! wait 90                so many minutes go by, with passes
//! sleep 90               the same, but all passes are lost
//! reboot                 the program and the machine are started again
//! clock -600             the clock on the wall is moved by so many minutes
//! ```

use std::fmt;
use std::str::FromStr;

use super::trouble::Trouble;

words! {
    /// The fields of a pool that are numbers.
    Field {
        Size = "size",
        RunningCount = "runningCount",
        MaxSize = "maxSize",
        MaxConcurrent = "maxConcurrent",
        InstallAttemptsLimit = "installAttemptsLimit",
        /// In minutes.
        ResumeTimeout = "resumeTimeout",
        /// The default lifetime of claims, in hours.
        Lifetime = "lifetime",
        /// In hours.
        HibernateAfter = "hibernateAfter",
    }
}

words! {
    /// What people do to a pool, beside setting its fields.
    PoolDeed {
        Pause = "pause",
        Resume = "resume",
        Delete = "delete",
        /// Its configuration is wrong from now on: every installation fails.
        Spoil = "spoil",
        /// Its configuration is right again.
        Correct = "correct",
        /// It becomes another version, for which its clusters are stale.
        Renew = "renew",
    }
}

words! {
    /// What people do to a customization.
    CustomizationDeed {
        Make = "make",
        /// Its patches do not apply from now on.
        Break = "break",
        /// It is edited, so that its patches apply and its clusters can be installed.
        Mend = "mend",
        Delete = "delete",
    }
}

words! {
    /// What people do to a cluster.
    ClusterDeed {
        Delete = "delete",
        Evict = "evict",
        Retry = "retry",
        Pause = "pause",
        Resume = "resume",
        /// Its installations fail from now on.
        Curse = "curse",
        Bless = "bless",
    }
}

words! {
    /// How a cluster is, as `poolctl.dev/fake-health` says it.
    Health {
        Healthy = "healthy",
        Machines = "machines",
        Nodes = "nodes",
        Operators = "operators",
        StartFails = "start-fails",
        StopFails = "stop-fails",
    }
}

words! {
    /// How a pool replaces stale clusters.
    Refresh {
        Slow = "slow",
        Fast = "fast",
        Never = "none",
    }
}

/// One step of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    MakePool { pool: String, size: u32 },
    Set { pool: String, field: Field, value: Option<u32> },
    List { pool: String, customizations: Vec<String> },
    Refresh { pool: String, policy: Refresh },
    DoToPool { pool: String, deed: PoolDeed },
    DoToCustomization { customization: String, deed: CustomizationDeed },
    DoToCluster { number: usize, deed: ClusterDeed },
    SetHealth { number: usize, health: Health },
    Claim { claim: String, pool: String, hours: Option<u32> },
    Release { claim: String },
    Extend { claim: String, hours: u32 },
    Move { claim: String, pool: String },
    BeginTrouble(Trouble),
    EndTrouble(Trouble),
    Doom { customization: String },
    RemoveImageSet,
    RestoreImageSet,
    Wait { minutes: u32 },
    Sleep { minutes: u32 },
    Reboot,
    MoveClock { minutes: i64 },
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MakePool { pool, size } => write!(out, "pool {pool} {size}"),
            Self::Set { pool, field, value } => {
                let value = value.map_or_else(|| "none".to_owned(), |value| value.to_string());
                write!(out, "set {pool} {} {value}", field.word())
            }
            Self::List { pool, customizations } => {
                write!(out, "list {pool}")?;
                for customization in customizations {
                    write!(out, " {customization}")?;
                }
                Ok(())
            }
            Self::Refresh { pool, policy } => write!(out, "refresh {pool} {}", policy.word()),
            Self::DoToPool { pool, deed } => write!(out, "do {pool} {}", deed.word()),
            Self::DoToCustomization { customization, deed } => {
                write!(out, "do-customization {customization} {}", deed.word())
            }
            Self::DoToCluster { number, deed } => {
                write!(out, "do-cluster {number} {}", deed.word())
            }
            Self::SetHealth { number, health } => write!(out, "health {number} {}", health.word()),
            Self::Claim { claim, pool, hours: None } => write!(out, "claim {claim} {pool}"),
            Self::Claim { claim, pool, hours: Some(hours) } => {
                write!(out, "claim {claim} {pool} {hours}")
            }
            Self::Release { claim } => write!(out, "release {claim}"),
            Self::Extend { claim, hours } => write!(out, "extend {claim} {hours}"),
            Self::Move { claim, pool } => write!(out, "move {claim} {pool}"),
            Self::BeginTrouble(trouble) => write!(out, "begin {}", trouble.word()),
            Self::EndTrouble(trouble) => write!(out, "end {}", trouble.word()),
            Self::Doom { customization } => write!(out, "doom {customization}"),
            Self::RemoveImageSet => write!(out, "images gone"),
            Self::RestoreImageSet => write!(out, "images back"),
            Self::Wait { minutes } => write!(out, "wait {minutes}"),
            Self::Sleep { minutes } => write!(out, "sleep {minutes}"),
            Self::Reboot => write!(out, "reboot"),
            Self::MoveClock { minutes } => write!(out, "clock {minutes}"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let step = match words.as_slice() {
            ["set" | "list" | "refresh" | "pool", ..] => parse_pool_step(&words),
            ["do" | "do-customization" | "do-cluster" | "health", ..] => parse_deed(&words),
            ["claim" | "release" | "extend" | "move", ..] => parse_claim_step(&words),
            _ => parse_world_step(&words),
        };
        step.ok_or_else(|| format!("`{line}` is no step of a history"))
    }
}

fn parse_pool_step(words: &[&str]) -> Option<Step> {
    Some(match *words {
        ["pool", pool, size] => Step::MakePool { pool: pool.to_owned(), size: size.parse().ok()? },
        ["set", pool, field, value] => {
            let value = if value == "none" { None } else { Some(value.parse().ok()?) };
            Step::Set { pool: pool.to_owned(), field: Field::named(field)?, value }
        }
        ["list", pool, ref names @ ..] => {
            let customizations: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Step::List { pool: pool.to_owned(), customizations }
        }
        ["refresh", pool, policy] => {
            Step::Refresh { pool: pool.to_owned(), policy: Refresh::named(policy)? }
        }
        _ => return None,
    })
}

fn parse_deed(words: &[&str]) -> Option<Step> {
    Some(match *words {
        ["do", pool, deed] => {
            Step::DoToPool { pool: pool.to_owned(), deed: PoolDeed::named(deed)? }
        }
        ["do-customization", customization, deed] => Step::DoToCustomization {
            customization: customization.to_owned(),
            deed: CustomizationDeed::named(deed)?,
        },
        ["do-cluster", number, deed] => {
            Step::DoToCluster { number: number.parse().ok()?, deed: ClusterDeed::named(deed)? }
        }
        ["health", number, health] => {
            Step::SetHealth { number: number.parse().ok()?, health: Health::named(health)? }
        }
        _ => return None,
    })
}

fn parse_claim_step(words: &[&str]) -> Option<Step> {
    Some(match *words {
        ["claim", claim, pool] => {
            Step::Claim { claim: claim.to_owned(), pool: pool.to_owned(), hours: None }
        }
        ["claim", claim, pool, hours] => Step::Claim {
            claim: claim.to_owned(),
            pool: pool.to_owned(),
            hours: Some(hours.parse().ok()?),
        },
        ["release", claim] => Step::Release { claim: claim.to_owned() },
        ["extend", claim, hours] => {
            Step::Extend { claim: claim.to_owned(), hours: hours.parse().ok()? }
        }
        ["move", claim, pool] => Step::Move { claim: claim.to_owned(), pool: pool.to_owned() },
        _ => return None,
    })
}

fn parse_world_step(words: &[&str]) -> Option<Step> {
    Some(match *words {
        ["begin", trouble] => Step::BeginTrouble(Trouble::named(trouble)?),
        ["end", trouble] => Step::EndTrouble(Trouble::named(trouble)?),
        ["doom", customization] => Step::Doom { customization: customization.to_owned() },
        ["images", "gone"] => Step::RemoveImageSet,
        ["images", "back"] => Step::RestoreImageSet,
        ["wait", minutes] => Step::Wait { minutes: minutes.parse().ok()? },
        ["sleep", minutes] => Step::Sleep { minutes: minutes.parse().ok()? },
        ["reboot"] => Step::Reboot,
        ["clock", minutes] => Step::MoveClock { minutes: minutes.parse().ok()? },
        _ => return None,
    })
}
