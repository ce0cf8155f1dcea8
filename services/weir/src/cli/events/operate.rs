//! `weir events skip` and `weir events reroute`.

use weir_proto::gateway::v1::{RerouteEventRequest, SkipEventRequest};

use super::super::error::Failure;
use super::super::format;
use super::super::session::Session;
use super::Handle;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    handle: Handle,
    /// Why; kept for ever
    #[arg(long)]
    reason: String,
    /// Makes a repeat answer the first result
    #[arg(long, default_value = "", hide_default_value = true)]
    request_id: String,
}

pub(crate) async fn skip(session: &Session, args: Args) -> Result<(), Failure> {
    let (event, source, id) = args.handle.fields();
    let request = SkipEventRequest {
        event,
        source,
        id,
        reason: args.reason,
        request_id: args.request_id,
    };
    let answer = session
        .client()?
        .control()
        .skip_event(session.request(request))
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
        return Ok(());
    }
    let record = answer.record.unwrap_or_default();
    session.out.facts(&[
        ("event", record.event),
        ("scope", record.scope),
        ("status", format::disposition(record.disposition)),
        ("work", record.work),
        ("reason", record.reason),
        ("control event", answer.control_event),
    ]);
    Ok(())
}

pub(crate) async fn reroute(session: &Session, args: Args) -> Result<(), Failure> {
    let (event, source, id) = args.handle.fields();
    let request = RerouteEventRequest {
        event,
        source,
        id,
        reason: args.reason,
        request_id: args.request_id,
    };
    let answer = session
        .client()?
        .control()
        .reroute_event(session.request(request))
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
        return Ok(());
    }
    let done = if answer.copied {
        "a copy was accepted and is tried now"
    } else {
        "it is tried now"
    };
    session.out.facts(&[
        ("event", answer.event),
        ("done", done.to_owned()),
        ("control event", answer.control_event),
    ]);
    Ok(())
}
