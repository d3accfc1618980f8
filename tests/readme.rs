//! What the quickstart, help and examples promise, tried. The examples of README and of `docs/` are
//! in `chapters`.

use crate::sandbox::Sandbox;

/// Stands in for cargo: what it builds lies only where CARGO_TARGET_DIR says, or else the configuration
/// of the checkout, or else the workspace that it is in.
const CARGO: &str = r#"#!/bin/sh
printf '%s\n' "$*" >>"$HOME/cargo.log"
built=${CARGO_TARGET_DIR:-$(sed -n 's/^target-dir = "\(.*\)"$/\1/p' .cargo/config.toml 2>/dev/null)}
if [ -z "$built" ] && [ -e ../Cargo.toml ]; then built=../target; fi
built=${built:-target}/release
case " $* " in
" build --release --locked ") mkdir -p "$built" && ln -sf "$HOME/built/poolctl" "$built/" ;;
" run --quiet --release --locked -- "*) shift 5 && exec "$built/poolctl" "$@" ;;
*) exit 64 ;;
esac
"#;

/// The script itself, in a checkout of its own: wherever cargo builds, and whatever else PATH has.
#[test]
fn the_quickstart_runs_what_it_has_built() {
    let sandbox = Sandbox::new();
    sandbox.shell("mkdir -p $HOME/bin $HOME/older $HOME/built $HOME/checkout/examples");
    sandbox.write_file("bin/cargo", CARGO);
    sandbox.write_file("older/poolctl", "#!/bin/sh\necho 'an older poolctl' >&2; exit 1\n");
    let prepare = format!(
        "chmod +x $HOME/bin/cargo $HOME/older/poolctl && ln -s {} $HOME/built/poolctl && \
         cp -r examples/quickstart $HOME/checkout/examples/ && cp Cargo.toml $HOME/checkout/",
        crate::sandbox::POOLCTL
    );
    let ran = sandbox.shell(&prepare);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let elsewhere = "printf '[build]\\ntarget-dir = \"%s\"\\n' $HOME/elsewhere";
    let configured =
        format!("mkdir $HOME/checkout/.cargo; {elsewhere} >$HOME/checkout/.cargo/config.toml");
    let in_workspace = "printf '[workspace]\\nmembers = [\"checkout\"]\\n' >$HOME/Cargo.toml";
    for (prepare, environment) in [
        ("true", "PATH=$HOME/bin:/usr/bin:/bin"),
        ("true", "PATH=$HOME/bin:/usr/bin:/bin CARGO_TARGET_DIR=$HOME/elsewhere"),
        ("true", "PATH=$HOME/older:$HOME/bin:/usr/bin:/bin"),
        ("true", "PATH=$HOME/older:$HOME/bin:/usr/bin:/bin CARGO_TARGET_DIR=$HOME/elsewhere"),
        (configured.as_str(), "PATH=$HOME/bin:/usr/bin:/bin"),
        (in_workspace, "PATH=$HOME/older:$HOME/bin:/usr/bin:/bin"),
    ] {
        let clean = "cd $HOME; rm -rf cargo.log elsewhere target Cargo.toml checkout/target checkout/.cargo";
        let script = "sh $HOME/checkout/examples/quickstart/run.sh";
        let ran = sandbox.shell(&format!("{clean}; {prepare}; env {environment} {script}"));
        assert_eq!(ran.code, 0, "{environment}: {}{}", ran.out, ran.err);
        for part in ["/kubeconfig\n", "my-cluster  demo  Running", "claim/my-cluster released"] {
            assert!(ran.out.contains(part), "{environment}: {part}: {}", ran.out);
        }
        // Whoever waits minutes for a build sees how far it is.
        let asked = std::fs::read_to_string(sandbox.path().join("cargo.log")).unwrap();
        assert_eq!(asked.lines().next(), Some("build --release --locked"), "{asked}");
    }
    // An installed program of the same version spares the build.
    let clean = "rm -f $HOME/cargo.log";
    let path = "PATH=$HOME/built:$HOME/bin:/usr/bin:/bin";
    let script = "sh $HOME/checkout/examples/quickstart/run.sh";
    let ran = sandbox.shell(&format!("{clean}; env {path} {script}"));
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("claim/my-cluster released"), "{}", ran.out);
    assert!(!sandbox.path().join("cargo.log").exists());
}

#[test]
fn a_script_for_oc_runs_with_poolctl_as_oc() {
    if !crate::sandbox::has_program("jq") {
        return;
    }
    let sandbox = Sandbox::new();
    let link = "mkdir $HOME/bin; ln -s $(command -v poolctl) $HOME/bin/oc; PATH=$HOME/bin:$PATH";
    let ran = sandbox.shell(&format!("{link}; sh examples/oc/day.sh"));
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for part in ["server: https://api.CLUSTER.lab.example.com:6443", "claimed: ci-17 Running"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(sandbox.ok("get cp,cc,cd -A -o name").is_empty());
}

#[test]
fn the_crontab_line_of_the_documentation_is_the_examples() {
    let chapter = std::fs::read_to_string("docs/lab.md").unwrap();
    let crontab = std::fs::read_to_string("examples/pool/crontab").unwrap();
    let line = crontab.lines().find(|line| !line.starts_with('#')).unwrap();
    assert!(chapter.contains(line));
    let sandbox = Sandbox::new();
    sandbox.ok("pool create demo --fake");
    // cron has no HOME of ours, no terminal and hardly a PATH.
    let state = sandbox.state();
    let cron =
        format!("env -i POOLCTL_STATE={} {} reconcile", state.display(), crate::sandbox::POOLCTL);
    let ran = sandbox.shell(&cron);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
}

#[test]
fn the_crontab_of_the_scaling_example_scales() {
    let sandbox = Sandbox::new();
    sandbox.ok("apply -f examples/scaling");
    let text = std::fs::read_to_string("examples/scaling/crontab").unwrap();
    let jobs: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for (job, size) in jobs.iter().zip(["3", "0"]) {
        let command = job.split(' ').skip(5).collect::<Vec<_>>().join(" ");
        let here = sandbox.state().display().to_string();
        let command = command
            .replace("/var/lib/poolctl/state.db", &here)
            .replace("/usr/local/bin/poolctl", crate::sandbox::POOLCTL);
        let ran = sandbox.shell(&format!("env -i PATH=/usr/bin:/bin {command}"));
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{job}");
        assert_eq!(crate::sandbox::jsonpath(&sandbox, "pool", "{.items[0].spec.size}"), size);
    }
}

#[test]
fn help_fits_one_screen() {
    let help = Sandbox::new().ok("--help");
    assert!(help.lines().count() <= 43, "{help}");
}

/// In a pipe, too, where no terminal tells how wide it is.
#[test]
fn no_help_is_wider_than_a_terminal() {
    let mut waiting = vec![poolctl::commands::tree()];
    let mut wide_lines = Vec::new();
    while let Some(mut command) = waiting.pop() {
        command.build();
        for line in command.render_help().to_string().lines() {
            // A usage is one line, and a word is never cut.
            let is_whole = line.starts_with("Usage: ") || !line.trim_start().contains(' ');
            if line.chars().count() > 80 && !is_whole {
                wide_lines.push(format!("{}: {line}", command.get_name()));
            }
        }
        waiting.extend(command.get_subcommands().cloned());
    }
    assert!(wide_lines.is_empty(), "{}", wide_lines.join("\n"));
}
