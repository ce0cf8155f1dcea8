//! The proto JSON mapping of answers, through the descriptors: what is printed is what the contract
//! says, also for fields that this binary shows nowhere else.

use prost::Message;
use prost_reflect::{DynamicMessage, SerializeOptions};
use weir_proto::DESCRIPTORS;
use weir_proto::gateway::v1 as gateway;
use weir_proto::lifecycle::v1 as lifecycle;
use weir_proto::migration::v1 as migration;
use weir_proto::routing::v1 as routing;
use weir_proto::types::v1 as types;

/// A generated message that knows its name in the descriptors.
pub(crate) trait WireName: Message + Default {
    /// Full name.
    const NAME: &'static str;
}

macro_rules! wire_names {
    ($($module:ident = $package:literal { $($message:ident),* $(,)? })*) => {
        $($(impl WireName for $module::$message {
            const NAME: &'static str = concat!($package, ".", stringify!($message));
        })*)*

        #[cfg(test)]
        const NAMES: &[&str] = &[$($(concat!($package, ".", stringify!($message))),*),*];
    };
}

wire_names! {
    types = "weir.types.v1" { Event }
    routing = "weir.routing.v1" {
        PublishResponse, GetEventResponse, ListEventsResponse, WatchEventsResponse,
        ValidateConfigResponse, PublishConfigResponse, GetConfigResponse, GetConfigStatusResponse, ListGenerationsResponse,
    }
    lifecycle = "weir.lifecycle.v1" {
        CreateWorkResponse, GetWorkResponse, ListWorksResponse, CancelWorkResponse, SendInputResponse,
        ReleaseWorkResponse, ListAttemptsResponse, ListInputsResponse,
    }
    gateway = "weir.gateway.v1" { SkipEventResponse, RerouteEventResponse, TraceEventResponse }
    migration = "weir.migration.v1" { GetStatusResponse, UpResponse, DownResponse }
}

/// Renders a message on one line, as `grpcurl` would: lowerCamelCase names, default values left out,
/// 64-bit integers as strings.
pub(crate) fn line<M: WireName>(message: &M) -> String {
    let descriptor = DESCRIPTORS
        .get_message_by_name(M::NAME)
        .expect("a test looks every name up");
    let dynamic = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())
        .expect("the type and its descriptor come from the same contract");
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut text);
    dynamic
        .serialize_with_options(&mut serializer, &SerializeOptions::new())
        .expect("these messages hold no Any and write to memory");
    String::from_utf8(text).expect("JSON is UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_proto::types::v1::{Acceptance, Event};

    #[test]
    fn every_name_is_in_the_contracts() {
        for name in NAMES {
            assert!(DESCRIPTORS.get_message_by_name(name).is_some(), "{name}");
        }
    }

    #[test]
    fn an_answer_is_printed_in_the_proto_json_mapping() {
        let answer = routing::PublishResponse {
            uid: "0199".to_owned(),
            acceptance: Some(Acceptance {
                uid: "0199".to_owned(),
                scope: "github".to_owned(),
                position: 7,
                accepted_at: Some(prost_types::Timestamp {
                    seconds: 0,
                    nanos: 500_000_000,
                }),
                deduplicated: true,
            }),
        };
        assert_eq!(
            line(&answer),
            r#"{"uid":"0199","acceptance":{"uid":"0199","scope":"github","position":"7","acceptedAt":"1970-01-01T00:00:00.500Z","deduplicated":true}}"#
        );
        assert_eq!(line(&Event::default()), "{}");
    }
}
