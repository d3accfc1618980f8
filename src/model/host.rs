//! BareMetalHost: a machine with a management controller, in metal3's wire format. It says what a
//! host is and what holds it; `plan/hosts` decides what is done to one.

pub mod wipe;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::annotations::{BOOT, HOLD, PIN, SOFT_OFF, WIPE, read_duration};
use super::backoff::Backoff;
use super::bmc::BmcAddress;
use super::condition::{self, Condition, ConditionType};
use super::hardware::Hardware;
use super::kinds::Kind;
use super::lease::{ClusterHolder, Holder, Lease, LeasedResource};
use super::meta::{Key, Meta};
use super::time::{Span, Time};
use wipe::{NO_WIPE, Wipe, WipeHold, WipeState};

/// metal3's annotation that asks for a power cycle. Its value is JSON, `{"mode": "hard"}` or
/// `{"mode": "soft"}`, or nothing.
pub const REBOOT: &str = "reboot.metal3.io";
/// The mode in `REBOOT` that cuts the power.
const REBOOT_MODE_HARD: &str = "hard";
/// metal3's annotation that asks for another inspection.
pub const INSPECT: &str = "inspect.metal3.io";
/// metal3's annotation by which a host is left alone while it goes on working.
pub const DETACHED: &str = "baremetalhost.metal3.io/detached";
/// metal3's annotations by which nothing is done to a host.
pub const HOST_PAUSE_ANNOTATIONS: [&str; 2] = ["baremetalhost.metal3.io/paused", DETACHED];
/// Assisted installer's annotation with the role of the host in its cluster.
pub const ROLE_ANNOTATION: &str = "bmac.agent-install.openshift.io/role";
/// Assisted installer's annotation with the cluster that the host is to belong to, empty for none.
pub const CLUSTER_REFERENCE: &str = "bmac.agent-install.openshift.io/cluster-reference";
/// What assisted installer's annotations begin with that set a label of the host's node. The label's
/// key follows.
pub const NODE_LABEL_PREFIX: &str = "bmac.agent-install.openshift.io.node-label.";
/// What assisted installer's annotations begin with that set a label of the host's Agent. The
/// label's key follows.
pub const AGENT_LABEL_PREFIX: &str = "bmac.agent-install.openshift.io.agent-label.";

/// How long a host is left alone after failures that follow one another.
const BACKOFF: Backoff =
    Backoff { initial_delay: Span::minutes(1), factor: 2, max_delay: Span::hours(1) };
const LIVE_ISO: &str = "live-iso";
const WIPED_FIRST: &str = "its disks are wiped first";

/// A machine with a management controller, in metal3's wire format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BareMetalHost {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// The desired settings of the host.
    pub spec: HostSpec,
    /// The observed state of the host, written by poolctl.
    #[serde(default)]
    pub status: HostStatus,
}

/// What people want of the machine. Fields of metal3 that have no effect here are stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostSpec {
    /// Whether the host must be powered on.
    pub online: bool,
    /// MAC address of the network interface that the host boots from.
    #[serde(default, rename = "bootMACAddress", skip_serializing_if = "String::is_empty")]
    pub boot_mac_address: String,
    /// The management controller. Without one, poolctl cannot control the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bmc: Option<Bmc>,
    /// Boot mode: UEFI, UEFISecureBoot or legacy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<BootMode>,
    /// The object that uses the host: a ClusterDeployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_ref: Option<ConsumerRef>,
    /// A live image. The host boots from it once, as virtual media.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// A note for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Which disk to install on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_device_hints: Option<Value>,
    /// Whether another program has installed the host.
    #[serde(default, skip_serializing_if = "is_false")]
    pub externally_provisioned: bool,
    /// Whether the host is never powered off.
    #[serde(default, skip_serializing_if = "is_false")]
    pub disable_power_off: bool,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Value>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automated_cleaning_mode: Option<Value>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<Value>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Value>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_profile: Option<Value>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspection_mode: Option<Value>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<Value>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_data: Option<Value>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_interfaces: Option<Value>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preprovisioning_network_data_name: Option<Value>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<Value>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taints: Option<Value>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<Value>,
}

/// How the firmware boots, in the words of metal3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BootMode {
    #[default]
    #[serde(rename = "UEFI")]
    Uefi,
    #[serde(rename = "UEFISecureBoot")]
    UefiSecureBoot,
    #[serde(rename = "legacy")]
    Legacy,
}

/// The management controller of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bmc {
    /// `ipmi://HOST[:PORT]`, `redfish://HOST/redfish/v1/Systems/ID` or another address of metal3.
    pub address: String,
    /// Secret with username and password, and optionally ca.crt to verify the certificate.
    pub credentials_name: String,
    /// Accept any certificate. A machine in the network path could then read the password.
    #[serde(default, skip_serializing_if = "is_false")]
    pub disable_certificate_verification: bool,
}

/// The object that uses the machine. poolctl writes the cluster here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConsumerRef {
    /// hive.openshift.io/v1
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Kind of the object: ClusterDeployment. poolctl ignores other kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Accepted but not used.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Accepted but not used.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_path: String,
    /// Accepted but not stored.
    #[serde(default, skip_serializing)]
    pub resource_version: String,
}

/// An image that the controller boots once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Image {
    /// The URL from which the controller downloads the image.
    pub url: String,
    /// Format: live-iso. poolctl does not use other formats.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub format: String,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub checksum: String,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub checksum_type: String,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub oci_auth_secret_name: String,
}

impl Image {
    /// A live image, which is booted and not written to a disk.
    pub fn live(url: &str) -> Self {
        Self { url: url.into(), format: LIVE_ISO.into(), ..Self::default() }
    }

    /// Whether poolctl may attach the image. Images of other formats are written to disks by other
    /// programs.
    pub fn is_live(&self) -> bool {
        self.format == LIVE_ISO
    }

    /// Whether the image of a status may be in the virtual drive. metal3 also notes there what it has
    /// written to a disk, and an empty URL where there is no image.
    pub fn may_be_attached(&self) -> bool {
        let is_unfinished = self.format.is_empty() && self.checksum.is_empty();
        !self.url.is_empty() && (self.is_live() || is_unfinished)
    }
}

/// What is known of the machine. Drivers report it, and the plan writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostStatus {
    /// OK, discovered, error, delayed or detached.
    pub operational_status: String,
    /// The type of the last failure.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error_type: String,
    /// The message of the last failure.
    pub error_message: String,
    /// What a person must correct before it can succeed, if that is known: CredentialsMissing,
    /// CredentialsUnusable or CertificateRefused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<ErrorReason>,
    /// Number of failures in a row.
    pub error_count: u32,
    /// Number of failures in a row with the image.
    pub provisioning_fail_count: u32,
    /// Whether the host was powered on when the controller was last read.
    pub powered_on: bool,
    /// The state of its image.
    pub provisioning: Provisioning,
    /// The hardware of the host, as its controller reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// The credentials that the controller last accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub good_credentials: Option<CredentialsStatus>,
    /// The credentials that were last tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried_credentials: Option<CredentialsStatus>,
    /// When the controller was last read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// The cluster for which poolctl powered the host on. After that cluster, it is powered off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switched_on_for: Option<String>,
    /// The cluster that the host has left and may still run for: poolctl powered it on, and its
    /// controller has not reported it off since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may_run_for: Option<String>,
    /// The cluster whose system may still be on the disks: poolctl powered the host on for it, and
    /// nobody has wiped them since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unwiped_from: Option<String>,
    /// The wipe of the disks after the host left its last cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wipe: Option<Wipe>,
    /// Whether the host was there before poolctl wiped disks by itself. Such a host is wiped only if
    /// an annotation says so.
    #[serde(skip_serializing_if = "is_false")]
    pub known_before_wiping: bool,
    /// The hold that poolctl set because the disks could not be wiped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wipe_hold: Option<WipeHold>,
    /// The conditions Registered, Inspected and PoweredOn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl HostStatus {
    /// Clears the last error. The number of failures in a row stays.
    pub fn clear_error(&mut self) {
        self.error_type.clear();
        self.error_message.clear();
        self.error_reason = None;
    }
}

/// What of a host a person has to put right before its controller can be told anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ErrorReason {
    /// The Secret with the credentials does not exist.
    CredentialsMissing,
    /// Its Secret lacks a key, or its controller refuses what is in it.
    CredentialsUnusable,
    /// The certificate of the controller is not trusted.
    CertificateRefused,
}

/// The provisioning state in the words of metal3.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Provisioning {
    /// unmanaged, registering, available, provisioning, provisioned, externally provisioned, ...
    pub state: String,
    /// The uid of the host.
    #[serde(rename = "ID")]
    pub id: String,
    /// The image that the host booted from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
}

/// The Secret that a controller accepted or refused, and which version of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CredentialsStatus {
    /// The Secret.
    pub credentials: SecretRef,
    /// Its uid and generation.
    pub credentials_version: String,
}

/// A Secret by name and namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SecretRef {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

/// How the certificate of a management controller is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateTrust {
    /// There is no controller, or it is not reached by HTTP.
    NotApplicable,
    /// The controller is reached by plain HTTP, so the network can read the password.
    Unencrypted,
    /// Any certificate is accepted, so a machine between can read the password.
    Unverified,
    /// The certificate must have the SHA-256 that an annotation of the host gives.
    Pinned,
    /// An authority that the machine trusts must have signed the certificate.
    Verified,
}

/// The words that tables show.
impl fmt::Display for CertificateTrust {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NotApplicable => "-",
            Self::Unencrypted => "NONE (http)",
            Self::Unverified => "INSECURE",
            Self::Pinned => "pinned",
            Self::Verified => "verified",
        })
    }
}

/// Reads a SHA-256 as 64 lower-case hexadecimal digits. It may be written with colons, in capitals
/// and with `sha256:` before it.
pub fn parse_certificate_pin(fingerprint: &str) -> Option<String> {
    let lower_case = fingerprint.trim().to_lowercase();
    let digits = lower_case.strip_prefix("sha256:").unwrap_or(&lower_case).replace(':', "");
    let is_sha256 = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_sha256.then_some(digits)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The `errorType` of a host whose controller could not be reached or refused the credentials.
pub const REGISTRATION_ERROR: &str = "registration error";
/// The `errorType` of a host whose image could not be attached or ejected.
pub const PROVISIONING_ERROR: &str = "provisioning error";
/// The `errorType` of a host whose power state could not be read or changed.
pub const POWER_MANAGEMENT_ERROR: &str = "power management error";
// Types of a host's conditions.
/// The controller accepts the credentials.
pub const REGISTERED: ConditionType = ConditionType::Registered;
/// The hardware of the machine is known.
pub const INSPECTED: ConditionType = ConditionType::Inspected;
/// The machine was on when its controller was asked last.
pub const POWERED_ON: ConditionType = ConditionType::PoweredOn;

/// Whether a host is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPower {
    On,
    Off,
    /// Its controller has not said it yet, or could not be asked.
    Unknown,
}

impl HostPower {
    /// The state of a machine whose controller has answered, so never `Unknown`.
    pub fn from_is_on(is_on: bool) -> Self {
        if is_on { Self::On } else { Self::Off }
    }

    /// The word that drivers and tables have for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Unknown => "unknown",
        }
    }
}

impl BareMetalHost {
    /// The namespace and the name.
    pub fn key(&self) -> Key {
        self.metadata.key()
    }

    /// The address of its controller. None if it has no controller or the address cannot be read.
    pub fn bmc_address(&self) -> Option<BmcAddress> {
        self.spec.bmc.as_ref()?.address.parse().ok()
    }

    /// Whether the host is on, as its controller last said.
    pub fn power(&self) -> HostPower {
        let condition = condition::find_condition(&self.status.conditions, POWERED_ON);
        match condition.map(|condition| condition.status.as_str()) {
            None | Some("Unknown") => HostPower::Unknown,
            Some("True") => HostPower::On,
            Some(_) => HostPower::Off,
        }
    }

    /// Makes it unknown whether the host is on, so that its controller is asked before anything is
    /// decided by that.
    pub fn forget_power(&mut self) {
        self.status.conditions.retain(|condition| condition.kind != POWERED_ON);
    }

    /// When a host whose last attempt failed is tried again: 1, 2, 4 ... minutes after the failure,
    /// at most an hour.
    pub fn next_attempt_at(&self) -> Option<Time> {
        if self.status.error_count == 0 {
            return None;
        }
        Some(self.status.last_updated?.plus(BACKOFF.delay(self.status.error_count)))
    }

    /// The name of the cluster that uses the host.
    pub fn cluster(&self) -> Option<&str> {
        let consumer = self.consumer()?;
        (consumer.kind == Kind::ClusterDeployment.name()).then_some(consumer.name.as_str())
    }

    fn consumer(&self) -> Option<&ConsumerRef> {
        self.spec.consumer_ref.as_ref().filter(|consumer| !consumer.name.is_empty())
    }

    /// The lease of the host; none while no object uses it.
    pub fn lease(&self) -> Option<Lease> {
        let consumer = self.consumer()?;
        let holder = match self.cluster() {
            Some(cluster) => Holder::Cluster(ClusterHolder::new(cluster)),
            None => Holder::Foreign { kind: consumer.kind.clone(), name: consumer.name.clone() },
        };
        Some(Lease::new(LeasedResource::Host(self.key()), holder))
    }

    /// Whether an annotation makes the host a master of its cluster.
    pub fn is_master(&self) -> bool {
        self.metadata.annotation(ROLE_ANNOTATION) == Some("master")
    }

    /// Why no cluster may get the host; none if one may.
    pub fn hold_reason(&self) -> Option<&str> {
        let hold = self.metadata.annotation(HOLD);
        if hold.is_none() && self.is_to_be_wiped() { Some(WIPED_FIRST) } else { hold }
    }

    /// Whether the disks still have what the last cluster left there, and are to be wiped.
    pub fn is_to_be_wiped(&self) -> bool {
        self.status.wipe.as_ref().is_some_and(|wipe| wipe.state == WipeState::Pending)
    }

    /// The cluster whose system a host without a cluster would run if it booted its disk. None if a
    /// person lets it, by saying that nobody wipes it or what it boots from.
    pub fn old_system(&self) -> Option<&str> {
        let is_let =
            self.metadata.annotation(WIPE) == Some(NO_WIPE) || self.metadata.has_annotation(BOOT);
        if is_let || self.consumer().is_some() {
            return None;
        }
        self.status.unwiped_from.as_deref()
    }

    /// Whether its controller can boot it from an image.
    pub fn can_boot_images(&self) -> bool {
        matches!(self.bmc_address(), Some(BmcAddress::Redfish { .. }))
    }

    /// Whether nothing is done to the host: it has no controller, is paused or is detached.
    pub fn is_left_alone(&self) -> bool {
        self.spec.bmc.is_none()
            || HOST_PAUSE_ANNOTATIONS
                .iter()
                .any(|annotation| self.metadata.has_annotation(annotation))
    }

    /// Whether the host is to be rebooted without a chance to shut down. As in metal3, the
    /// annotation has to say so.
    pub fn is_hard_reboot_asked(&self) -> bool {
        let arguments = self.metadata.annotation(REBOOT).unwrap_or_default();
        match serde_json::from_str::<Value>(arguments) {
            Ok(arguments) => arguments["mode"] == REBOOT_MODE_HARD,
            Err(_) => false,
        }
    }

    /// How long the host may take to shut down before it is powered off by force.
    pub fn soft_off_timeout(&self) -> Span {
        read_duration(&self.metadata.annotations, SOFT_OFF)
    }

    /// How the certificate of its controller is verified.
    pub fn certificate_trust(&self) -> CertificateTrust {
        match (self.bmc_address(), &self.spec.bmc) {
            (Some(BmcAddress::Ipmi { .. }) | None, _) | (_, None) => {
                CertificateTrust::NotApplicable
            }
            (Some(address), _) if address.is_unencrypted() => CertificateTrust::Unencrypted,
            (_, Some(bmc)) if bmc.disable_certificate_verification => CertificateTrust::Unverified,
            _ if self.metadata.annotation(PIN).is_some() => CertificateTrust::Pinned,
            _ => CertificateTrust::Verified,
        }
    }

    /// The host's annotations, from which templates read values.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        &self.metadata.annotations
    }
}
