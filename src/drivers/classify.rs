//! Tells why a step of openshift-install failed, by its exit code and the errors that it logged. No
//! other file looks at the words of other programs. Pure: it reads no log and asks nobody.
//!
//! The exit codes are those of the installer's cmd/openshift-install/command/waitfor.go. The words are
//! those of its messages, of Go's network library and of the platforms' APIs, as far as people meet
//! them in labs; Hive's install-log-regexes have many of them, too.

use crate::model::failure::FailureClass;

/// What answers the requests of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counterpart {
    /// The platform that machines are made on.
    Platform,
    /// The machines of the cluster itself: what they do not answer says nothing of a platform.
    Cluster,
}

/// A step that ended with an exit code other than 0.
pub struct FailedStep<'a> {
    pub code: i32,
    pub counterpart: Counterpart,
    /// The messages of the errors that it logged, in their order.
    pub errors: &'a [String],
    /// The name of the cluster's API in DNS.
    pub cluster_api: &'a str,
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub class: FailureClass,
    /// The error that says so, or else the first one; none if nothing was logged.
    pub error: Option<String>,
}

/// Words of a class, in lower case. Classes that come first are sought first: a proxy that refuses a
/// login may also time out.
const WORDS: [(FailureClass, &[&str]); 3] = [
    (
        FailureClass::SetupMissing,
        &[
            "certificate signed by unknown authority",
            "failed to verify certificate",
            "x509: certificate has expired",
            "x509: certificate is valid for",
            "x509: cannot validate certificate",
            "but got 401",
            "but got 403",
            "401 unauthorized",
            "403 forbidden",
            "authentication failed",
            "authentication required",
            "incorrect user name or password",
            "invalidclienttokenid",
            "unauthorizedoperation",
            "current credentials insufficient",
        ],
    ),
    (
        FailureClass::Capacity,
        &[
            "quota exceeded",
            "exceeded quota",
            "quotaexceeded",
            "missingquota",
            "limitexceeded",
            "insufficientinstancecapacity",
            "toomanybuckets",
            "toomanyloadbalancers",
            "zone_resource_pool_exhausted",
            "allocationfailed",
            "no valid host was found",
            "no more ip addresses available",
            "insufficient resources",
            "resource pool are insufficient",
            "insufficient disk space",
        ],
    ),
    (
        FailureClass::CloudAway,
        &[
            "connection refused",
            "connection reset by peer",
            "i/o timeout",
            "no such host",
            "no route to host",
            "network is unreachable",
            "server misbehaving",
            "tls handshake timeout",
            // Of a request, whose URL ends with a quote: the installer waits for other things, too.
            "\": context deadline exceeded",
            "client.timeout exceeded",
            "\": eof",
            "\": unexpected eof",
            "but got 500",
            "but got 502",
            "but got 503",
            "but got 504",
            "500 internal server error",
            "502 bad gateway",
            "503 service unavailable",
            "504 gateway timeout",
            "could not connect to libvirt",
        ],
    ),
];

/// What the installer logs first, although it tried that after the failure.
const AFTERTHOUGHT: &str = "attempted to gather";

/// The first cause of a failure. What follows from it never takes its place.
pub fn find_cause(step: &FailedStep<'_>) -> Cause {
    let errors: Vec<&String> = step.errors.iter().filter(|error| !is_afterthought(error)).collect();
    if step.counterpart == Counterpart::Platform && !is_after_bootstrap_began(step.code) {
        for error in &errors {
            if let Some(class) = class_of_error(error, step.cluster_api) {
                return Cause { class, error: Some((*error).clone()) };
            }
        }
    }
    Cause { class: class_of_code(step.code), error: errors.first().copied().cloned() }
}

fn is_afterthought(error: &str) -> bool {
    error.trim().is_empty() || error.to_lowercase().starts_with(AFTERTHOUGHT)
}

/// Whether the platform had made all machines. From then on errors are about these.
fn is_after_bootstrap_began(code: i32) -> bool {
    (5..=7).contains(&code)
}

/// The class of an error by its words. An API of the cluster that does not answer is a symptom of
/// something else.
fn class_of_error(error: &str, cluster_api: &str) -> Option<FailureClass> {
    let lower_case = error.to_lowercase();
    for (class, words) in WORDS {
        let is_symptom = class == FailureClass::CloudAway && lower_case.contains(cluster_api);
        if !is_symptom && words.iter().any(|word| lower_case.contains(word)) {
            return Some(class);
        }
    }
    None
}

/// The class of an error by its words, whatever it is about; `Unclear` if they tell nothing.
pub fn class_of_words(error: &str) -> FailureClass {
    let lower_case = error.to_lowercase();
    for (class, words) in WORDS {
        if words.iter().any(|word| lower_case.contains(word)) {
            return class;
        }
    }
    FailureClass::Unclear
}

/// Whether what is not accepted is a certificate, and not a login.
pub fn is_about_certificates(error: &str) -> bool {
    let lower_case = error.to_lowercase();
    ["x509", "certificate"].iter().any(|word| lower_case.contains(word))
}

/// The class of a failure whose errors tell nothing.
fn class_of_code(code: i32) -> FailureClass {
    match code {
        3 => FailureClass::InputWrong,
        5 => FailureClass::BootstrapFailed,
        6 | 7 => FailureClass::OperatorsNotReady,
        _ => FailureClass::Unclear,
    }
}

/// What failed, in a clause for people.
pub fn describe(class: FailureClass, code: i32) -> &'static str {
    match (class, code) {
        (FailureClass::CloudAway, _) => "the platform could not be reached",
        (FailureClass::Capacity, _) => "the platform has no room for the cluster",
        (FailureClass::SetupMissing, _) => "credentials or certificates are not accepted",
        (FailureClass::InputWrong, _) => "the install-config is not valid",
        (_, 4) => "the infrastructure could not be created",
        (_, 5) => "the bootstrap failed",
        (_, 6) => "the installation failed: operators did not come up",
        (_, 7) => "operators did not become stable",
        (_, 8) => "it was interrupted",
        _ => "it failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSTALL_CONFIG: &str = "failed to fetch Master Machines: failed to load asset \"Install \
                                  Config\": failed to create install config: ";

    fn check(code: i32, errors: &[&str], class: FailureClass, error: Option<&str>) {
        let errors: Vec<String> = errors.iter().map(|error| (*error).to_owned()).collect();
        let cluster_api = "api.a.example.com";
        let step =
            FailedStep { code, counterpart: Counterpart::Platform, errors: &errors, cluster_api };
        let cause = Cause { class, error: error.map(str::to_owned) };
        assert_eq!(find_cause(&step), cause, "{code}: {errors:?}");
    }

    #[test]
    fn a_platform_that_is_away_is_told_from_an_input_that_is_wrong() {
        for silence in [
            "Post \"https://keystone.example.com:5000\": dial tcp: connect: connection refused",
            "Post \"https://vcenter.example.com/sdk\": dial tcp 192.0.2.5:443: i/o timeout",
            "lookup vcenter.example.com on 192.0.2.1:53: no such host",
            "when accessing [POST https://keystone], but got 503 instead: Service Unavailable",
        ] {
            let error = format!("{INSTALL_CONFIG}{silence}");
            check(3, &[&error], FailureClass::CloudAway, Some(&error));
        }
        let error = format!("{INSTALL_CONFIG}platform.vsphere.network: Invalid value: \"x\"");
        check(3, &[&error], FailureClass::InputWrong, Some(&error));
        check(3, &[], FailureClass::InputWrong, None);
    }

    #[test]
    fn what_is_not_accepted_is_not_away() {
        let error = format!(
            "{INSTALL_CONFIG}tls: failed to verify certificate: x509: certificate signed by \
             unknown authority"
        );
        check(3, &[&error], FailureClass::SetupMissing, Some(&error));
        // A certificate that the install-config itself has.
        let error = format!("{INSTALL_CONFIG}additionalTrustBundle: x509: malformed certificate");
        check(3, &[&error], FailureClass::InputWrong, Some(&error));
    }

    #[test]
    fn the_first_cause_is_the_error_that_tells_it() {
        let gather =
            "Attempted to gather debug logs after installation failure: connection refused";
        let quota = "Quota exceeded for cores: Requested 8, but already used 40";
        check(4, &[gather, "Error: ", quota], FailureClass::Capacity, Some(quota));
        let bootstrap = "Bootstrap failed to complete: timed out waiting for the condition";
        check(5, &[gather, bootstrap, quota], FailureClass::BootstrapFailed, Some(bootstrap));
        let operators = "Cluster operators authentication are not available";
        check(6, &[operators], FailureClass::OperatorsNotReady, Some(operators));
        let symptom = "dial tcp: lookup api.a.example.com: no such host";
        check(1, &[symptom], FailureClass::Unclear, Some(symptom));
        check(137, &[], FailureClass::Unclear, None);
    }

    #[test]
    fn machines_that_do_not_answer_are_no_platform() {
        let errors = ["dial tcp 192.0.2.10:8090: connect: connection refused".to_owned()];
        let step = FailedStep {
            code: 1,
            counterpart: Counterpart::Cluster,
            errors: &errors,
            cluster_api: "api.a.example.com",
        };
        assert_eq!(find_cause(&step).class, FailureClass::Unclear);
    }
}
