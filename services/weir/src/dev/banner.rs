//! What to try first.

use std::net::SocketAddr;

use super::tenant::reachable;
use crate::cli::output::complain;

/// Says where everything is, on standard error.
pub(super) fn print(address: SocketAddr, tenant: &str, generation: i64) {
    complain(&text(&reachable(address).to_string(), tenant, generation));
}

fn text(at: &str, tenant: &str, generation: i64) -> String {
    let identity = format!("-H 'x-weir-tenant: {tenant}' -H 'x-weir-actor: me'");
    format!(
        "\
weir is ready on {at}: tenant {tenant}, generation {generation}, development identity

Publish an event, and see what became of it:
  weir events publish --scope github --id 1 --type issues.opened --key issue/1 --data '{{}}'
  weir events list
  weir work list
  weir trace --scope github --type issues.opened --data '{{}}'
  weir worker --binding triage -- cat

The same with grpcurl and curl:
  grpcurl -plaintext {at} list
  grpcurl -plaintext {identity} -d '{{\"scope\":\"github\",\"event\":{{\"id\":\"1\",\"source\":\"demo\",\"spec_version\":\"1.0\",\"type\":\"issues.opened\",\"text_data\":\"{{}}\"}},\"keys\":[\"issue/1\"]}}' {at} weir.routing.v1.EventService/Publish
  curl -H 'ce-id: 2' -H 'ce-source: demo' -H 'ce-type: issues.opened' -H 'ce-specversion: 1.0' -H 'x-weir-tenant: {tenant}' -d '{{}}' '{at}/v1/events?scope=github'
  curl {at}/health/ready

Ctrl-C stops; nothing is removed."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_name_the_address_and_the_tenant() {
        let text = text("127.0.0.1:7070", "demo", 1);
        assert!(text.contains("grpcurl -plaintext 127.0.0.1:7070 list"));
        assert!(
            text.contains(
                r#""text_data":"{}"},"keys":["issue/1"]}' 127.0.0.1:7070 weir.routing.v1"#
            )
        );
        assert!(text.contains("x-weir-tenant: demo"));
    }
}
