//! Renders the Ignition of an image that wipes the disks of one machine and powers it off. Makes no
//! image, and decides neither which machine nor how.

use serde_json::{Value, json};

use crate::model::order::WipeOrder;

use super::discovery::{VERSION, render_file, render_unit};

const SCRIPT: &str = include_str!("wipe/wipe.sh");
const UNIT: &str = include_str!("wipe/wipe.service");
const SCRIPT_PATH: &str = "/usr/local/bin/poolctl-wipe";
const CONFIG_PATH: &str = "/etc/poolctl-wipe/config.json";

/// An Ignition of version 3.2. The script in it wipes no machine but the one that has one of the
/// MAC addresses of the order.
pub fn render_wipe_ignition(wipe: &WipeOrder) -> Value {
    let config = json!({"method": wipe.method, "macs": wipe.macs, "disks": wipe.disks});
    json!({
        "ignition": {"version": VERSION},
        "storage": {"files": [
            render_file(SCRIPT_PATH, 0o755, SCRIPT),
            render_file(CONFIG_PATH, 0o600, &config.to_string()),
        ]},
        "systemd": {"units": [render_unit("poolctl-wipe.service", UNIT)]},
    })
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::model::host::wipe::WrittenDisk;

    fn contents(ignition: &Value, path: &str) -> String {
        let files = ignition["storage"]["files"].as_array().unwrap();
        let file = files.iter().find(|file| file["path"] == path).unwrap();
        let source = file["contents"]["source"].as_str().unwrap();
        let encoded = source.rsplit_once(',').unwrap().1;
        String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
    }

    #[test]
    fn an_image_wipes_one_machine_at_its_boot_and_says_which_disks() {
        let wipe = WipeOrder {
            method: "quick".into(),
            macs: vec!["52:54:00:00:00:01".into()],
            disks: vec![WrittenDisk { serial: "S1".into(), ..WrittenDisk::default() }],
            base_image: None,
        };
        let ignition = render_wipe_ignition(&wipe);
        let unit = &ignition["systemd"]["units"][0];
        assert_eq!(
            (&unit["name"], &unit["enabled"]),
            (&json!("poolctl-wipe.service"), &json!(true))
        );
        let unit = unit["contents"].as_str().unwrap();
        assert!(
            unit.contains("Type=oneshot") && unit.contains(&format!("ExecStart={SCRIPT_PATH}\n"))
        );
        let config: Value = serde_json::from_str(&contents(&ignition, CONFIG_PATH)).unwrap();
        let expected =
            json!({"method": "quick", "macs": ["52:54:00:00:00:01"], "disks": [{"serial": "S1"}]});
        assert_eq!(config, expected);
        assert!(contents(&ignition, SCRIPT_PATH).starts_with("#!/bin/bash\n"));
    }
}
