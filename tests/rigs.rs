//! Management controllers on loopback: ipmi_sim speaks IPMI, sushy-emulator speaks Redfish. Each
//! program ends when the value that stands for it is dropped.

use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::sandbox::{is_met_or_skipped, pause};
use crate::served::{Request, forward_request};

pub const USER: &str = "admin";
pub const PASSWORD: &str = "s3cret-pass";
/// The same user and password, hashed as the emulator wants them.
const HTPASSWD: &str = "admin:$2b$04$0wcgefl26Nh/ewbsqHv7l.7sqCSmgaJCFpVWVPaxr7Jt2PkmP.gKG\n";

/// A program that was started, and the folder it runs in.
pub struct Rig {
    child: Child,
    pub folder: TempDir,
}

impl Drop for Rig {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // It may have ended by itself.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        drop(self.child.wait());
    }
}

impl Rig {
    /// Starts a program. It ends by itself after ten minutes, also if nobody is left to end it.
    #[expect(clippy::disallowed_methods, reason = "tests run programs")]
    pub fn start(folder: TempDir, command_line: &[&str]) -> Self {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "600"]).args(command_line).current_dir(folder.path());
        let log = fs::File::create(folder.path().join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Self { child: command.spawn().unwrap(), folder }
    }
}

/// A program from pip, in the folder that .ci/run makes.
fn python(name: &str) -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/rigs/bin").join(name);
    let is_there =
        is_met_or_skipped(program.exists(), &format!("target/rigs/bin/{name}: .ci/run says how"));
    if is_there { Some(program) } else { None }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A controller that speaks IPMI, after the configuration that OpenIPMI's documentation has.
pub struct IpmiSim {
    rig: Rig,
    port: u16,
}

const CHASSIS: &str = include_str!("stub/chassis.sh");
const EMU: &str = "mc_setbmc 0x20\n\
    mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\n\
    sel_enable 0x20 1000 0x0a\nmc_enable 0x20\n";

impl IpmiSim {
    pub fn start() -> Option<Self> {
        let is_installed =
            Path::new("/usr/bin/ipmi_sim").exists() && Path::new("/usr/bin/ipmitool").exists();
        if !is_met_or_skipped(
            is_installed,
            "ipmi_sim (package openipmi) or ipmitool is not installed",
        ) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let allowed: String = ["callback", "user", "operator", "admin"]
            .map(|level| format!("    allowed_auths_{level} none md2 md5 straight\n"))
            .concat();
        let lan = format!(
            "name \"pool\"\nset_working_mc 0x20\n  startlan 1\n    addr 127.0.0.1 {port}\n    priv_limit admin\n\
             {allowed}    guid a123456789abcdefa123456789abcdef\n  endlan\n\
             \x20 chassis_control \"./chassis 0x20 ./machine\"\n\
             \x20 user 1 true  \"\"      \"test\" user     10       none md2 md5 straight\n\
             \x20 user 2 true  \"{USER}\" \"{PASSWORD}\" admin    10       none md2 md5 straight\n\
             \x20 user 3 true  \"reader\" \"readpass\" user    10       none md2 md5 straight\n"
        );
        for (name, content) in [("lan.conf", &*lan), ("pool.emu", EMU), ("chassis", CHASSIS)] {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.path().join("chassis"), mode).unwrap();
        fs::create_dir_all(folder.path().join("machine")).unwrap();
        let command = ["ipmi_sim", "-c", "lan.conf", "-f", "pool.emu", "-s", "state", "-n"];
        let rig = Rig::start(folder, &command);
        Some(Self { rig, port })
    }

    pub fn address(&self) -> String {
        format!("ipmi://127.0.0.1:{}", self.port)
    }

    /// A property of its machine: `power`, `boot`; or `calls`, all that it was told.
    pub fn property(&self, property: &str) -> String {
        let path = self.rig.folder.path().join("machine").join(property);
        fs::read_to_string(path).unwrap_or_default().trim().to_owned()
    }

    /// When it was last told this, in nanoseconds.
    pub fn last_told(&self, call: &str) -> u128 {
        let calls = self.property("calls");
        let last_line = calls.lines().rev().find(|line| line.ends_with(call));
        let last_line = last_line.unwrap_or_else(|| panic!("never told `{call}`:\n{calls}"));
        last_line.split(' ').next().unwrap().parse().unwrap()
    }

    /// Sets a property of its machine, as if somebody had done it by hand.
    pub fn set_property(&self, property: &str, value: &str) {
        fs::write(self.rig.folder.path().join("machine").join(property), value).unwrap();
    }
}

/// sushy-emulator with simulated machines, with a password, over TLS or without.
pub struct Emulator {
    rig: Rig,
    tls: bool,
    pub port: u16,
}

/// The id of a machine of the emulator.
pub fn uuid(number: usize) -> String {
    let digit = number.to_string();
    let three = digit.repeat(3);
    format!("{}-{}-4{three}-8{three}-{}", digit.repeat(8), digit.repeat(4), digit.repeat(12))
}

fn emulator_config(port: u16, machines: usize, tls: bool) -> String {
    let mut systems = Vec::new();
    for number in 1..=machines {
        let id = uuid(number);
        systems.push(format!(
            " {{'uuid': '{id}', 'name': 'node-{number}', 'power_state': 'Off', 'external_notifier': False, \
             'nics': [{{'mac':'52:54:00:00:00:0{number}','ip':'192.0.2.1{number}'}}]}},\n"
        ));
    }
    let systems = systems.concat();
    let certificate = if tls {
        "SUSHY_EMULATOR_SSL_CERT = 'cert.pem'\nSUSHY_EMULATOR_SSL_KEY = 'key.pem'\n"
    } else {
        ""
    };
    format!(
        "SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\nSUSHY_EMULATOR_LISTEN_PORT = {port}\n\
         {certificate}SUSHY_EMULATOR_AUTH_FILE = 'htpasswd'\nSUSHY_EMULATOR_FAKE_DRIVER = True\n\
         SUSHY_EMULATOR_STATE_DIR = 'state'\nSUSHY_EMULATOR_FAKE_SYSTEMS = [\n{systems}]\n"
    )
}

impl Emulator {
    pub fn start(machines: usize, tls: bool) -> Option<Self> {
        let program = python("sushy-emulator")?;
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let (certificate, key) = self_signed_certificate(&["localhost", "127.0.0.1"], |_| {});
        let config = emulator_config(port, machines, tls);
        for (name, content) in [
            ("cert.pem", &*certificate),
            ("key.pem", &key),
            ("htpasswd", HTPASSWD),
            ("emu.conf", &config),
        ] {
            fs::write(folder.path().join(name), content).unwrap();
        }
        fs::create_dir(folder.path().join("state")).unwrap();
        let program = program.display().to_string();
        let rig = Rig::start(folder, &[&program, "--config", "emu.conf"]);
        for _ in 0..300 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(Self { rig, tls, port });
            }
            pause(100);
        }
        panic!("{}", fs::read_to_string(rig.folder.path().join("log")).unwrap());
    }

    /// The address of the controller of a machine.
    pub fn address(&self, number: usize) -> String {
        let port = self.port;
        let id = uuid(number);
        format!("redfish-virtualmedia://127.0.0.1:{port}/redfish/v1/Systems/{id}")
    }

    /// The path of the certificate it shows, which is its own authority.
    pub fn certificate(&self) -> PathBuf {
        self.rig.folder.path().join("cert.pem")
    }

    /// Powers a machine off as its operating system does. The controller knows nothing of that
    /// before it looks.
    pub fn power_off(&self, number: usize) {
        let path = format!("/redfish/v1/Systems/{}/Actions/ComputerSystem.Reset", uuid(number));
        let login = STANDARD.encode(format!("{USER}:{PASSWORD}"));
        let request = Request {
            method: "POST".into(),
            path,
            headers: vec![("authorization".into(), format!("Basic {login}"))],
            body: "{\"ResetType\": \"ForceOff\"}".into(),
        };
        let answer = forward_request(([127, 0, 0, 1], self.port).into(), &request);
        assert_eq!(answer.status, 204, "{}", String::from_utf8_lossy(&answer.body));
    }

    /// What `sushy`, the reference client, sees of a machine: power, boot target and image, each
    /// `-` if there is none.
    #[expect(clippy::disallowed_methods, reason = "tests run programs")]
    pub fn describe_machine(&self, number: usize) -> String {
        const SCRIPT: &str = "import os, sys, sushy\n\
            from sushy import auth\n\
            base, ca, uuid, user = sys.argv[1:]\n\
            password = os.environ['BMC_PASSWORD']\n\
            root = sushy.Sushy(base, auth=auth.BasicAuth(user, password), verify=ca)\n\
            system = root.get_system('/redfish/v1/Systems/' + uuid)\n\
            media = [medium for medium in system.virtual_media.get_members() if sushy.VIRTUAL_MEDIA_CD in medium.media_types][0]\n\
            print(system.power_state.value, system.boot.target.value if system.boot.target else '-', media.image or '-')\n";
        let scheme = if self.tls { "https" } else { "http" };
        let base = format!("{scheme}://127.0.0.1:{}", self.port);
        let certificate = self.certificate().display().to_string();
        let python = python("python").unwrap();
        let ran = Command::new(python)
            .args(["-c", SCRIPT, &base, &certificate, &uuid(number), USER])
            .env("BMC_PASSWORD", PASSWORD)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
        assert!(ran.status.success(), "{printed}{}", String::from_utf8_lossy(&ran.stderr));
        printed
    }
}

fn certificate_params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).unwrap()
}

/// A certificate for these names that an authority has signed, its key, and the authority; as PEM.
pub fn signed_certificate(names: &[&str]) -> ((String, String), String) {
    let mut authority = certificate_params(&[]);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let certificate = certificate_params(names).signed_by(&key, &issuer).unwrap();
    ((certificate.pem(), key.serialize_pem()), authority_pem)
}

/// A certificate that signs itself, for these names, and its key; as PEM.
pub fn self_signed_certificate(
    names: &[&str],
    change: impl Fn(&mut CertificateParams),
) -> (String, String) {
    let mut params = certificate_params(names);
    params.distinguished_name.push(DnType::CommonName, "bmc");
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}
