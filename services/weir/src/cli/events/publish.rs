//! `weir events publish`.

use weir_proto::routing::v1::PublishRequest;

use super::super::error::Failure;
use super::super::format;
use super::super::input::EventArgs;
use super::super::session::Session;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scope that accepts the event
    #[arg(long)]
    scope: String,
    /// Producer's id; with the source it identifies the event, so a repeat is safe
    #[arg(long)]
    id: String,
    #[command(flatten)]
    event: EventArgs,
    /// Correlation key; may be given several times
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), Failure> {
    if args.event.kind.is_none() {
        return Err(Failure::usage(
            "an event needs a --type, such as issues.opened",
        ));
    }
    let request = PublishRequest {
        scope: args.scope,
        event: Some(args.event.build(&args.id)?),
        keys: args.keys,
        targets: None,
    };
    let answer = session
        .client()?
        .events()
        .publish(session.request(request))
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
        return Ok(());
    }
    let acceptance = answer.acceptance.unwrap_or_default();
    session.out.facts(&[
        ("event", answer.uid),
        ("scope", acceptance.scope),
        ("position", acceptance.position.to_string()),
        ("accepted", format::time(acceptance.accepted_at)),
        (
            "note",
            if acceptance.deduplicated {
                "was accepted before".to_owned()
            } else {
                String::new()
            },
        ),
    ]);
    Ok(())
}
