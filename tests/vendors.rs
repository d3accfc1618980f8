//! What vendors make of Redfish, simulated by a server on loopback. Each machine is told to boot an
//! image once and to eject it, and its own state says whether it did.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::machines::{host_status, import_hosts, reconcile_until, sandbox_on_real_clock};
use crate::rigs::{Emulator, PASSWORD, USER, self_signed_certificate, uuid};
use crate::sandbox::{Sandbox, jsonpath};
use crate::served::{Answer, Request, Server, forward_request};

/// A way in which machines depart from the standard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Make {
    /// Follows the standard, and shows an inventory.
    Plain,
    /// Boots virtual media as UsbCd and refuses fields that it does not need. The media belong to
    /// the manager.
    Supermicro,
    /// Has no actions: media are patched, with an ETag that is shown weak and accepted strong.
    Lenovo,
    /// Needs to be told how images are fetched.
    Dgx,
    /// Is busy at first, needs a body to eject, and accepts no boot mode.
    Ilo,
    /// Has the boot order among its settings, reset types in ActionInfo, and tasks. Says with an id
    /// of its own that it is busy.
    Idrac,
    /// Answers that ejecting failed when it did not.
    Liar,
}

const MAKES: [Make; 7] =
    [Make::Plain, Make::Supermicro, Make::Lenovo, Make::Dgx, Make::Ilo, Make::Idrac, Make::Liar];

/// A machine of a make.
pub struct Machine {
    make: Make,
    pub on: bool,
    pub image: Option<String>,
    boot: Value,
    /// The boot target of its last start, if that was set for once.
    pub booted: Option<String>,
    /// Requests that it still refuses because it is busy.
    busy: usize,
    /// Requests until a task is over.
    task: usize,
}

pub const SYSTEM: &str = "/odd/place/for/a/system";
const MANAGER: &str = "/mgr";
const MEDIA: &str = "/media/slot-2";
const SETTINGS: &str = "/pending";

impl Make {
    /// The name of the host of this make.
    fn host(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Whether the hosts of all makes are in this state of provisioning.
fn all_are_in_state(lab: &Sandbox, state: &str) -> bool {
    MAKES.iter().all(|make| host_status(lab, &make.host(), "provisioning.state") == state)
}

impl Machine {
    pub fn new(make: Make) -> Self {
        let busy = usize::from(matches!(make, Make::Ilo | Make::Idrac));
        Self { make, on: false, image: None, boot: json!({}), booted: None, busy, task: 0 }
    }

    pub fn answer(&mut self, request: &Request) -> Answer {
        let (method, path) = (request.method.as_str(), request.path.as_str());
        match (method, path) {
            ("GET", "/redfish/v1/") => Answer::json(&json!({"Systems": {"@odata.id": "/all"}})),
            _ if request.header("authorization").is_none() => Answer::status(401),
            ("GET", "/all") => Answer::json(&json!({"Members": [{"@odata.id": SYSTEM}]})),
            ("GET", SYSTEM) => Answer::json(&self.system()),
            ("GET", SETTINGS) => Answer::json(&json!({"Boot": self.boot_shown()})),
            ("GET", MANAGER) => Answer::json(&json!({"VirtualMedia": {"@odata.id": "/media"}})),
            ("GET", "/media") => {
                let members = json!([{"@odata.id": "/media/slot-1"}, {"@odata.id": MEDIA}]);
                Answer::json(&json!({"Members": members}))
            }
            ("GET", "/media/slot-1") => {
                Answer::json(&json!({"MediaTypes": ["Floppy", "USBStick"]}))
            }
            ("GET", MEDIA) => Answer::json(&self.media()).with_header("ETag", "W/\"7\""),
            ("GET", "/info") => {
                let values = json!(["On", "ForceOff", "GracefulShutdown"]);
                let reset = json!({"Name": "ResetType", "AllowableValues": values});
                Answer::json(&json!({"Parameters": [reset]}))
            }
            ("GET", "/task") => self.task_state(),
            ("POST", "/reset") => self.reset(request),
            ("POST", "/insert") => self.insert(&request.json()),
            ("POST", "/eject") => self.eject(request),
            ("PATCH", MEDIA) => self.patch_media(request),
            ("PATCH", SYSTEM | SETTINGS) => self.patch_boot(path, &request.json()),
            ("GET", _) => {
                inventory(path).map_or(Answer::status(404), |document| Answer::json(&document))
            }
            _ => Answer::status(405),
        }
    }

    fn boot_shown(&self) -> Value {
        let mut boot = json!({"BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "Legacy",
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Cd", "Hdd"]});
        if self.make == Make::Supermicro {
            boot["BootSourceOverrideTarget@Redfish.AllowableValues"] =
                json!(["Cd", "UsbCd", "Pxe"]);
        }
        for (name, value) in self.boot.as_object().unwrap() {
            boot[name] = value.clone();
        }
        boot
    }

    fn system(&self) -> Value {
        let mut reset = json!({"target": "/reset",
            "ResetType@Redfish.AllowableValues": ["ForceOn", "ForceOff", "GracefulShutdown"]});
        let mut system = json!({"PowerState": if self.on { "On" } else { "Off" },
            "Links": {"ManagedBy": [{"@odata.id": MANAGER}]}});
        if self.make == Make::Idrac {
            reset = json!({"target": "/reset", "@Redfish.ActionInfo": "/info"});
            system["@Redfish.Settings"] = json!({"SettingsObject": {"@odata.id": SETTINGS}});
        } else {
            system["Boot"] = self.boot_shown();
        }
        if self.make == Make::Plain {
            system["VirtualMedia"] = json!({"@odata.id": "/media"});
            for (name, value) in inventory(SYSTEM).unwrap().as_object().unwrap() {
                system[name] = value.clone();
            }
        }
        system["Actions"] = json!({"#ComputerSystem.Reset": reset});
        system
    }

    fn media(&self) -> Value {
        let mut media = json!({"MediaTypes": ["CD", "DVD"], "Image": self.image,
            "Inserted": self.image.is_some(), "@odata.etag": "W/\"7\""});
        if self.make != Make::Lenovo {
            media["Actions"] = json!({"#VirtualMedia.InsertMedia": {"target": "/insert"},
                "#VirtualMedia.EjectMedia": {"target": "/eject"}});
        }
        media
    }

    fn reset(&mut self, request: &Request) -> Answer {
        if self.busy > 0 {
            self.busy -= 1;
            let id = if self.make == Make::Ilo {
                "iLO.2.14.InvalidOperationForSystemState"
            } else {
                "IDRAC.2.8.SYS518"
            };
            return Answer::error(400, id, "later");
        }
        let kind = request.json()["ResetType"].as_str().unwrap_or_default().to_owned();
        let on = match kind.as_str() {
            "On" if self.make == Make::Idrac => true,
            "ForceOn" if self.make != Make::Idrac => true,
            "ForceOff" | "GracefulShutdown" => false,
            _ => return Answer::error(400, "Base.1.0.ActionParameterNotSupported", &kind),
        };
        if on && !self.on {
            let once = self.boot["BootSourceOverrideEnabled"] == "Once";
            let target = self.boot["BootSourceOverrideTarget"].as_str().map(str::to_owned);
            self.booted = if once { target } else { None };
            self.boot = json!({});
        }
        self.on = on;
        if self.make == Make::Idrac {
            self.task = 2;
            return Answer::status(202)
                .with_header("Location", "/task")
                .with_header("Retry-After", "1");
        }
        Answer::status(204)
    }

    fn task_state(&mut self) -> Answer {
        self.task = self.task.saturating_sub(1);
        let state = if self.task == 0 { "Completed" } else { "Running" };
        Answer { status: 202, ..Answer::json(&json!({"TaskState": state})) }
            .with_header("Location", "/task")
    }

    fn insert(&mut self, body: &Value) -> Answer {
        let has_optional = !body["Inserted"].is_null() || !body["WriteProtected"].is_null();
        match self.make {
            Make::Supermicro if has_optional => {
                Answer::error(400, "Base.1.0.PropertyUnknown", "Inserted")
            }
            Make::Dgx if body["TransferProtocolType"] != "HTTP" => {
                property_missing("TransferProtocolType")
            }
            Make::Dgx if body["TransferMethod"] != "Stream" => property_missing("TransferMethod"),
            Make::Dgx if body["UserName"].is_null() => property_missing("UserName"),
            _ if self.image.is_some() => Answer::error(500, "Base.1.0.InternalError", "in use"),
            _ => {
                self.image = body["Image"].as_str().map(str::to_owned);
                Answer::status(204)
            }
        }
    }

    fn eject(&mut self, request: &Request) -> Answer {
        if self.make == Make::Ilo && request.body != "{}" {
            return Answer::status(415);
        }
        self.image = None;
        if self.make == Make::Liar { Answer::status(409) } else { Answer::status(204) }
    }

    fn patch_media(&mut self, request: &Request) -> Answer {
        if self.make != Make::Lenovo {
            return Answer::status(405);
        }
        if request.header("if-match") != Some("\"7\"") {
            return Answer::status(412);
        }
        self.image = request.json()["Image"].as_str().map(str::to_owned);
        Answer::status(204)
    }

    fn patch_boot(&mut self, path: &str, body: &Value) -> Answer {
        if (path == SETTINGS) != (self.make == Make::Idrac) {
            return Answer::status(405);
        }
        if self.make == Make::Ilo && !body["Boot"]["BootSourceOverrideMode"].is_null() {
            return Answer::error(400, "iLO.2.14.UnsupportedOperation", "BootSourceOverrideMode");
        }
        self.boot = body["Boot"].clone();
        Answer::status(204)
    }
}

fn property_missing(name: &str) -> Answer {
    Answer::error(400, "Base.1.0.PropertyMissing", name)
}

/// A collection of the documents at these paths.
fn collection(paths: &[&str]) -> Value {
    let members: Vec<Value> = paths.iter().map(|path| json!({"@odata.id": path})).collect();
    json!({"Members": members})
}

/// The documents of the inventory, by path.
fn inventory(path: &str) -> Option<Value> {
    Some(match path {
        SYSTEM => json!({"Manufacturer": "Acme", "Model": "R7", "SerialNumber": "SN-1",
            "Processors": {"@odata.id": "/cpu"}, "Memory": {"@odata.id": "/dimm"},
            "EthernetInterfaces": {"@odata.id": "/nic"}, "Storage": {"@odata.id": "/disk"}}),
        "/cpu" => collection(&["/cpu/0", "/cpu/1", "/cpu/gpu"]),
        "/cpu/gpu" => json!({"ProcessorType": "GPU", "TotalThreads": 9000}),
        "/cpu/0" | "/cpu/1" => json!({"ProcessorType": "CPU", "TotalThreads": 64,
            "Model": "Fast 6400", "InstructionSet": "x86-64", "MaxSpeedMHz": 4100}),
        "/dimm" => collection(&["/dimm/0", "/dimm/1", "/dimm/2"]),
        "/dimm/0" | "/dimm/1" => json!({"CapacityMiB": 65536}),
        "/dimm/2" => json!({"CapacityMiB": 65536, "Status": {"State": "Absent"}}),
        "/nic" => json!({"Members": [{"@odata.id": "/nic/1"}], "Members@odata.nextLink": "/nic-2"}),
        "/nic-2" => collection(&["/nic/2"]),
        "/nic/1" => json!({"Id": "NIC.1", "MACAddress": "52:54:00:AA:BB:01", "SpeedMbps": 25000}),
        "/nic/2" => json!({"Id": "NIC.2", "MACAddress": "52-54-00-AA-BB-02", "SpeedMbps": 25000}),
        "/disk" => collection(&["/disk/raid"]),
        "/disk/raid" => json!({"Drives": [{"@odata.id": "/drive"}]}),
        "/drive" => json!({"Name": "Disk.0", "CapacityBytes": 960_197_124_096_u64,
            "MediaType": "SSD", "Protocol": "NVMe", "Model": "D7", "SerialNumber": "D-1"}),
        _ => return None,
    })
}

#[test]
fn every_make_boots_an_image_once_and_ejects_it() {
    let lab = sandbox_on_real_clock();
    let machines: Vec<Arc<Mutex<Machine>>> =
        MAKES.iter().map(|make| Arc::new(Mutex::new(Machine::new(*make)))).collect();
    let servers: Vec<Server> = machines
        .iter()
        .map(|machine| {
            let machine = Arc::clone(machine);
            Server::plain(move |request| machine.lock().unwrap().answer(request))
        })
        .collect();
    let lines: Vec<String> = MAKES
        .iter()
        .zip(&servers)
        .map(|(make, server)| {
            format!("{},{},{USER},{PASSWORD}", make.host(), server.bmc_address(""))
        })
        .collect();
    import_hosts(&lab, "name,bmc,username,password", &lines);
    let iso = "http://127.0.0.1:1/discovery.iso";
    lab.ok(&format!("host boot --all --iso {iso} -q"));
    reconcile_until(&lab, "booted", |lab| all_are_in_state(lab, "provisioned"));
    for machine in &machines {
        let machine = machine.lock().unwrap();
        let make = machine.make;
        assert_eq!((machine.on, machine.image.as_deref()), (true, Some(iso)), "{make:?}");
        let target = if make == Make::Supermicro { "UsbCd" } else { "Cd" };
        assert_eq!(machine.booted.as_deref(), Some(target), "{make:?}");
    }
    lab.ok("host eject --all -q");
    reconcile_until(&lab, "ejected", |lab| all_are_in_state(lab, "available"));
    lab.ok("host power cycle --all --wait -q");
    for machine in &machines {
        let machine = machine.lock().unwrap();
        assert!(machine.on, "{:?}", machine.make);
        assert_eq!((machine.image.as_deref(), machine.booted.as_deref()), (None, None));
    }
    // The hardware is what the inventory says.
    let hardware: Value = serde_json::from_str(&host_status(&lab, "plain", "hardware")).unwrap();
    assert_eq!(
        hardware,
        json!({"cpu": {"arch": "x86_64", "count": 128, "model": "Fast 6400", "clockMegahertz": 4100},
            "ramMebibytes": 131_072,
            "nics": [{"name": "NIC.1", "mac": "52:54:00:aa:bb:01", "speedGbps": 25},
                {"name": "NIC.2", "mac": "52:54:00:aa:bb:02", "speedGbps": 25}],
            "storage": [{"name": "Disk.0", "sizeBytes": 960_197_124_096_u64, "type": "NVME",
                "model": "D7", "serialNumber": "D-1"}],
            "systemVendor": {"manufacturer": "Acme", "productName": "R7", "serialNumber": "SN-1"}})
    );
    let wide = lab.ok("get host plain -o wide");
    assert!(wide.contains("Acme R7, 128 CPUs, 128 GiB, 1 disk"), "{wide}");
    // No path is guessed: behind the root, only links were followed.
    for request in servers[0].requests() {
        let path = &request.path;
        assert!(path == "/redfish/v1/" || !path.starts_with("/redfish"), "{path}");
    }
}

#[test]
fn an_emulator_is_powered_through_a_front_that_has_its_inventory() {
    let Some(emulator) = Emulator::start(1, false) else { return };
    let emulator_address = ([127, 0, 0, 1], emulator.port).into();
    let path = format!("/redfish/v1/Systems/{}", uuid(1));
    let system_path = path.clone();
    let chain = self_signed_certificate(&["127.0.0.1"], |_| {});
    let front = Server::tls(&chain, move |request| {
        if request.path != SYSTEM
            && let Some(document) = inventory(&request.path)
        {
            return Answer::json(&document);
        }
        let mut answer = forward_request(emulator_address, request);
        if request.method == "GET" && request.path == system_path {
            let mut system: Value = serde_json::from_slice(&answer.body).unwrap();
            for (name, value) in inventory(SYSTEM).unwrap().as_object().unwrap() {
                system[name] = value.clone();
            }
            answer.body = system.to_string().into_bytes();
        }
        answer
    });
    let lab = sandbox_on_real_clock();
    let (ca, password) = (lab.write_file("ca.crt", &chain.0), lab.write_file("password", PASSWORD));
    let address = front.bmc_address(&path);
    lab.ok(&format!(
        "host add n1 --user {USER} --password-file {password} --ca {ca} --bmc {address} -q"
    ));
    lab.ok("host power on n1 --wait -q");
    assert!(emulator.describe_machine(1).starts_with("On "), "{}", emulator.describe_machine(1));
    let hardware = "{.status.hardware.cpu.count} {.status.hardware.nics[1].mac}";
    assert_eq!(jsonpath(&lab, "host/n1", hardware), "128 52:54:00:aa:bb:02");
}
