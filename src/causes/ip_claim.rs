//! Explains an IPClaim: which address it has, or why it has none.

use super::chain::Chain;
use super::evidence::Evidence;
use super::ip_pool::command_to_resume;
use crate::model::ip_lease::IpClaim;
use crate::plan::find_serving_pool;

/// Explains an IPClaim by its address, or by the error of the last pass that had none for it.
pub fn explain_ip_claim(evidence: &Evidence, claim: &IpClaim) -> Chain {
    let name = &claim.metadata.name;
    let pool = &claim.spec.pool.name;
    if let Some(address) = &claim.status.address {
        let next = command_to_map(evidence, claim);
        return Chain::new(format!("ipclaim {name} has {}", address.name), next);
    }
    let next = command_to_serve(evidence, claim);
    let chain = Chain::new(format!("ipclaim {name} waits for an address of IPPool {pool}"), next);
    match claim.status.error_message.as_str() {
        "" => chain.because("no pass has run yet"),
        message => chain.because(message),
    }
}

fn command_to_map(evidence: &Evidence, claim: &IpClaim) -> String {
    let pool = &claim.spec.pool.name;
    match claim.spec.pool.namespace.as_str() {
        "" => format!("poolctl ippool map {pool}{}", evidence.namespace_option),
        namespace => format!("poolctl ippool map {pool} -n {namespace}"),
    }
}

/// What helps a claim that waits: its pool is made, resumed or looked at. A claim is loaded together
/// with its pool, so a pool that is not in the state does not exist.
fn command_to_serve(evidence: &Evidence, claim: &IpClaim) -> String {
    let namespace = &claim.metadata.namespace;
    let pool_key = claim.spec.pool.key_from(namespace);
    let is_named_with_namespace = !claim.spec.pool.namespace.is_empty();
    let pool = if is_named_with_namespace {
        let named_pool = evidence.state.ip_pools.by_key(&pool_key);
        named_pool.filter(|pool| pool.serves(namespace))
    } else {
        match find_serving_pool(&evidence.state, namespace, &pool_key.name) {
            Ok(serving_pool) => serving_pool,
            // Several pools of this name are shared with the namespace.
            Err(_) => return "poolctl get ippool -A".to_owned(),
        }
    };
    let Some(pool) = pool else {
        let pool_name = &pool_key.name;
        let option = &evidence.namespace_option;
        return if is_named_with_namespace {
            format!("poolctl get ippool -n {}", pool_key.namespace)
        } else {
            format!("poolctl ippool create {pool_name}{option} --range RANGE")
        };
    };
    let option = if pool.metadata.namespace == *namespace {
        evidence.namespace_option.clone()
    } else {
        format!(" -n {}", pool.metadata.namespace)
    };
    let resume = command_to_resume(pool, &option);
    resume.unwrap_or_else(|| format!("poolctl ippool map {}{option}", pool.metadata.name))
}
