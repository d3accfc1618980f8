//! Management controllers on loopback: ipmi_sim, sushy-emulator, and servers of our own. Each ends
//! with the value that stands for it.

use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::sandbox::met;

pub const USER: &str = "admin";
pub const PASSWORD: &str = "s3cret-pass";
/// The password as the emulator has it.
const HTPASSWD: &str = "admin:$2b$04$0wcgefl26Nh/ewbsqHv7l.7sqCSmgaJCFpVWVPaxr7Jt2PkmP.gKG\n";

/// A program that was started, and its folder.
pub struct Rig {
    child: Child,
    pub folder: TempDir,
}

impl Drop for Rig {
    fn drop(&mut self) {
        let child = rustix::process::Pid::from_child(&self.child);
        // It may have ended by itself.
        let _ = rustix::process::kill_process(child, rustix::process::Signal::TERM);
        drop(self.child.wait());
    }
}

impl Rig {
    /// Ends by itself after ten minutes, also if nobody is left to end it.
    #[expect(clippy::disallowed_methods, reason = "tests run programs")]
    pub fn start(folder: TempDir, command_line: &[&str]) -> Self {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "600"]).args(command_line).current_dir(folder.path());
        let log = fs::File::create(folder.path().join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Self { child: command.spawn().unwrap(), folder }
    }
}

#[expect(clippy::disallowed_methods, reason = "waits for a program that was started")]
pub fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}

/// Programs from pip: in the folder that .ci/run makes, or wherever there are.
fn python(name: &str) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/rigs/bin").join(name);
    let there = own.exists();
    met(there, &format!("target/rigs/bin/{name}: .ci/run says how")).then_some(own)
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
        let there =
            Path::new("/usr/bin/ipmi_sim").exists() && Path::new("/usr/bin/ipmitool").exists();
        if !met(there, "ipmi_sim (package openipmi) or ipmitool is not installed") {
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
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("lan.conf", &lan);
        write("pool.emu", EMU);
        write("chassis", CHASSIS);
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

    /// What its machine is: `power`, `boot`; all calls of it.
    pub fn machine(&self, what: &str) -> String {
        let path = self.rig.folder.path().join("machine").join(what);
        fs::read_to_string(path).unwrap_or_default().trim().to_owned()
    }

    /// When it was last told so, in nanoseconds.
    pub fn told(&self, what: &str) -> u128 {
        let calls = self.machine("calls");
        let last = calls.lines().rev().find(|line| line.ends_with(what));
        let last = last.unwrap_or_else(|| panic!("never told `{what}`:\n{calls}"));
        last.split(' ').next().unwrap().parse().unwrap()
    }

    pub fn be(&self, what: &str, value: &str) {
        fs::write(self.rig.folder.path().join("machine").join(what), value).unwrap();
    }
}

/// sushy-emulator with machines that are not there, over TLS or without, with a password.
pub struct Emulator {
    rig: Rig,
    tls: bool,
    pub port: u16,
}

/// The ids of its machines.
pub fn uuid(number: usize) -> String {
    let digit = number.to_string();
    let many = |times| digit.repeat(times);
    format!("{}-{}-4{}-8{}-{}", many(8), many(4), many(3), many(3), many(12))
}

impl Emulator {
    pub fn start(machines: usize, tls: bool) -> Option<Self> {
        let program = python("sushy-emulator")?;
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let (certificate, key) = certificate(&["localhost", "127.0.0.1"], |_| {});
        let system = |at| {
            format!(
                " {{'uuid': '{}', 'name': 'node-{at}', 'power_state': 'Off', 'external_notifier': False, \
                 'nics': [{{'mac':'52:54:00:00:00:0{at}','ip':'192.0.2.1{at}'}}]}},\n",
                uuid(at)
            )
        };
        let systems = (1..=machines).map(system).collect::<Vec<_>>().concat();
        let set = |name: &str, value: &str| format!("SUSHY_EMULATOR_{name} = {value}\n");
        let secure = set("SSL_CERT", "'cert.pem'") + &set("SSL_KEY", "'key.pem'");
        let config = [
            set("LISTEN_IP", "'127.0.0.1'"),
            set("LISTEN_PORT", &port.to_string()),
            if tls { secure } else { String::new() },
            set("AUTH_FILE", "'htpasswd'"),
            set("FAKE_DRIVER", "True"),
            set("STATE_DIR", "'state'"),
            set("FAKE_SYSTEMS", &format!("[\n{systems}]")),
        ]
        .concat();
        let all = [("cert.pem", &*certificate), ("key.pem", &key), ("htpasswd", HTPASSWD)];
        for (name, text) in all.into_iter().chain([("emu.conf", &*config)]) {
            fs::write(folder.path().join(name), text).unwrap();
        }
        fs::create_dir(folder.path().join("state")).unwrap();
        let program = program.display().to_string();
        let rig = Rig::start(folder, &[&program, "--config", "emu.conf"]);
        for _ in 0..300 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(Self { rig, tls, port });
            }
            pause();
        }
        panic!("{}", fs::read_to_string(rig.folder.path().join("log")).unwrap());
    }

    pub fn address(&self, number: usize) -> String {
        let (port, uuid) = (self.port, uuid(number));
        format!("redfish-virtualmedia://127.0.0.1:{port}/redfish/v1/Systems/{uuid}")
    }

    /// The certificate it shows, which is its own authority.
    pub fn certificate(&self) -> PathBuf {
        self.rig.folder.path().join("cert.pem")
    }

    /// What `sushy`, the reference client, finds: power, boot target and image of a machine.
    #[expect(clippy::disallowed_methods, reason = "tests run programs")]
    pub fn seen(&self, number: usize) -> String {
        const LOOK: &str = "import os, sys, sushy\n\
            from sushy import auth\n\
            base, ca, uuid, user = sys.argv[1:]\n\
            password = os.environ['BMC_PASSWORD']\n\
            root = sushy.Sushy(base, auth=auth.BasicAuth(user, password), verify=ca)\n\
            system = root.get_system('/redfish/v1/Systems/' + uuid)\n\
            media = [one for one in system.virtual_media.get_members() if sushy.VIRTUAL_MEDIA_CD in one.media_types][0]\n\
            print(system.power_state.value, system.boot.target.value if system.boot.target else '-', media.image or '-')\n";
        let scheme = if self.tls { "https" } else { "http" };
        let base = format!("{scheme}://127.0.0.1:{}", self.port);
        let certificate = self.certificate().display().to_string();
        let python = python("python").unwrap();
        let ran = Command::new(python)
            .args(["-c", LOOK, &base, &certificate, &uuid(number), USER])
            .env("BMC_PASSWORD", PASSWORD)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
        assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
        said
    }
}

/// A certificate for these names that an authority has signed, its key, and the authority.
pub fn signed(names: &[&str]) -> ((String, String), String) {
    let own = |names: &[&str]| {
        CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
            .unwrap()
    };
    let mut authority = own(&[]);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let (root, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let pem = authority.self_signed(&root).unwrap().pem();
    let issuer = Issuer::new(authority, root);
    let one = own(names).signed_by(&key, &issuer).unwrap();
    ((one.pem(), key.serialize_pem()), pem)
}

/// A certificate that signs itself, for these names, and its key; as PEM.
pub fn certificate(names: &[&str], change: impl Fn(&mut CertificateParams)) -> (String, String) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, "bmc");
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}
