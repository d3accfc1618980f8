//! Finds values that a limit takes back: a lifetime that is capped, a size that cannot be reached.
//! They are allowed, because limits may change, so they are said and never refused.

use crate::model::annotations::SCHEDULE;
use crate::model::claim::Claim;
use crate::model::pool::ClusterPool;
use crate::model::schedule::Schedule;
use crate::model::state::State;

/// At most so many claims are named whose end has moved.
const MANY_CLAIMS: usize = 5;

/// What the changes of a state ask for and cannot have, a sentence for each. What they do not touch
/// is not said again.
pub fn find_limited_values(state: &State) -> Vec<String> {
    let mut sentences = Vec::new();
    for change in state.pools.difference() {
        let Some(pool) = change.after else { continue };
        if pool.metadata.deletion_timestamp.is_some() {
            continue;
        }
        for sentence in find_new_limits(change.before, pool) {
            sentences.push(format!("pool `{}`: {sentence}", pool.metadata.name));
        }
        if let Some(before) = change.before
            && before.spec.claim_lifetime != pool.spec.claim_lifetime
        {
            sentences.extend(describe_shortened_claims(state, pool));
        }
    }
    for change in state.claims.difference() {
        if let Some(claim) = change.after
            && change.before.is_none_or(|before| before.lifetime != claim.lifetime)
        {
            sentences.extend(describe_capped_lifetime(state, claim));
        }
    }
    sentences
}

/// The values of a pool that its limits take back now, and did not before the change.
fn find_new_limits(before: Option<&ClusterPool>, pool: &ClusterPool) -> Vec<String> {
    let mut sentences = describe_limited_counts(pool);
    if let Some(before) = before {
        if before.spec == pool.spec && schedule_lines(before) == schedule_lines(pool) {
            return Vec::new();
        }
        let said_before = describe_limited_counts(before);
        sentences.retain(|sentence| !said_before.contains(sentence));
    }
    sentences
}

fn schedule_lines(pool: &ClusterPool) -> Option<&str> {
    pool.metadata.annotation(SCHEDULE)
}

/// The size and the runningCount of a pool, and those that its schedule sets, if they cannot be
/// reached.
fn describe_limited_counts(pool: &ClusterPool) -> Vec<String> {
    let spec = &pool.spec;
    let mut sentences = Vec::new();
    sentences.extend(describe_unreachable_size(pool, spec.size));
    if spec.max_concurrent == Some(0) && pool.status.size < spec.size {
        let size = spec.size;
        sentences.push(format!(
            "size {size} cannot be reached: maxConcurrent 0 allows no cluster to be made"
        ));
    }
    sentences.extend(describe_excess_running_count(spec.size, spec.running_count));
    let schedule: Option<Schedule> = schedule_lines(pool).and_then(|lines| lines.parse().ok());
    for (size, running_count) in schedule.iter().flat_map(Schedule::counts) {
        let size = size.unwrap_or(spec.size);
        let mut limits = Vec::new();
        limits.extend(describe_unreachable_size(pool, size));
        limits.extend(describe_excess_running_count(size, running_count.unwrap_or(0)));
        for limit in limits {
            // What is said of the pool as it is need not be said of its schedule.
            if !sentences.contains(&limit) {
                sentences.push(limit);
            }
        }
    }
    sentences
}

/// Why a pool can never have so many unclaimed clusters, if it cannot.
fn describe_unreachable_size(pool: &ClusterPool, size: u32) -> Option<String> {
    if let Some(max_size) = pool.spec.max_size
        && size > max_size
    {
        return Some(format!(
            "size {size} cannot be reached: maxSize {max_size} limits all clusters, also claimed \
             ones"
        ));
    }
    let count = pool.spec.inventory.as_ref()?.len();
    let has_enough = usize::try_from(size).is_ok_and(|size| size <= count);
    if has_enough {
        return None;
    }
    let customizations = if count == 1 { "customization" } else { "customizations" };
    Some(format!("size {size} cannot be reached: the inventory has {count} {customizations}"))
}

/// That not all of the clusters can run that are to run. A pool of size 0 makes its clusters for
/// claims, and those run anyway.
fn describe_excess_running_count(size: u32, running_count: u32) -> Option<String> {
    let is_excess = size > 0 && running_count > size;
    is_excess.then(|| format!("runningCount {running_count} counts as {size}, which is the size"))
}

/// The claims of a pool that end earlier than they did before its limits changed.
fn describe_shortened_claims(state: &State, pool: &ClusterPool) -> Option<String> {
    let mut ends = Vec::new();
    for change in state.claims.difference() {
        let (Some(before), Some(claim)) = (change.before, change.after) else { continue };
        let (Some(end), Some(lifetime)) = (claim.expires_at(), claim.effective) else { continue };
        let is_shortened = before.expires_at().is_none_or(|end_before| end < end_before);
        if is_shortened && claim.pool_key() == pool.key() && claim.lifetime == before.lifetime {
            ends.push(format!("`{}` after {lifetime}, at {end}", claim.name));
        }
    }
    if ends.is_empty() {
        return None;
    }
    let unnamed = ends.len().saturating_sub(MANY_CLAIMS);
    ends.truncate(MANY_CLAIMS);
    if unnamed > 0 {
        ends.push(format!("and {unnamed} more"));
    }
    Some(format!("pool `{}`: claims end earlier now: {}", pool.metadata.name, ends.join("; ")))
}

/// That a claim asks for more time than its pool allows, if it does.
fn describe_capped_lifetime(state: &State, claim: &Claim) -> Option<String> {
    let lifetime = claim.lifetime?;
    let pool = state.pools.by_key(&claim.pool_key())?;
    let maximum = pool.spec.claim_lifetime.as_ref()?.maximum?;
    (lifetime > maximum).then(|| {
        let Claim { name, pool, .. } = claim;
        format!("claim `{name}`: lifetime {lifetime} is capped: pool `{pool}` allows {maximum}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::inventory::InventoryEntry;

    fn check(pool: &ClusterPool, expected: &[&str]) {
        assert_eq!(find_new_limits(None, pool), expected);
        assert!(find_new_limits(Some(pool), pool).is_empty());
    }

    #[test]
    fn only_what_a_limit_takes_back_is_said() {
        let mut pool = ClusterPool::default();
        pool.spec.size = 2;
        pool.spec.running_count = 2;
        check(&pool, &[]);
        pool.spec.running_count = 3;
        check(&pool, &["runningCount 3 counts as 2, which is the size"]);
        pool.spec.size = 0;
        check(&pool, &[]);
        pool.spec.size = 4;
        pool.spec.max_size = Some(3);
        let too_much = "maxSize 3 limits all clusters, also claimed ones";
        let of_size = format!("size 4 cannot be reached: {too_much}");
        check(&pool, &[&of_size]);
        pool.metadata.annotations.insert(SCHEDULE.into(), "0 8 * * * size=9".into());
        check(&pool, &[&of_size, &format!("size 9 cannot be reached: {too_much}")]);
        pool.metadata.annotations.clear();
        pool.spec.max_size = None;
        pool.spec.inventory = Some(vec![InventoryEntry::default()]);
        check(&pool, &["size 4 cannot be reached: the inventory has 1 customization"]);
    }

    #[test]
    fn what_a_change_does_not_touch_is_not_said_again() {
        let mut pool = ClusterPool::default();
        pool.spec.size = 5;
        pool.spec.max_size = Some(3);
        let mut scaled = pool.clone();
        scaled.spec.running_count = 6;
        assert_eq!(
            find_new_limits(Some(&pool), &scaled),
            ["runningCount 6 counts as 5, which is the size"]
        );
    }
}
