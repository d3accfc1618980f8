//! For whom an address is, and until when; what is said of any address; addresses that come from
//! lists of other programs.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, apply, jsonpath};

/// A claim as somebody applies it.
fn ip_claim(name: &str, pool: &str, annotations: &Value) -> String {
    json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim",
        "metadata": {"name": name, "annotations": annotations}, "spec": {"pool": {"name": pool}}})
    .to_string()
}

#[test]
fn a_lease_ends_by_itself_and_a_warning_comes_before() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("ippool create p --range 10.0.0.1");
    sandbox.ok("ip claim p guest --for 2h");
    let document = sandbox.ok("get ipclaim guest -o yaml");
    assert!(document.contains("poolctl.dev/until: \"2026-03-02T14:00:00Z\""), "{document}");
    // The end is shown wherever the lease is.
    let who = sandbox.ok("ip who 10.0.0.1");
    assert!(who.trim_end().ends_with("2026-03-02T12:00:00Z  2026-03-02T14:00:00Z"), "{who}");
    assert!(sandbox.ok("get ipclaim -o wide").contains("2026-03-02T14:00:00Z"));
    let events = |sandbox: &Sandbox| sandbox.ok("events ipclaim/guest");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T13:31:00Z");
    sandbox.ok("reconcile");
    assert!(events(&sandbox).contains("AddressExpiresSoon"));
    // Whoever keeps it longer is warned again, of the new end.
    sandbox.ok("ip claim p guest --for 1h");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T14:20:00Z");
    sandbox.ok("reconcile");
    assert_eq!(events(&sandbox).matches("AddressExpiresSoon").count(), 2, "{}", events(&sandbox));
    sandbox.refused(6, "ip claim p other", "Exhausted IP Pools");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T14:31:00Z");
    sandbox.ok("reconcile");
    assert!(events(&sandbox).contains("AddressExpired"));
    assert_eq!(sandbox.ok("ip claim p other"), "10.0.0.1\n");
    sandbox.ok("doctor");
}

#[test]
fn a_purpose_that_cannot_be_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create p --range 10.0.0.0/24");
    sandbox.ok("ip claim p held");
    for (code, line, message) in [
        (1, "ip claim p a --mac 52:54", "is not a MAC address"),
        (1, "ip claim p a --dns-name a_b", "`a_b` is not usable as a name in DNS"),
        (2, "ip claim p a --until yesterday", "neither a time of day nor an instant"),
        (2, "ip claim p a --until 2026-03-02T11:00:00Z", "is over already"),
        (2, "ip claim p a --for 0s", "--for 0s is over already"),
        (2, "ip claim p held --for 0s", "--for 0s is over already"),
        (2, "ip claim p a --count 2 --mac 52:54:00:00:00:01", "of one machine, not of several"),
        (2, "ip claim p a --address ''", "--address is empty"),
        (2, "ip claim p a_b", "`a_b` is not usable as the name of an IPClaim"),
    ] {
        sandbox.refused(code, line, message);
    }
    let manifest = ip_claim("a", "p", &json!({"poolctl.dev/until": "soon"}));
    let path = sandbox.write_file("claim.json", &manifest);
    sandbox.refused(1, &format!("apply -f {path}"), "is not a time like");
    assert_eq!(sandbox.ok("get ipclaim -o name"), "ipclaim/held\n");
}

#[test]
fn a_claim_waits_for_an_address_and_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create p --range 10.0.0.1 --reuse-delay 5m");
    sandbox.ok("ip claim p first");
    let refused = sandbox.refused(5, "ip claim p second --wait=10m", "1 claim without an address");
    assert!(refused.contains("nothing is claimed"), "{refused}");
    sandbox.refused(3, "get ipclaim second", "there is no ipclaim");
    sandbox.refused(5, "ip claim p third --wait=10m --keep", "after 10m");
    assert!(sandbox.ok("get ipclaim third").contains("Exhausted IP Pools"));
    sandbox.ok("ip release third");
    // No wait helps a claim of an address that the pool leases to nobody.
    sandbox.refused(6, "ip claim p far --address 10.0.0.9 --wait=10m", "is outside the pool");
    let refused = sandbox.refused(5, "ip claim p far --address 10.0.0.1 --wait=10m", "after 10m");
    assert!(refused.contains("10.0.0.1 belongs to claim first"), "{refused}");
    // What rests is waited for.
    sandbox.ok("ip release first");
    assert_eq!(sandbox.ok("ip claim p fourth --wait=10m"), "10.0.0.1\n");
}

#[test]
fn a_claim_says_that_its_pool_is_missing_or_paused() {
    let sandbox = Sandbox::new();
    apply(&sandbox, &ip_claim("early", "later", &json!({})));
    let error =
        |name: &str| jsonpath(&sandbox, &format!("ipclaim/{name}"), "{.status.errorMessage}");
    assert_eq!(error("early").trim(), "there is no IPPool later");
    let why = sandbox.ok("why ipclaim/early");
    assert!(why.contains("there is no IPPool later"), "{why}");
    assert!(why.contains("Next: poolctl ippool create later"), "{why}");
    sandbox.ok("ippool create later --range 10.0.0.1-10.0.0.2 --allocation sequential");
    assert!(sandbox.ok("ip who early").contains("10.0.0.1"));
    sandbox.ok("annotate ippool/later cluster.x-k8s.io/paused=");
    let refused = sandbox.refused(6, "ip claim later x", "has no address for claim `x`");
    assert!(refused.contains("cause: IPPool later is paused"), "{refused}");
    let resume = "next: poolctl annotate ippool/later cluster.x-k8s.io/paused-\n";
    assert!(refused.contains(resume), "{refused}");
    apply(&sandbox, &ip_claim("waits", "later", &json!({})));
    assert_eq!(error("waits").trim(), "IPPool later is paused");
    let resume = "Next: poolctl annotate ippool/later cluster.x-k8s.io/paused-";
    assert!(sandbox.ok("why ipclaim/waits").contains(resume));
    sandbox.ok("annotate ippool/later cluster.x-k8s.io/paused-");
    assert!(sandbox.ok("get ipclaim waits").contains("later-10-0-0-2"));
}

#[test]
fn a_paused_pool_does_not_look_healthy() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.0.0.1-10.0.0.2");
    sandbox.ok("annotate ippool/lan cluster.x-k8s.io/paused=");
    let available = "wait ippool/lan --for=condition=AddressesAvailable --timeout=0";
    sandbox.refused(5, available, "timed out");
    let why = sandbox.ok("why ippool/lan");
    assert!(why.contains("ippool lan: it is paused\nNext: poolctl annotate ippool/lan"), "{why}");
    assert!(sandbox.status().contains("! ippool lan: it is paused"));
    assert!(sandbox.run("plan").out.contains("ippool/lan: it is paused"));
    assert!(sandbox.ok("get ippool").contains("2 (paused)"));
    let described = sandbox.ok("describe ippool lan");
    assert!(described.contains("The pool is paused;"), "{described}");
    sandbox.ok("annotate ippool/lan cluster.x-k8s.io/paused-");
    sandbox.ok(available);
}

#[test]
fn who_says_what_any_address_is() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("ippool create p --range 10.0.0.0/28 --gateway 10.0.0.1 --allocation sequential \
         --reuse-delay 5m");
    sandbox.ok("ip claim p web --dns-name www.example.com --mac 52:54:00:00:00:01 --comment shop");
    sandbox.ok("ip claim p gone");
    sandbox.ok("ip release gone");
    for (target, expected) in [
        ("10.0.0.0", "(network address)"),
        ("10.0.0.1", "(gateway)"),
        ("10.0.0.2", "web (shop)"),
        ("10.0.0.3", "(resting until 2026-03-02T12:05:00Z)"),
        ("10.0.0.4", "(free)"),
        ("10.0.0.15", "(broadcast address)"),
        ("web", "10.0.0.2"),
        ("www.example.com", "10.0.0.2"),
        ("52-54-00-00-00-01", "10.0.0.2"),
        ("10.0.0.0/30", "10.0.0.3 "),
        ("10.0.0.4-10.0.0.9", "10.0.0.4-10.0.0.9  p     (free)"),
    ] {
        let answer = sandbox.ok(&format!("ip who {target}"));
        assert!(answer.contains(expected), "{target}: {answer}");
    }
    // A network says as much of each address as the address itself.
    sandbox.ok("ip reserve p 10.0.0.12-10.0.0.13 --comment printers");
    sandbox.ok("ip claim p guest --address 10.0.0.14 --for 8h");
    let network = sandbox.ok("ip who 10.0.0.0/28");
    let rows: Vec<String> =
        network.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        rows,
        [
            "ADDRESS POOL CLAIM SINCE UNTIL",
            "10.0.0.0 p (network address) - -",
            "10.0.0.1 p (gateway) - -",
            "10.0.0.2 p web (shop) 2026-03-02T12:00:00Z now",
            "10.0.0.3 p (resting until 2026-03-02T12:05:00Z) - -",
            "10.0.0.4-10.0.0.11 p (free) - -",
            "10.0.0.12-10.0.0.13 p (reserved: printers) - -",
            "10.0.0.14 p guest 2026-03-02T12:00:00Z 2026-03-02T20:00:00Z",
            "10.0.0.15 p (broadcast address) - -",
        ]
    );
    sandbox.ok("ip release guest");
    sandbox.ok("ip reserve p 10.0.0.12-10.0.0.13 --remove");
    sandbox.ok("patch ippool p -p '{\"spec\": {\"preAllocations\": {\"db\": \"10.0.0.9\"}}}'");
    assert!(sandbox.ok("ip who db").contains("10.0.0.9  p     db (pre-allocated)"));
    sandbox.ok("patch ippool p -p '{\"spec\": {\"preAllocations\": null}}'");
    sandbox.refused(3, "ip who p", "next: poolctl ippool map p");
    sandbox.refused(3, "ip who nobody", "no address belongs to `nobody`");
    sandbox.refused(2, "ip who 10.0.0.1/33", "it is not ADDRESS/LENGTH");
    sandbox.refused(3, "ip who 10.9.0.0/24", "no address belongs to `10.9.0.0/24`");
    let refused = sandbox.refused(6, "ip claim p b --address 10.0.0.2", "Requested IP");
    assert!(refused.contains("10.0.0.2 belongs to claim web (shop)"), "{refused}");
    let refused = sandbox.refused(6, "ip claim p b --address 10.0.0.1", "Requested IP");
    assert!(refused.contains("nobody: it is the gateway"), "{refused}");
    let row = sandbox.ok("get ippool p -o wide --no-headers");
    let counts: Vec<&str> = row.split_whitespace().skip(2).take(5).collect();
    assert_eq!(counts, ["13", "1", "0", "2", "10"], "{row}");
    assert!(sandbox.ok("ippool map p").starts_with("10.0.0.1   g#~..........~-\n"));
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:06:00Z");
    assert!(sandbox.ok("ip who 10.0.0.3").contains("(free)"));
}

#[test]
fn a_file_with_a_pool_and_its_claims_is_deleted_whole() {
    let sandbox = Sandbox::new();
    sandbox.ok("apply -f examples/addresses/pool.yaml");
    sandbox.ok("delete -f examples/addresses/pool.yaml -y");
    assert_eq!(sandbox.ok("get ippool,ipclaim,ipaddress -o name"), "");
    // The pool of other claims stays, with a sentence.
    sandbox.ok("apply -f examples/addresses/pool.yaml");
    sandbox.ok("ip claim pool-1 stays");
    sandbox.refused(4, "delete -f examples/addresses/pool.yaml -y", "is leased to claim stays");
    sandbox.ok("doctor");
}

#[test]
fn numbers_of_claims_and_addresses_go_together() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create p --range 10.0.0.1-10.0.0.12 --allocation sequential");
    let lines = sandbox.ok("ip claim p n --count 12");
    for (index, line) in lines.lines().enumerate() {
        assert_eq!(line, format!("n-{index} 10.0.0.{}", index + 1));
    }
}

#[test]
fn a_map_shows_leases_in_any_size() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create big --range 10.0.0.0/16");
    for address in ["10.0.0.9", "10.0.77.3", "10.0.200.1"] {
        let name = address.replace('.', "-");
        sandbox.ok(&format!("ip claim big a-{name} --address {address}"));
    }
    sandbox.ok("ippool create six --range 2001:db8::/64");
    sandbox.ok("ip claim six far --address 2001:db8::ffff:0:0:1");
    let map = sandbox.ok("ippool map big");
    assert_eq!(map.lines().filter(|line| line.contains('#')).count(), 4, "{map}");
    assert!(map.contains(" more\n"), "{map}");
    assert!(sandbox.ok("ippool map six").contains("#...."));
}

#[test]
fn what_is_probably_a_slip_is_said() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run("ippool create wide --range 10.0.0.200-10.0.1.50 --prefix 24");
    assert!(ran.err.contains("goes beyond its network 10.0.0.0/24"), "{}", ran.err);
    let ran = sandbox.run("ippool create cross --range 10.30.0.250-10.30.1.5");
    assert!(ran.err.contains("has no prefix and goes beyond 10.30.0.0/24"), "{}", ran.err);
    let ran = sandbox.run("annotate ippool/cross poolctl.dev/exclude=10.99.0.1");
    let warning = "10.99.0.1 is reserved, and is outside of the ranges of the pool";
    assert!(ran.err.contains(warning), "{}", ran.err);
    sandbox.ok("ip claim wide web --address 10.0.0.210");
    let ran = sandbox.run("ip reserve wide 10.0.0.208-10.0.0.215");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("10.0.0.210 stays leased to claim web"), "{}", ran.err);
    sandbox.ok("ip reserve wide 10.0.0.210");
    let ran = sandbox.run("ip reserve wide 10.0.0.210 --remove");
    let warning = "10.0.0.208-10.0.0.215 is still reserved, with addresses of 10.0.0.210";
    assert!(ran.code == 0 && ran.err.contains(warning), "{}", ran.err);
    let annotate = "annotate ippool/wide poolctl.dev/exclude=2001:db8::/64";
    sandbox.refused(1, annotate, "the pool has no IPv6 addresses");
    let networks = json!({"ipv4": [
        {"id": "a", "link": "eth0", "ipAddressFromIPPool": "wide"},
        {"id": "b", "link": "eth0", "ipAddressFromIPPool": "wide"}]});
    let links = json!({"ethernets": [{"id": "eth0", "type": "phy",
        "macAddress": {"string": "52:54:00:00:00:01"}}]});
    let template = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "Metal3DataTemplate", "metadata": {"name": "twice"},
        "spec": {"networkData": {"links": links, "networks": networks}}});
    let path = sandbox.write_file("template.json", &template.to_string());
    let ran = sandbox.run(&format!("apply -f {path}"));
    assert!(ran.err.contains("the networks a and b have the same address"), "{}", ran.err);
    // A table names a few ranges, and counts the others.
    let ranges: Vec<String> = (1..=200).map(|last| format!("--range 10.9.{last}.1")).collect();
    sandbox.ok(&format!("ippool create many {}", ranges.join(" ")));
    assert!(sandbox.ok("get ippool many").contains("10.9.1.1, 10.9.2.1, 198 more"));
    assert!(sandbox.ok("get ippool many -o wide").contains("10.9.200.1"));
}

#[test]
fn the_supply_of_a_pool_is_a_signal() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create p --range 10.0.0.1-10.0.0.4");
    sandbox.ok("wait ippool/p --for=condition=AddressesAvailable --timeout=0");
    sandbox.ok("ip claim p c --count 2");
    assert!(sandbox.status().contains("ippool p: 2 of 4 addresses leased, 2 free"));
    sandbox.ok("annotate ippool/p poolctl.dev/warn-below=75%");
    let status = sandbox.status();
    assert!(status.contains("! ippool p has only 2 free addresses"), "{status}");
    let metrics = sandbox.ok("metrics");
    let labels = "{ippool_namespace=\"default\",ippool_name=\"p\"}";
    for (name, value) in
        [("addresses", 4), ("leased", 2), ("resting", 0), ("free", 2), ("exhausted", 0), ("low", 1)]
    {
        let line = format!("\npoolctl_ippool_{name}{labels} {value}\n");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    sandbox.refused(1, "annotate ippool/p poolctl.dev/warn-below=few --overwrite", "a percentage");
    sandbox.ok("ip claim p d --count 2");
    apply(&sandbox, &ip_claim("late", "p", &json!({})));
    sandbox.ok("wait ipclaim/d-0 --for=condition=Ready --timeout=0");
    sandbox.refused(5, "wait ipclaim/late --for=condition=Ready --timeout=0", "timed out");
    sandbox.ok("wait ippool/p --for=condition=AddressesAvailable=False --timeout=0");
    assert!(sandbox.status().contains("! ippool p: 1 claim waits for an address"));
    let why = sandbox.ok("why ippool/p");
    assert!(why.contains("  ippool p: 1 claim waits for an address\nNext: poolctl ippool map p"));
    let plan = sandbox.run("plan");
    assert!(plan.out.contains("ippool/p: 1 claim without an address: Exhausted IP Pools"));
}

#[test]
fn lists_of_other_programs_become_leases() {
    let sandbox = Sandbox::new();
    let options = "--gateway 10.20.0.1 --allocation sequential";
    sandbox.ok(&format!("ippool create lan --range 10.20.0.0/24 {options}"));
    let netbox = "IP Address,VRF,Status,Role,Tenant,Assigned,DNS Name,Description\n\
                  10.20.0.1/24,,Active,,,,gw.example.com,\n\
                  10.20.0.5/24,,Active,,,,web.example.com,\"shop, front\"\n\
                  10.20.0.6/24,,DHCP,,,,web.example.com,\n\
                  10.20.0.7/24,,Available,,,,,\n";
    let phpipam = "Section,IP Address,Hostname,Description,VRF,Subnet,MAC,owner,device,Note,Tag\n\
                   lab,10.20.0.9,Printer,2nd floor,,10.20.0.0/24,52-54-00-00-00-09,,,,Used\n\
                   lab,10.20.0.10,,,,10.20.0.0/24,,,,,Used\n";
    let file = sandbox.write_file("netbox.csv", netbox);
    let preview = sandbox.ok(&format!("ip import {file} --dry-run"));
    for part in ["skipped: gateway of IPPool lan", "  would be leased\n", "skipped: nobody has it"]
    {
        assert!(preview.contains(part), "{part}: {preview}");
    }
    assert_eq!(sandbox.ok("get ipclaim -o name"), "");
    sandbox.refused(2, &format!("ip import {file}"), "2 new leases of");
    sandbox.ok(&format!("ip import {file} -y"));
    let file = sandbox.write_file("phpipam.csv", phpipam);
    sandbox.ok(&format!("ip import {file} -y"));
    let hosts = sandbox.ok("ip export --as hosts");
    assert_eq!(
        hosts,
        "10.20.0.5       web.example.com # web.example.com: shop, front\n\
         10.20.0.6       web.example.com # web.example.com-10-20-0-6\n\
         10.20.0.9       printer # printer: 2nd floor\n\
         10.20.0.10      ip-10-20-0-10 # ip-10-20-0-10\n"
    );
    // A second time nothing is new, and our own table comes back as it was.
    let again = sandbox.ok(&format!("ip import {file} -y"));
    assert_eq!(again.matches("unchanged").count(), 2, "{again}");
    // The same table as a spreadsheet writes it where numbers have a decimal comma.
    let file = sandbox.write_file("semicolons.csv", &phpipam.replace(',', ";"));
    let again = sandbox.ok(&format!("ip import {file} -y"));
    assert_eq!(again.matches("unchanged").count(), 2, "{again}");
    let table = sandbox.ok("ip export --as csv");
    let own = sandbox.write_file("own.csv", &table);
    let moved = Sandbox::new();
    moved.ok(&format!("ippool create lan --range 10.20.0.0/24 {options}"));
    moved.ok(&format!("ip import {own} -y"));
    assert_eq!(moved.ok("ip export --as csv"), table);
}

#[test]
fn a_list_with_a_mistake_is_not_taken_at_all() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.20.0.0/24");
    sandbox.ok("ip claim lan web --address 10.20.0.5");
    let table = "address,dns_name,mac\n10.20.0.4,good,\n10.20.0.5,other,\n10.9.0.1,far,\n\
                 10.20.0.400,bad,\n10.20.0.8,b_d,\n10.20.0.9,mac,52:54\n";
    let file = sandbox.write_file("list.csv", table);
    let refused = sandbox.refused(1, &format!("ip import {file} -y"), "problems: 5");
    for part in [
        "line 3: 10.20.0.5 belongs to claim web",
        "line 4: 10.9.0.1 is in no IPPool",
        "line 5: `10.20.0.400` is not a valid IP address",
        "line 6: ",
        "line 7: ",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert_eq!(sandbox.ok("get ipclaim -o name"), "ipclaim/web\n");
    let file = sandbox.write_file("list.csv", "name\nweb\n");
    sandbox.refused(1, &format!("ip import {file} -y"), "no column is called address");
}

#[test]
fn a_dry_run_of_an_import_refuses_what_the_import_refuses() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.20.0.0/24 --reuse-delay 5m");
    sandbox.ok("ip reserve lan 10.20.0.40-10.20.0.49 --comment printers");
    sandbox.ok("patch ippool lan -p '{\"spec\": {\"preAllocations\": {\"db\": \"10.20.0.60\"}}}'");
    sandbox.ok("ip claim lan gone --address 10.20.0.70");
    sandbox.ok("ip release gone");
    for (lines, problem) in [
        ("10.20.0.5,a,,\n10.20.0.5,b,,\n", "line 3: 10.20.0.5 is in line 2, too"),
        ("10.20.0.41,a,,\n", "line 2: 10.20.0.41 belongs to the reserved range"),
        ("10.20.0.60,a,,\n", "line 2: 10.20.0.60 belongs to claim db, for which it is"),
        ("10.20.0.61,db,,\n", "line 2: claim db has 10.20.0.60 pre-allocated"),
        ("10.20.0.70,a,,\n", "line 2: 10.20.0.70 rests, and can be leased again at"),
        ("10.20.0.5,a,nope,\n", "line 2: there is no IPPool `nope`"),
        ("10.30.0.5,a,lan,\n", "line 2: 10.30.0.5 is outside of the ranges of IPPool `lan`"),
        ("10.20.0.5,A B,,\n", "line 2: `A B` is not usable as a name in DNS"),
        ("10.20.0.5,a,,2020-01-01T00:00:00Z\n", "line 2: its end, 2020-01-01T00:00:00Z, is over"),
    ] {
        let file = sandbox.write_file("list.csv", &format!("address,dns_name,pool,until\n{lines}"));
        for option in ["--dry-run", "-y"] {
            sandbox.refused(1, &format!("ip import {file} {option}"), problem);
        }
    }
    // Problems are in the order of the lines, whoever has seen them first.
    let table = "address,dns_name\n10.20.0.41,a\n10.20.0.400,b\n10.20.0.42,c\n";
    let file = sandbox.write_file("list.csv", table);
    let refused = sandbox.refused(1, &format!("ip import {file} --dry-run"), "problems: 3");
    let places = ["line 2: ", "line 3: ", "line 4: "].map(|line| refused.find(line).unwrap());
    assert!(places.is_sorted(), "{refused}");
    sandbox.refused(3, &format!("ip import {file} --pool nope -y"), "there is no IPPool `nope`");
    // The pre-allocated address is the one of its claim.
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:10:00Z");
    let file = sandbox.write_file("list.csv", "address,dns_name\n10.20.0.60,db\n10.20.0.70,a\n");
    sandbox.ok(&format!("ip import {file} -y"));
}

#[test]
fn an_import_says_what_its_leases_do_not_say() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.20.0.0/24");
    let netbox = "IP Address,VRF,Status,DNS Name\n10.20.0.5/24,,Active,a\n\
                  10.20.0.6/24,,Deprecated,b\n10.20.0.7/24,blue,Active,c\n\
                  10.20.0.8/16,,Active,d\n10.20.0.9/32,,Active,e\n";
    let phpipam = "IP Address,Hostname,Subnet,Tag\n10.20.0.15,f,10.20.0.0/24,Used\n\
                   10.20.0.16,g,10.20.0.0/24,Offline\n10.20.0.17,h,10.20.0.0/25,Used\n";
    for (table, warnings) in [
        (
            netbox,
            "warning: line 3: its state is deprecated; it is leased all the same\n\
             warning: line 4: it is in VRF blue, which no IPPool knows of\n\
             warning: line 5: /16 is not the prefix of IPPool lan, /24\n",
        ),
        (
            phpipam,
            "warning: line 3: its state is offline; it is leased all the same\n\
             warning: line 4: /25 is not the prefix of IPPool lan, /24\n",
        ),
    ] {
        let file = sandbox.write_file("list.csv", table);
        let ran = sandbox.run(&format!("ip import {file} --dry-run"));
        assert_eq!((ran.code, ran.err.as_str()), (0, warnings), "{}", ran.out);
        sandbox.ok(&format!("ip import {file} -y"));
    }
    assert_eq!(sandbox.ok("get ipclaim -o name").lines().count(), 8);
}
