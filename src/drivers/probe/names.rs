//! Which names an installation resolves from this machine, and whether they can be resolved: those
//! of the platform and of the registry, or of what stands in their place at the site.

use std::net::ToSocketAddrs;
use std::sync::mpsc;
use std::time::Duration;

use crate::drivers::task::Task;
use crate::drivers::{credentials, site};
use crate::model::order::JobOrder;

use super::Finding;

/// How long a name may take to be resolved.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the names can be resolved that an installation needs. `addresses` are those that the
/// platform of the pool names.
pub fn probe_names(task: &Task, addresses: &[String]) -> Finding {
    let step = "DNS names";
    let host_names = collect_host_names(task, addresses);
    let mut unresolved = Vec::new();
    for name in &host_names {
        if let Err(error) = resolve(name) {
            unresolved.push(format!("{name}: {error}"));
        }
    }
    if host_names.is_empty() {
        Finding::skipped(step, "the pool names no host")
    } else if unresolved.is_empty() {
        Finding::ok(step, format!("{} can be resolved", host_names.join(", ")))
    } else {
        let next = "mend the name in the pool or in spec.site of the Settings, or the resolver of \
                    this machine (/etc/resolv.conf)";
        Finding::failed(step, unresolved.join("; "), next)
    }
}

/// The names that this machine resolves, each once. Behind a proxy it is the proxy that resolves all
/// others.
fn collect_host_names(task: &Task, addresses: &[String]) -> Vec<String> {
    let mut host_names: Vec<String> =
        addresses.iter().filter_map(|address| host_of(address)).collect();
    let authentication_url = credentials::authentication_url(task);
    host_names.extend(authentication_url.and_then(|url| host_of(&url)));
    host_names.extend(registry_hosts(&task.order));
    if let Some(proxy) = site::read_proxy(&task.job_folder) {
        let urls = [&proxy.http_proxy, &proxy.https_proxy];
        let proxy_hosts: Vec<String> = urls.into_iter().filter_map(|url| host_of(url)).collect();
        if !proxy_hosts.is_empty() {
            host_names.retain(|name| is_reached_directly(name, &proxy.no_proxy));
            host_names.extend(proxy_hosts);
        }
    }
    host_names.sort_unstable();
    host_names.dedup();
    host_names
}

/// The hosts that a release is pulled from: those of its mirrors, or else that of its own registry.
fn registry_hosts(order: &JobOrder) -> Vec<String> {
    let image = order.release_image.as_str();
    let listed = order.site.mirrors.iter().filter(|(source, _)| is_below(image, source));
    let nearest = listed.max_by_key(|(source, _)| source.len());
    let mirrors = nearest.map(|(_, mirrors)| mirrors.as_slice()).unwrap_or_default();
    if mirrors.is_empty() {
        return registry_of(image).into_iter().collect();
    }
    mirrors.iter().filter_map(|mirror| registry_of(mirror)).collect()
}

/// Whether an image is in a repository, or in one below it.
fn is_below(image: &str, repository: &str) -> bool {
    image
        .strip_prefix(repository)
        .is_some_and(|suffix| suffix.is_empty() || suffix.starts_with(['/', ':', '@']))
}

/// The host of the registry that an image is pulled from; none if its name has none.
fn registry_of(image: &str) -> Option<String> {
    let (registry, _) = image.split_once('/')?;
    let is_host = registry.contains(['.', ':']) || registry == "localhost";
    if is_host { host_of(registry) } else { None }
}

/// The host of a URL, or of an address with or without a port.
fn host_of(address: &str) -> Option<String> {
    let without_scheme = address.split_once("://").map_or(address, |(_, authority)| authority);
    let authority = without_scheme.split(['/', '?', '#']).next().unwrap_or_default();
    let host_and_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host_and_port.strip_prefix('[') {
        Some(ipv6) => ipv6.split(']').next().unwrap_or_default(),
        None => host_and_port.split(':').next().unwrap_or_default(),
    };
    if host.is_empty() { None } else { Some(host.to_owned()) }
}

/// Whether programs reach a host without the proxy, by the rules of Go: the host itself or a domain
/// that it is in is listed. Networks are of no matter for a name.
fn is_reached_directly(host: &str, no_proxy: &str) -> bool {
    no_proxy.split(',').map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let domain = entry.trim_start_matches('.');
        let is_below = host.strip_suffix(domain).is_some_and(|name| name.ends_with('.'));
        entry == "*" || entry == host || is_below
    })
}

/// Resolves a name as programs do. The resolver of the system may take long, so it is not waited
/// for to the end.
fn resolve(host_name: &str) -> Result<(), String> {
    let (sender, receiver) = mpsc::channel();
    let address = (host_name.to_owned(), 443);
    std::thread::spawn(move || {
        let resolved = address.to_socket_addrs().map(drop).map_err(|error| error.to_string());
        // Nobody may wait any more.
        drop(sender.send(resolved));
    });
    let seconds = RESOLVE_TIMEOUT.as_secs();
    receiver
        .recv_timeout(RESOLVE_TIMEOUT)
        .unwrap_or_else(|_| Err(format!("no answer within {seconds} s")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::model::order::SiteOrder;

    use super::*;

    #[test]
    fn a_host_is_found_in_urls_and_addresses() {
        for (address, host) in [
            ("vcenter.example.com", Some("vcenter.example.com")),
            ("https://user:secret@keystone.example.com:5000/v3", Some("keystone.example.com")),
            ("[2001:db8::1]:443", Some("2001:db8::1")),
            ("localhost:5000", Some("localhost")),
            ("", None),
        ] {
            assert_eq!(host_of(address).as_deref(), host, "{address}");
        }
    }

    #[test]
    fn a_registry_is_a_host_without_its_port() {
        assert_eq!(registry_of("quay.io:443/ocp@sha256:abc").as_deref(), Some("quay.io"));
        assert_eq!(registry_of("localhost:5000/ocp").as_deref(), Some("localhost"));
        assert_eq!(registry_of("library/ocp:4.18.3"), None);
        assert_eq!(registry_of("ocp:4.18.3"), None);
    }

    #[test]
    fn a_release_is_pulled_from_the_mirrors_of_the_nearest_repository() {
        let mirrors = BTreeMap::from([
            ("quay.io".to_owned(), vec!["far.example.com/a".to_owned()]),
            ("quay.io/ocp".to_owned(), vec!["near.example.com:5000/b".to_owned()]),
        ]);
        let site = SiteOrder { mirrors, ..SiteOrder::default() };
        for (release_image, host) in [
            ("quay.io/ocp@sha256:abc", "near.example.com"),
            ("quay.io/ocp/release:4.18.3", "near.example.com"),
            ("quay.io/ocpx:4.18.3", "far.example.com"),
            ("registry.example.com/ocp:4.18.3", "registry.example.com"),
        ] {
            let release_image = release_image.to_owned();
            let order = JobOrder { release_image, site: site.clone(), ..JobOrder::default() };
            assert_eq!(registry_hosts(&order), [host], "{}", order.release_image);
        }
    }

    #[test]
    fn hosts_that_need_no_proxy_are_listed_by_name_or_domain() {
        for (no_proxy, is_direct) in [
            ("", false),
            ("a.example.com", true),
            (".example.com,192.0.2.0/24", true),
            ("example.com", true),
            ("ple.com", false),
            ("*", true),
        ] {
            assert_eq!(is_reached_directly("a.example.com", no_proxy), is_direct, "{no_proxy}");
        }
    }
}
