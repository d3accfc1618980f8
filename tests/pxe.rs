//! What machines boot by network is taken out of live images, and lies where these lie.

use std::fs;
use std::path::Path;

use crate::images::{
    download_url, file_path, lab_with_images, permission_bits, run_infraenv_iso,
    write_coreos_installer,
};
use crate::rack::cluster;
use crate::sandbox::apply;

const SECTOR: usize = 2048;
const MENU: &str = "menuentry 'RHCOS' {\n\tlinux /images/pxeboot/vmlinuz coreos.liveiso=rhcos \
    ignition.firstboot ignition.platform.id=metal console=ttyS0\n}\n";

/// The record of a file or of a directory in an ISO 9660 image, with its name of Rock Ridge.
fn record(name: &str, sector: usize, length: usize, is_directory: bool) -> Vec<u8> {
    let identifier: Vec<u8> = match name {
        "." => vec![0],
        ".." => vec![1],
        name => name.to_uppercase().into_bytes(),
    };
    let mut record = vec![0; 33];
    record[2..6].copy_from_slice(&u32::try_from(sector).unwrap().to_le_bytes());
    record[10..14].copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
    record[25] = if is_directory { 2 } else { 0 };
    record[32] = u8::try_from(identifier.len()).unwrap();
    record.extend(identifier);
    if !record.len().is_multiple_of(2) {
        record.push(0);
    }
    if !name.starts_with('.') {
        record.extend(b"NM");
        record.push(u8::try_from(5 + name.len()).unwrap());
        record.extend([1, 0]);
        record.extend(name.bytes());
    }
    record[0] = u8::try_from(record.len()).unwrap();
    record
}

/// Puts bytes into a sector of their own, and returns which.
fn add_sector(image: &mut Vec<u8>, bytes: &[u8]) -> usize {
    let sector = image.len() / SECTOR;
    image.extend(bytes);
    image.resize((sector + 1) * SECTOR, 0);
    sector
}

fn add_directory(image: &mut Vec<u8>, children: &[Vec<u8>]) -> usize {
    let itself = image.len() / SECTOR;
    let records =
        [record(".", itself, SECTOR, true), record("..", itself, SECTOR, true), children.concat()];
    add_sector(image, &records.concat())
}

/// A live image with what a machine boots, and an Ignition.
fn live_image() -> Vec<u8> {
    let mut image = vec![0; 17 * SECTOR];
    let mut files = Vec::new();
    for (name, content) in [
        ("vmlinuz", "KERNEL"),
        ("initrd.img", "INITRD"),
        ("rootfs.img", "ROOTFS"),
        ("ignition.img", "IGNITION"),
        ("grub.cfg", MENU),
    ] {
        let sector = add_sector(&mut image, content.as_bytes());
        files.push(record(name, sector, content.len(), false));
    }
    let pxeboot = add_directory(&mut image, &files[..3]);
    let pxeboot = record("pxeboot", pxeboot, SECTOR, true);
    let images = add_directory(&mut image, &[pxeboot, files[3].clone()]);
    let redhat = add_directory(&mut image, &files[4..]);
    let efi = add_directory(&mut image, &[record("redhat", redhat, SECTOR, true)]);
    let in_root = [record("images", images, SECTOR, true), record("EFI", efi, SECTOR, true)];
    let root = add_directory(&mut image, &in_root);
    let descriptor = 16 * SECTOR;
    image[descriptor] = 1;
    image[descriptor + 1..descriptor + 6].copy_from_slice(b"CD001");
    image[descriptor + 156..descriptor + 190].copy_from_slice(&record(".", root, SECTOR, true));
    image
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn hosts_without_virtual_media_boot_the_discovery_image_by_network() {
    let lab = lab_with_images();
    lab.sandbox.refused(3, "infraenv pxe rack", "has no image below isoDirectory");
    // The stand-in makes the image of the base alone.
    write_coreos_installer(&lab, "cp \"$7\" \"$6\"");
    fs::write(file_path(&lab, "base.iso"), live_image()).unwrap();
    let base = file_path(&lab, "base.iso");
    let ran = run_infraenv_iso(&lab, &format!("--base {base}"));
    assert_eq!(ran.code, 0, "{ran:?}");
    let url = download_url(&lab);
    let (base_url, _) = url.rsplit_once('/').unwrap();
    let said = lab.sandbox.ok("infraenv pxe rack");
    assert!(said.contains(&format!("hosts boot {base_url}/rack.ipxe")), "{said}");
    let folder = lab.bin("images").join(base_url.rsplit('/').next().unwrap());
    assert_eq!(read(&folder, "rack-vmlinuz"), "KERNEL");
    // Each initial file system begins at a multiple of four bytes.
    assert_eq!(read(&folder, "rack-initrd.img"), "INITRD\0\0IGNITION");
    assert_eq!(read(&folder, "rack-rootfs.img"), "ROOTFS");
    assert_eq!(
        read(&folder, "rack.ipxe"),
        format!(
            "#!ipxe\ninitrd --name main {base_url}/rack-initrd.img\n\
             kernel {base_url}/rack-vmlinuz initrd=main \
             coreos.live.rootfs_url={base_url}/rack-rootfs.img ignition.firstboot \
             ignition.platform.id=metal console=ttyS0\nboot\n"
        )
    );
    // The Ignition has a token in it: only the group of the web server reads it.
    assert_eq!(permission_bits(&folder.join("rack-initrd.img")), 0o640);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 5);
}

#[test]
fn an_image_elsewhere_is_taken_apart_where_somebody_says() {
    let lab = lab_with_images();
    fs::create_dir(lab.bin("tftp")).unwrap();
    fs::write(lab.bin("live.iso"), live_image()).unwrap();
    let iso = lab.bin("live.iso").display().to_string();
    let out = lab.bin("tftp").display().to_string();
    let command = format!("infraenv pxe rack --iso {iso} --out {out} --url tftp://192.0.2.9/x/");
    let said = lab.sandbox.ok(&command);
    assert!(said.contains("hosts boot tftp://192.0.2.9/x/rack.ipxe"), "{said}");
    assert_eq!(read(&lab.bin("tftp"), "rack-vmlinuz"), "KERNEL");
    lab.sandbox.refused(2, &command.replace("tftp://", "file://"), "is not an http");
    lab.sandbox.refused(2, &format!("infraenv pxe rack --iso {iso}"), "--out");
    // What is no image, or an image without an Ignition, leaves nothing.
    for (name, content) in [("none.iso", b"no image".to_vec()), ("plain.iso", plain_image())] {
        fs::create_dir(lab.bin("empty")).unwrap();
        fs::write(lab.bin(name), content).unwrap();
        let iso = lab.bin(name).display().to_string();
        let out = lab.bin("empty").display().to_string();
        let command = format!("infraenv pxe rack --iso {iso} --out {out} --url http://192.0.2.9");
        lab.sandbox.refused(1, &command, name);
        assert_eq!(fs::read_dir(lab.bin("empty")).unwrap().count(), 0, "{name}");
        fs::remove_dir(lab.bin("empty")).unwrap();
    }
}

/// A live image that has not been customized.
fn plain_image() -> Vec<u8> {
    let mut image = live_image();
    let name = b"ignition.img";
    let mut places = Vec::new();
    for (place, bytes) in image.windows(name.len()).enumerate() {
        if bytes.eq_ignore_ascii_case(name) {
            places.push(place);
        }
    }
    for place in places {
        image[place] = b'x';
    }
    image
}

#[test]
fn a_cluster_that_is_not_being_installed_has_no_files_to_boot() {
    let lab = lab_with_images();
    apply(&lab.sandbox, &cluster("edge", 3, 0));
    lab.sandbox.refused(3, "cluster pxe edge", "cluster `edge` has no image now");
}
