//! The version that Hive itself computes for a pool and writes on its clusters. It is needed where
//! objects come from a Hive or go to one; poolctl judges its own clusters by a version of its own.
//!
//! Hive hashes the Go values of a pool's spec: a struct field by field in the order of its type,
//! fields that are not set included. So each field that Hive's types got or lost has changed the
//! versions of all pools. The orders are those of the public types in openshift/hive, apis/hive/v1.

use serde_json::{Value, json};

use crate::model::hash::fnv1a;
use crate::model::meta::LocalRef;
use crate::model::pool::ClusterPool;

/// How a Go value is hashed.
#[derive(Clone, Copy)]
enum GoType {
    Text,
    /// A text for which the server fills in a default.
    TextOr(&'static str),
    Flag,
    Number,
    /// A number for which the server fills in a default.
    NumberOr(i64),
    /// `map[string]string`
    Texts,
    List(&'static GoType),
    Pointer(&'static GoType),
    Struct(GoFields),
}

/// The fields of a Go struct in their order, by their names on the wire.
type GoFields = &'static [(&'static str, GoType)];

const REFERENCE: GoType = GoType::Struct(&[("name", GoType::Text)]);
const POINTER_TO_REFERENCE: GoType = GoType::Pointer(&REFERENCE);
const LIST_OF_TEXTS: GoType = GoType::List(&GoType::Text);
/// A pointer that nothing is known below, because no manifest has had it.
const UNSET: GoType = GoType::Pointer(&GoType::Struct(&[]));

const ASSUMED_ROLE: GoType =
    GoType::Struct(&[("roleARN", GoType::Text), ("externalID", GoType::Text)]);
const PRIVATE_LINK: GoType = GoType::Struct(&[
    ("enabled", GoType::Flag),
    ("additionalAllowedPrincipals", GoType::Pointer(&LIST_OF_TEXTS)),
]);
const AWS: &[GoFields] = &[
    &[
        ("credentialsSecretRef", REFERENCE),
        ("credentialsAssumeRole", GoType::Pointer(&ASSUMED_ROLE)),
        ("region", GoType::Text),
        ("userTags", GoType::Texts),
        ("privateLink", GoType::Pointer(&PRIVATE_LINK)),
    ],
    &[
        ("credentialsSecretRef", REFERENCE),
        ("credentialsAssumeRole", GoType::Pointer(&ASSUMED_ROLE)),
        ("region", GoType::Text),
        ("userTags", GoType::Texts),
        ("privateLink", GoType::Pointer(&GoType::Struct(&[("enabled", GoType::Flag)]))),
    ],
];

const AZURE: &[GoFields] = &[
    &[
        ("credentialsSecretRef", REFERENCE),
        ("region", GoType::Text),
        ("baseDomainResourceGroupName", GoType::Text),
        ("cloudName", GoType::Text),
    ],
    &[
        ("credentialsSecretRef", REFERENCE),
        ("region", GoType::Text),
        ("baseDomainResourceGroupName", GoType::Text),
    ],
];

const BARE_METAL: &[GoFields] = &[&[("libvirtSSHPrivateKeySecretRef", REFERENCE)]];

const EXISTING_SUBNET: GoType =
    GoType::Struct(&[("name", GoType::Text), ("project", GoType::Text)]);
const ATTACHMENT_SUBNET: GoType =
    GoType::Struct(&[("cidr", GoType::Text), ("existing", GoType::Pointer(&EXISTING_SUBNET))]);
const SERVICE_ATTACHMENT: GoType =
    GoType::Struct(&[("subnet", GoType::Pointer(&ATTACHMENT_SUBNET))]);
const PRIVATE_SERVICE_CONNECT: GoType = GoType::Struct(&[
    ("enabled", GoType::Flag),
    ("serviceAttachment", GoType::Pointer(&SERVICE_ATTACHMENT)),
]);
const GCP: &[GoFields] = &[
    &[
        ("credentialsSecretRef", REFERENCE),
        ("region", GoType::Text),
        ("privateServiceConnect", GoType::Pointer(&PRIVATE_SERVICE_CONNECT)),
        ("discardLocalSsdOnHibernate", GoType::Pointer(&GoType::Flag)),
    ],
    &[
        ("credentialsSecretRef", REFERENCE),
        ("region", GoType::Text),
        ("privateServiceConnect", GoType::Pointer(&PRIVATE_SERVICE_CONNECT)),
    ],
    &[("credentialsSecretRef", REFERENCE), ("region", GoType::Text)],
];

const OPENSTACK: &[GoFields] = &[
    &[
        ("credentialsSecretRef", REFERENCE),
        ("certificatesSecretRef", POINTER_TO_REFERENCE),
        ("cloud", GoType::Text),
        ("trunkSupport", GoType::Flag),
    ],
    &[("credentialsSecretRef", REFERENCE), ("cloud", GoType::Text), ("trunkSupport", GoType::Flag)],
];

const OVIRT: &[GoFields] = &[&[
    ("ovirt_cluster_id", GoType::Text),
    ("credentialsSecretRef", REFERENCE),
    ("certificatesSecretRef", REFERENCE),
    ("storage_domain_id", GoType::Text),
    ("ovirt_network_name", GoType::Text),
]];

const SELECTOR_REQUIREMENT: GoType =
    GoType::Struct(&[("key", GoType::Text), ("operator", GoType::Text), ("values", LIST_OF_TEXTS)]);
const AGENT_BARE_METAL: &[GoFields] = &[&[(
    "agentSelector",
    GoType::Struct(&[
        ("matchLabels", GoType::Texts),
        ("matchExpressions", GoType::List(&SELECTOR_REQUIREMENT)),
    ]),
)]];

const IBM_CLOUD: &[GoFields] = &[&[
    ("credentialsSecretRef", REFERENCE),
    ("accountID", GoType::Text),
    ("cisInstanceCRN", GoType::Text),
    ("region", GoType::Text),
]];

const PRISM_ENDPOINT: GoType =
    GoType::Struct(&[("address", GoType::Text), ("port", GoType::Number)]);
const STORAGE_REFERENCE: GoType = GoType::Struct(&[
    ("referenceName", GoType::Text),
    ("uuid", GoType::Text),
    ("name", GoType::Text),
]);
const NUTANIX_FAILURE_DOMAIN: GoType = GoType::Struct(&[
    ("name", GoType::Text),
    (
        "prismElement",
        GoType::Struct(&[
            ("uuid", GoType::Text),
            ("endpoint", PRISM_ENDPOINT),
            ("name", GoType::Text),
        ]),
    ),
    ("subnetUUIDs", LIST_OF_TEXTS),
    ("storageContainers", GoType::List(&STORAGE_REFERENCE)),
    ("dataSourceImages", GoType::List(&STORAGE_REFERENCE)),
]);
const NUTANIX: &[GoFields] = &[
    &[
        ("prismCentral", PRISM_ENDPOINT),
        ("credentialsSecretRef", REFERENCE),
        ("certificatesSecretRef", REFERENCE),
        ("failureDomains", GoType::List(&NUTANIX_FAILURE_DOMAIN)),
    ],
    &[
        ("prismCentral", PRISM_ENDPOINT),
        ("credentialsSecretRef", REFERENCE),
        ("failureDomains", GoType::List(&NUTANIX_FAILURE_DOMAIN)),
    ],
];

const VSPHERE_MACHINES: GoType = GoType::Struct(&[
    ("cpus", GoType::Number),
    ("coresPerSocket", GoType::Number),
    ("memoryMB", GoType::Number),
    ("osDisk", GoType::Struct(&[("diskSizeGB", GoType::Number)])),
    ("zones", LIST_OF_TEXTS),
    (
        "dataDisks",
        GoType::List(&GoType::Struct(&[
            ("name", GoType::Text),
            ("sizeGiB", GoType::Number),
            ("provisioningMode", GoType::Text),
        ])),
    ),
]);
const VCENTER: GoType = GoType::Struct(&[
    ("server", GoType::Text),
    ("port", GoType::NumberOr(443)),
    ("user", GoType::Text),
    ("password", GoType::Text),
    ("datacenters", LIST_OF_TEXTS),
]);
const VSPHERE_FAILURE_DOMAIN: GoType = GoType::Struct(&[
    ("name", GoType::Text),
    ("region", GoType::Text),
    ("zone", GoType::Text),
    ("server", GoType::Text),
    (
        "topology",
        GoType::Struct(&[
            ("datacenter", GoType::Text),
            ("computeCluster", GoType::Text),
            ("networks", LIST_OF_TEXTS),
            ("datastore", GoType::Text),
            ("resourcePool", GoType::Text),
            ("folder", GoType::Text),
            ("template", GoType::Text),
            ("tagIDs", LIST_OF_TEXTS),
            ("hostGroup", GoType::Text),
        ]),
    ),
    ("regionType", GoType::Text),
    ("zoneType", GoType::Text),
]);
/// The same before zones could be groups of hosts.
const VSPHERE_FAILURE_DOMAIN_OF_CLUSTERS: GoType = GoType::Struct(&[
    ("name", GoType::Text),
    ("region", GoType::Text),
    ("zone", GoType::Text),
    ("server", GoType::Text),
    (
        "topology",
        GoType::Struct(&[
            ("datacenter", GoType::Text),
            ("computeCluster", GoType::Text),
            ("networks", LIST_OF_TEXTS),
            ("datastore", GoType::Text),
            ("resourcePool", GoType::Text),
            ("folder", GoType::Text),
            ("template", GoType::Text),
            ("tagIDs", LIST_OF_TEXTS),
        ]),
    ),
]);
const NODE_NETWORK: GoType = GoType::Struct(&[
    ("networkSubnetCidr", LIST_OF_TEXTS),
    ("network", GoType::Text),
    ("excludeNetworkSubnetCidr", LIST_OF_TEXTS),
]);
const NODE_NETWORKING: GoType =
    GoType::Struct(&[("external", NODE_NETWORK), ("internal", NODE_NETWORK)]);
const LOAD_BALANCER: GoType =
    GoType::Struct(&[("type", GoType::TextOr("OpenShiftManagedDefault"))]);
const VSPHERE_HOST: GoType = GoType::Struct(&[
    ("failureDomain", GoType::Text),
    (
        "networkDevice",
        GoType::Pointer(&GoType::Struct(&[
            ("gateway", GoType::Text),
            ("ipAddrs", LIST_OF_TEXTS),
            ("nameservers", LIST_OF_TEXTS),
        ])),
    ),
    ("role", GoType::Text),
]);

/// Declares `spec.platform.vsphere.infrastructure`. The middle of it was the same in all releases.
macro_rules! vsphere_infrastructure {
    ($failure_domain:expr, [$($dns_records_type:expr)?]) => {
        GoType::Struct(&[
            ("vCenter", GoType::Text),
            ("username", GoType::Text),
            ("password", GoType::Text),
            ("datacenter", GoType::Text),
            ("defaultDatastore", GoType::Text),
            ("folder", GoType::Text),
            ("cluster", GoType::Text),
            ("resourcePool", GoType::Text),
            ("clusterOSImage", GoType::Text),
            ("apiVIP", GoType::Text),
            ("apiVIPs", LIST_OF_TEXTS),
            ("ingressVIP", GoType::Text),
            ("ingressVIPs", LIST_OF_TEXTS),
            ("defaultMachinePlatform", GoType::Pointer(&VSPHERE_MACHINES)),
            ("network", GoType::Text),
            ("diskType", GoType::Text),
            ("vcenters", GoType::List(&VCENTER)),
            ("failureDomains", GoType::List(&$failure_domain)),
            ("nodeNetworking", GoType::Pointer(&NODE_NETWORKING)),
            ("loadBalancer", GoType::Pointer(&LOAD_BALANCER)),
            $(("dnsRecordsType", $dns_records_type),)?
            ("hosts", GoType::List(&GoType::Pointer(&VSPHERE_HOST))),
        ])
    };
}
const INFRASTRUCTURE: GoType = vsphere_infrastructure!(VSPHERE_FAILURE_DOMAIN, [GoType::Text]);
const INFRASTRUCTURE_WITHOUT_DNS: GoType = vsphere_infrastructure!(VSPHERE_FAILURE_DOMAIN, []);
const INFRASTRUCTURE_OF_CLUSTERS: GoType =
    vsphere_infrastructure!(VSPHERE_FAILURE_DOMAIN_OF_CLUSTERS, []);

/// Declares `spec.platform.vsphere` with what stood before and after its first fields.
macro_rules! vsphere {
    ([$($first:expr)?], [$($last:expr)?]) => {
        &[
            $(("infrastructure", GoType::Pointer(&$first)),)?
            ("vCenter", GoType::Text),
            ("credentialsSecretRef", REFERENCE),
            ("certificatesSecretRef", REFERENCE),
            ("datacenter", GoType::Text),
            ("defaultDatastore", GoType::Text),
            ("folder", GoType::Text),
            ("cluster", GoType::Text),
            ("network", GoType::Text),
            $(("vSphere", $last),)?
        ]
    };
}
const VSPHERE: &[GoFields] = &[
    vsphere!([INFRASTRUCTURE], []),
    vsphere!([INFRASTRUCTURE_WITHOUT_DNS], []),
    vsphere!([INFRASTRUCTURE_OF_CLUSTERS], []),
    vsphere!([], [UNSET]),
    vsphere!([], []),
];

/// The platforms that Hive has had, in the order of its type, each with its fields: those of the
/// present release first, then those of older ones.
const PLATFORMS: &[(&str, &[GoFields])] = &[
    (ALIBABA_CLOUD, &[&[]]),
    ("aws", AWS),
    ("azure", AZURE),
    ("baremetal", BARE_METAL),
    ("gcp", GCP),
    ("openstack", OPENSTACK),
    ("vsphere", VSPHERE),
    (OVIRT_NAME, OVIRT),
    ("agentBareMetal", AGENT_BARE_METAL),
    ("ibmcloud", IBM_CLOUD),
    ("none", &[&[]]),
    ("nutanix", NUTANIX),
];
const ALIBABA_CLOUD: &str = "alibabacloud";
const OVIRT_NAME: &str = "ovirt";
/// How many of the last platforms were added one by one, after the others.
const ADDED_PLATFORMS: usize = 3;

/// What a release of Hive hashes.
#[derive(Clone, Copy)]
struct Layout {
    has_alibaba_cloud: bool,
    has_ovirt: bool,
    /// How many of the last platforms it does not have yet.
    lacks_last: usize,
    /// Which fields its platforms have, 0 for those of the present release.
    variant: usize,
    /// Whether `customizationRef` is hashed.
    has_customization: bool,
}

const PRESENT: Layout = Layout {
    has_alibaba_cloud: false,
    has_ovirt: false,
    lacks_last: 0,
    variant: 0,
    has_customization: true,
};

/// How a release of Hive computes the version of a pool.
#[derive(Clone, Copy)]
pub struct HiveRelease {
    layout: Layout,
    /// Whether it fills `infrastructure` of a vSphere platform before.
    converts_vsphere: bool,
}

impl HiveRelease {
    /// The newest release of Hive whose versions are known.
    pub const NEWEST: Self = Self { layout: PRESENT, converts_vsphere: true };

    /// The newest release that computes this version for a pool; none if no known one does. Releases
    /// that differ in other platforms only are not told apart.
    pub fn find(pool: &ClusterPool, version: &str) -> Option<Self> {
        if hive_version(pool) == version {
            return Some(Self::NEWEST);
        }
        let platform = platform_of(pool);
        let mut converted_platform = platform.clone();
        convert_vsphere(&mut converted_platform);
        layouts().find_map(|layout| {
            if version_in(pool, &converted_platform, layout) == version {
                return Some(Self { layout, converts_vsphere: true });
            }
            let is_computed = version_in(pool, &platform, layout) == version;
            is_computed.then_some(Self { layout, converts_vsphere: false })
        })
    }

    /// The version of a pool that this release computes: 16 hexadecimal digits.
    pub fn version(self, pool: &ClusterPool) -> String {
        let mut platform = platform_of(pool);
        if self.converts_vsphere {
            convert_vsphere(&mut platform);
        }
        // A platform that was removed later is hashed by every release that can have such a pool.
        let has_ovirt = self.layout.has_ovirt || pool.spec.platform.name() == OVIRT_NAME;
        version_in(pool, &platform, Layout { has_ovirt, ..self.layout })
    }
}

/// The version of a pool that the newest release of Hive computes: 16 hexadecimal digits.
pub fn hive_version(pool: &ClusterPool) -> String {
    HiveRelease::NEWEST.version(pool)
}

/// Whether a version is what any release of Hive computes for a pool.
pub fn is_hive_version(pool: &ClusterPool, version: &str) -> bool {
    HiveRelease::find(pool, version).is_some()
}

fn platform_of(pool: &ClusterPool) -> Value {
    serde_json::to_value(&pool.spec.platform).unwrap_or_default()
}

/// Fills `infrastructure` of a vSphere platform from its single fields, as Hive itself does in a pool
/// before it looks at it.
fn convert_vsphere(platform: &mut Value) {
    let Some(vsphere) = platform.get_mut("vsphere") else { return };
    if vsphere.get("infrastructure").is_some() {
        return;
    }
    let server = text_of(vsphere.get("vCenter"));
    let datacenter = text_of(vsphere.get("datacenter"));
    let infrastructure = json!({
        "vcenters": [{"server": server, "port": 443, "datacenters": [datacenter]}],
        "failureDomains": [{
            "name": "generated-failure-domain",
            "region": "generated-region",
            "zone": "generated-zone",
            "server": server,
            "topology": {
                "datacenter": datacenter,
                "datastore": path_in(datacenter, "datastore", vsphere.get("defaultDatastore")),
                "folder": path_in(datacenter, "vm", vsphere.get("folder")),
                "computeCluster": path_in(datacenter, "host", vsphere.get("cluster")),
                "networks": [text_of(vsphere.get("network"))],
            },
        }],
    });
    vsphere["infrastructure"] = infrastructure;
}

/// The path of something in a datacenter, unless it is a path already or nothing.
fn path_in(datacenter: &str, folder: &str, value: Option<&Value>) -> String {
    let name = text_of(value);
    if name.is_empty() || name.starts_with('/') {
        return name.to_owned();
    }
    format!("/{datacenter}/{folder}/{name}")
}

/// The layouts of all releases. A few are among them that no release had; they do no harm.
fn layouts() -> impl Iterator<Item = Layout> {
    let variant_count =
        PLATFORMS.iter().map(|(_, variants)| variants.len()).max().unwrap_or_default();
    (0..variant_count).flat_map(|variant| {
        (0..=ADDED_PLATFORMS).flat_map(move |lacks_last| {
            (0..8_u8).map(move |bits| Layout {
                has_alibaba_cloud: bits & 1 != 0,
                has_ovirt: bits & 2 != 0,
                has_customization: bits & 4 != 0,
                lacks_last,
                variant,
            })
        })
    })
}

/// The version of a pool in a layout. It is a hash of hashes, each of 8 bytes.
fn version_in(pool: &ClusterPool, platform: &Value, layout: Layout) -> String {
    let spec = &pool.spec;
    let mut digests: Vec<u8> = Vec::new();
    digests.extend(hash_platform(platform, layout));
    digests.extend(hash_bytes(spec.base_domain.as_bytes()));
    digests.extend(hash_reference(Some(&spec.image_set_ref)));
    digests.extend(hash_reference(spec.install_config_secret_template_ref.as_ref()));
    if layout.has_customization {
        digests.extend(hash_reference(spec.customization_ref.as_ref()));
    }
    if spec.inventory.is_some() {
        digests.extend_from_slice(b"hasInventory");
    }
    // Go hashes a list of bytes as a list of numbers.
    let numbers: Vec<u8> =
        digests.into_iter().flat_map(|byte| hash_bytes(&u64::from(byte).to_be_bytes())).collect();
    format!("{:016x}", fnv1a(numbers))
}

fn hash_bytes(bytes: &[u8]) -> [u8; 8] {
    fnv1a(bytes.iter().copied()).to_be_bytes()
}

/// A reference is a struct with a name; one that is not set is a pointer to nothing.
fn hash_reference(reference: Option<&LocalRef>) -> [u8; 8] {
    reference.map_or_else(
        || hash_bytes(b""),
        |reference| hash_bytes(&hash_bytes(reference.name.as_bytes())),
    )
}

fn hash_platform(platform: &Value, layout: Layout) -> [u8; 8] {
    let last = PLATFORMS.len() - layout.lacks_last;
    let mut digests: Vec<u8> = Vec::new();
    for (name, variants) in &PLATFORMS[..last] {
        let is_missing = (*name == ALIBABA_CLOUD && !layout.has_alibaba_cloud)
            || (*name == OVIRT_NAME && !layout.has_ovirt);
        if is_missing {
            continue;
        }
        let fields = variants.get(layout.variant).or(variants.last()).copied().unwrap_or_default();
        let digest = match platform.get(name) {
            Some(value) => hash_value(GoType::Struct(fields), Some(value)),
            None => hash_bytes(b""),
        };
        digests.extend(digest);
    }
    hash_bytes(&digests)
}

/// The hash of a value; of one that the manifest lacks, the hash of Go's zero value.
fn hash_value(go_type: GoType, value: Option<&Value>) -> [u8; 8] {
    let present_value = value.filter(|value| !value.is_null());
    match go_type {
        GoType::Text => hash_bytes(text_of(present_value).as_bytes()),
        GoType::TextOr(default) => {
            let written = text_of(present_value);
            hash_bytes(if written.is_empty() { default } else { written }.as_bytes())
        }
        GoType::Flag => {
            let is_set = present_value.and_then(Value::as_bool).unwrap_or_default();
            hash_bytes(if is_set { b"1" } else { b"0" })
        }
        GoType::Number => hash_value(GoType::NumberOr(0), value),
        GoType::NumberOr(default) => {
            hash_bytes(&present_value.and_then(Value::as_i64).unwrap_or(default).to_be_bytes())
        }
        GoType::Texts => hash_texts(present_value),
        GoType::List(item_type) => {
            let items = present_value.and_then(Value::as_array).into_iter().flatten();
            let digests: Vec<u8> =
                items.flat_map(|item| hash_value(*item_type, Some(item))).collect();
            hash_bytes(&digests)
        }
        GoType::Pointer(target_type) => match present_value {
            Some(target) => hash_value(*target_type, Some(target)),
            None => hash_bytes(b""),
        },
        GoType::Struct(fields) => {
            let mut digests: Vec<u8> = Vec::new();
            for (name, field_type) in fields {
                let field = present_value.and_then(|value| value.get(name));
                digests.extend(hash_value(*field_type, field));
            }
            hash_bytes(&digests)
        }
    }
}

fn text_of(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

/// The entries of a map go in the order of the hashes of their keys, which are hashed once more as
/// hexadecimal digits.
fn hash_texts(value: Option<&Value>) -> [u8; 8] {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    let mut digests: Vec<(String, [u8; 8])> = Vec::new();
    for (key, text) in entries {
        let key_digest = format!("{:016x}", fnv1a(key.bytes()));
        digests.push((key_digest, hash_bytes(text_of(Some(text)).as_bytes())));
    }
    digests.sort_unstable();
    let mut bytes: Vec<u8> = Vec::new();
    for (key_digest, text_digest) in digests {
        bytes.extend(key_digest.into_bytes());
        bytes.extend(text_digest);
    }
    hash_bytes(&bytes)
}
