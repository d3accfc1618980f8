//! `extend`: lets a claim keep its cluster longer.

use clap::Args;

use crate::edits::record_event;
use crate::model::claim::Claim;
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};
use crate::plan;

use crate::commands::{Context, Verb};

#[derive(Args)]
#[command(group = clap::ArgGroup::new("how long").required(true))]
pub struct Extend {
    #[arg(value_name = "CLAIM")]
    claim: String,
    /// Longer by this much than now
    #[arg(long = "for", value_name = "DURATION", group = "how long", allow_hyphen_values = true)]
    by: Option<Span>,
    /// Until the clock next shows this (18:00), or until an instant (2026-01-31T18:00:00Z)
    #[arg(long, value_name = "TIME", group = "how long")]
    until: Option<String>,
}

impl Verb for Extend {
    const NAME: &'static str = "extend";
    const ABOUT: &'static str = "Keep a claimed cluster longer";
    const EXAMPLE: &'static str = "poolctl extend ci-17 --for 2h";
    const FOR_GUESTS: bool = true;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let until = self.until.as_deref().map(|text| instant(context, text)).transpose()?;
        let store = context.look()?;
        let found = context.find::<Claim>(&store, &self.claim)?;
        let key = found.key();
        let scope = Scope::pool(found.pool_key());
        let (extended, passed) = context.door(&store).change(&scope, &[], |state, tick| {
            state.claims.by_key(&key).map_or(Ok(()), |claim| context.permit_change(claim))?;
            self.extend(state, &key, until, tick)
        })?;
        let now = context.world.now().max(store.mark()?.1.now);
        let said = match extended {
            Extended::Endless => "unchanged (it has no end)".into(),
            Extended::To { end: Some(end), .. } => {
                format!("extended (expires {end}, in {})", end.since(now).short())
            }
            Extended::To { end: None, .. } => {
                "extended (its time begins when it gets a cluster)".into()
            }
        };
        context.changed(Kind::ClusterClaim, &key, &said)?;
        if matches!(extended, Extended::To { capped: true, .. }) {
            context.warn(&format!("pool `{}` allows no longer lifetime", found.pool));
        }
        Ok(context.finish(&passed)?)
    }
}

/// As long as any duration may be.
const LONGEST: Span = Span::hours(24 * 365 * 100);

enum Extended {
    /// It had no end before.
    Endless,
    /// The new end, if its time has begun; and whether the pool's maximum cut it short.
    To { end: Option<Time>, capped: bool },
}

impl Extend {
    /// Writes the new lifetime, never more than the pool allows.
    fn extend(
        &self,
        state: &mut State,
        key: &Key,
        until: Option<Time>,
        tick: &Tick,
    ) -> Result<Extended, Refusal> {
        let gone = || Refusal::not_found(format!("there is no claim `{}` any more", key.name));
        let at = state.claims.find(key).ok_or_else(gone)?;
        let claim = state.claims.get(at).ok_or_else(gone)?;
        let refuse = |why: &str| Err(Refusal::conflict(format!("claim `{}` {why}", key.name)));
        if claim.deleting.is_some() {
            return refuse("is being released");
        }
        let pool = state.pools.by_key(&claim.pool_key());
        let now = plan::effective_lifetime(claim, pool);
        let wanted = match (self.by, until, claim.handed_over()) {
            (Some(by), _, _) => match now {
                Some(now) => Span(now.0.saturating_add(by.0)),
                None => return Ok(Extended::Endless),
            },
            (None, Some(until), Some(since)) => {
                if claim.expires().is_some_and(|end| until <= end) || until <= tick.now {
                    let end = claim.expires().unwrap_or(tick.now);
                    return refuse(&format!("has its cluster until {end} already"));
                }
                until.since(since)
            }
            _ => {
                return refuse("has no cluster yet: its time has not begun").map_err(
                    |refusal: Refusal| {
                        refusal.next(format!("poolctl extend {} --for 2h", key.name))
                    },
                );
            }
        };
        if wanted > LONGEST {
            return Err(Refusal::usage(format!("{wanted} is longer than 100 years")));
        }
        let new = Claim { lifetime: Some(wanted), ..claim.clone() };
        let effective = plan::effective_lifetime(&new, pool).unwrap_or(wanted);
        if effective < wanted && Some(effective) <= now {
            return Err(Refusal::conflict(format!(
                "claim `{}` has the longest lifetime its pool allows, {effective}",
                key.name
            ))
            .next(format!(
                "poolctl get pool {} -o jsonpath='{{.spec.claimLifetime}}'",
                claim.pool
            )));
        }
        state.claims.update(at, |claim| claim.lifetime = Some(effective));
        let message = format!("Lifetime is {effective} now");
        record_event(state, tick, Kind::ClusterClaim, key.clone(), EventReason::Extended, &message);
        let claim = state.claims.get(at).ok_or_else(gone)?;
        let end = claim.handed_over().map(|since| since.plus(effective));
        Ok(Extended::To { end, capped: effective < wanted })
    }
}

fn instant(context: &Context, text: &str) -> Result<Time, Refusal> {
    let at = text.parse().ok().or_else(|| context.world.next_time_of_day(text));
    at.ok_or_else(|| {
        Refusal::usage(format!("`{text}` is neither a time of day nor an instant"))
            .advise("poolctl extend CLAIM --until 18:00, or --until 2026-01-31T18:00:00Z")
    })
}
