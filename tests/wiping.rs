//! Disks of hosts that come back: which are wiped and when, the script that does it on files in the
//! place of disks, and the image that a controller boots for it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use poolctl::model::host::wipe::{WipeState, WrittenDisk};
use poolctl::model::host::{BareMetalHost, HostPower};
use poolctl::model::infra_env::InfraEnv;
use poolctl::model::job::{HostReport, Job, JobOutcome, JobReport, Verb};
use poolctl::model::meta::{Key, Meta};
use poolctl::model::pool::ClusterPool;
use poolctl::model::state::State;
use poolctl::plan;
use serde_json::{Value, json};

use crate::fixture::NAMESPACE;
use crate::given_back::{ADDRESS, delete_cluster, later, live_job, running_node, settle};
use crate::lab::Lab;
use crate::machines::{host_status, reconcile_until};
use crate::rack::{Rack, cluster, state_of};
use crate::sandbox::{Sandbox, apply, has_program, jsonpath};
use crate::served::Server;

const SCRIPT: &str = "src/render/wipe/wipe.sh";
/// The size of a file in the place of a disk.
const SIZE: u64 = 8 << 20;
/// Where a file has data that no wipe but a full one touches.
const DATA: u64 = 5 << 20;
const MAC: &str = "52:54:00:00:00:01";

/// Files in the place of disks, and a machine that has them.
struct Disks {
    sandbox: Sandbox,
}

impl Disks {
    fn new() -> Option<Self> {
        if !["jq", "wipefs", "bash"].into_iter().all(has_program) {
            return None;
        }
        let disks = Self { sandbox: Sandbox::new() };
        for name in ["a", "b", "c"] {
            disks.write_disk(name);
        }
        // A partition with the signature of an encrypted disk.
        let mut part = b"LUKS\xba\xbe\x00\x01".to_vec();
        part.resize(usize::try_from(SIZE).unwrap(), 0);
        fs::write(disks.sandbox.path().join("part"), part).unwrap();
        fs::create_dir_all(disks.sandbox.path().join("net/eth0")).unwrap();
        fs::create_dir_all(disks.sandbox.path().join("tools")).unwrap();
        disks.sandbox.write_file("net/eth0/address", &format!("{MAC}\n"));
        let mut children = Vec::new();
        for label in ["boot", "root", "EFI-SYSTEM"] {
            children.push(json!({"name": disks.path("part"), "type": "part", "partlabel": label}));
        }
        disks.set_partitions(&[("a", children.into())]);
        let list = disks.path("lsblk.json");
        disks.sandbox.write_script("tools/lsblk", &format!("#!/bin/sh\ncat {list}\n"));
        let told = disks.path("told");
        disks.sandbox.write_script("tools/systemctl", &format!("#!/bin/sh\necho $1 >>{told}\n"));
        Some(disks)
    }

    /// Lets these disks have these partitions, as lsblk lists them, and the others none.
    fn set_partitions(&self, partitions: &[(&str, Value)]) {
        let mut list = Vec::new();
        for (name, transport) in [("a", "sata"), ("b", "fc"), ("c", "nvme")] {
            let mut disk = json!({"name": self.path(name), "type": "disk", "wwn": null,
                "serial": format!("S-{name}"), "tran": transport, "partlabel": null});
            for (_, children) in partitions.iter().filter(|(disk, _)| *disk == name) {
                disk["children"] = children.clone();
            }
            list.push(disk);
        }
        let list = json!({"blockdevices": list}).to_string();
        self.sandbox.write_file("lsblk.json", &list);
    }

    fn path(&self, name: &str) -> String {
        self.sandbox.path().join(name).display().to_string()
    }

    /// A file with the marks of a partition table and some data.
    fn write_disk(&self, name: &str) {
        let file = File::create(self.sandbox.path().join(name)).unwrap();
        file.set_len(SIZE).unwrap();
        file.write_all_at(&[0x55, 0xaa], 510).unwrap();
        file.write_all_at(b"EFI PART", 512).unwrap();
        file.write_all_at(b"EFI PART", SIZE - 512).unwrap();
        file.write_all_at(b"data", DATA).unwrap();
    }

    /// Whether the partition table and the data of a disk are there.
    fn table_and_data(&self, name: &str) -> (bool, bool) {
        let bytes = fs::read(self.sandbox.path().join(name)).unwrap();
        let data = usize::try_from(DATA).unwrap();
        (bytes[512..520] == *b"EFI PART", bytes[data..data + 4] == *b"data")
    }

    /// Whether the partition has its signature.
    fn has_signature(&self) -> bool {
        fs::read(self.sandbox.path().join("part")).unwrap().starts_with(b"LUKS")
    }

    /// Runs the script; says whether the machine powers itself off, and what it prints.
    fn wipe(&self, method: &str, mac: &str, disks: &Value) -> (bool, String) {
        drop(fs::remove_file(self.sandbox.path().join("told")));
        let config = json!({"method": method, "macs": [mac], "disks": disks}).to_string();
        let config = self.sandbox.write_file("config.json", &config);
        let ran = self.sandbox.shell(&format!(
            "PATH=$HOME/tools:$PATH POOLCTL_WIPE_INTERFACES=$HOME/net bash {SCRIPT} {config}"
        ));
        let told = fs::read_to_string(self.sandbox.path().join("told")).unwrap_or_default();
        (told == "poweroff\n", ran.err)
    }
}

/// The partitions of a disk that half of an installation is on, as `boot_device.mirror` makes them,
/// and further ones that are in no array.
fn half_of_mirror(disks: &Disks, further_partitions: &[&str]) -> Value {
    let part = disks.path("part");
    let mut partitions = Vec::new();
    for label in ["bios-1", "esp-1"].iter().chain(further_partitions) {
        partitions.push(json!({"name": part, "type": "part", "partlabel": label}));
    }
    for label in ["boot-1", "root-1"] {
        let array = json!({"name": disks.path("array"), "type": "raid1"});
        partitions.push(json!({"name": part, "type": "part", "partlabel": label,
            "fstype": "linux_raid_member", "uuid": format!("uuid of {label}"),
            "children": [array]}));
    }
    partitions.into()
}

const UNTOUCHED: (bool, bool) = (true, true);

#[test]
fn a_quick_wipe_clears_the_tables_of_the_disk_that_was_written_and_nothing_else() {
    let Some(disks) = Disks::new() else { return };
    let (is_off, printed) = disks.wipe("quick", MAC, &json!([{"serial": "S-c"}]));
    assert!(is_off, "{printed}");
    assert_eq!(disks.table_and_data("c"), (false, true));
    for name in ["a", "b"] {
        assert_eq!(disks.table_and_data(name), UNTOUCHED, "{name}");
    }
    assert!(disks.has_signature());
    // Nobody knows which disk was written: it is the one with the partitions of an installation.
    let (is_off, printed) = disks.wipe("quick", &MAC.to_uppercase(), &json!([]));
    assert!(is_off, "{printed}");
    assert_eq!(disks.table_and_data("a"), (false, true));
    // The signatures in its partitions are cleared, too.
    assert!(!disks.has_signature());
    assert_eq!(disks.table_and_data("b"), UNTOUCHED);
}

#[test]
fn a_full_wipe_overwrites_the_disk() {
    let Some(disks) = Disks::new() else { return };
    let (is_off, printed) = disks.wipe("full", MAC, &json!([{"path": disks.path("c")}]));
    assert!(is_off, "{printed}");
    let bytes = fs::read(disks.sandbox.path().join("c")).unwrap();
    assert!(bytes.len() as u64 == SIZE && bytes.iter().all(|byte| *byte == 0));
    assert_eq!(disks.table_and_data("a"), UNTOUCHED);
}

#[test]
fn another_machine_a_shared_disk_and_a_disk_that_is_not_there_are_left_alone() {
    let Some(disks) = Disks::new() else { return };
    for (mac, wanted, why) in [
        ("52:54:00:00:00:02", json!([{"serial": "S-a"}]), "another machine"),
        (MAC, json!([{"serial": "S-a"}, {"serial": "S-b"}]), "may be shared"),
        (MAC, json!([{"serial": "S-a"}, {"serial": "S-d"}]), "is not there"),
    ] {
        let (is_off, printed) = disks.wipe("quick", mac, &wanted);
        assert!(!is_off && printed.contains(why), "{why}: {printed}");
        for name in ["a", "b", "c"] {
            assert_eq!(disks.table_and_data(name), UNTOUCHED, "{why}: {name}");
        }
        assert!(disks.has_signature(), "{why}");
    }
}

/// The other half stayed, and the machine would have booted what the cluster had left there.
#[test]
fn both_halves_of_a_mirror_are_wiped_or_none() {
    let Some(disks) = Disks::new() else { return };
    let stopped = disks.path("stopped");
    let mdadm = format!("#!/bin/sh\necho \"$@\" >>{stopped}; rm {}\n", disks.path("array"));
    disks.sandbox.write_script("tools/mdadm", &mdadm);
    // The disk that the installer was told, or none that anybody knows.
    for wanted in [json!([{"serial": "S-a"}]), json!([])] {
        disks.sandbox.write_file("array", "");
        for name in ["a", "c"] {
            disks.write_disk(name);
        }
        let half = half_of_mirror(&disks, &[]);
        disks.set_partitions(&[("a", half.clone()), ("c", half)]);
        let (is_off, printed) = disks.wipe("quick", MAC, &wanted);
        assert!(is_off, "{wanted}: {printed}");
        for name in ["a", "c"] {
            assert_eq!(disks.table_and_data(name), (false, true), "{wanted}: {name}");
        }
        assert_eq!(disks.table_and_data("b"), UNTOUCHED);
        let stopped = fs::read_to_string(&stopped).unwrap();
        assert!(stopped.contains(&format!("--stop {}", disks.path("array"))), "{stopped}");
    }
}

#[test]
fn a_mirror_with_something_else_on_it_and_one_of_two_installations_are_left_alone() {
    let Some(disks) = Disks::new() else { return };
    let half = half_of_mirror(&disks, &[]);
    let half_and_data = half_of_mirror(&disks, &["data"]);
    let installed = |label: &str| {
        let labels = ["boot", "root", "EFI-SYSTEM", label];
        let partitions = labels
            .map(|label| json!({"name": disks.path("part"), "type": "part", "partlabel": label}));
        json!(partitions)
    };
    for (partitions, wanted, why) in [
        ([("a", half), ("c", half_and_data)], json!([{"serial": "S-a"}]), "has other partitions"),
        ([("a", installed("x")), ("c", installed("y"))], json!([]), "nobody knows which is meant"),
    ] {
        disks.set_partitions(&partitions);
        let (is_off, printed) = disks.wipe("quick", MAC, &wanted);
        assert!(!is_off && printed.contains(why), "{why}: {printed}");
        for name in ["a", "b", "c"] {
            assert_eq!(disks.table_and_data(name), UNTOUCHED, "{why}: {name}");
        }
    }
}

/// A host of a pool whose cluster was destroyed, and what is otherwise in the lab.
fn returned(change: impl FnOnce(&mut State)) -> State {
    let mut state = running_node();
    change_infra_env(&mut state, |infra_env| {
        infra_env.status.iso_download_url = "http://192.0.2.1/x/rack.iso".into();
        infra_env.status.image_file = "x/rack.iso".into();
    });
    change(&mut state);
    delete_cluster(&mut state);
    settle(&mut state, &later(2));
    let deprovision = live_job(&state, Verb::Deprovision);
    let metadata = Meta { name: "metal".into(), namespace: NAMESPACE.into(), ..Meta::default() };
    state.pools.load(ClusterPool { metadata, ..ClusterPool::default() });
    let cluster_id = state.find_cluster("edge").unwrap();
    state.clusters.update(cluster_id, |cluster| {
        cluster.pool = Some(Rc::new(Key::new(NAMESPACE, "metal")));
    });
    finish(&mut state, &deprovision, JobOutcome::Done, 3);
    state
}

fn change_infra_env(state: &mut State, change: impl FnOnce(&mut InfraEnv)) {
    let infra_env_id = state.infra_envs.find(&Key::new(NAMESPACE, "rack")).unwrap();
    state.infra_envs.update(infra_env_id, change);
}

fn change_host(state: &mut State, change: impl FnOnce(&mut BareMetalHost)) {
    let host_id = state.hosts.find(&Key::new(NAMESPACE, "n1")).unwrap();
    state.hosts.update(host_id, change);
}

fn the_host(state: &State) -> &BareMetalHost {
    state.hosts.rows().next().unwrap()
}

/// A job ends, and the host is seen off.
fn finish(state: &mut State, job: &Job, outcome: JobOutcome, minutes: i64) {
    let seen = HostReport {
        host: format!("{NAMESPACE}/n1"),
        address: ADDRESS.into(),
        credentials: "/1".into(),
        powered_on: Some(false),
        image: Some(String::new()),
        ..HostReport::default()
    };
    let told = |outcome| JobReport { job: job.id, object: job.object.clone(), outcome };
    let messages = vec![told(JobOutcome::Hosts(vec![seen])), told(outcome)];
    plan::take_job_reports(state, messages, &later(minutes));
    settle(state, &later(minutes));
}

/// What only asks how the host is does so at once.
fn finish_queries(state: &mut State, minutes: i64) {
    for _ in 0..3 {
        let live = state
            .jobs
            .rows()
            .find(|job| job.ended.is_none() && matches!(job.verb, Verb::State | Verb::Inspect));
        let Some(job) = live.cloned() else { return };
        finish(state, &job, JobOutcome::Done, minutes);
    }
}

/// What a person does to a state.
type Edit = fn(&mut State);

#[test]
fn hosts_of_pools_are_wiped_by_default_and_those_known_before_are_not() {
    let state = returned(|_| ());
    let wipe = the_host(&state).status.wipe.clone().unwrap();
    assert_eq!((wipe.driver.as_str(), wipe.state), ("quick", WipeState::Pending));
    assert!(the_host(&state).hold_reason().is_some());
    let job = live_job(&state, Verb::Wipe);
    assert_eq!(job.driver.name(), "redfish");
    // What the installer was told to write.
    let expected = WrittenDisk { path: "/dev/disk/by-id/sda".into(), ..WrittenDisk::default() };
    assert!(wipe.disks.is_empty() || wipe.disks == [expected], "{:?}", wipe.disks);
    let exceptions: [(&str, Edit); 3] = [
        ("known before", |state| {
            change_host(state, |host| host.status.known_before_wiping = true);
        }),
        ("no image of ours", |state| {
            change_infra_env(state, |rack| rack.status.image_file.clear());
        }),
        ("none", |state| {
            change_infra_env(state, |rack| {
                rack.metadata.annotations.insert("poolctl.dev/wipe".into(), "none".into());
            });
        }),
    ];
    for (why, change) in exceptions {
        let state = returned(change);
        assert_eq!(the_host(&state).status.wipe, None, "{why}");
        assert_eq!(the_host(&state).hold_reason(), None, "{why}");
    }
    // The host counts before its InfraEnv, and that before the pool.
    let state = returned(|state| {
        change_host(state, |host| {
            host.status.known_before_wiping = true;
            host.metadata.annotations.insert("poolctl.dev/wipe".into(), "full".into());
        });
        change_infra_env(state, |rack| {
            rack.metadata.annotations.insert("poolctl.dev/wipe".into(), "none".into());
        });
    });
    assert_eq!(the_host(&state).status.wipe.as_ref().unwrap().driver, "full");
}

/// The verbs of the live jobs.
fn live_verbs(state: &State) -> Vec<Verb> {
    let live_jobs = state.jobs.rows().filter(|job| job.ended.is_none());
    live_jobs.map(|job| job.verb).collect()
}

/// A host that was given back with its disks as they were, after its manifest was applied again.
fn unwiped_and_online() -> State {
    let mut state = returned(|state| {
        change_infra_env(state, |rack| {
            rack.status.iso_download_url.clear();
            rack.status.image_file.clear();
        });
    });
    finish_queries(&mut state, 4);
    assert_eq!(the_host(&state).status.wipe, None);
    assert_eq!(the_host(&state).old_system(), Some("edge"));
    change_host(&mut state, |host| host.spec.online = true);
    settle(&mut state, &later(5));
    finish_queries(&mut state, 5);
    state
}

/// A person annotates the host with what is to become of its disks.
fn ask_for_wipe(state: &mut State, value: &str) {
    change_host(state, |host| {
        host.metadata.annotations.insert("poolctl.dev/wipe".into(), value.into());
    });
    settle(state, &later(6));
    finish_queries(state, 6);
}

#[test]
fn a_free_host_does_not_boot_what_its_last_cluster_left_on_its_disks() {
    let mut state = unwiped_and_online();
    assert!(!live_verbs(&state).contains(&Verb::Start), "{:?}", live_verbs(&state));
    // It is switched on once its disks are wiped, which a person can ask for,
    ask_for_wipe(&mut state, "quick");
    let job = live_job(&state, Verb::Wipe);
    finish(&mut state, &job, JobOutcome::Done, 7);
    assert_eq!(the_host(&state).old_system(), None);
    finish_queries(&mut state, 8);
    assert!(live_verbs(&state).contains(&Verb::Start), "{:?}", live_verbs(&state));
    // or if a person says that nobody is to wipe it.
    let mut state = unwiped_and_online();
    ask_for_wipe(&mut state, "none");
    assert!(live_verbs(&state).contains(&Verb::Start), "{:?}", live_verbs(&state));
}

#[test]
fn a_wipe_that_failed_is_tried_again_later_and_the_host_is_free_only_when_it_is_wiped() {
    let mut state = returned(|_| ());
    let mut minutes = 3;
    for (failures, pause) in [(1, 2), (2, 4), (3, 8)] {
        let job = live_job(&state, Verb::Wipe);
        finish(&mut state, &job, JobOutcome::failed("disk 2 sleeps"), minutes);
        let host = the_host(&state);
        let wipe = host.status.wipe.as_ref().unwrap();
        assert_eq!((wipe.failures, wipe.message.as_str()), (failures, "disk 2 sleeps"));
        assert_eq!(host.hold_reason(), Some("wipe failed: disk 2 sleeps"));
        let condition = host.status.conditions.iter().find(|one| one.kind == "Wiped").unwrap();
        assert_eq!((&*condition.status, &*condition.reason), ("False", "WipeFailed"));
        // Its power is asked for, as nobody knows what the wiper has left.
        assert_eq!(live_job(&state, Verb::State).hosts, ["default/n1"]);
        finish_queries(&mut state, minutes);
        assert!(plan::next_due_at(&state, later(minutes).now).is_some());
        settle(&mut state, &later(minutes + pause - 1));
        finish_queries(&mut state, minutes + pause - 1);
        assert_eq!(the_host(&state).status.wipe.as_ref().unwrap().state, WipeState::Failed);
        minutes += pause;
        settle(&mut state, &later(minutes));
    }
    let job = live_job(&state, Verb::Wipe);
    finish(&mut state, &job, JobOutcome::Done, minutes);
    let host = the_host(&state);
    assert_eq!(host.status.wipe.as_ref().unwrap().state, WipeState::Done);
    assert_eq!((host.hold_reason(), &host.status.wipe_hold), (None, &None));
    assert_ne!(host.power(), HostPower::On);
}

/// It was shown as off while the image that wipes it ran, and nobody asked.
#[test]
fn after_a_wipe_that_broke_off_nobody_knows_whether_the_host_is_on_and_its_controller_is_asked() {
    let mut state = returned(|_| ());
    let job = live_job(&state, Verb::Wipe);
    let outcome = JobOutcome::BrokeOff("killed".into());
    let report = JobReport { job: job.id, object: job.object, outcome };
    plan::take_job_reports(&mut state, vec![report], &later(3));
    settle(&mut state, &later(3));
    assert_eq!(the_host(&state).power(), HostPower::Unknown);
    settle(&mut state, &later(5));
    assert_eq!(live_verbs(&state), [Verb::State]);
}

/// It stayed held for the wipe that failed, though nobody wanted one any more.
#[test]
fn a_host_whose_wipe_failed_is_let_go_when_nobody_wants_a_wipe_but_not_what_a_person_holds() {
    for (held_before, hold) in [(None, None), (Some("bad fan"), Some("bad fan"))] {
        let mut state = returned(|_| ());
        if let Some(reason) = held_before {
            change_host(&mut state, |host| {
                host.metadata.annotations.insert("poolctl.dev/hold".into(), reason.into());
            });
        }
        let job = live_job(&state, Verb::Wipe);
        finish(&mut state, &job, JobOutcome::failed("there is no program nosuch"), 3);
        finish_queries(&mut state, 3);
        assert!(
            the_host(&state).hold_reason().unwrap().contains("wipe failed: there is no program")
        );
        ask_for_wipe(&mut state, "none");
        let host = the_host(&state);
        assert_eq!(host.hold_reason(), hold);
        assert_eq!((&host.status.wipe, &host.status.wipe_hold), (&None, &None));
    }
}

/// A machine of the rack runs what it has booted: the image that wipes it powers it off.
fn power_off_when_wiped(rack: &Rack, number: usize, wiped: &Path) {
    let seen = rack.emulator.describe_machine(number);
    if seen.starts_with("On ") && seen.ends_with("/wipe.iso") {
        fs::write(wiped, &seen).unwrap();
        rack.emulator.power_off(number);
    }
}

#[test]
fn a_controller_boots_the_image_that_wipes_its_host_once() {
    let Some(rack) = Rack::start() else { return };
    let lab = Lab::new();
    let sandbox = &lab.sandbox;
    let images = lab.bin("images");
    let web = Server::of_folder(&images);
    // What it makes says what is in it: the Ignition.
    sandbox.write_script(
        "bin/coreos-installer",
        "#!/bin/sh\n[ \"$3\" = --force ] && shift && cp \"$4\" \"${0%/*}/wipe.ign\"\ncp \"$4\" \"$6\"\n",
    );
    let settings = json!({"spec": {"isoDirectory": images, "isoURL": format!("{}/images", web.origin()),
        "programs": {"coreos-installer": lab.bin("coreos-installer")}}});
    sandbox.ok(&format!("patch settings default -p '{settings}' -q"));
    let infra_env = json!({"apiVersion": "agent-install.openshift.io/v1beta1", "kind": "InfraEnv",
        "metadata": {"name": "rack", "annotations": {"poolctl.dev/wipe": "quick"}},
        "spec": {"pullSecretRef": {"name": "pull"}}});
    apply(sandbox, &infra_env.to_string());
    sandbox.write_file("base.iso", "BASE");
    let ran = sandbox.shell(
        "ssh-keygen -q -t ed25519 -N '' -f $HOME/key && sed 's/^/192.0.2.1 /' $HOME/key.pub > \
         $HOME/known && poolctl infraenv iso rack --address poolctl@192.0.2.1 --key $HOME/key \
         --known-hosts $HOME/known --base $HOME/base.iso",
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    rack.add_to(sandbox);
    sandbox.ok("agent discover n2 --infraenv rack -q");
    sandbox.ok("label host/n2 infraenvs.agent-install.openshift.io=rack -q");
    reconcile_until(sandbox, "known", |sandbox| state_of(sandbox, "n2") == "known-unbound");
    apply(sandbox, &cluster("a", 1, 0));
    sandbox.ok("agent bind n2 --cluster a -q");
    reconcile_until(sandbox, "installed", |sandbox| state_of(sandbox, "n2") == "installed");
    sandbox.ok("delete cluster a -y -q");
    let wiped = sandbox.path().join("wiped");
    reconcile_until(sandbox, "wiped", |sandbox| {
        power_off_when_wiped(&rack, 2, &wiped);
        host_status(sandbox, "n2", "wipe.state") == "done"
            && state_of(sandbox, "n2") == "known-unbound"
    });
    assert!(fs::read_to_string(&wiped).unwrap().contains(" Cd "));
    let seen = rack.emulator.describe_machine(2);
    assert!(seen.starts_with("Off ") && seen.ends_with(" -"), "{seen}");
    let ignition: Value =
        serde_json::from_str(&fs::read_to_string(lab.bin("wipe.ign")).unwrap()).unwrap();
    assert_eq!(ignition["systemd"]["units"][0]["name"], "poolctl-wipe.service");
    // The image is gone again, and the discovery image is there.
    assert_eq!(fs::read_dir(&images).unwrap().count(), 1);
    assert_eq!(jsonpath(sandbox, "host/n2", "{.status.wipe.driver}"), "quick");
    sandbox.ok("doctor");
}
