//! The kinds poolctl knows, and the words people use for them.

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    ClusterPool,
    ClusterClaim,
    ClusterDeployment,
    Customization,
    ClusterImageSet,
    BareMetalHost,
    Secret,
    Namespace,
    RoleBinding,
    Settings,
    IpPool,
    IpClaim,
    IpAddress,
    DataTemplate,
    InfraEnv,
    Agent,
    NMStateConfig,
    Job,
    Event,
}

struct Words {
    kind: &'static str,
    api_version: &'static str,
    /// As in `pool/lab`, and what messages call it.
    short: &'static str,
    others: &'static [&'static str],
}

const HIVE: &str = "hive.openshift.io/v1";
const IPAM: &str = "ipam.metal3.io/v1alpha1";
const AGENTS: &str = "agent-install.openshift.io/v1beta1";

impl Kind {
    pub const ALL: [Self; 19] = [
        Self::ClusterPool,
        Self::ClusterClaim,
        Self::ClusterDeployment,
        Self::Customization,
        Self::ClusterImageSet,
        Self::BareMetalHost,
        Self::Secret,
        Self::Namespace,
        Self::RoleBinding,
        Self::Settings,
        Self::IpPool,
        Self::IpClaim,
        Self::IpAddress,
        Self::DataTemplate,
        Self::InfraEnv,
        Self::Agent,
        Self::NMStateConfig,
        Self::Job,
        Self::Event,
    ];

    fn words(self) -> Words {
        let words = |kind, api_version, short, others| Words { kind, api_version, short, others };
        match self {
            Self::ClusterPool => words("ClusterPool", HIVE, "clusterpool", &["pool", "cp"]),
            Self::ClusterClaim => words("ClusterClaim", HIVE, "claim", &["clusterclaim", "cc"]),
            Self::ClusterDeployment => {
                words("ClusterDeployment", HIVE, "cluster", &["clusterdeployment", "cd"])
            }
            Self::Customization => {
                let others: &[&str] = &["clusterdeploymentcustomization", "cdc"];
                words("ClusterDeploymentCustomization", HIVE, "customization", others)
            }
            Self::ClusterImageSet => {
                words("ClusterImageSet", HIVE, "clusterimageset", &["imageset", "imgset"])
            }
            Self::BareMetalHost => {
                words("BareMetalHost", "metal3.io/v1alpha1", "host", &["baremetalhost", "bmh"])
            }
            Self::Secret => words("Secret", "v1", "secret", &[]),
            Self::Namespace => words("Namespace", "v1", "namespace", &["ns"]),
            Self::RoleBinding => {
                words("RoleBinding", "rbac.authorization.k8s.io/v1", "rolebinding", &[])
            }
            Self::Settings => words("Settings", "poolctl.dev/v1", "settings", &["setting"]),
            Self::IpPool => words("IPPool", IPAM, "ippool", &["ipp"]),
            Self::IpClaim => words("IPClaim", IPAM, "ipclaim", &["ipc"]),
            Self::IpAddress => words("IPAddress", IPAM, "ipaddress", &["ipa", "ipaddresse", "ip"]),
            Self::DataTemplate => {
                let group = "infrastructure.cluster.x-k8s.io/v1beta1";
                words("Metal3DataTemplate", group, "datatemplate", &["metal3datatemplate", "m3dt"])
            }
            Self::InfraEnv => words("InfraEnv", AGENTS, "infraenv", &["ie"]),
            Self::Agent => words("Agent", AGENTS, "agent", &["a"]),
            Self::NMStateConfig => words("NMStateConfig", AGENTS, "nmstateconfig", &["nmstate"]),
            Self::Job => words("Job", "poolctl.dev/v1", "job", &[]),
            Self::Event => words("Event", "v1", "event", &["ev"]),
        }
    }

    /// As on the wire.
    pub fn name(self) -> &'static str {
        self.words().kind
    }

    pub fn api_version(self) -> &'static str {
        self.words().api_version
    }

    /// What it is, in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::ClusterPool => "A pool of clusters that are kept ready to be claimed.",
            Self::ClusterClaim => "A wish for a cluster of a pool, and then the lease of it.",
            Self::ClusterDeployment => "A cluster, made by a pool or by hand.",
            Self::Customization => "Patches that make one cluster at a time unlike the others.",
            Self::ClusterImageSet => "The release that clusters are installed from.",
            Self::BareMetalHost => "A machine with a management controller.",
            Self::Secret => "Values that are never shown.",
            Self::Namespace => "A namespace; none needs to be declared.",
            Self::RoleBinding => "Who may see the clusters of a namespace's pools.",
            Self::Settings => "The settings of poolctl itself, one object named default.",
            Self::IpPool => "Ranges of addresses that are leased one by one.",
            Self::IpClaim => "A wish for an address of a pool, and then the lease of it.",
            Self::IpAddress => "An address that a claim has.",
            Self::DataTemplate => "What machines are told about themselves and their networks.",
            Self::InfraEnv => "What hosts are booted from, and how those are treated then.",
            Self::Agent => "A host that was booted or found, free or bound to a cluster.",
            Self::NMStateConfig => "How the network of a host is to be, by its MAC addresses.",
            Self::Job => "Work of a driver on a cluster, and what came of it.",
            Self::Event => "What happened, to what, and because of whom.",
        }
    }

    /// As commands print it: `clusterpool/lab`.
    pub fn word(self) -> &'static str {
        self.words().short
    }

    pub fn namespaced(self) -> bool {
        !matches!(self, Self::ClusterImageSet | Self::Namespace | Self::Settings)
    }

    /// What a user may call it: singular, plural or short, in any letter case.
    pub fn from_word(word: &str) -> Option<Self> {
        let word = word.to_lowercase();
        // With its group, as kubectl allows: clusterpools.hive.openshift.io
        if let Some((word, group)) = word.split_once('.') {
            let bare = group.trim_start_matches("v1.");
            return Self::from_word(word).filter(|kind| {
                kind.api_version().split_once('/').is_some_and(|(known, _)| known == bare)
            });
        }
        let singular = word.strip_suffix('s').unwrap_or(&word);
        Self::ALL.into_iter().find(|kind| {
            let words = kind.words();
            let mut all = std::iter::once(&words.short).chain(words.others);
            all.any(|one| *one == word || *one == singular)
        })
    }

    /// The kind of a manifest. Versions are not compared: the seeds spell some of them otherwise.
    pub fn from_manifest(api_version: &str, kind: &str) -> Option<Self> {
        let group =
            |version: &str| version.split_once('/').map_or("", |(group, _)| group).to_owned();
        let wanted = group(api_version);
        Self::ALL.into_iter().find(|one| {
            let modelled = !matches!(one, Self::Job | Self::Event);
            let seeds = *one == Self::Customization && wanted.is_empty();
            modelled && one.name() == kind && (seeds || group(one.api_version()) == wanted)
        })
    }

    /// Every word of every kind.
    pub fn all_words() -> Vec<&'static str> {
        let words = Self::ALL.into_iter().map(Self::words);
        words.flat_map(|one| std::iter::once(one.short).chain(one.others.iter().copied())).collect()
    }
}
