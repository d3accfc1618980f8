//! The first hour of somebody new: `init`, help and man pages, `pool create`, and what happens when
//! an older poolctl meets a newer state. Packages are tried in `packages`, examples in `examples`.

use std::collections::BTreeSet;
use std::path::Path;

use crate::sandbox::{Sandbox, has_program};

/// Answers for a pool on vSphere, as a file for `init --from`.
const VSPHERE: &str = "layout: user
schedule: none
platform: vsphere
pool: lab-418
size: 3
baseDomain: lab.example.com
machineNetwork: 192.0.2.0/24
vipStart: 192.0.2.10
vipEnd: 192.0.2.19
vCenter: vcenter.example.com
datacenter: lab
computeCluster: /lab/host/compute
datastore: /lab/datastore/fast
network: machines
";

/// A sandbox whose state is where a user's is: `init` has a choice only without POOLCTL_STATE.
fn home() -> Sandbox {
    let mut sandbox = Sandbox::new();
    let state = sandbox.path().join("state/state.db").display().to_string();
    sandbox.set_variable("POOLCTL_STATE", &state);
    sandbox
}

#[test]
fn init_then_apply_then_claim_is_a_cluster() {
    let sandbox = home();
    let init = sandbox.run("init --layout user --schedule none --platform simulated -y");
    assert_eq!(init.code, 0, "{}{}", init.out, init.err);
    let manifests = sandbox.path().join("state/manifests");
    for line in ["clock", "disk", "file system", "state.db", "lab.yaml"] {
        assert!(init.out.contains(line), "{line}: {}", init.out);
    }
    assert!(init.err.contains("next: poolctl apply -f "), "{}", init.err);
    sandbox.ok(&format!("apply -f {}", manifests.display()));
    let claimed = sandbox.ok("claim lab ci-1 --wait=1m");
    assert!(claimed.contains("claim/ci-1"), "{claimed}");
    assert_eq!(crate::sandbox::jsonpath(&sandbox, "pool/lab", "{.spec.size}"), "2");
}

#[test]
fn init_again_changes_nothing_and_keeps_what_was_edited() {
    let sandbox = home();
    let init = "init --layout user --schedule none --platform simulated -y";
    sandbox.ok(init);
    let manifest = sandbox.path().join("state/manifests/lab.yaml");
    let again = sandbox.run(init);
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(again.err.contains("nothing is left to do"), "{}", again.err);
    assert!(!again.out.contains("to be made"), "{}", again.out);
    std::fs::write(&manifest, "# mine\n").unwrap();
    let after_edit = sandbox.run(init);
    assert_eq!(after_edit.code, 0, "{}", after_edit.err);
    assert!(after_edit.out.contains("kept: it differs"), "{}", after_edit.out);
    assert_eq!(std::fs::read_to_string(&manifest).unwrap(), "# mine\n");
}

#[test]
fn init_says_what_it_would_do_and_does_nothing_unasked() {
    let sandbox = home();
    let options = "init --layout user --schedule none --platform simulated";
    let shown = sandbox.ok(&format!("{options} --dry-run"));
    assert!(shown.contains("to be made"), "{shown}");
    // Without a terminal nobody can agree, so it says what to type.
    let refused = sandbox.refused(2, options, "next: poolctl init --layout user");
    assert!(refused.contains(" -y"), "{refused}");
    assert!(!sandbox.path().join("state").exists());
}

#[test]
fn init_takes_answers_from_a_file_and_names_those_that_are_missing() {
    let sandbox = home();
    let file = sandbox.write_file("answers.yaml", VSPHERE);
    let init = sandbox.run(&format!("init --from {file} --set pool=other -y"));
    assert_eq!(init.code, 0, "{}{}", init.out, init.err);
    assert!(init.err.contains("poolctl secret create vsphere-creds"), "{}", init.err);
    let folder = sandbox.path().join("state/manifests");
    let manifest = std::fs::read_to_string(folder.join("other.yaml")).unwrap();
    assert!(manifest.contains("vCenter: \"vcenter.example.com\""), "{manifest}");
    assert!(manifest.lines().any(|line| line.trim_start().starts_with('#')), "{manifest}");
    assert!(!manifest.contains("${"), "{manifest}");
    let shown = folder.display();
    sandbox.ok(&format!("apply -f {shown} --no-reconcile"));
    sandbox.ok("pool render other");

    for (options, code, message) in [
        ("--platform vsphere", 2, "questions without an answer: baseDomain, machineNetwork"),
        ("--set poool=x", 2, "did you mean `pool`?"),
        ("--set size=many", 2, "`many` is no answer to `size`"),
        ("--set pool", 2, "is not KEY=VALUE"),
        ("--set 'baseDomain=Foo bar'", 2, "separated by dots, such as lab.example.com"),
        ("--set directory=lab", 2, "an absolute path, such as /etc/poolctl"),
        ("--set machineNetwork=10.0.0.1", 2, "a network in CIDR, such as 192.0.2.0/24"),
        ("--set schedule=hourly", 2, "one of cron, timer, none"),
        ("--from FILE --set vipEnd=192.0.2.2", 2, "`192.0.2.2` is no answer to `vipEnd`"),
        ("--platform simulated --set size=0 --dry-run", 0, "size is 0: no cluster is kept ready"),
        (
            "--from FILE --set vipEnd=198.51.100.1",
            2,
            "it is outside of machineNetwork 192.0.2.0/24",
        ),
        ("--from Cargo.lock.absent", 1, "Cargo.lock.absent"),
    ] {
        let options = options.replace("FILE", &file);
        let line = format!("init --layout user --schedule none {options} -y");
        let ran = sandbox.run(&line);
        assert!(ran.code == code || ran.code == 3, "{line}: {}{}", ran.code, ran.err);
        assert!(ran.err.contains(message), "{line}: {}", ran.err);
    }
}

#[test]
fn init_prepares_a_pool_on_every_platform() {
    let network = "--set baseDomain=lab.example.com --set machineNetwork=192.0.2.0/24 \
                   --set vipStart=192.0.2.10 --set vipEnd=192.0.2.19";
    let openstack =
        format!("{network} --set cloud=lab --set externalNetwork=public --set flavor=m1.large");
    for (platform, answers) in
        [("none", ""), ("simulated", ""), ("baremetal", network), ("openstack", &*openstack)]
    {
        let sandbox = home();
        let options = format!("--layout user --schedule none --platform {platform} {answers}");
        sandbox.ok(&format!("init {options} -y"));
        let folder = sandbox.path().join("state/manifests");
        assert_eq!(folder.exists(), platform != "none", "{platform}");
        if folder.exists() {
            sandbox.ok(&format!("apply --no-reconcile -f {}", folder.display()));
            sandbox.ok("pool render lab");
        }
    }
}

#[test]
fn init_adds_its_line_to_a_crontab_once() {
    let sandbox = home();
    std::fs::create_dir(sandbox.path().join("bin")).unwrap();
    sandbox.write_script(
        "bin/crontab",
        "#!/bin/sh\ncase $1 in\n-l) cat \"$HOME/crontab\" ;;\n-) cat >\"$HOME/new\" && mv \"$HOME/new\" \"$HOME/crontab\" ;;\nesac\n",
    );
    sandbox.write_file("crontab", "0 4 * * * /bin/true\n");
    let init =
        "PATH=$HOME/bin:$PATH; poolctl init --layout user --schedule cron --platform none -y";
    for _ in 0..2 {
        let ran = sandbox.shell(init);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let crontab = std::fs::read_to_string(sandbox.path().join("crontab")).unwrap();
        assert_eq!(crontab.lines().count(), 2, "{crontab}");
        assert!(crontab.starts_with("0 4 * * * /bin/true\n* * * * * POOLCTL_STATE="), "{crontab}");
        assert!(crontab.ends_with(" reconcile\n"), "{crontab}");
    }
    // What it has added runs as cron runs it.
    let line = "sh -c \"env -i $(tail -1 $HOME/crontab | cut -d' ' -f6-)\"";
    let ran = sandbox.shell(line);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
}

#[test]
fn init_quotes_paths_and_answers_wherever_it_writes_them() {
    let mut sandbox = Sandbox::new();
    let state = sandbox.path().join("my state/100%/state.db").display().to_string();
    sandbox.set_variable("POOLCTL_STATE", &state);
    std::fs::create_dir(sandbox.path().join("bin")).unwrap();
    sandbox.write_script(
        "bin/crontab",
        "#!/bin/sh\ncase $1 in\n-l) cat \"$HOME/crontab\" ;;\n-) cat >\"$HOME/new\" && mv \"$HOME/new\" \"$HOME/crontab\" ;;\nesac\n",
    );
    sandbox.write_file("crontab", "");
    let answers = VSPHERE
        .replace("datacenter: lab\n", "datacenter: 'O''Brien''s \"lab\" #1'\n")
        .replace("network: machines\n", "network: 'VM Network ${pool}'\n")
        .replace("schedule: none\n", "schedule: cron\n");
    sandbox.write_file("answers.yaml", &answers);
    let init = "PATH=$HOME/bin:$PATH; poolctl init --from $HOME/answers.yaml";
    // What is to be typed again can be typed.
    let refused = sandbox.shell(&format!("{init} --set \"datastore=a 'b'\""));
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains(r"--set 'datastore=a '\''b'\'''"), "{}", refused.err);
    let ran = sandbox.shell(&format!("{init} -y"));
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    // cron takes a percent sign for the end of the line unless a backslash stands before it.
    let line = r"cut -d' ' -f6- $HOME/crontab | sed 's/\\%/%/g' >$HOME/line; env -i sh $HOME/line";
    let passed = sandbox.shell(line);
    assert_eq!((passed.code, passed.err.as_str()), (0, ""), "{}", passed.out);
    let advice = ran.err.lines().find_map(|line| line.strip_prefix("next: poolctl apply -f "));
    let advice = advice.unwrap_or_else(|| panic!("{}", ran.err));
    assert!(advice.starts_with('\''), "{advice}");
    let applied = sandbox.shell(&format!("poolctl apply --no-reconcile -f {advice}"));
    assert_eq!(applied.code, 0, "{}", applied.err);
    let path = "{.spec.platform.vsphere.datacenter}|{.spec.platform.vsphere.network}";
    let written = crate::sandbox::jsonpath(&sandbox, "pool/lab-418", path);
    assert_eq!(written, "O'Brien's \"lab\" #1|VM Network ${pool}");
}

#[test]
fn init_writes_units_of_a_user() {
    let sandbox = home();
    sandbox.ok("init --layout user --schedule timer --platform none --dry-run");
    if Path::new("/run/systemd/system").exists() {
        // Enabling a timer here would run passes on this machine.
        return;
    }
    let ran = sandbox.run("init --layout user --schedule timer --platform none -y");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("next: systemctl --user enable --now poolctl.timer"), "{}", ran.err);
    let units = sandbox.path().join(".config/systemd/user");
    let service = std::fs::read_to_string(units.join("poolctl.service")).unwrap();
    assert!(service.contains(crate::sandbox::POOLCTL), "{service}");
    assert!(!service.contains("User=") && !service.contains("/var/lib/poolctl"), "{service}");
    assert!(units.join("poolctl.timer").exists());
}

#[test]
fn every_command_has_a_man_page_with_its_example() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("man");
    sandbox.ok(&format!("__man {}", folder.display()));
    let mut pages: BTreeSet<String> = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        pages.insert(entry.unwrap().file_name().into_string().unwrap());
    }
    let mut waiting = vec![("poolctl".to_owned(), poolctl::commands::tree())];
    while let Some((name, mut command)) = waiting.pop() {
        command.build();
        let page = format!("{name}.1");
        assert!(pages.remove(&page), "there is no {page}");
        let text = std::fs::read_to_string(folder.join(&page)).unwrap();
        assert!(text.starts_with(".\\\" ") && text.contains("\n.SH NAME\n"), "{page}");
        if !command.has_subcommands() {
            assert!(text.contains("\n.SH EXAMPLE\n"), "{page}: {text}");
        }
        for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            waiting.push((format!("{name}-{}", subcommand.get_name()), subcommand.clone()));
        }
    }
    assert!(pages.is_empty(), "{pages:?}");
    for verb in ["import", "export", "init", "reconcile", "claim"] {
        let page = std::fs::read_to_string(folder.join(format!("poolctl-{verb}.1"))).unwrap();
        assert!(page.contains("\n.SH DESCRIPTION\n") && page.contains("\n.PP\n"), "{verb}: {page}");
        // Options of every command are on the first page of help, and only there.
        let help = sandbox.ok(&format!("{verb} --help"));
        assert!(!help.contains("--lock-timeout"), "{help}");
        assert!(help.contains("`poolctl --help` lists the options of every command."), "{help}");
    }
    assert!(sandbox.ok("--help").contains("--lock-timeout"));
    if has_program("man") {
        let script = format!(
            "for page in {}/*.1; do man --warnings=w -l $page 2>&1 >/dev/null | grep -v break; done; true",
            folder.display()
        );
        let ran = sandbox.shell(&script);
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
    }
}

#[test]
fn every_argument_is_described() {
    let mut waiting = vec![("poolctl".to_owned(), poolctl::commands::tree())];
    let mut undescribed = Vec::new();
    while let Some((name, mut command)) = waiting.pop() {
        command.build();
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            if argument.get_help().is_none() {
                undescribed.push(format!("{name}: {}", argument.get_id()));
            }
        }
        for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            waiting.push((format!("{name} {}", subcommand.get_name()), subcommand.clone()));
        }
    }
    assert!(undescribed.is_empty(), "{undescribed:#?}");
}

/// An install-config that needs nothing but the pool's platform.
const TEMPLATE: &str = "apiVersion: v1
metadata: {}
controlPlane: {name: master, replicas: 3}
compute: [{name: worker, replicas: 0}]
platform: {}
";
const RELEASE: &str = "apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: ocp}
spec: {releaseImage: 'example.com/ocp:4.18'}
";
const ON_VSPHERE: &str = "pool create real --base-domain example.com --image-set ocp --platform \
    vsphere --credentials vc --certificates vc --vcenter vc.example.com --datacenter lab \
    --datastore fast --compute-cluster compute --network machines --pull-secret pull --size 0";

#[test]
fn a_pool_that_could_make_no_cluster_is_not_created() {
    let sandbox = Sandbox::new();
    let template = sandbox.write_file("install-config.yaml", TEMPLATE);
    for (options, code, message) in [
        ("", 2, "--platform"),
        ("--platform none", 1, "a pool of hosts needs platform agentBareMetal"),
        ("--platform none", 1, "next: --platform agentBareMetal --agent-selector LABEL=VALUE"),
        ("--platform baremetal", 1, "a pool of hosts needs platform agentBareMetal"),
        ("--platform vsphere", 1, "next: add --credentials, --certificates, --vcenter"),
        ("--platform vspere", 2, "did you mean `vsphere`?"),
        ("--platform vsphere", 1, "spec.platform.vsphere.credentialsSecretRef.name"),
        ("--platform openstack --vcenter x", 2, "an option is not one of platform `openstack`"),
        ("--platform openstack --cloud lab --credentials os", 1, "secrets \"os\" not found"),
        ("--platform agentBareMetal --agent-selector rack", 2, "is not LABEL=VALUE"),
        ("--platform agentBareMetal --agent-selector rack=7", 2, "add --install-config FILE"),
        (
            "--platform agentBareMetal --agent-selector rack=7 --install-config TEMPLATE",
            1,
            "cluster image set",
        ),
    ] {
        let options = options.replace("TEMPLATE", &template);
        let line = format!("pool create x --base-domain example.com --image-set ocp {options}");
        sandbox.refused(code, &line, message);
    }
    crate::sandbox::apply(&sandbox, RELEASE);
    // What is asked for first is not of a platform that poolctl cannot install then.
    let line = "pool create x --base-domain example.com --image-set ocp --platform baremetal";
    sandbox.refused(1, line, "next: --platform agentBareMetal --agent-selector LABEL=VALUE");
    assert_eq!(sandbox.ok("get pool,secret -o name"), "");
}

#[test]
fn a_pool_on_vsphere_is_created_by_options() {
    let sandbox = Sandbox::new();
    let missing = sandbox.refused(1, ON_VSPHERE, "pool `real` could make no cluster");
    for name in ["\"ocp\"", "\"vc\"", "\"pull\""] {
        assert!(missing.contains(name), "{name}: {missing}");
    }
    crate::sandbox::apply(&sandbox, RELEASE);
    let file = sandbox.write_file("value", "{}");
    sandbox.ok(&format!("secret create vc --from-file=username={file} -q"));
    sandbox.ok(&format!("secret create pull --from-file=.dockerconfigjson={file} -q"));
    let template = TEMPLATE.replace("platform: {}", "platform: {vsphere: {apiVIPs: [nowhere]}}");
    let template = sandbox.write_file("install-config.yaml", &template);
    let next = "next: correct these fields where they are written, then run the command again";
    sandbox.refused(1, &format!("{ON_VSPHERE} --install-config {template}"), next);
    sandbox.ok(ON_VSPHERE);
    let platform = crate::sandbox::jsonpath(&sandbox, "pool/real", "{.spec.platform.vsphere}");
    for part in ["\"vCenter\"", "\"defaultDatastore\"", "vc.example.com"] {
        assert!(platform.contains(part), "{part}: {platform}");
    }
    assert_eq!(
        crate::sandbox::condition_field(&sandbox, "pool/real", "MissingDependencies", "status"),
        "False"
    );
}

#[test]
fn a_dry_run_of_pool_create_prints_manifests_that_apply_takes() {
    let sandbox = Sandbox::new();
    let template = sandbox.write_file("install-config.yaml", TEMPLATE);
    let manifests =
        sandbox.ok(&format!("{ON_VSPHERE} --install-config {template} --dry-run=client -o yaml"));
    assert!(
        manifests.contains("vc.example.com") && manifests.contains("stringData"),
        "{manifests}"
    );
    assert!(!sandbox.state().exists());
    let fake = sandbox.ok("pool create demo --fake --size 1 --dry-run=client -o yaml");
    assert!(!fake.contains("status:") && !fake.contains("uid:"), "{fake}");
    for (name, text) in [("real.yaml", &manifests), ("demo.yaml", &fake)] {
        let path = sandbox.write_file(name, text);
        sandbox.ok(&format!("apply -f {path}"));
    }
    sandbox.ok("claim demo ci --wait=1m");
    let shown = sandbox.ok("pool create other --fake --dry-run=client");
    assert!(shown.contains("clusterpool/other created (dry run)"), "{shown}");
}

#[test]
fn a_state_that_is_newer_names_the_copy_from_before_its_upgrade() {
    let sandbox = crate::migrations::earlier(5);
    sandbox.ok("label imgset ocp migrated=yes -q --no-reconcile");
    let copy = sandbox.path().join("state.db.schema-5");
    assert!(copy.exists());
    let connection = rusqlite::Connection::open(sandbox.state()).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    for command in ["get pool", "reconcile"] {
        let refused = sandbox.refused(8, command, "was written by a newer poolctl");
        assert!(refused.contains("it has schema 99"), "{refused}");
        let advice = format!("to look at the copy: poolctl --state {} status", copy.display());
        assert!(refused.contains(&advice), "{refused}");
    }
    drop(connection);
    sandbox.ok(&format!("--state {} status", copy.display()));
}

#[test]
fn init_makes_the_path_of_a_state_whole_for_passes_that_start_elsewhere() {
    let sandbox = Sandbox::new();
    let init = "poolctl --state here/s.db init --layout user --schedule none --platform none";
    let ran = sandbox.shell(&format!("cd $HOME && {init} --dry-run"));
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let state = sandbox.path().join("here/s.db").display().to_string();
    assert!(ran.out.contains(&format!("state {state} ")), "{}", ran.out);
}

#[test]
fn what_is_typed_next_names_the_state_that_was_given() {
    let sandbox = Sandbox::new();
    let option = "--state 'their own.db'";
    let folder = sandbox.path().display();
    let run = |line: &str| sandbox.shell(&format!("cd {folder} && poolctl {option} {line}"));
    assert_eq!(run("ippool create lan --range 10.0.0.1-10.0.0.2 -q").code, 0);
    let hint = run("status");
    let next = format!("next: poolctl {option} pool create demo --fake");
    assert!(hint.err.contains(&next), "{}{}", hint.out, hint.err);
    assert_eq!(run("pool create lab --fake --size 1 -q").code, 0);
    for line in [
        "get pool nowhere",
        "-n there describe ippool lan",
        "get pod",
        "claim lab ci-1",
        "why pool/lab",
        "describe pool lab",
    ] {
        let ran = run(line);
        let shown = format!("{}{}", ran.out, ran.err);
        let steps: Vec<&str> =
            shown.lines().filter(|line| line.to_lowercase().contains("next: ")).collect();
        assert!(!steps.is_empty(), "{line}: {shown}");
        for step in steps {
            assert!(step.contains(&format!("poolctl {option} ")), "{line}: {step}");
        }
    }
    // Where no state was given, none is named.
    sandbox.ok("pool create lab --fake --size 0 -q");
    let refused = sandbox.refused(3, "get pool nowhere", "next: poolctl get ");
    assert!(!refused.contains("--state"), "{refused}");
}

#[test]
fn the_changelog_is_of_this_version_and_says_what_an_operator_must_do() {
    let changelog = std::fs::read_to_string("docs/CHANGELOG.md").unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let newest = changelog.lines().find(|line| line.starts_with("## ")).unwrap();
    assert!(newest.starts_with(&format!("## {version}")), "{newest}");
    let sections = changelog.split("\n## ").skip(1);
    for section in sections {
        assert!(section.contains("### What you must do"), "{section}");
    }
    let shown = Sandbox::new().ok("version");
    assert!(shown.contains(version), "{shown}");
    let (_, schema) = shown.trim_end().trim_end_matches(')').split_once("state schema ").unwrap();
    let newest_section = changelog.split("\n## ").nth(1).unwrap();
    assert!(newest_section.contains(&format!("migrates it to schema {schema},")), "{schema}");
}
