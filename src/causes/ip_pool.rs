//! Explains an IPPool: how many addresses it has left, and whether somebody waits for one.

use super::chain::Chain;
use super::evidence::Evidence;
use crate::model::ip_pool::IpPool;
use crate::model::ip_supply::SupplyLevel;

/// Explains an IPPool by what is wrong with it, and else by its counts alone.
pub fn explain_ip_pool(evidence: &Evidence, ip_pool: &IpPool) -> Chain {
    let option = &evidence.namespace_option;
    let first_cause = format!("ippool {}: {}", ip_pool.metadata.name, ip_pool.supply().describe());
    match find_ip_pool_trouble(ip_pool, evidence.waiting_ip_claims, option) {
        Some(trouble) => trouble.preceded_by(first_cause),
        None => Chain::new(first_cause, command_to_map(ip_pool, option)),
    }
}

/// What is wrong with an IPPool: it is paused, claims wait for addresses, none is free, or fewer are
/// than its owner wants. Addresses that rest come back by themselves.
pub fn find_ip_pool_trouble(
    ip_pool: &IpPool,
    waiting_claims: usize,
    namespace_option: &str,
) -> Option<Chain> {
    let name = &ip_pool.metadata.name;
    let next = command_to_map(ip_pool, namespace_option);
    if let Some(resume) = command_to_resume(ip_pool, namespace_option) {
        let waiting = match waiting_claims {
            0 => String::new(),
            1 => ", and 1 claim waits for an address".to_owned(),
            count => format!(", and {count} claims wait for an address"),
        };
        return Some(Chain::new(format!("ippool {name}: it is paused{waiting}"), resume));
    }
    match waiting_claims {
        0 => {}
        1 => return Some(Chain::new(format!("ippool {name}: 1 claim waits for an address"), next)),
        count => {
            let cause = format!("ippool {name}: {count} claims wait for an address");
            return Some(Chain::new(cause, next));
        }
    }
    let supply = ip_pool.supply();
    let cause = match ip_pool.supply_level() {
        SupplyLevel::Sufficient => return None,
        // The status of a pool without ranges, or of one that no pass has seen, counts none.
        SupplyLevel::Exhausted if supply.total == 0 => return None,
        SupplyLevel::Exhausted => {
            format!(
                "ippool {name} has no free address: {} of {} are leased",
                supply.used, supply.total
            )
        }
        SupplyLevel::Resting if ip_pool.supply_limit().is_none() => return None,
        SupplyLevel::Low | SupplyLevel::Resting => {
            format!("ippool {name} has only {} free addresses", supply.free)
        }
    };
    Some(Chain::new(cause, next))
}

/// The command that resumes an IPPool; none if it is not paused.
pub fn command_to_resume(ip_pool: &IpPool, namespace_option: &str) -> Option<String> {
    let annotation = ip_pool.pause_annotation()?;
    let name = &ip_pool.metadata.name;
    Some(format!("poolctl annotate ippool/{name}{namespace_option} {annotation}-"))
}

fn command_to_map(ip_pool: &IpPool, namespace_option: &str) -> String {
    format!("poolctl ippool map {}{namespace_option}", ip_pool.metadata.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::annotations::WARN_BELOW;

    fn check(ip_pool: &IpPool, waiting_ip_claims: usize, causes: &[&str]) {
        let evidence = Evidence { waiting_ip_claims, ..Evidence::default() };
        let chain = explain_ip_pool(&evidence, ip_pool);
        assert_eq!(chain.causes, causes);
        assert_eq!(chain.next, "poolctl ippool map lan");
    }

    #[test]
    fn an_empty_pool_is_in_trouble_even_if_nobody_waits() {
        let mut ip_pool = IpPool::default();
        ip_pool.metadata.name = "lan".into();
        ip_pool.status.ip_addresses = Some(json!({"total": 4, "used": 4, "free": 0}));
        let counts = "ippool lan: 4 of 4 addresses leased, 0 free";
        let exhausted = "ippool lan has no free address: 4 of 4 are leased";
        check(&ip_pool, 0, &[counts, exhausted]);
        check(&ip_pool, 1, &[counts, "ippool lan: 1 claim waits for an address"]);
        check(&ip_pool, 2, &[counts, "ippool lan: 2 claims wait for an address"]);
        ip_pool.status.ip_addresses = Some(json!({"total": 4, "used": 3, "resting": 1, "free": 0}));
        let counts = "ippool lan: 3 of 4 addresses leased, 1 resting, 0 free";
        check(&ip_pool, 0, &[counts]);
        ip_pool.metadata.annotations.insert(WARN_BELOW.into(), "1".into());
        check(&ip_pool, 0, &[counts, "ippool lan has only 0 free addresses"]);
    }

    #[test]
    fn a_paused_pool_is_in_trouble() {
        let mut ip_pool = IpPool::default();
        ip_pool.metadata.name = "lan".into();
        let annotation = "hive.openshift.io/reconcile-pause";
        ip_pool.metadata.annotations.insert(annotation.into(), "true".into());
        for (waiting, cause) in [
            (0, "ippool lan: it is paused"),
            (1, "ippool lan: it is paused, and 1 claim waits for an address"),
            (2, "ippool lan: it is paused, and 2 claims wait for an address"),
        ] {
            let chain = find_ip_pool_trouble(&ip_pool, waiting, " -n lab").unwrap();
            assert_eq!(chain.causes, [cause]);
            assert_eq!(chain.next, format!("poolctl annotate ippool/lan -n lab {annotation}-"));
        }
    }
}
