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

/// What is wrong with an IPPool: claims wait for addresses, or fewer are free than its owner wants.
/// A pool whose addresses are all in use is as it should be while nobody asks for more.
pub fn find_ip_pool_trouble(
    ip_pool: &IpPool,
    waiting_claims: usize,
    namespace_option: &str,
) -> Option<Chain> {
    let name = &ip_pool.metadata.name;
    let next = command_to_map(ip_pool, namespace_option);
    match waiting_claims {
        0 => {}
        1 => return Some(Chain::new(format!("ippool {name}: 1 claim waits for an address"), next)),
        count => {
            let cause = format!("ippool {name}: {count} claims wait for an address");
            return Some(Chain::new(cause, next));
        }
    }
    if ip_pool.supply_limit().is_none() || ip_pool.supply_level() == SupplyLevel::Sufficient {
        return None;
    }
    let free = ip_pool.supply().free;
    Some(Chain::new(format!("ippool {name} has only {free} free addresses"), next))
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
    fn an_empty_pool_is_in_trouble_only_if_somebody_wants_more() {
        let mut ip_pool = IpPool::default();
        ip_pool.metadata.name = "lan".into();
        ip_pool.status.ip_addresses = Some(json!({"total": 4, "used": 4, "free": 0}));
        let counts = "ippool lan: 4 of 4 addresses leased, 0 free";
        check(&ip_pool, 0, &[counts]);
        check(&ip_pool, 1, &[counts, "ippool lan: 1 claim waits for an address"]);
        check(&ip_pool, 2, &[counts, "ippool lan: 2 claims wait for an address"]);
        ip_pool.metadata.annotations.insert(WARN_BELOW.into(), "1".into());
        check(&ip_pool, 0, &[counts, "ippool lan has only 0 free addresses"]);
    }
}
