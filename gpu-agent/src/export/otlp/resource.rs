//! The resource: which agent on which node speaks.

use std::collections::BTreeMap;

/// Attributes of the resource, by key.
pub type ResourceAttributes = BTreeMap<String, String>;

/// What is known of the machine; what is not is left out.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// Host name.
    pub host_name: Option<String>,
    /// `/etc/machine-id` of the host.
    pub host_id: Option<String>,
    /// Name of the Kubernetes node, from the downward API.
    pub node_name: Option<String>,
}

/// The attributes of this agent's resource; `configured` ones win.
///
/// `service.instance.id` is the node's, not the process's: a restarted agent goes on with the same series.
pub fn attributes(facts: &HostFacts, configured: &BTreeMap<String, String>) -> ResourceAttributes {
    let instance = [&facts.host_id, &facts.node_name, &facts.host_name].into_iter().find_map(Option::clone);
    let found = [
        ("service.name", Some(env!("CARGO_PKG_NAME").to_owned())),
        ("service.version", Some(env!("CARGO_PKG_VERSION").to_owned())),
        ("service.instance.id", instance),
        ("host.name", facts.host_name.clone()),
        ("host.id", facts.host_id.clone()),
        ("k8s.node.name", facts.node_name.clone()),
    ];
    let mut attributes: ResourceAttributes = found
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value.filter(|value| !value.is_empty())?)))
        .collect();
    attributes.extend(configured.iter().map(|(key, value)| (key.clone(), value.clone())));
    attributes
}

#[cfg(test)]
mod tests {
    use super::{HostFacts, attributes};

    #[test]
    fn what_is_unknown_is_left_out_and_what_is_configured_wins() {
        let facts =
            HostFacts { host_name: Some("node-1".into()), host_id: None, node_name: Some(String::new()) };
        let configured =
            [("host.name".to_owned(), "other".to_owned()), ("x".to_owned(), "y".to_owned())].into();
        let attributes = attributes(&facts, &configured);
        assert_eq!(attributes["host.name"], "other");
        assert_eq!(attributes["x"], "y");
        assert_eq!(attributes["service.name"], "gpu-agent");
        assert!(!attributes.contains_key("host.id"));
        assert!(!attributes.contains_key("k8s.node.name"));
    }

    #[test]
    fn the_instance_is_the_node() {
        let facts = HostFacts {
            host_name: Some("node-1".into()),
            host_id: Some("4c4c".into()),
            node_name: Some("worker".into()),
        };
        assert_eq!(attributes(&facts, &[].into())["service.instance.id"], "4c4c");
        let facts = HostFacts { host_id: None, ..facts };
        assert_eq!(attributes(&facts, &[].into())["service.instance.id"], "worker");
    }
}
