//! What a network is told of leased addresses: lists that real name servers, DHCP servers and
//! Ansible accept; for whom an address is, and until when; what is said of any address.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, apply, is_met_or_skipped, jsonpath};

/// A pool with three leases of three kinds: a machine with all that can be said of it, one with a
/// name in another domain, and one that is only a claim.
fn lab() -> Sandbox {
    let sandbox = Sandbox::new();
    let options = "--gateway 10.20.0.1 --dns 10.20.0.53 --allocation sequential";
    sandbox.ok(&format!("ippool create lan --range 10.20.0.0/24 {options}"));
    sandbox.ok("ip claim lan web-1 --mac 52-54-00-00-00-AA --dns-name web-1,www \
         --comment 'front, left'");
    sandbox.ok("ip claim lan db-1 --dns-name db.example.org");
    sandbox.ok("ip claim lan plain");
    sandbox
}

fn list(sandbox: &Sandbox, options: &str) -> String {
    let first = sandbox.ok(&format!("ip export --as {options}"));
    assert_eq!(sandbox.ok(&format!("ip export --as {options}")), first, "{options}");
    first
}

#[test]
fn each_format_says_what_its_program_reads() {
    let sandbox = lab();
    for (options, expected) in [
        (
            "hosts --domain lab.example.com",
            "10.20.0.2       web-1.lab.example.com web-1 www.lab.example.com www # web-1: front, left\n\
             10.20.0.3       db.example.org # db-1\n\
             10.20.0.4       plain.lab.example.com plain # plain\n",
        ),
        (
            "dnsmasq",
            "# web-1: front, left\n\
             host-record=web-1,www,10.20.0.2\n\
             dhcp-host=52:54:00:00:00:aa,10.20.0.2,web-1\n\
             host-record=db.example.org,10.20.0.3\n\
             host-record=plain,10.20.0.4\n",
        ),
        (
            "csv --network 10.20.0.2/31",
            "address,prefix,namespace,pool,claim,dns_name,mac,cluster,host,gateway,dns_servers,\
             since,until,comment\n\
             10.20.0.2,24,default,lan,web-1,web-1 www,52:54:00:00:00:aa,,,10.20.0.1,10.20.0.53,\
             2026-03-02T12:00:00Z,,\"front, left\"\n\
             10.20.0.3,24,default,lan,db-1,db.example.org,,,,10.20.0.1,10.20.0.53,\
             2026-03-02T12:00:00Z,,\n",
        ),
        (
            "netbox --pool lan --domain lab.example.com",
            "address,status,role,dns_name,description\n\
             10.20.0.2/24,active,,web-1.lab.example.com,\"web-1: front, left\"\n\
             10.20.0.3/24,active,,db.example.org,db-1\n\
             10.20.0.4/24,active,,plain.lab.example.com,plain\n",
        ),
    ] {
        assert_eq!(list(&sandbox, options), expected, "{options}");
    }
    let zone = list(&sandbox, "bind --domain lab.example.com");
    assert!(
        zone.ends_with(
            "@ IN NS localhost.\n\
         web-1 IN A 10.20.0.2 ; web-1: front, left\n\
         www IN A 10.20.0.2 ; web-1: front, left\n\
         ; not in lab.example.com: db.example.org 10.20.0.3 ; db-1\n\
         plain IN A 10.20.0.4 ; plain\n"
        ),
        "{zone}"
    );
    let reverse = list(&sandbox, "ptr --domain lab.example.com --name-server ns1.example.com");
    assert!(reverse.starts_with("$ORIGIN 0.20.10.in-addr.arpa.\n"), "{reverse}");
    assert!(reverse.contains("@ IN NS ns1.example.com.\n2 IN PTR web-1.lab.example.com. ;"));
    let kea: Value = serde_json::from_str(&list(&sandbox, "kea")).unwrap();
    let subnet = &kea["Dhcp4"]["subnet4"][0];
    assert_eq!(subnet["subnet"], "10.20.0.0/24");
    assert_eq!(subnet["reservations"].as_array().unwrap().len(), 1);
    assert_eq!(subnet["reservations"][0]["hw-address"], "52:54:00:00:00:aa");
    let ran = sandbox.run("ip export --as kea");
    assert_eq!(ran.err, "2 addresses are left out; each has no MAC\n");
    let first = sandbox.ok("ip export --as hosts -o jsonpath={.items[0].names[1]}");
    assert_eq!(first.trim(), "www");
    assert_eq!(sandbox.ok("ip export --as hosts -q"), "web-1\ndb-1\nplain\n");
}

#[test]
fn ipv6_has_lists_too() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create six --range 2001:db8::/64 --allocation sequential");
    sandbox.ok("ip claim six web --mac 52:54:00:00:00:01");
    assert_eq!(
        list(&sandbox, "dnsmasq --domain lab.example.com"),
        "host-record=web.lab.example.com,web,2001:db8::1\n\
         dhcp-host=52:54:00:00:00:01,[2001:db8::1],web\n"
    );
    let reverse = list(&sandbox, "ptr --domain lab.example.com");
    assert!(reverse.starts_with("$ORIGIN 0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.\n"));
    let owner = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0";
    assert!(reverse.contains(&format!("\n{owner} IN PTR web.lab.example.com. ; web\n")));
    assert!(list(&sandbox, "bind --domain lab.example.com").contains("web IN AAAA 2001:db8::1"));
}

#[test]
fn kea_has_a_configuration_for_each_family() {
    let sandbox = Sandbox::new();
    let options = "--gateway 2001:db8::ffff --dns 2001:db8::53 --allocation sequential";
    sandbox.ok(&format!("ippool create six --range 2001:db8::/64 {options}"));
    sandbox.ok("ippool create next --range 2001:db8:0:1::/64 --allocation sequential");
    sandbox.ok("ippool create four --range 10.20.0.0/24 --allocation sequential");
    sandbox.ok("ip claim six web --mac 52:54:00:00:00:01");
    // DHCPv6 gives a machine several addresses.
    sandbox.ok("ip claim six web-second --mac 52:54:00:00:00:01");
    sandbox.ok("ip claim next db --mac 52:54:00:00:00:02");
    sandbox.ok("ip claim four db4 --mac 52:54:00:00:00:02");
    let ran = sandbox.run("ip export --as kea6 --domain lab.example.com");
    assert_eq!(ran.err, "1 address is an IPv4 address (--as kea), and is left out\n");
    let config: Value = serde_json::from_str(&ran.out).unwrap();
    let subnets = config["Dhcp6"]["subnet6"].as_array().unwrap();
    assert_eq!(subnets.len(), 2);
    assert_ne!(subnets[0]["id"], subnets[1]["id"]);
    assert_eq!(subnets[0]["subnet"], "2001:db8::/64");
    assert_eq!(subnets[0]["option-data"], json!([{"name": "dns-servers", "data": "2001:db8::53"}]));
    let reservation = &subnets[0]["reservations"][0];
    assert_eq!(reservation["ip-addresses"], json!(["2001:db8::1", "2001:db8::2"]));
    assert_eq!(reservation["hostname"], "web.lab.example.com");
    let four: Value = serde_json::from_str(&list(&sandbox, "kea")).unwrap();
    assert_eq!(four["Dhcp4"]["subnet4"][0]["reservations"][0]["ip-address"], "10.20.0.1");
    if is_met_or_skipped(
        sandbox.shell("command -v kea-dhcp6").code == 0,
        "kea-dhcp6 is not installed",
    ) {
        let path = sandbox.write_file("kea6.conf", &ran.out);
        let checked = sandbox.shell(&format!("kea-dhcp6 -t {path}"));
        assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
    }
}

#[test]
fn a_zone_that_nobody_can_know_is_asked_for() {
    let sandbox = lab();
    sandbox.refused(2, "ip export --as bind", "a zone needs a domain");
    sandbox.refused(2, "ip export --as bind --domain under_score", "not usable as a name in DNS");
    sandbox.ok("ippool create dmz --range 10.30.0.0/24");
    sandbox.ok("ip claim dmz far");
    let refused = sandbox.refused(2, "ip export --as ptr", "the addresses are in 2 reverse zones");
    assert!(refused.contains("poolctl ip export --as ptr --network 10.20.0.0/24"), "{refused}");
    sandbox.ok("ip export --as ptr --network 10.20.0.0/24");
    sandbox.refused(3, "ip export --as hosts --pool none", "there is no ippool `none`");
    sandbox.refused(3, "ip export --as hosts --cluster none", "there is no cluster `none`");
}

#[test]
fn real_programs_accept_the_lists() {
    let sandbox = lab();
    for (program, options, command) in [
        ("dnsmasq", "dnsmasq", "dnsmasq --test -C"),
        ("named-checkzone", "bind --domain lab.example.com", "named-checkzone lab.example.com"),
        ("named-checkzone", "ptr --domain lab.example.com", "named-checkzone 0.20.10.in-addr.arpa"),
        ("kea-dhcp4", "kea", "kea-dhcp4 -t"),
        ("ansible-inventory", "ansible", "ansible-inventory --list -i"),
    ] {
        let is_there = sandbox.shell(&format!("command -v {program}")).code == 0;
        if !is_met_or_skipped(is_there, &format!("{program} is not installed")) {
            continue;
        }
        let path = sandbox.write_file("list.yaml", &list(&sandbox, options));
        let ran = sandbox.shell(&format!("{command} {path}"));
        assert_eq!(ran.code, 0, "{program}: {}{}", ran.out, ran.err);
        if program == "ansible-inventory" {
            let inventory: Value = serde_json::from_str(&ran.out).unwrap();
            assert_eq!(inventory["_meta"]["hostvars"]["plain"]["ansible_host"], "10.20.0.4");
            assert_eq!(inventory["ippool_lan"]["hosts"].as_array().unwrap().len(), 3);
        }
    }
}

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
    for (code, line, message) in [
        (1, "ip claim p a --mac 52:54", "is not a MAC address"),
        (1, "ip claim p a --dns-name a_b", "`a_b` is not usable as a name in DNS"),
        (2, "ip claim p a --until yesterday", "neither a time of day nor an instant"),
        (2, "ip claim p a --until 2026-03-02T11:00:00Z", "is over already"),
        (2, "ip claim p a --count 2 --mac 52:54:00:00:00:01", "of one machine, not of several"),
        (2, "ip claim p a --address ''", "--address is empty"),
    ] {
        sandbox.refused(code, line, message);
    }
    let manifest = ip_claim("a", "p", &json!({"poolctl.dev/until": "soon"}));
    let path = sandbox.write_file("claim.json", &manifest);
    sandbox.refused(1, &format!("apply -f {path}"), "is not a time like");
    assert_eq!(sandbox.ok("get ipclaim -o name"), "");
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
    assert!(sandbox.ok("why ipclaim/early").contains("there is no IPPool later"));
    sandbox.ok("ippool create later --range 10.0.0.1-10.0.0.2 --allocation sequential");
    assert!(sandbox.ok("ip who early").contains("10.0.0.1"));
    sandbox.ok("annotate ippool/later cluster.x-k8s.io/paused=");
    let refused = sandbox.refused(6, "ip claim later x", "has no address for claim `x`");
    assert!(refused.contains("cause: IPPool later is paused"), "{refused}");
    apply(&sandbox, &ip_claim("waits", "later", &json!({})));
    assert_eq!(error("waits").trim(), "IPPool later is paused");
    sandbox.ok("annotate ippool/later cluster.x-k8s.io/paused-");
    assert!(sandbox.ok("get ipclaim waits").contains("later-10-0-0-2"));
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
    sandbox.refused(3, "ip who nobody", "no address belongs to `nobody`");
    sandbox.refused(2, "ip who 10.0.0.1/33", "it is not ADDRESS/LENGTH");
    sandbox.refused(3, "ip who 10.9.0.0/24", "no address belongs to `10.9.0.0/24`");
    let refused = sandbox.refused(6, "ip claim p b --address 10.0.0.2", "Requested IP");
    assert!(refused.contains("10.0.0.2 belongs to claim web (shop)"), "{refused}");
    let refused = sandbox.refused(6, "ip claim p b --address 10.0.0.1", "Requested IP");
    assert!(refused.contains("nobody: it is the gateway"), "{refused}");
    let row = sandbox.ok("get ippool p --no-headers");
    let counts: Vec<&str> = row.split_whitespace().skip(2).take(5).collect();
    assert_eq!(counts, ["13", "1", "0", "1", "11"], "{row}");
    assert!(sandbox.ok("ippool map p").starts_with("10.0.0.1   g#~...........-\n"));
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:06:00Z");
    assert!(sandbox.ok("ip who 10.0.0.3").contains("(free)"));
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
    sandbox.ok("ip claim wide web --address 10.0.0.210");
    let ran = sandbox.run("ip reserve wide 10.0.0.208-10.0.0.215");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("10.0.0.210 stays leased to claim web"), "{}", ran.err);
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
    for part in ["skipped: gateway of IPPool lan", "  leased\n", "skipped: nobody has it"] {
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
