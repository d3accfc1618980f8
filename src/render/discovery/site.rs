//! What the hosts of a discovery image are told of the site that they stand in. An `InfraEnv` that
//! says something of it itself keeps that.

use std::collections::BTreeMap;

use crate::model::infra_env::InfraEnv;
use crate::model::site::Site;

/// An `InfraEnv` with the proxies and the authorities of the site, where it has none itself.
pub fn complete_infra_env(infra_env: &InfraEnv, site: &Site) -> InfraEnv {
    let mut completed = infra_env.clone();
    let spec = &mut completed.spec;
    if spec.proxy.is_none() {
        spec.proxy.clone_from(&site.proxy);
    }
    if spec.additional_trust_bundle.is_empty() {
        spec.additional_trust_bundle.clone_from(&site.trust_bundle);
    }
    completed
}

/// The mirrors as a file of the folder `registries.conf.d`, see containers-registries.conf(5). The
/// names of repositories have no letters that would need quotes.
pub fn render_registries(mirrors: &BTreeMap<String, Vec<String>>) -> String {
    let mut config = String::new();
    for (source, mirrors) in mirrors {
        let registry =
            ["[[registry]]\nlocation = \"", source, "\"\nmirror-by-digest-only = true\n"];
        config.push_str(&registry.concat());
        for mirror in mirrors {
            let registry_mirror = ["[[registry.mirror]]\nlocation = \"", mirror, "\"\n"];
            config.push_str(&registry_mirror.concat());
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::infra_env::Proxy;

    #[test]
    fn an_infra_env_keeps_what_it_says_of_the_site() {
        let proxy = Proxy { https_proxy: "http://site:3128".into(), ..Proxy::default() };
        let site =
            Site { proxy: Some(proxy), trust_bundle: "of the site".into(), ..Site::default() };
        let mut infra_env = InfraEnv::default();
        let completed = complete_infra_env(&infra_env, &site);
        assert_eq!(completed.spec.proxy, site.proxy);
        assert_eq!(completed.spec.additional_trust_bundle, "of the site");
        infra_env.spec.proxy = Some(Proxy::default());
        infra_env.spec.additional_trust_bundle = "its own".into();
        assert_eq!(complete_infra_env(&infra_env, &site), infra_env);
    }

    #[test]
    fn a_repository_is_pulled_from_its_mirrors() {
        let mirrors = BTreeMap::from([(
            "quay.io/ocp".to_owned(),
            vec!["a.example.com:5000/ocp".to_owned(), "b.example.com/ocp".to_owned()],
        )]);
        let expected = "[[registry]]\nlocation = \"quay.io/ocp\"\nmirror-by-digest-only = true\n\
            [[registry.mirror]]\nlocation = \"a.example.com:5000/ocp\"\n\
            [[registry.mirror]]\nlocation = \"b.example.com/ocp\"\n";
        assert_eq!(render_registries(&mirrors), expected);
        assert_eq!(render_registries(&BTreeMap::new()), "");
    }
}
