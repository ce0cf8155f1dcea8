//! The methods of the contracts. Labels come from here and not from a request's path, so that nobody
//! can fill the metrics with names.

use std::collections::HashMap;
use std::sync::LazyLock;

/// What the layers know of a method.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) streams: bool,
}

static METHODS: LazyLock<HashMap<String, Method>> = LazyLock::new(|| {
    let mut methods = HashMap::new();
    let mut add = |service: &str, name: &str, streams: bool| {
        let method = Method {
            service: service.to_owned(),
            name: name.to_owned(),
            streams,
        };
        methods.insert(format!("/{service}/{name}"), method);
    };
    for service in weir_proto::DESCRIPTORS.services() {
        for method in service.methods() {
            let streams = method.is_client_streaming() || method.is_server_streaming();
            add(service.full_name(), method.name(), streams);
        }
    }
    add("grpc.health.v1.Health", "Check", false);
    add("grpc.health.v1.Health", "List", false);
    add("grpc.health.v1.Health", "Watch", true);
    for version in ["v1", "v1alpha"] {
        let service = format!("grpc.reflection.{version}.ServerReflection");
        add(&service, "ServerReflectionInfo", true);
    }
    methods
});

/// Everything else: HTTP, and calls of methods that do not exist.
static OTHER: LazyLock<Method> = LazyLock::new(|| Method {
    service: "other".into(),
    name: "other".into(),
    streams: true,
});

/// Finds a method by its path.
pub(crate) fn find(path: &str) -> &'static Method {
    METHODS.get(path).unwrap_or_else(|| &OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_known_by_path() {
        assert!(find("/grpc.health.v1.Health/Watch").streams);
        assert!(METHODS.len() > 10);
        assert_eq!(find("/weir.routing.v1.EventService/Nope"), &*OTHER);
        let publish = find("/weir.routing.v1.EventService/Publish");
        assert_eq!((publish.name.as_str(), publish.streams), ("Publish", false));
    }
}
