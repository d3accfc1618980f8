//! Lists of leased addresses that real name servers, DHCP servers and Ansible accept.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, is_met_or_skipped};

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

#[test]
fn a_comment_is_no_template_of_ansible() {
    let sandbox = lab();
    sandbox.ok("ip claim lan inj --comment '{{ lookup(\"pipe\", \"touch x\") }}'");
    let inventory = list(&sandbox, "ansible");
    assert!(inventory.contains("inj:") && !inventory.contains("lookup"), "{inventory}");
}

#[test]
fn no_address_is_missing_in_an_inventory() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.20.0.0/24 --allocation sequential");
    sandbox.ok("ippool create lan6 --range 2001:db8::/64 --allocation sequential");
    sandbox.ok("ip claim lan,lan6 db --dns-name db");
    sandbox.ok("ip claim lan one --dns-name www");
    sandbox.ok("ip claim lan two --dns-name www");
    let inventory = poolctl::yaml::parse_value(&list(&sandbox, "ansible")).unwrap();
    let groups = &inventory["all"]["children"];
    for group in ["ippool_lan", "ippool_lan6"] {
        // A machine with two families is one host, and each group says the same of it.
        let db = &groups[group]["hosts"]["db"];
        assert_eq!(db["ansible_host"], "10.20.0.1", "{inventory}");
        assert_eq!(db["poolctl_addresses"], json!(["10.20.0.1", "2001:db8::1"]), "{inventory}");
    }
    let hosts = &groups["ippool_lan"]["hosts"];
    assert_eq!(hosts["www"]["ansible_host"], "10.20.0.2", "{inventory}");
    assert_eq!(hosts["two"]["ansible_host"], "10.20.0.3", "{inventory}");
}

#[test]
fn a_name_server_of_the_zone_needs_an_address_in_it() {
    let sandbox = lab();
    let options = "--as bind --domain lab.example.com --name-server";
    for name_server in ["ns1", "ns1.lab.example.com", "ns1.lab.example.com."] {
        let ran = sandbox.run(&format!("ip export {options} {name_server}"));
        assert!(ran.out.contains("@ IN NS ns1.lab.example.com.\n"), "{}", ran.out);
        let warning = "name server ns1.lab.example.com has no address in the zone";
        assert!(ran.err.contains(warning), "{}", ran.err);
    }
    for name_server in ["ns.example.org", "plain.lab.example.com", "web-1"] {
        let ran = sandbox.run(&format!("ip export {options} {name_server}"));
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{name_server}");
    }
    sandbox.refused(2, "ip export --as bind --domain ..", "`.` is not usable");
}
