//! Decides which certificate requests of nodes may be approved: those of hosts in our own records,
//! by Hive's rules. Never approves a request itself, and never lets all of them pass.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer;

/// The account that asks for the first certificate of a node.
const BOOTSTRAPPER: &str =
    "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";

/// A host of which we know that it belongs to the cluster, with its addresses as far as they are
/// known. Kept as `nodes.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KnownHost {
    pub name: String,
    pub addresses: Vec<String>,
}

/// The hosts that `get nodes -o json` lists.
pub fn hosts_of_nodes(nodes: &Value) -> Vec<KnownHost> {
    let mut hosts = Vec::new();
    for node in nodes["items"].as_array().into_iter().flatten() {
        let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
        hosts.push(KnownHost {
            name: owned_text(&node["metadata"]["name"]),
            addresses: addresses.map(|address| owned_text(&address["address"])).collect(),
        });
    }
    hosts
}

fn owned_text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The names of the requests in `get csr -o json` that may be approved: nobody has approved or
/// denied them yet, and one of these hosts would make them exactly so.
pub fn approvable_requests(requests: &Value, hosts: &[KnownHost]) -> Vec<String> {
    let mut names = Vec::new();
    for request in requests["items"].as_array().into_iter().flatten() {
        let is_undecided = request["status"]["conditions"].as_array().is_none_or(Vec::is_empty);
        if is_undecided && is_of_known_host(&request["spec"], hosts) {
            names.extend(request["metadata"]["name"].as_str().map(str::to_owned));
        }
    }
    names
}

fn is_of_known_host(spec: &Value, hosts: &[KnownHost]) -> bool {
    hosts.iter().any(|host| certificate_asked_for(spec, host).is_some())
}

/// Whether somebody has approved the certificate that a host serves its API with.
pub fn has_serving_certificate(requests: &Value, host: &KnownHost) -> bool {
    let user = node_user(host);
    for request in requests["items"].as_array().into_iter().flatten() {
        let mut usages = request["spec"]["usages"].as_array().into_iter().flatten();
        let mut conditions = request["status"]["conditions"].as_array().into_iter().flatten();
        if request["spec"]["username"] == user.as_str()
            && usages.any(|usage| usage == "server auth")
            && conditions.any(|condition| condition["type"] == "Approved")
        {
            return true;
        }
    }
    false
}

/// The name by which the node of a host is known to its cluster.
fn node_user(host: &KnownHost) -> String {
    format!("system:node:{}", host.name)
}

/// A certificate that the node of a host needs.
enum NodeCertificate {
    /// The node presents it to the API.
    Client,
    /// The node serves its own API with it.
    Serving,
}

/// The certificate that a host asks for with a request of this `spec`. None if the host would not
/// make it so, or if it cannot be read. As in Hive, a client certificate is asked for by the
/// bootstrapper and has no names in it; a serving one is asked for by the node itself, and has only
/// names and addresses of the host.
fn certificate_asked_for(spec: &Value, host: &KnownHost) -> Option<NodeCertificate> {
    let pem_text = STANDARD.decode(spec["request"].as_str()?).ok()?;
    let (_, pem) = parse_x509_pem(&pem_text).ok()?;
    if pem.label != "CERTIFICATE REQUEST" {
        return None;
    }
    let (_, request) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let subject = &request.certification_request_info.subject;
    let common_names = subject.iter_common_name().filter_map(|name| name.as_str().ok());
    let organizations = subject.iter_organization().filter_map(|name| name.as_str().ok());
    let common_name = only_item(common_names)?;
    let organization = only_item(organizations)?;
    if common_name != node_user(host) || organization != "system:nodes" {
        return None;
    }
    let user = spec["username"].as_str()?;
    let groups = texts(&spec["groups"]);
    let mut usages = texts(&spec["usages"]);
    usages.retain(|usage| *usage != "key encipherment");
    usages.sort_unstable();
    let names = alternative_names(&request);
    let is_client_request = usages == ["client auth", "digital signature"]
        && user == BOOTSTRAPPER
        && names.as_ref().is_none_or(Vec::is_empty);
    let is_serving_request = usages == ["digital signature", "server auth"]
        && user == common_name
        && ["system:nodes", "system:authenticated"].iter().all(|group| groups.contains(group))
        && names.is_some_and(|names| {
            !names.is_empty()
                && names.iter().all(|name| *name == host.name || host.addresses.contains(name))
        });
    if is_client_request {
        Some(NodeCertificate::Client)
    } else if is_serving_request {
        Some(NodeCertificate::Serving)
    } else {
        None
    }
}

/// The item of an iterator that has exactly one.
fn only_item<'a>(mut items: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let item = items.next()?;
    if items.next().is_none() { Some(item) } else { None }
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The names and addresses that the certificate would be for, one of an unknown kind in a form that
/// matches no host; None if the request has no extensions.
fn alternative_names(request: &X509CertificationRequest<'_>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for extension in request.requested_extensions()? {
        let ParsedExtension::SubjectAlternativeName(alternative) = extension else { continue };
        for general_name in &alternative.general_names {
            names.push(match general_name {
                GeneralName::DNSName(name) => (*name).to_owned(),
                GeneralName::IPAddress([a, b, c, d]) => format!("{a}.{b}.{c}.{d}"),
                GeneralName::IPAddress(bytes) => {
                    let octets: [u8; 16] = (*bytes).try_into().ok()?;
                    std::net::Ipv6Addr::from(octets).to_string()
                }
                _ => format!("{general_name:?}"),
            });
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Made with openssl: subject, and alternative names.
    const CLIENT: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIc01JR1NBZ0VBTURBeEZUQVRCZ05WQkFvTURITjVjM1JsYlRwdWIyUmxjekVYTUJVR0ExVUVBd3dPYzNsegpkR1Z0T201dlpHVTZiakV3V1RBVEJnY3Foa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVFkT0FncFhhTnJ2TEtXCnV2aXZOR1pDN281Q1YxRGRDSTJzeHVZa056anVoV24yTlF2QjdaVGpUWlVoT0xsbVdYUGl4ZkxYRGpnWSt3MFgKSUExR0FSTWZvQUF3Q2dZSUtvWkl6ajBFQXdJRFNRQXdSZ0loQVB6eDBhNWZPNjRRaFc4RE1wdEtUdzF1TmsrWQp0M0pObVRySll1cmc2amhpQWlFQTJEdlBFUmMrU255Y2RseHNhSmNsRkRzYzk2cXpMVkRQUDN6cWtWOGRkS3c9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";
    const SERVING: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQkVUQ0J1QUlCQURBd01SVXdFd1lEVlFRS0RBeHplWE4wWlcwNmJtOWtaWE14RnpBVkJnTlZCQU1NRG5ONQpjM1JsYlRwdWIyUmxPbTR4TUZrd0V3WUhLb1pJemowQ0FRWUlLb1pJemowREFRY0RRZ0FFdElZaEpzdlRSZ3RtCnExZzFlWFNlOWJ5MGdGS3lJNkVPMWNmb1NyTlptZmNQTit0VkJXWlNvenhDaWlnWkd5SkZMTTdGRmU2UDFCV0YKR3hRWXpjTXllcUFtTUNRR0NTcUdTSWIzRFFFSkRqRVhNQlV3RXdZRFZSMFJCQXd3Q29JQ2JqR0hCQW9BQUFVdwpDZ1lJS29aSXpqMEVBd0lEU0FBd1JRSWdWMThORkc0NkZFUXBwMWtsTTFITGJ3Q3V6RnJ6T0hMcUZIbFRGTVB4CllrNENJUUNZZEhuRmx1a2pLYUZtL2o4Z0hTK1duNW03eFkxUWgvSWNxZTBLVGNHbGRRPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";
    const MORE_NAMES: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQkZ6Q0J2Z0lCQURBd01SVXdFd1lEVlFRS0RBeHplWE4wWlcwNmJtOWtaWE14RnpBVkJnTlZCQU1NRG5ONQpjM1JsYlRwdWIyUmxPbTR4TUZrd0V3WUhLb1pJemowQ0FRWUlLb1pJemowREFRY0RRZ0FFRUdyRUJtNnFBaEZ3CnBWSERWczhBWUtpalo5RFAzN1JrN2pZMWRlTVJtZytHNmRTcStIVFFyV1hDZ1NaeU0wSklQQjR6K0ZwOXZtRTQKUUV4bjdpeEtrcUFzTUNvR0NTcUdTSWIzRFFFSkRqRWRNQnN3R1FZRFZSMFJCQkl3RUlJQ2JqR0NCR1YyYVd5SApCQW9BQUFVd0NnWUlLb1pJemowRUF3SURTQUF3UlFJaEFOV3BYVjA2T2swNkpEUXVJWWcxWVBoQ3R6QlZtcDAzCnB4aE11c0RwTERXTUFpQkl3TGh5Sm1lUmRHZjAvNFpFa0JiT1d6YTV1UE1JUXpUR01GR2FSMitjVUE9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
    const MASTERS: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIdE1JR1VBZ0VBTURJeEZ6QVZCZ05WQkFvTURuTjVjM1JsYlRwdFlYTjBaWEp6TVJjd0ZRWURWUVFEREE1egplWE4wWlcwNmJtOWtaVHB1TVRCWk1CTUdCeXFHU000OUFnRUdDQ3FHU000OUF3RUhBMElBQlAvYzlQYUJ2WVVnCk5MbHg5a0ZHYUlTNFlObjNOcU9zNHBsN3duQ1lPci9lcGJYNTBRamp1azhsbmFaczRDOVA3TXhyeHhWNEkzYTEKTTdCeDRkOUQvdWlnQURBS0JnZ3Foa2pPUFFRREFnTklBREJGQWlCdzdmR2dYYmhzRTVOcjZDYnFRTGJwRHNPNgpPenNwclROVzdPVmVSQlkrUmdJaEFPMDJJamxmdjlWMUFRdnVSZVF3YUNqdGp0ckFKdElwNTJkR3A2K3BVcVoxCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";
    const ADMIN: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQkRqQ0J0UUlCQURBbk1SVXdFd1lEVlFRS0RBeHplWE4wWlcwNmJtOWtaWE14RGpBTUJnTlZCQU1NQldGawpiV2x1TUZrd0V3WUhLb1pJemowQ0FRWUlLb1pJemowREFRY0RRZ0FFM2hnb3dNM0N1a2RnMUw3NVZoTm1YZURjCm1jcXpZanNMdTQ1MlROcnFkME5nVTIxYjgxdks0M3lPcE4vNURCUXlFTms4ZnFITHdZajBURUF6WURLNWNhQXMKTUNvR0NTcUdTSWIzRFFFSkRqRWRNQnN3R1FZRFZSMFJCQkl3RUlJT2MzbHpkR1Z0T201dlpHVTZiakV3Q2dZSQpLb1pJemowRUF3SURTQUF3UlFJaEFMckNIdWVMdWk0THM4UE9IblFqc1V1ckdxVjBIdkRoblk0WTk0T2RMWjBICkFpQmpOSUEvTWs1L25zcklXSWJzUnhVNEhndGcvMTlrS1Evc1k2b2xWWFZRZmc9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

    fn is_approvable(request: &str, usage: &str, user: &str) -> bool {
        let hosts = [KnownHost { name: "n1".into(), addresses: vec!["10.0.0.5".into()] }];
        let spec = json!({"request": request, "username": user,
            "groups": ["system:nodes", "system:authenticated"],
            "usages": ["digital signature", "key encipherment", usage]});
        let requests =
            json!({"items": [{"metadata": {"name": "csr"}, "spec": spec, "status": {}}]});
        !approvable_requests(&requests, &hosts).is_empty()
    }

    #[test]
    fn only_what_a_known_host_would_ask_for_is_approved() {
        let node = "system:node:n1";
        for (description, request, usage, user, expected) in [
            ("a client", CLIENT, "client auth", BOOTSTRAPPER, true),
            ("a client of somebody else", CLIENT, "client auth", "system:admin", false),
            ("a client's for serving", CLIENT, "server auth", node, false),
            ("a server", SERVING, "server auth", node, true),
            ("a server of another node", SERVING, "server auth", "system:node:n2", false),
            ("a server as client", SERVING, "client auth", BOOTSTRAPPER, false),
            ("more names", MORE_NAMES, "server auth", node, false),
            ("another group", MASTERS, "client auth", BOOTSTRAPPER, false),
            ("another subject", ADMIN, "client auth", BOOTSTRAPPER, false),
            ("no request", "bm9uc2Vuc2U=", "client auth", BOOTSTRAPPER, false),
        ] {
            assert_eq!(is_approvable(request, usage, user), expected, "{description}");
        }
    }

    #[test]
    fn what_was_judged_already_and_unknown_hosts_are_left_alone() {
        let spec = json!({"request": CLIENT, "username": BOOTSTRAPPER,
            "usages": ["digital signature", "client auth"]});
        let requests_with = |status| json!({"items": [{"metadata": {"name": "csr"}, "spec": spec, "status": status}]});
        let n1 = [KnownHost { name: "n1".into(), addresses: Vec::new() }];
        assert_eq!(approvable_requests(&requests_with(json!({})), &n1), ["csr"]);
        assert!(
            approvable_requests(&requests_with(json!({"conditions": [{"type": "Denied"}]})), &n1)
                .is_empty()
        );
        let n2 = [KnownHost { name: "n2".into(), addresses: Vec::new() }];
        assert!(approvable_requests(&requests_with(json!({})), &n2).is_empty());
    }
}
