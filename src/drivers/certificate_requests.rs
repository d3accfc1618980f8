//! Certificate requests of nodes that are new or were away for long: approved for hosts in our own
//! records only, by Hive's rules, and never blanket.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer;

/// Who asks for nodes that have no certificate.
const BOOTSTRAPPER: &str =
    "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";

/// A node as it was when it came to the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KnownHost {
    pub name: String,
    pub addresses: Vec<String>,
}

/// What `get nodes -o json` says of hosts.
pub fn hosts_of_nodes(nodes: &Value) -> Vec<KnownHost> {
    let all = nodes["items"].as_array().into_iter().flatten();
    let text = |one: &Value| one.as_str().unwrap_or_default().to_owned();
    all.map(|node| {
        let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
        KnownHost {
            name: text(&node["metadata"]["name"]),
            addresses: addresses.map(|one| text(&one["address"])).collect(),
        }
    })
    .collect()
}

/// The names of the requests among `get csr -o json` that may be approved.
pub fn approvable_requests(requests: &Value, hosts: &[KnownHost]) -> Vec<String> {
    let all = requests["items"].as_array().into_iter().flatten();
    let open = all.filter(|one| one["status"]["conditions"].as_array().is_none_or(Vec::is_empty));
    let fine = open.filter(|one| hosts.iter().any(|host| is_of(&one["spec"], host) == Some(true)));
    fine.filter_map(|one| Some(one["metadata"]["name"].as_str()?.to_owned())).collect()
}

/// Whether a host has what it serves with: somebody approved that.
pub fn has_serving_certificate(requests: &Value, host: &KnownHost) -> bool {
    let user = format!("system:node:{}", host.name);
    let has = |list: &Value, what: &dyn Fn(&Value) -> bool| {
        list.as_array().is_some_and(|all| all.iter().any(what))
    };
    let its = |one: &Value| {
        one["spec"]["username"] == user.as_str()
            && has(&one["spec"]["usages"], &|usage| usage == "server auth")
            && has(&one["status"]["conditions"], &|found| found["type"] == "Approved")
    };
    has(&requests["items"], &its)
}

/// Whether a request is one that this host makes; None for what cannot be read.
fn is_of(spec: &Value, host: &KnownHost) -> Option<bool> {
    let pem = STANDARD.decode(spec["request"].as_str()?).ok()?;
    let (_, pem) =
        parse_x509_pem(&pem).ok().filter(|(_, pem)| pem.label == "CERTIFICATE REQUEST")?;
    let (_, request) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let subject = &request.certification_request_info.subject;
    let one = |mut all: Vec<String>| if all.len() == 1 { all.pop() } else { None };
    let texts = |found: Vec<Option<String>>| one(found.into_iter().flatten().collect());
    let name =
        texts(subject.iter_common_name().map(|at| at.as_str().ok().map(str::to_owned)).collect())?;
    let group =
        texts(subject.iter_organization().map(|at| at.as_str().ok().map(str::to_owned)).collect())?;
    let list = |field: &str| -> Vec<&str> {
        spec[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let (mut usages, groups, user) = (list("usages"), list("groups"), spec["username"].as_str()?);
    usages.retain(|usage| *usage != "key encipherment");
    usages.sort_unstable();
    let ours = name == format!("system:node:{}", host.name) && group == "system:nodes";
    let names = alternative_names(&request);
    let client = usages == ["client auth", "digital signature"]
        && user == BOOTSTRAPPER
        && names.as_ref().is_none_or(Vec::is_empty);
    let known = |one: &String| *one == host.name || host.addresses.contains(one);
    let serving = usages == ["digital signature", "server auth"]
        && user == name
        && ["system:nodes", "system:authenticated"].iter().all(|group| groups.contains(group))
        && names.is_some_and(|names| !names.is_empty() && names.iter().all(known));
    Some(ours && (client || serving))
}

/// Names and addresses that the certificate would be for; one of another kind is nobody's.
fn alternative_names(request: &X509CertificationRequest<'_>) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for extension in request.requested_extensions()? {
        let ParsedExtension::SubjectAlternativeName(names) = extension else { continue };
        for name in &names.general_names {
            found.push(match name {
                GeneralName::DNSName(name) => (*name).to_owned(),
                GeneralName::IPAddress([a, b, c, d]) => format!("{a}.{b}.{c}.{d}"),
                GeneralName::IPAddress(bytes) => {
                    let bytes: [u8; 16] = (*bytes).try_into().ok()?;
                    std::net::Ipv6Addr::from(bytes).to_string()
                }
                other => format!("{other:?}"),
            });
        }
    }
    Some(found)
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

    fn approved(request: &str, usage: &str, user: &str) -> bool {
        let hosts = [KnownHost { name: "n1".into(), addresses: vec!["10.0.0.5".into()] }];
        let spec = json!({"request": request, "username": user,
            "groups": ["system:nodes", "system:authenticated"],
            "usages": ["digital signature", "key encipherment", usage]});
        let all = json!({"items": [{"metadata": {"name": "csr"}, "spec": spec, "status": {}}]});
        !approvable_requests(&all, &hosts).is_empty()
    }

    #[test]
    fn only_what_a_known_host_would_ask_for_is_approved() {
        let bootstrapper = BOOTSTRAPPER;
        let node = "system:node:n1";
        for (what, request, usage, user, fine) in [
            ("a client", CLIENT, "client auth", bootstrapper, true),
            ("a client of somebody else", CLIENT, "client auth", "system:admin", false),
            ("a client's for serving", CLIENT, "server auth", node, false),
            ("a server", SERVING, "server auth", node, true),
            ("a server of another node", SERVING, "server auth", "system:node:n2", false),
            ("a server as client", SERVING, "client auth", bootstrapper, false),
            ("more names", MORE_NAMES, "server auth", node, false),
            ("another group", MASTERS, "client auth", bootstrapper, false),
            ("another subject", ADMIN, "client auth", bootstrapper, false),
            ("no request", "bm9uc2Vuc2U=", "client auth", bootstrapper, false),
        ] {
            assert_eq!(approved(request, usage, user), fine, "{what}");
        }
    }

    #[test]
    fn what_was_judged_already_and_unknown_hosts_are_left_alone() {
        let spec = json!({"request": CLIENT, "username": BOOTSTRAPPER,
            "usages": ["digital signature", "client auth"]});
        let item = |status| json!({"items": [{"metadata": {"name": "csr"}, "spec": spec, "status": status}]});
        let n1 = [KnownHost { name: "n1".into(), addresses: Vec::new() }];
        assert_eq!(approvable_requests(&item(json!({})), &n1), ["csr"]);
        assert!(
            approvable_requests(&item(json!({"conditions": [{"type": "Denied"}]})), &n1).is_empty()
        );
        let other = [KnownHost { name: "n2".into(), addresses: Vec::new() }];
        assert!(approvable_requests(&item(json!({})), &other).is_empty());
    }
}
