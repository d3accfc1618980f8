//! Writes what machines boot by network: kernel, initial file system, root file system and the
//! script of iPXE, all out of a live image. Never serves them.

use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::render::pxe::{PxeNames, kernel_arguments_of_menu, render_ipxe_script};

use super::image_folder;
use super::iso9660::IsoImage;

/// Where the files are in images of the architectures; the first that is there counts.
const KERNELS: [&str; 3] =
    ["/images/pxeboot/vmlinuz", "/images/pxeboot/kernel.img", "/images/kernel.img"];
const INITIAL_FILE_SYSTEMS: [&str; 2] = ["/images/pxeboot/initrd.img", "/images/initrd.img"];
const ROOT_FILE_SYSTEMS: [&str; 1] = ["/images/pxeboot/rootfs.img"];
/// The Ignition, as one more initial file system.
const IGNITION: [&str; 1] = ["/images/ignition.img"];
/// The folder with a folder for each distribution, which has the boot menu.
const EFI: &str = "/EFI";
const MENUS: [&str; 2] = ["/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"];
/// What is read of a boot menu.
const LARGEST_MENU: usize = 1 << 20;

/// Writes all files into a folder that is there. Whoever serves it is in its group. The error is
/// for people.
pub fn write_pxe_files(image: &Path, folder: &Path, names: &PxeNames) -> Result<(), String> {
    let mut iso = IsoImage::open(image).map_err(|error| describe(image, &error))?;
    let kernel = extract(&mut iso, image, folder, &[&KERNELS])?;
    let initrd = extract(&mut iso, image, folder, &[&INITIAL_FILE_SYSTEMS, &IGNITION])?;
    let rootfs = extract(&mut iso, image, folder, &[&ROOT_FILE_SYSTEMS])?;
    let arguments = read_kernel_arguments(&mut iso).map_err(|error| describe(image, &error))?;
    let mut script = new_file(folder)?;
    script
        .write_all(render_ipxe_script(names, &arguments).as_bytes())
        .map_err(|error| describe(folder, &error))?;
    // The script comes last: whoever boots by it finds the other files.
    for (file, name) in [
        (kernel, names.kernel()),
        (initrd, names.initrd()),
        (rootfs, names.rootfs()),
        (script, names.script()),
    ] {
        put_in_place(file, &folder.join(name)).map_err(|error| describe(folder, &error))?;
    }
    Ok(())
}

fn describe(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn new_file(folder: &Path) -> Result<NamedTempFile, String> {
    tempfile::Builder::new()
        .prefix(".new-")
        .tempfile_in(folder)
        .map_err(|error| describe(folder, &error))
}

fn put_in_place(file: NamedTempFile, path: &Path) -> io::Result<()> {
    image_folder::open_to_group(file.path())?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|failed| failed.error)
}

/// Copies files of the image one after the other into one new file. Of each only the first place
/// where there is one counts. An initial file system must begin at a multiple of four bytes.
fn extract(
    iso: &mut IsoImage,
    image: &Path,
    folder: &Path,
    parts: &[&[&str]],
) -> Result<NamedTempFile, String> {
    let mut file = new_file(folder)?;
    for places in parts {
        let mut length = None;
        for place in *places {
            if length.is_none() {
                length =
                    iso.copy_file(place, &mut file).map_err(|error| describe(image, &error))?;
            }
        }
        let Some(length) = length else {
            let place = places.first().copied().unwrap_or_default();
            let image = image.display();
            return Err(format!(
                "{image} has no {place}; a full live image of RHCOS with an Ignition is needed"
            ));
        };
        let filling = [0; 3];
        let missing = usize::try_from((4 - length % 4) % 4).unwrap_or_default();
        if parts.len() > 1 {
            file.write_all(filling.get(..missing).unwrap_or_default())
                .map_err(|error| describe(folder, &error))?;
        }
    }
    Ok(file)
}

/// The arguments of the kernel that the boot menu of the image has; none if there is no menu.
fn read_kernel_arguments(iso: &mut IsoImage) -> io::Result<Vec<String>> {
    let distributions = iso.list_directory(EFI)?;
    let mut menus: Vec<String> = MENUS.map(str::to_owned).to_vec();
    menus.extend(distributions.iter().map(|name| format!("{EFI}/{name}/grub.cfg")));
    for menu in menus {
        let mut bytes = Vec::new();
        if iso.copy_file(&menu, &mut bytes)?.is_none() {
            continue;
        }
        bytes.truncate(LARGEST_MENU);
        let arguments = kernel_arguments_of_menu(&String::from_utf8_lossy(&bytes));
        if !arguments.is_empty() {
            return Ok(arguments);
        }
    }
    Ok(Vec::new())
}
