//! `weir events tail`: follows events, across restarts of the gateway.

use tokio::time::sleep;
use tonic::Code;
use weir_client::{Backoff, Problem};
use weir_proto::routing::v1::{WatchEventsRequest, WatchEventsResponse};

use super::super::error::Failure;
use super::super::session::Session;
use super::super::{format, output};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One scope; all scopes when not given
    #[arg(long)]
    scope: Option<String>,
    /// Start with the oldest kept event instead of from now on
    #[arg(long)]
    from_start: bool,
    /// End after this many messages
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), Failure> {
    let mut client = session.client()?.events();
    let mut request = WatchEventsRequest {
        scope: args.scope.unwrap_or_default(),
        resume_token: String::new(),
        from_start: args.from_start,
        include_data: false,
    };
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut backoff = Backoff::default();
    while left > 0 {
        let problem = match client.watch_events(request.clone()).await {
            Err(status) => Some(Problem::from(status)),
            Ok(stream) => {
                let mut stream = stream.into_inner();
                loop {
                    if left == 0 {
                        return Ok(());
                    }
                    match stream.message().await {
                        Ok(Some(message)) => {
                            backoff.reset();
                            left -= 1;
                            show(session, &message);
                            request.resume_token = message.resume_token;
                        }
                        Ok(None) => break None,
                        Err(status) => break Some(Problem::from(status)),
                    }
                }
            }
        };
        if let Some(problem) = problem {
            // Nothing was seen yet: a wrong address should say so and not be tried for ever.
            if !may_pass(problem.code) || request.resume_token.is_empty() {
                return Err(problem.into());
            }
            output::complain(&format!(
                "interrupted: {}; going on from the last event",
                problem.message
            ));
        }
        sleep(backoff.next_delay()).await;
    }
    Ok(())
}

fn may_pass(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Unknown
            | Code::Internal
    )
}

fn show(session: &Session, message: &WatchEventsResponse) {
    if session.out.is_json() {
        session.out.message(message);
        return;
    }
    let event = message.event.clone().unwrap_or_default();
    let kind = event
        .event
        .as_ref()
        .map(|envelope| envelope.r#type.as_str())
        .unwrap_or_default();
    let work = event
        .route
        .as_ref()
        .map(|route| route.work.as_str())
        .unwrap_or_default();
    let arrow = if work.is_empty() {
        String::new()
    } else {
        format!(" -> work {work}")
    };
    session.out.line(&format!(
        "{}  {}  {}/{}  {kind}  {}{arrow}",
        format::time(event.accepted_at),
        event.uid,
        event.scope,
        event.position,
        format::status(&event),
    ));
}
