//! Renders what a machine that boots by network reads: the script of iPXE, with the arguments of
//! the kernel that its image has. Never reads an image.

/// Where machines fetch the files, and how these are called.
pub struct PxeNames {
    /// The URL of the folder, without a slash at its end.
    pub base_url: String,
    /// What the names of all files begin with.
    pub name: String,
}

impl PxeNames {
    /// The file name of the kernel.
    pub fn kernel(&self) -> String {
        format!("{}-vmlinuz", self.name)
    }

    /// The file name of the initial file system, which holds the Ignition.
    pub fn initrd(&self) -> String {
        format!("{}-initrd.img", self.name)
    }

    /// The file name of the root file system, which the booted kernel downloads.
    pub fn rootfs(&self) -> String {
        format!("{}-rootfs.img", self.name)
    }

    /// The file name of the iPXE script.
    pub fn script(&self) -> String {
        format!("{}.ipxe", self.name)
    }

    /// The URL of one of these files.
    pub fn url_of(&self, file: &str) -> String {
        format!("{}/{file}", self.base_url)
    }
}

/// Arguments without which a live image does not read its Ignition.
const DEFAULT_ARGUMENTS: [&str; 2] = ["ignition.firstboot", "ignition.platform.id=metal"];
/// Arguments that hold only for a machine that boots from a disc, or that the script sets itself.
const ARGUMENTS_OF_DISC: [&str; 3] = ["initrd=", "coreos.liveiso=", "coreos.live.rootfs_url="];

/// The arguments of the kernel in the boot menu of a live image: those of the first line that
/// begins with `linux`. Space that is kept for more of them is filled with `#`.
pub fn kernel_arguments_of_menu(menu: &str) -> Vec<String> {
    let lines = menu.lines().map(str::trim);
    let mut kernel_lines =
        lines.filter(|line| line.starts_with("linux ") || line.starts_with("linux\t"));
    let Some(line) = kernel_lines.next() else { return Vec::new() };
    let mut arguments = Vec::new();
    // The word itself and the path of the kernel come first.
    for argument in line.split_whitespace().skip(2) {
        let is_filling = argument.bytes().all(|byte| byte == b'#');
        let is_of_disc = ARGUMENTS_OF_DISC.iter().any(|prefix| argument.starts_with(prefix));
        if !is_filling && !is_of_disc {
            arguments.push(argument.trim_end_matches('#').to_owned());
        }
    }
    arguments
}

/// The script of iPXE: it fetches kernel, initial file system and root file system, and boots.
pub fn render_ipxe_script(names: &PxeNames, kernel_arguments: &[String]) -> String {
    let kernel = names.url_of(&names.kernel());
    let initrd = names.url_of(&names.initrd());
    let rootfs = names.url_of(&names.rootfs());
    let mut arguments = vec!["initrd=main".to_owned(), format!("coreos.live.rootfs_url={rootfs}")];
    for argument in DEFAULT_ARGUMENTS {
        if !kernel_arguments.iter().any(|given| given == argument) {
            arguments.push(argument.to_owned());
        }
    }
    arguments.extend_from_slice(kernel_arguments);
    let arguments = arguments.join(" ");
    format!("#!ipxe\ninitrd --name main {initrd}\nkernel {kernel} {arguments}\nboot\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_has_the_arguments_of_the_image() {
        let menu = "menuentry 'RHCOS' {\n\tlinux /images/pxeboot/vmlinuz coreos.liveiso=rhcos-418 \
            ignition.firstboot ignition.platform.id=metal console=ttyS0 ######\n\tinitrd x\n}\n";
        let arguments = kernel_arguments_of_menu(menu);
        let names =
            PxeNames { base_url: "http://192.0.2.9/images/a".into(), name: "rack".to_owned() };
        assert_eq!(
            render_ipxe_script(&names, &arguments),
            "#!ipxe\ninitrd --name main http://192.0.2.9/images/a/rack-initrd.img\n\
             kernel http://192.0.2.9/images/a/rack-vmlinuz initrd=main \
             coreos.live.rootfs_url=http://192.0.2.9/images/a/rack-rootfs.img \
             ignition.firstboot ignition.platform.id=metal console=ttyS0\nboot\n"
        );
    }
}
