//! `extend`: lets a claim keep its cluster longer, but no longer than its pool allows.

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

use crate::commands::{Audience, Context, RunCommand};

/// Arguments of `extend`. The pool's maximum lifetime limits what can be asked.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("how long").required(true))]
pub struct Extend {
    /// Claim to extend
    #[arg(value_name = "CLAIM")]
    claim: String,
    /// Extend the lifetime by this much, such as 2h
    #[arg(long = "for", value_name = "DURATION", group = "how long", allow_hyphen_values = true)]
    by: Option<Span>,
    /// Keep the cluster until a time of day (18:00) or an instant (2026-01-31T18:00:00Z)
    #[arg(long, value_name = "TIME", group = "how long")]
    until: Option<String>,
}

impl RunCommand for Extend {
    const NAME: &'static str = "extend";
    const ABOUT: &'static str = "Keep a claimed cluster longer";
    const EXAMPLE: &'static str = "poolctl extend ci-17 --for 2h";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let until = self.until.as_deref().map(|until| parse_end(context, until)).transpose()?;
        let store = context.open_existing_state()?;
        store.allow_reserve();
        let found_claim = context.find::<Claim>(&store, &self.claim)?;
        let key = found_claim.key();
        let scope = Scope::pool(found_claim.pool_key());
        let (extended, passed) = context.door(&store).change(&scope, &[], |state, tick| {
            if let Some(claim) = state.claims.by_key(&key) {
                context.check_claim_permission(claim)?;
            }
            self.extend_claim(state, &key, until, tick)
        })?;
        let now = context.world.now().max(store.read_mark()?.now);
        let result = match extended {
            Extended::Endless => "unchanged (it does not expire)".into(),
            Extended::To { end: Some(end), .. } => {
                format!("extended (expires {end}, in {})", end.since(now).to_short_text())
            }
            Extended::To { end: None, .. } => {
                "extended (its lifetime starts when it gets a cluster)".into()
            }
        };
        context.report_change(Kind::ClusterClaim, &key, &result)?;
        if matches!(extended, Extended::To { is_capped: true, .. }) {
            context.warn(&format!("pool `{}` does not allow a longer lifetime", found_claim.pool));
        }
        Ok(context.report_pass(&passed)?)
    }
}

/// The longest lifetime that a claim may have.
const MAX_LIFETIME: Span = Span::hours(24 * 365 * 100);

/// What became of the end of a claim.
enum Extended {
    /// The claim has no end, so that nothing is changed.
    Endless,
    /// The new end, if the time of the claim has begun, and whether the pool's maximum limits it.
    To { end: Option<Time>, is_capped: bool },
}

impl Extend {
    /// Writes the new lifetime, never more than the pool allows.
    fn extend_claim(
        &self,
        state: &mut State,
        claim_key: &Key,
        until: Option<Time>,
        tick: &Tick,
    ) -> Result<Extended, Refusal> {
        let name = &claim_key.name;
        let claim_id = state.claims.find(claim_key);
        let claim = claim_id.and_then(|claim_id| state.claims.get(claim_id));
        let (Some(claim_id), Some(claim)) = (claim_id, claim) else {
            return Err(Refusal::not_found(format!("there is no claim `{name}` any more")));
        };
        if claim.deleting.is_some() {
            return Err(Refusal::conflict(format!("claim `{name}` is being released")));
        }
        let pool = state.pools.by_key(&claim.pool_key());
        let lifetime_before = plan::effective_lifetime(claim, pool);
        let Some(wanted) = self.wanted_lifetime(claim, lifetime_before, until, tick)? else {
            return Ok(Extended::Endless);
        };
        if wanted > MAX_LIFETIME {
            return Err(Refusal::usage(format!("{wanted} is longer than 100 years")));
        }
        let wanted_claim = Claim { lifetime: Some(wanted), ..claim.clone() };
        let effective = plan::effective_lifetime(&wanted_claim, pool).unwrap_or(wanted);
        if effective < wanted && Some(effective) <= lifetime_before {
            let problem = format!(
                "claim `{name}` already has the longest lifetime that its pool allows, {effective}"
            );
            let pool_name = &claim.pool;
            return Err(Refusal::conflict(problem).next(format!(
                "poolctl get pool {pool_name} -o jsonpath='{{.spec.claimLifetime}}'"
            )));
        }
        let end = claim.claimed_at().map(|since| since.plus(effective));
        state.claims.update(claim_id, |claim| claim.lifetime = Some(effective));
        let message = format!("Lifetime is {effective} now");
        let reason = EventReason::Extended;
        record_event(state, tick, Kind::ClusterClaim, claim_key.clone(), reason, &message);
        Ok(Extended::To { end, is_capped: effective < wanted })
    }

    /// The lifetime that is asked for, from when the cluster was handed over; none if the claim has
    /// no end that could be extended.
    fn wanted_lifetime(
        &self,
        claim: &Claim,
        lifetime_before: Option<Span>,
        until: Option<Time>,
        tick: &Tick,
    ) -> Result<Option<Span>, Refusal> {
        let name = &claim.name;
        if let Some(by) = self.by {
            return Ok(lifetime_before.map(|before| Span(before.0.saturating_add(by.0))));
        }
        let (Some(until), Some(claimed_at)) = (until, claim.claimed_at()) else {
            let problem =
                format!("claim `{name}` has no cluster yet, so its lifetime has not started");
            return Err(Refusal::conflict(problem).next(format!("poolctl extend {name} --for 2h")));
        };
        if claim.expires_at().is_some_and(|end| until <= end) || until <= tick.now {
            let end = claim.expires_at().unwrap_or(tick.now);
            let problem = format!("claim `{name}` already has its cluster until {end}");
            return Err(Refusal::conflict(problem));
        }
        Ok(Some(until.since(claimed_at)))
    }
}

/// The instant that `--until` names; of a time of day the next one.
pub fn parse_end(context: &Context, until: &str) -> Result<Time, Refusal> {
    let instant = until.parse().ok().or_else(|| context.world.next_time_of_day(until));
    instant.ok_or_else(|| {
        Refusal::usage(format!("`{until}` is neither a time of day nor an instant"))
            .advise("poolctl extend CLAIM --until 18:00, or --until 2026-01-31T18:00:00Z")
    })
}
