//! Explains an IPClaim: which address it has, or why it has none.

use super::chain::Chain;
use super::evidence::Evidence;
use crate::model::ip_lease::IpClaim;

/// Explains an IPClaim by its address, or by the error of the last pass that had none for it.
pub fn explain_ip_claim(evidence: &Evidence, claim: &IpClaim) -> Chain {
    let name = &claim.metadata.name;
    let pool = &claim.spec.pool.name;
    let next = match claim.spec.pool.namespace.as_str() {
        "" => format!("poolctl ippool map {pool}{}", evidence.namespace_option),
        namespace => format!("poolctl ippool map {pool} -n {namespace}"),
    };
    if let Some(address) = &claim.status.address {
        return Chain::new(format!("ipclaim {name} has {}", address.name), next);
    }
    let chain = Chain::new(format!("ipclaim {name} waits for an address of IPPool {pool}"), next);
    match claim.status.error_message.as_str() {
        "" => chain.because("no pass has run yet"),
        message => chain.because(message),
    }
}
