//! Every kind of object, declared once: its names, its type and where its objects are kept. Code that
//! treats all kinds alike is generated from this list by macros, and never lists kinds itself.

/// Calls another macro with the list of kinds, after the input that it is given for it. Each kind
/// comes after those that it refers to, so that an import in this order finds what it names.
///
/// Each kind declares how its objects are kept, by one of
/// - `plain: FIELD`: as a JSON document that only commands change;
/// - `document: FIELD`: as a JSON document whose type rules and plans know;
/// - `document: FIELD "TABLE"`: the same, in a table of its own, because it has columns of its own;
/// - `facts: FIELD`: as columns that plans read, with a body beside them;
/// - `view: FIELD`: made from the rows of another type when it is read.
///
/// FIELD is the table in `State`. Records are written by poolctl alone and cannot be applied.
macro_rules! every_kind {
    ($then:ident $($input:tt)*) => {
        $then! {
            { $($input)* }
            objects {
                Settings($crate::model::documents::Settings) {
                    about: "The settings of poolctl itself, one object named default.",
                    wire: "poolctl.dev/v1" "Settings",
                    words: ["settings", "setting"],
                    namespaced: false,
                    names: Label,
                    plain: settings,
                }
                Namespace($crate::model::documents::Namespace) {
                    about: "A namespace; none needs to be declared.",
                    wire: "v1" "Namespace",
                    words: ["namespace", "ns"],
                    namespaced: false,
                    names: Label,
                    plain: namespaces,
                }
                RoleBinding($crate::model::documents::RoleBinding) {
                    about: "Who may see the clusters of a namespace's pools.",
                    wire: "rbac.authorization.k8s.io/v1" "RoleBinding",
                    words: ["rolebinding"],
                    namespaced: true,
                    names: Dotted,
                    plain: role_bindings,
                }
                ClusterImageSet($crate::model::documents::ClusterImageSet) {
                    about: "The release that clusters are installed from.",
                    wire: "hive.openshift.io/v1" "ClusterImageSet",
                    words: ["clusterimageset", "imageset", "imgset"],
                    namespaced: false,
                    names: Dotted,
                    plain: image_sets,
                }
                Secret($crate::model::documents::Secret) {
                    about: "Secret values, such as credentials; they are never shown.",
                    wire: "v1" "Secret",
                    words: ["secret"],
                    namespaced: true,
                    names: Dotted,
                    document: secrets,
                }
                ConfigMap($crate::model::documents::ConfigMap) {
                    about: "Files that are no secret, such as manifests for installers.",
                    wire: "v1" "ConfigMap",
                    words: ["configmap", "cm"],
                    namespaced: true,
                    names: Dotted,
                    plain: config_maps,
                }
                Customization($crate::model::customization::Customization) {
                    about: "Patches of the install-config that one cluster at a time uses.",
                    wire: "hive.openshift.io/v1" "ClusterDeploymentCustomization",
                    words: ["customization", "clusterdeploymentcustomization", "cdc"],
                    namespaced: true,
                    names: Label,
                    document: customizations,
                }
                DataTemplate($crate::model::data_template::Metal3DataTemplate) {
                    about: "A template of the metadata and network data that machines get.",
                    wire: "infrastructure.cluster.x-k8s.io/v1beta1" "Metal3DataTemplate",
                    words: ["datatemplate", "metal3datatemplate", "m3dt"],
                    namespaced: true,
                    names: Dotted,
                    document: data_templates,
                }
                Metal3DataClaim($crate::model::metal3_data::Metal3DataClaim) {
                    about: "A request of a machine for an index of a data template.",
                    wire: "infrastructure.cluster.x-k8s.io/v1beta1" "Metal3DataClaim",
                    words: ["metal3dataclaim", "m3dc"],
                    namespaced: true,
                    names: Dotted,
                    plain: metal3_data_claims,
                }
                Metal3Data($crate::model::metal3_data::Metal3Data) {
                    about: "The index that a machine has of a data template.",
                    wire: "infrastructure.cluster.x-k8s.io/v1beta1" "Metal3Data",
                    words: ["metal3data", "m3data", "m3d"],
                    namespaced: true,
                    names: Dotted,
                    plain: metal3_data,
                }
                IpPool($crate::model::ip_pool::IpPool) {
                    about: "Ranges of addresses that are leased one by one.",
                    wire: "ipam.metal3.io/v1alpha1" "IPPool",
                    words: ["ippool", "ipp"],
                    namespaced: true,
                    names: Dotted,
                    document: ip_pools "ip_pool",
                }
                IpAddress($crate::model::ip_lease::IpAddress) {
                    about: "An address that is leased to a claim.",
                    wire: "ipam.metal3.io/v1alpha1" "IPAddress",
                    words: ["ipaddress", "ipa", "ipaddresse", "ip"],
                    namespaced: true,
                    names: DottedWithCapitals,
                    view: ip_leases,
                }
                IpClaim($crate::model::ip_lease::IpClaim) {
                    about: "A request for an address of a pool, and the lease of that address.",
                    wire: "ipam.metal3.io/v1alpha1" "IPClaim",
                    words: ["ipclaim", "ipc"],
                    namespaced: true,
                    names: DottedWithCapitals,
                    view: ip_leases,
                }
                BareMetalHost($crate::model::host::BareMetalHost) {
                    about: "A machine with a management controller.",
                    wire: "metal3.io/v1alpha1" "BareMetalHost",
                    words: ["host", "baremetalhost", "bmh"],
                    namespaced: true,
                    names: Label,
                    document: hosts "host",
                }
                NMStateConfig($crate::model::nmstate_config::NMStateConfig) {
                    about: "The network configuration of the host that has its MAC addresses.",
                    wire: "agent-install.openshift.io/v1beta1" "NMStateConfig",
                    words: ["nmstateconfig", "nmstate"],
                    namespaced: true,
                    names: Dotted,
                    document: nmstate_configs,
                }
                AgentClassification($crate::model::agent_classification::AgentClassification) {
                    about: "A label for hosts whose inventory meets a query.",
                    wire: "agent-install.openshift.io/v1beta1" "AgentClassification",
                    words: ["agentclassification"],
                    namespaced: true,
                    names: Dotted,
                    plain: agent_classifications,
                }
                InfraEnv($crate::model::infra_env::InfraEnv) {
                    about: "A discovery image for hosts, and settings of the hosts that boot it.",
                    wire: "agent-install.openshift.io/v1beta1" "InfraEnv",
                    words: ["infraenv", "ie"],
                    namespaced: true,
                    names: Dotted,
                    document: infra_envs,
                }
                Agent($crate::model::agent::Agent) {
                    about: "A host that was booted or found, free or bound to a cluster.",
                    wire: "agent-install.openshift.io/v1beta1" "Agent",
                    words: ["agent", "a"],
                    namespaced: true,
                    names: Dotted,
                    document: agents "agent_body",
                }
                ClusterPool($crate::model::pool::ClusterPool) {
                    about: "A pool of clusters that are kept ready to be claimed.",
                    wire: "hive.openshift.io/v1" "ClusterPool",
                    words: ["clusterpool", "pool", "cp"],
                    namespaced: true,
                    names: Label,
                    document: pools,
                }
                ClusterDeployment($crate::model::cluster::Cluster) {
                    about: "A cluster, made by a pool or by hand.",
                    wire: "hive.openshift.io/v1" "ClusterDeployment",
                    words: ["cluster", "clusterdeployment", "cd"],
                    namespaced: true,
                    names: Label,
                    facts: clusters,
                }
                ClusterClaim($crate::model::claim::Claim) {
                    about: "A request for a cluster of a pool, and the lease of that cluster.",
                    wire: "hive.openshift.io/v1" "ClusterClaim",
                    words: ["claim", "clusterclaim", "cc"],
                    namespaced: true,
                    names: Label,
                    facts: claims,
                }
            }
            records {
                Job($crate::model::job::JobDocument) {
                    about: "Work of a driver on a cluster or on hosts, and its outcome.",
                    wire: "poolctl.dev/v1" "Job",
                    words: ["job"],
                    namespaced: true,
                }
                Event($crate::model::event::EventDocument) {
                    about: "What happened to which object, and who caused it.",
                    wire: "v1" "Event",
                    words: ["event", "ev"],
                    namespaced: true,
                }
            }
        }
    };
}
pub(crate) use every_kind;

macro_rules! declare_kinds {
    (
        {}
        objects { $($Kind:ident($Type:ty) {
            about: $about:literal,
            wire: $api_version:literal $name:literal,
            words: [$($word:literal),+],
            namespaced: $namespaced:literal,
            names: $names:ident,
            $($kept:tt)*
        })* }
        records { $($Record:ident($Document:ty) {
            about: $record_about:literal,
            wire: $record_api_version:literal $record_name:literal,
            words: [$($record_word:literal),+],
            namespaced: $record_namespaced:literal,
        })* }
    ) => {
        /// A kind of object.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind { $($Kind,)* $($Record,)* }

        const DECLARATIONS: &[Declaration] = &[
            $(Declaration {
                kind: Kind::$Kind,
                about: $about,
                api_version: $api_version,
                name: $name,
                words: &[$($word),+],
                is_namespaced: $namespaced,
                names: NameFormat::$names,
            },)*
            $(Declaration {
                kind: Kind::$Record,
                about: $record_about,
                api_version: $record_api_version,
                name: $record_name,
                words: &[$($record_word),+],
                is_namespaced: $record_namespaced,
                names: NameFormat::Label,
            },)*
        ];

        impl Kind {
            /// The kinds of objects that can be applied, each after those that it refers to.
            pub const OBJECTS: &[Self] = &[$(Self::$Kind),*];
            /// Every kind, with the records last.
            pub const ALL: &[Self] = &[$(Self::$Kind,)* $(Self::$Record),*];
        }
    };
}
every_kind!(declare_kinds);

struct Declaration {
    kind: Kind,
    about: &'static str,
    api_version: &'static str,
    name: &'static str,
    /// What people may call the kind. poolctl uses the first word.
    words: &'static [&'static str],
    is_namespaced: bool,
    names: NameFormat,
}

/// What names of objects may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFormat {
    /// At most 63 lower-case letters, digits and dashes, because other names are made from it, such
    /// as those of clusters.
    Label,
    /// Labels with dots between them, at most 253 characters.
    Dotted,
    /// The same with capitals, because published examples of IPClaims have them.
    DottedWithCapitals,
}

impl Kind {
    fn declaration(self) -> &'static Declaration {
        &DECLARATIONS[self as usize]
    }

    /// The kind on the wire: `ClusterPool`.
    pub fn name(self) -> &'static str {
        self.declaration().name
    }

    /// Group and version on the wire: `hive.openshift.io/v1`, or `v1` for the core group.
    pub fn api_version(self) -> &'static str {
        self.declaration().api_version
    }

    /// What its objects are, in a sentence.
    pub fn about(self) -> &'static str {
        self.declaration().about
    }

    /// The kind as commands print it, before the slash in `clusterpool/lab`.
    pub fn word(self) -> &'static str {
        self.declaration().words[0]
    }

    /// What people may call the kind; the first word is what commands print.
    pub fn words(self) -> &'static [&'static str] {
        self.declaration().words
    }

    /// Whether its objects are in namespaces.
    pub fn is_namespaced(self) -> bool {
        self.declaration().is_namespaced
    }

    /// What names of its objects may look like.
    pub fn name_format(self) -> NameFormat {
        self.declaration().names
    }

    /// Whether only poolctl writes its objects, so that none can be applied.
    pub fn is_record(self) -> bool {
        !Self::OBJECTS.contains(&self)
    }

    /// The kind that a user means by a word: singular, plural or short, in any letter case.
    pub fn from_word(word: &str) -> Option<Self> {
        let word = word.to_lowercase();
        // As with kubectl, the group may follow: clusterpools.hive.openshift.io
        if let Some((word, version_and_group)) = word.split_once('.') {
            let group = version_and_group.trim_start_matches("v1.");
            return Self::from_word(word).filter(|kind| group_of(kind.api_version()) == group);
        }
        let singular = word.strip_suffix('s').unwrap_or(&word);
        let declaration = DECLARATIONS.iter().find(|declaration| {
            declaration.words.contains(&word.as_str()) || declaration.words.contains(&singular)
        });
        declaration.map(|declaration| declaration.kind)
    }

    /// The kind of a manifest. Versions are not compared, because published examples have several
    /// versions of one kind.
    pub fn from_manifest(api_version: &str, name: &str) -> Option<Self> {
        let group = group_of(api_version);
        Self::OBJECTS.iter().copied().find(|kind| {
            // Published examples of customizations leave out the group.
            let lacks_group = *kind == Self::Customization && group.is_empty();
            kind.name() == name && (lacks_group || group_of(kind.api_version()) == group)
        })
    }

    /// The kind with this name on the wire, whatever its group is.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Every word of every kind.
    pub fn all_words() -> impl Iterator<Item = &'static str> {
        DECLARATIONS.iter().flat_map(|declaration| declaration.words.iter().copied())
    }
}

/// The group of an apiVersion; the core group has no name.
fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_means_one_kind() {
        for kind in Kind::ALL {
            for word in kind.declaration().words {
                assert_eq!(Kind::from_word(word), Some(*kind), "{word}");
                assert_eq!(Kind::from_word(&format!("{word}s")), Some(*kind), "{word}s");
            }
            assert_eq!(kind.declaration().kind, *kind);
        }
    }
}
