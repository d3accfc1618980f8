//! The annotations of poolctl itself, each declared once: its name, the kinds that carry it, its
//! possible values, its default and its purpose. Whatever checks or lists annotations follows from
//! this list. It refuses nothing: `rules/annotations.rs` does, by the `AnnotationValue` of each.

use std::collections::BTreeMap;

use super::driver::Driver;
use super::kinds::Kind;
use super::time::Span;

/// What the names of poolctl's annotations begin with.
pub const PREFIX: &str = "poolctl.dev/";

/// The first release, which all annotations have that say nothing else.
pub const FIRST_RELEASE: &str = "0.2.0";

macro_rules! release {
    () => {
        FIRST_RELEASE
    };
    ($since:literal) => {
        $since
    };
}

/// Declares a constant with the name of each annotation, and the list of all annotations. `since`
/// may follow the default: the release that read the annotation first.
macro_rules! annotations {
    ($(
        $CONSTANT:ident = $name:literal {
            about: $about:literal,
            kinds: [$($Kind:ident),+],
            value: $value:expr,
            default: $default:expr,
            $(since: $since:literal,)?
        }
    )*) => {
        $(
            #[doc = $about]
            pub const $CONSTANT: &str = $name;
        )*

        /// All annotations of poolctl, in the order in which they are declared.
        pub const ANNOTATIONS: &[Annotation] = &[$(Annotation {
            name: $name,
            about: $about,
            kinds: &[$(Kind::$Kind),+],
            value: $value,
            default: $default,
            since: release!($($since)?),
        }),*];
    };
}

annotations! {
    REFRESH = "poolctl.dev/refresh" {
        about: "How clusters are replaced that are older than the spec of the pool.",
        kinds: [ClusterPool],
        value: AnnotationValue::Word(&["slow", "fast", "none"]),
        default: Some("slow"),
    }
    SCHEDULE = "poolctl.dev/schedule" {
        about: "Lines `MINUTE HOUR DAY MONTH WEEKDAY size=N runningCount=N`, and `TZ=ZONE`.",
        kinds: [ClusterPool],
        value: AnnotationValue::Schedule,
        default: None,
    }
    STRICT_PATCHES = "poolctl.dev/strict-patches" {
        about: "Patches of customizations must follow RFC 6902 exactly.",
        kinds: [ClusterPool],
        value: AnnotationValue::Bool,
        default: Some("false"),
    }
    ALLOWED_PATHS = "poolctl.dev/allowed-patch-paths" {
        about: "Paths of the install-config that customizations may patch, with nested fields.",
        kinds: [ClusterPool],
        value: AnnotationValue::Pointers,
        default: None,
    }
    VIPS_FROM = "poolctl.dev/vips-from" {
        about: "IPPools for the API and ingress addresses: one, or one of each IP family.",
        kinds: [ClusterPool, ClusterDeployment],
        value: AnnotationValue::IpPools,
        default: None,
    }
    NODES_FROM = "poolctl.dev/node-addresses-from" {
        about: "IPPools for the addresses of hosts: one, or one of each IP family.",
        kinds: [ClusterPool, ClusterDeployment],
        value: AnnotationValue::IpPools,
        default: None,
    }
    SSH_KEY = "poolctl.dev/ssh-key" {
        about: "A Secret with `ssh-privatekey`, by which logs of failed bootstraps are fetched.",
        kinds: [ClusterPool],
        value: AnnotationValue::Text,
        default: None,
    }
    SPREAD_BY = "poolctl.dev/spread-by" {
        about: "The label of hosts over whose values the masters are spread, such as rack.",
        kinds: [ClusterPool, ClusterDeployment],
        value: AnnotationValue::LabelKey,
        default: None,
    }
    // The default follows from the last wakings: see `ClusterPool::wake_next_after`.
    WAKE_NEXT_AFTER = "poolctl.dev/wake-next-after" {
        about: "How long a claim waits for a waking cluster before another one is woken.",
        kinds: [ClusterPool],
        value: AnnotationValue::DurationAboveZero { zero: "no cluster can wake in" },
        default: None,
    }
    DRIVER = "poolctl.dev/driver" {
        about: "The driver that installs the cluster, instead of the driver of its platform.",
        kinds: [ClusterDeployment],
        value: AnnotationValue::Driver,
        default: None,
    }
    POWER = "poolctl.dev/power" {
        about: "The program that starts and stops the cluster, if its driver cannot.",
        kinds: [ClusterDeployment],
        value: AnnotationValue::WordOrProgram(&["none"]),
        default: None,
    }
    PARAMETERS = "poolctl.dev/parameters" {
        about: "Parameters of the driver program that poolctl.dev/driver names, as a JSON object.",
        kinds: [ClusterDeployment],
        value: AnnotationValue::JsonObject,
        default: None,
    }
    MANIFESTS = "poolctl.dev/manifests" {
        about: "ConfigMaps with manifests that are installed with the cluster, with commas between.",
        kinds: [ClusterDeployment],
        value: AnnotationValue::Text,
        default: None,
    }
    INSTALL_TIMEOUT = "poolctl.dev/install-timeout" {
        about: "How long an attempt to install the cluster may take.",
        kinds: [ClusterDeployment],
        value: AnnotationValue::DurationAboveZero { zero: "no installation can finish in" },
        default: Some("3h"),
    }
    FAKE_HEALTH = "poolctl.dev/fake-health" {
        about: "What fails in a simulated cluster.",
        kinds: [ClusterDeployment],
        value: AnnotationValue::OneOf(&[
            "healthy",
            "no-power",
            "machines",
            "nodes",
            "operators",
            "settle",
            "start-fails",
            "stop-fails",
        ]),
        default: Some("healthy"),
    }
    FAKE_INSTALL_DURATION = "poolctl.dev/fake-install-duration" {
        about: "How long it takes to install a simulated cluster, or to add hosts to it.",
        kinds: [ClusterDeployment],
        value: AnnotationValue::Duration,
        default: Some("1m"),
    }
    FAKE_RESUME_DURATION = "poolctl.dev/fake-resume-duration" {
        about: "How long it takes to start the machines of a simulated cluster.",
        kinds: [ClusterDeployment],
        value: AnnotationValue::Duration,
        default: Some("10s"),
    }
    FAKE_STOP_DURATION = "poolctl.dev/fake-stop-duration" {
        about: "How long it takes to stop the machines of a simulated cluster.",
        kinds: [ClusterDeployment],
        value: AnnotationValue::Duration,
        default: Some("5s"),
    }
    FAKE_DEPROVISION_DURATION = "poolctl.dev/fake-deprovision-duration" {
        about: "How long it takes to destroy a simulated cluster.",
        kinds: [ClusterDeployment],
        value: AnnotationValue::Duration,
        default: Some("10s"),
    }
    FAKE_FAIL_EVERY = "poolctl.dev/fake-fail-every" {
        about: "Every n-th installation of a simulated cluster of the pool fails; 0 is never.",
        kinds: [ClusterDeployment],
        value: AnnotationValue::Number,
        default: Some("0"),
    }
    HOLD = "poolctl.dev/hold" {
        about: "Holds the host, so that no cluster gets it; the value is the reason.",
        kinds: [BareMetalHost],
        value: AnnotationValue::Text,
        default: None,
    }
    // A text and no word, so that an export of a later poolctl is read by an earlier one.
    QUARANTINE = "poolctl.dev/quarantine" {
        about: "Why a restore holds it; written by poolctl until `doctor --release-quarantine`.",
        kinds: [
            ClusterClaim,
            ClusterDeployment,
            Customization,
            IpPool,
            IpClaim,
            IpAddress,
            BareMetalHost,
            Agent
        ],
        value: AnnotationValue::Text,
        default: None,
    }
    QUARANTINED_RANGES = "poolctl.dev/quarantined-ranges" {
        about: "The ranges that a restore has reserved; written by poolctl.",
        kinds: [IpPool],
        value: AnnotationValue::Text,
        default: None,
    }
    PIN = "poolctl.dev/bmc-certificate-sha256" {
        about: "The SHA-256 of the only certificate accepted from the host's controller.",
        kinds: [BareMetalHost],
        value: AnnotationValue::Fingerprint,
        default: None,
    }
    CIPHER = "poolctl.dev/ipmi-cipher-suite" {
        about: "The IPMI cipher suite that works; written by poolctl if it is not given.",
        kinds: [BareMetalHost],
        value: AnnotationValue::CipherSuite,
        default: None,
    }
    // At most 7 minutes, because a job that stops a cluster has 20 minutes: first all workers shut
    // down, then all masters.
    SOFT_OFF = "poolctl.dev/soft-off-timeout" {
        about: "How long a machine may take to shut down before it is powered off by force.",
        kinds: [BareMetalHost],
        value: AnnotationValue::DurationUpTo("7m"),
        default: Some("5m"),
    }
    BOOT = "poolctl.dev/boot-once" {
        about: "The device that the machine boots from once, at the next power on or cycle.",
        kinds: [BareMetalHost],
        value: AnnotationValue::OneOf(&["cdrom", "pxe", "disk"]),
        default: None,
    }
    AS_FOUND = "poolctl.dev/online-as-found" {
        about: "Sets `spec.online` to the current power state, so adding a host changes nothing.",
        kinds: [BareMetalHost],
        value: AnnotationValue::Presence,
        default: None,
    }
    BOUND_BY = "poolctl.dev/bound-by" {
        about: "Who bound the host to its cluster; written by poolctl.",
        kinds: [Agent],
        value: AnnotationValue::Text,
        default: None,
    }
    OWNER = "poolctl.dev/owner" {
        about: "Who created the claim, or who is responsible for the hosts of the InfraEnv.",
        kinds: [ClusterClaim, InfraEnv, Agent, IpClaim],
        value: AnnotationValue::Text,
        default: None,
    }
    CLAIM_REASON = "poolctl.dev/reason" {
        about: "What the cluster is claimed for.",
        kinds: [ClusterClaim],
        value: AnnotationValue::Text,
        default: None,
    }
    WIPE = "poolctl.dev/wipe" {
        about: "How disks of returned hosts are wiped: host before InfraEnv before pool.",
        kinds: [BareMetalHost, InfraEnv, ClusterPool],
        value: AnnotationValue::WordOrProgram(&["quick", "full", "none"]),
        default: Some("quick"),
    }
    ALLOCATION = "poolctl.dev/allocation" {
        about: "Which free address is leased; `spec.allocationStrategy` has only the first two.",
        kinds: [IpPool],
        value: AnnotationValue::OneOf(&["random", "sequential", "least-recently-used"]),
        default: Some("random"),
    }
    REUSE_DELAY = "poolctl.dev/reuse-delay" {
        about: "How long an address that was released is not leased again.",
        kinds: [IpPool],
        value: AnnotationValue::DurationLike("5m"),
        default: Some("0s"),
    }
    RESERVED = "poolctl.dev/reserved" {
        about: "Reserved ranges, never leased: `RANGE COMMENT` lines, or JSON {range, comment}.",
        kinds: [IpPool],
        value: AnnotationValue::Ranges,
        default: None,
    }
    EXCLUDE = "poolctl.dev/exclude" {
        about: "Further ranges that are never leased, separated by commas.",
        kinds: [IpPool],
        value: AnnotationValue::Ranges,
        default: None,
    }
    CLAIM_NAMES = "poolctl.dev/claim-names" {
        about: "What claims of addresses are called after; by host, a rebuilt host has its old ones.",
        kinds: [DataTemplate],
        value: AnnotationValue::Word(&["index", "host"]),
        default: Some("index"),
    }
    SEPARATE_ADDRESSES = "poolctl.dev/separate-addresses" {
        about: "Each network gets an address of its own, even if another one has the same pool.",
        kinds: [DataTemplate],
        value: AnnotationValue::Bool,
        default: Some("false"),
    }
    CLUSTER_API = "poolctl.dev/cluster-api" {
        about: "The IPAddressClaim that the object stands for; written by poolctl.",
        kinds: [IpClaim, IpAddress],
        value: AnnotationValue::JsonObject,
        default: None,
    }
    OVERLAP = "poolctl.dev/allow-overlap" {
        about: "Other pools may have the same addresses; each is still leased only once.",
        kinds: [IpPool],
        value: AnnotationValue::Bool,
        default: Some("false"),
    }
    SHARE_WITH = "poolctl.dev/share-with" {
        about: "Namespaces whose claims may name the pool, too, separated by commas; * is all.",
        kinds: [IpPool],
        value: AnnotationValue::Namespaces,
        default: None,
    }
    OUT_OF_RANGE = "poolctl.dev/allow-out-of-range" {
        about: "Leased addresses may be removed from the ranges; those leases stay until release.",
        kinds: [IpPool],
        value: AnnotationValue::Bool,
        default: Some("false"),
    }
    WARN_BELOW = "poolctl.dev/warn-below" {
        about: "With fewer free addresses than this number, or part such as 10%, the pool is low.",
        kinds: [IpPool],
        value: AnnotationValue::CountOrPercent,
        default: None,
    }
    DNS_NAME = "poolctl.dev/dns-name" {
        about: "Names of the machine in DNS, separated by commas; by default the claim's name.",
        kinds: [IpClaim],
        value: AnnotationValue::DnsNames,
        default: None,
    }
    MAC = "poolctl.dev/mac" {
        about: "The MAC of the machine that the address is for, for lists of DHCP servers.",
        kinds: [IpClaim],
        value: AnnotationValue::Mac,
        default: None,
    }
    COMMENT = "poolctl.dev/comment" {
        about: "What the address is for; lists for the network have it.",
        kinds: [IpClaim],
        value: AnnotationValue::Text,
        default: None,
    }
    UNTIL = "poolctl.dev/until" {
        about: "When the lease ends by itself; a warning event comes before.",
        kinds: [IpClaim],
        value: AnnotationValue::Instant,
        default: None,
    }
}

/// The declaration of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    pub name: &'static str,
    /// What it is for, in a sentence.
    pub about: &'static str,
    /// The kinds whose objects carry it in their metadata. A ClusterPool has the annotations of its
    /// ClusterDeployments in `spec.annotations`.
    pub kinds: &'static [Kind],
    pub value: AnnotationValue,
    /// The value that holds without the annotation. None if there is none, or if it follows from
    /// something else.
    pub default: Option<&'static str>,
    /// The first release of poolctl that reads it.
    pub since: &'static str,
}

/// What the value of an annotation may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotationValue {
    /// Any text.
    Text,
    /// Any text. It only counts that the annotation is there.
    Presence,
    /// true or false, in the spellings of Go's `ParseBool`; nothing else.
    Bool,
    /// One of a few words, which people are told as `slow, fast or none`.
    Word(&'static [&'static str]),
    /// One of more words, which people are told as `one of cdrom, pxe, disk`.
    OneOf(&'static [&'static str]),
    /// One of some words, or `exec:NAME` for a program that follows the contract of drivers.
    WordOrProgram(&'static [&'static str]),
    /// The name of a driver that may be chosen so, or `exec:NAME`.
    Driver,
    /// A number, 0 or greater.
    Number,
    /// A duration, such as 90s or 8h.
    Duration,
    /// A duration. A refusal gives this example.
    DurationLike(&'static str),
    /// A duration that is not longer than this one.
    DurationUpTo(&'static str),
    /// A duration longer than 0.
    DurationAboveZero {
        /// What a refusal of 0 says, before the 0.
        zero: &'static str,
    },
    /// A SHA-256: 64 hexadecimal digits, with colons or without.
    Fingerprint,
    /// The number of a cipher suite of IPMI 2.0.
    CipherSuite,
    /// JSON pointers, as `pool::split_pointers` separates them.
    Pointers,
    /// Cron lines, as `Schedule` reads them.
    Schedule,
    /// Names of IPPools, separated by commas.
    IpPools,
    /// Names of namespaces, separated by commas, or `*` for all of them.
    Namespaces,
    /// Ranges of addresses.
    Ranges,
    /// A JSON object.
    JsonObject,
    /// Names in DNS, separated by commas.
    DnsNames,
    /// A MAC, with colons or dashes.
    Mac,
    /// An instant, such as 2026-01-31T18:00:00Z.
    Instant,
    /// A number, or a percentage.
    CountOrPercent,
    /// The key of a label.
    LabelKey,
}

impl Annotation {
    /// The annotations that a kind may carry, in the order in which they are declared.
    pub fn of_kind(kind: Kind) -> impl Iterator<Item = &'static Self> {
        ANNOTATIONS.iter().filter(move |annotation| annotation.kinds.contains(&kind))
    }

    /// The annotation with this name, which may lack the prefix that all have; on any kind.
    pub fn named(name: &str) -> Option<&'static Self> {
        let short_name = name.strip_prefix(PREFIX).unwrap_or(name);
        ANNOTATIONS
            .iter()
            .find(|annotation| annotation.name.strip_prefix(PREFIX) == Some(short_name))
    }

    /// The annotation with this name, if a kind may carry it.
    pub fn find(kind: Kind, name: &str) -> Option<&'static Self> {
        Self::of_kind(kind).find(|annotation| annotation.name == name)
    }
}

impl AnnotationValue {
    /// What the value may be, in a few words for people.
    pub fn describe(self) -> String {
        match self {
            Self::Text => "text".into(),
            Self::Presence => "anything".into(),
            Self::Bool => "true or false".into(),
            Self::Word([]) => String::new(),
            Self::Word([words @ .., last]) => format!("{} or {last}", words.join(", ")),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::WordOrProgram(words) => describe_words_or_program(words),
            Self::Driver => describe_words_or_program(&Driver::annotation_words()),
            Self::Number => "number".into(),
            Self::Duration | Self::DurationLike(_) | Self::DurationAboveZero { .. } => {
                "duration".into()
            }
            Self::DurationUpTo(longest) => format!("duration up to {longest}"),
            Self::Fingerprint => "64 hexadecimal digits".into(),
            Self::CipherSuite => "number from 0 to 17".into(),
            Self::Pointers => "paths".into(),
            Self::Schedule => "cron lines".into(),
            Self::IpPools => "names of IPPools".into(),
            Self::Namespaces => "names of namespaces or *".into(),
            Self::Ranges => "ranges".into(),
            Self::JsonObject => "JSON object".into(),
            Self::DnsNames => "names in DNS".into(),
            Self::Mac => "MAC".into(),
            Self::Instant => "instant".into(),
            Self::CountOrPercent => "number or percentage".into(),
            Self::LabelKey => "key of a label".into(),
        }
    }
}

fn describe_words_or_program(words: &[&str]) -> String {
    format!("{} or exec:NAME", words.join(", "))
}

/// The duration that an annotation gives, else its declared default. Zero without either.
pub fn read_duration(annotations: &BTreeMap<String, String>, name: &str) -> Span {
    let value = annotations.get(name).and_then(|value| value.parse().ok());
    let declaration = ANNOTATIONS.iter().find(|annotation| annotation.name == name);
    let default = declaration.and_then(|annotation| annotation.default?.parse().ok());
    value.or(default).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::driver::NO_POWER;
    use crate::model::ip_pool::AllocationStrategy;

    #[test]
    fn each_annotation_is_declared_once_and_its_durations_can_be_read() {
        let mut names = BTreeSet::new();
        for annotation in ANNOTATIONS {
            let name = annotation.name;
            assert!(name.starts_with(PREFIX) && names.insert(name), "{name}");
            let duration = match annotation.value {
                AnnotationValue::Duration | AnnotationValue::DurationAboveZero { .. } => None,
                AnnotationValue::DurationLike(example) => Some(example),
                AnnotationValue::DurationUpTo(longest) => Some(longest),
                _ => continue,
            };
            for example in duration.into_iter().chain(annotation.default) {
                assert!(example.parse::<Span>().is_ok(), "{name}: {example}");
            }
        }
    }

    #[test]
    fn words_of_annotations_mean_something() {
        let strategies = words_of(Kind::IpPool, ALLOCATION);
        assert!(strategies.iter().all(|word| AllocationStrategy::named(word).is_some()));
        assert!(words_of(Kind::ClusterDeployment, FAKE_HEALTH).contains(&NO_POWER));
    }

    fn words_of(kind: Kind, name: &str) -> &'static [&'static str] {
        match Annotation::find(kind, name).unwrap().value {
            AnnotationValue::OneOf(words) => words,
            value => panic!("{name}: {value:?}"),
        }
    }

    #[test]
    fn a_duration_is_what_is_written_and_else_its_default() {
        let mut annotations = BTreeMap::new();
        assert_eq!(read_duration(&annotations, SOFT_OFF), Span::minutes(5));
        annotations.insert(SOFT_OFF.to_owned(), "2m".to_owned());
        assert_eq!(read_duration(&annotations, SOFT_OFF), Span::minutes(2));
        assert_eq!(read_duration(&annotations, WAKE_NEXT_AFTER), Span::default());
    }
}
