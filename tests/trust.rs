//! A state that knows itself: documents and events that were changed or removed behind poolctl's
//! back are found, and nothing is lost for being one of many.

use std::fmt::Write;

use crate::sandbox::{Sandbox, apply};

/// Twenty leases were looked at, and whoever removed twenty and their pool met the database itself.
#[test]
fn a_pool_is_not_removed_with_twenty_of_its_many_leases() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.0.0.10-10.0.0.99 --allocation sequential");
    let mut claims = String::new();
    for number in 0..22 {
        let _ = write!(
            claims,
            "apiVersion: ipam.metal3.io/v1alpha1\nkind: IPClaim\nmetadata: {{name: c{number:02}}}\n\
             spec: {{pool: {{name: lan}}}}\n---\n"
        );
    }
    apply(&sandbox, &claims);
    let first_claims: Vec<&str> = claims.split("---\n").take(20).collect();
    let pool = "apiVersion: ipam.metal3.io/v1alpha1\nkind: IPPool\nmetadata: {name: lan}\n";
    let file = sandbox
        .write_file("going.yaml", &format!("{}---\n{pool}", first_claims.join("---\n")));
    let ran = sandbox.run(&format!("delete -f {file} -y"));
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("IPPool `lan` has leases"), "{}", ran.err);
    assert!(!ran.err.contains("the state file refuses"), "{}", ran.err);
    sandbox.ok("doctor");
}
