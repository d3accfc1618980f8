//! The packages of `examples/release`: built of this program, installed into a root that is thrown
//! away, used, upgraded over an older one with a state of an older schema, and removed.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::sandbox::{POOLCTL, Ran, Sandbox, has_program, is_met_or_skipped, is_root};

/// When the state of the older schema was written.
const THEN: &str = "2026-03-02T11:06:00Z";

/// A folder with packages, and a root that nothing is installed in yet.
struct Machine {
    sandbox: Sandbox,
}

impl Machine {
    /// `None` where the test cannot run.
    fn new() -> Option<Self> {
        let may_own_files = is_met_or_skipped(is_root(), "only root can make an account");
        let has_programs = ["dpkg", "dpkg-deb", "systemd-sysusers", "strip", "python3", "setpriv"]
            .into_iter()
            .all(has_program);
        if !may_own_files || !has_programs {
            return None;
        }
        let machine = Self { sandbox: Sandbox::new() };
        let root = machine.root();
        let root = root.display();
        machine.ok(&format!(
            "umask 022; chmod 755 $HOME
            mkdir -p {root}/var/lib/dpkg/info {root}/var/lib/dpkg/updates {root}/etc
            touch {root}/var/lib/dpkg/status {root}/var/lib/dpkg/available
            cp /etc/passwd /etc/group {root}/etc/"
        ));
        Some(machine)
    }

    fn root(&self) -> PathBuf {
        self.sandbox.path().join("root")
    }

    fn ok(&self, script: &str) -> Ran {
        let ran = self.sandbox.shell(&format!("set -e\n{script}"));
        assert_eq!(ran.code, 0, "{script}: {}{}", ran.out, ran.err);
        ran
    }

    /// The folder in which the packages of each of two versions are, in a folder named after it. They are
    /// built once for all tests, because to compress a program that is not optimized takes most of the
    /// time.
    fn packages(&self) -> &'static Path {
        static PACKAGES: OnceLock<PathBuf> = OnceLock::new();
        PACKAGES.get_or_init(|| {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
            let path = folder.display();
            self.ok(&format!(
                "umask 022; rm -rf {path}; mkdir -p {path}; strip -o {path}/program {POOLCTL}"
            ));
            for version in ["0.1.9", "0.2.0"] {
                self.build(version, &folder.join("program"), &folder.join(version));
            }
            folder
        })
    }

    /// Builds the packages of a version of a program into a folder.
    fn build(&self, version: &str, program: &Path, folder: &Path) {
        self.ok(&format!(
            "sh examples/release/build.sh --binary {} --version {version} --out {}",
            program.display(),
            folder.display()
        ));
    }

    fn install(&self, version: &str) {
        let root = self.root();
        self.ok(&format!(
            "dpkg --root={} --force-depends --force-script-chrootless -i \
             {}/{version}/poolctl_{version}_amd64.deb",
            root.display(),
            self.packages().display()
        ));
    }

    /// Runs the program of the package as its account, with the state of the package.
    fn as_account(&self, command: &str) -> Ran {
        let root = self.root();
        let root = root.display();
        self.ok(&format!(
            "id=$(sed -n 's/^poolctl:[^:]*:\\([0-9]*\\):.*/\\1/p' {root}/etc/passwd)
            setpriv --reuid=$id --regid=$id --clear-groups env -i PATH=/usr/bin:/bin \
            POOLCTL_NOW={THEN} POOLCTL_STATE={root}/var/lib/poolctl/state.db \
            {root}/usr/bin/poolctl {command}"
        ))
    }
}

#[test]
fn a_package_is_installed_used_upgraded_and_removed_and_the_state_is_kept() {
    let Some(machine) = Machine::new() else { return };
    machine.install("0.1.9");
    let root = machine.root();
    for file in [
        "usr/bin/poolctl",
        "usr/lib/systemd/system/poolctl.service",
        "usr/lib/systemd/system/poolctl.timer",
        "usr/lib/systemd/system/poolctl-backup.timer",
        "usr/share/man/man1/poolctl-claim.1.gz",
        "usr/share/bash-completion/completions/poolctl",
        "etc/sudoers.d/poolctl",
    ] {
        assert!(root.join(file).is_file(), "{file}");
    }
    // As a stranger does: a pool, a pass of the service, a claim.
    let service =
        std::fs::read_to_string(root.join("usr/lib/systemd/system/poolctl.service")).unwrap();
    let pass = service.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    assert_eq!(pass, "/usr/bin/poolctl reconcile");
    // No unit and no chapter names the program where the package does not have it.
    machine.ok(&format!(
        "cd {}; if grep -r --exclude-dir=release /usr/local/bin/poolctl usr/share/doc usr/lib etc; \
         then exit 1; fi; mkdir -p etc/cron.d; touch etc/cron.d/poolctl",
        root.display()
    ));
    machine.ok(&format!(
        "PATH={0}/usr/bin:/usr/bin:/bin; sh {0}/usr/share/doc/poolctl/examples/quickstart/run.sh",
        root.display()
    ));
    machine.as_account("pool create demo --fake --size 1 --running-count 1 -q");
    machine.as_account("reconcile");
    let claimed = machine.as_account("claim demo ci --wait=1m -q");
    assert_eq!(claimed.out, "ci\n");

    // A state of an older schema survives the upgrade.
    let state = root.join("var/lib/poolctl/state.db");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/state-5.db");
    machine.ok(&format!(
        "cd {}; rm -rf ./state.db* jobs clusters; cp {} state.db
        install -m 600 /dev/null state.db.lock; chmod 600 state.db
        chown --reference=. state.db*",
        state.parent().unwrap().display(),
        fixture.display()
    ));
    machine.install("0.2.0");
    let pools = machine.as_account("get pool -A -o name").out;
    assert!(pools.contains("clusterpool/"), "{pools}");
    machine.as_account("label imgset ocp upgraded=yes -q --no-reconcile");
    assert!(state.with_file_name("state.db.schema-5").is_file());

    for option in ["-r", "-P"] {
        let root = root.display();
        machine.ok(&format!(
            "dpkg --root={root} --force-depends --force-script-chrootless {option} poolctl"
        ));
        assert!(state.is_file(), "{option}");
    }
    assert!(!root.join("usr/bin/poolctl").exists());
    assert!(!root.join("etc/cron.d/poolctl").exists(), "cron would look for the program");
}

#[test]
fn the_same_program_makes_the_same_packages_and_the_sums_are_theirs() {
    let Some(machine) = Machine::new() else { return };
    let packages = machine.packages();
    let first = packages.join("0.2.0");
    machine.ok("sleep 1");
    machine.build("0.2.0", &packages.join("program"), &machine.sandbox.path().join("again"));
    machine.ok(&format!(
        "cd {}; cmp SHA256SUMS $HOME/again/SHA256SUMS; sha256sum -c --quiet SHA256SUMS",
        first.display()
    ));
    let sbom = std::fs::read_to_string(first.join("poolctl-0.2.0.cdx.json"));
    let sbom: serde_json::Value = serde_json::from_str(&sbom.unwrap()).unwrap();
    assert_eq!(sbom["metadata"]["component"]["name"], "poolctl");
    let lock = std::fs::read_to_string("Cargo.lock").unwrap();
    let components = sbom["components"].as_array().unwrap().len();
    assert_eq!(components + 1, lock.matches("[[package]]").count());
}

#[test]
fn the_services_are_sandboxed() {
    if !has_program("systemd-analyze") {
        return;
    }
    let sandbox = Sandbox::new();
    for name in ["poolctl.service", "poolctl-backup.service"] {
        let unit = std::fs::read_to_string(format!("examples/systemd/{name}")).unwrap();
        // The program must exist where the unit is judged.
        let unit = unit.replace("/usr/local/bin/poolctl", "/bin/true");
        let path = sandbox.write_file(name, &unit);
        // Of 100; a service without any sandbox has 96.
        let ran = sandbox.shell(&format!(
            "systemd-analyze security --no-pager --offline=true --threshold=30 {path}"
        ));
        assert_eq!(ran.code, 0, "{name}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn an_rpm_is_installed_upgraded_and_removed_and_what_is_not_its_own_is_kept() {
    if !["rpm", "rpmbuild"].into_iter().all(has_program) {
        return;
    }
    let Some(machine) = Machine::new() else { return };
    let root = machine.root();
    let packages = machine.packages().display();
    let rpm = format!("rpm --root {} --noscripts --nodeps", root.display());
    machine.ok(&format!("rpm --root {} --initdb", root.display()));
    machine.ok(&format!("{rpm} -i {packages}/0.1.9/poolctl-0.1.9-1.x86_64.rpm"));
    for file in [
        "usr/bin/poolctl",
        "usr/lib/systemd/system/poolctl.timer",
        "usr/lib/sysusers.d/poolctl.conf",
        "usr/share/man/man1/poolctl-claim.1.gz",
        "usr/share/zsh/site-functions/_poolctl",
    ] {
        assert!(root.join(file).is_file(), "{file}");
    }
    let sudoers = root.join("etc/sudoers.d/poolctl");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&sudoers).unwrap());
    assert_eq!(mode & 0o7777, 0o440);
    // What an administrator has written, and a state of an older schema.
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/state-5.db");
    machine.ok(&format!(
        "echo '# ours' >>{}; mkdir -p {root}/var/lib/poolctl; cp {} {root}/var/lib/poolctl/state.db
        chmod 600 {root}/var/lib/poolctl/state.db
        install -m 600 /dev/null {root}/var/lib/poolctl/state.db.lock",
        sudoers.display(),
        fixture.display(),
        root = root.display()
    ));
    machine.ok(&format!("{rpm} -U {packages}/0.2.0/poolctl-0.2.0-1.x86_64.rpm"));
    assert!(std::fs::read_to_string(&sudoers).unwrap().ends_with("# ours\n"));
    let state = root.join("var/lib/poolctl/state.db");
    let poolctl = format!(
        "env -i HOME=$HOME PATH=/usr/bin:/bin POOLCTL_NOW={THEN} POOLCTL_STATE={} \
         {}/usr/bin/poolctl",
        state.display(),
        root.display()
    );
    let pools = machine.ok(&format!("{poolctl} get pool -A -o name")).out;
    assert!(pools.contains("clusterpool/"), "{pools}");
    machine.ok(&format!("{poolctl} label imgset ocp upgraded=yes -q --no-reconcile"));
    assert!(state.with_file_name("state.db.schema-5").is_file());
    // The account and its folders are made by what systemd reads in the package.
    let query = format!("rpm -qp --scripts {packages}/0.2.0/poolctl-0.2.0-1.x86_64.rpm");
    let scripts = machine.ok(&format!("{query} 2>/dev/null")).out;
    for line in ["systemd-sysusers poolctl.conf", "systemd-tmpfiles --create poolctl.conf"] {
        assert!(scripts.contains(line), "{line}: {scripts}");
    }
    machine.ok(&format!("rpm --root {} --noscripts -e poolctl", root.display()));
    assert!(!root.join("usr/bin/poolctl").exists());
    assert!(state.is_file());
}
