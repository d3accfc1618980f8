//! Releases of OpenShift, as far as rules differ between them: major and minor version. Nothing
//! here looks into an image.

use std::fmt;

/// Major and minor version of a release, such as 4.18.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    pub major: u64,
    pub minor: u64,
}

impl Release {
    /// A release such as 4.18, without its patch level.
    pub const fn new(major: u64, minor: u64) -> Self {
        Self { major, minor }
    }

    /// The release that the tag of an image names, as in `ocp-release:4.18.3-x86_64`. None if it
    /// names none, as a digest does not.
    pub fn of_image(image: &str) -> Option<Self> {
        let (_, tag) = image.rsplit_once(':')?;
        let mut parts = tag.split(['.', '-']);
        Some(Self { major: parts.next()?.parse().ok()?, minor: parts.next()?.parse().ok()? })
    }
}

impl fmt::Display for Release {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_the_release_and_a_digest_does_not() {
        for (image, expected) in [
            ("quay.io/openshift-release-dev/ocp-release:4.18.3-x86_64", Some(Release::new(4, 18))),
            ("mirror.example.com:5000/ocp:4.20.0-rc.1", Some(Release::new(4, 20))),
            ("quay.io/ocp@sha256:0123", None),
            ("example.com/simulated:1", None),
            ("mirror.example.com:5000/ocp", None),
        ] {
            assert_eq!(Release::of_image(image), expected, "{image}");
        }
    }
}
