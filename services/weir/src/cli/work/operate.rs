//! `weir work create`, `send`, `cancel` and `release`.

use weir_proto::lifecycle::v1::{
    CancelWorkRequest, CreateWorkRequest, ReleaseWorkRequest, SendInputRequest,
};
use weir_proto::types::v1::Work;

use super::super::error::Failure;
use super::super::input;
use super::super::session::Session;
use super::read;

#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// Scope
    #[arg(long)]
    scope: String,
    /// Binding that it runs on
    #[arg(long)]
    binding: String,
    /// Correlation key that it owns; may be given several times
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// Payload of its first input: as text, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    data: Option<String>,
    /// Why; kept for ever
    #[arg(long)]
    reason: String,
    /// Makes a repeat answer the first result
    #[arg(long, default_value = "", hide_default_value = true)]
    request_id: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// The Work
    #[arg(value_name = "WORK")]
    work: String,
    /// Type of the event; `manual.input` when not given
    #[arg(
        long = "type",
        value_name = "TYPE",
        default_value = "",
        hide_default_value = true
    )]
    kind: String,
    /// Payload: as text, @FILE, or - for standard input
    #[arg(long, value_name = "TEXT|@FILE|-")]
    data: Option<String>,
    /// Makes a repeat answer the first result
    #[arg(long, default_value = "", hide_default_value = true)]
    request_id: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The Work
    #[arg(value_name = "WORK")]
    work: String,
    /// Why; kept for ever
    #[arg(long)]
    reason: String,
    /// Makes a repeat answer the first result
    #[arg(long, default_value = "", hide_default_value = true)]
    request_id: String,
}

pub(crate) async fn create(session: &Session, args: CreateArgs) -> Result<(), Failure> {
    let text_data = match args.data {
        None => String::new(),
        Some(given) => String::from_utf8(input::read(&given)?)
            .map_err(|_| Failure::failed("the first input of a Work must be UTF-8 text"))?,
    };
    let request = CreateWorkRequest {
        scope: args.scope,
        binding: args.binding,
        keys: args.keys,
        text_data,
        reason: args.reason,
        request_id: args.request_id,
    };
    let answer = session
        .client()?
        .work()
        .create_work(session.request(request))
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
    } else {
        show(session, answer.work, answer.control_event);
    }
    Ok(())
}

pub(crate) async fn send(session: &Session, args: SendArgs) -> Result<(), Failure> {
    let text_data = match args.data {
        None => String::new(),
        Some(given) => String::from_utf8(input::read(&given)?)
            .map_err(|_| Failure::failed("what is sent to a Work must be UTF-8 text"))?,
    };
    let request = SendInputRequest {
        work: args.work,
        r#type: args.kind,
        text_data,
        request_id: args.request_id,
    };
    let answer = session
        .client()?
        .work()
        .send_input(session.request(request))
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
    } else {
        session.out.facts(&[("event", answer.event)]);
    }
    Ok(())
}

pub(crate) async fn cancel(session: &Session, args: Args) -> Result<(), Failure> {
    let request = CancelWorkRequest {
        work: args.work,
        reason: args.reason,
        request_id: args.request_id,
    };
    let answer = session
        .client()?
        .work()
        .cancel_work(session.request(request))
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
    } else {
        show(session, answer.work, answer.control_event);
    }
    Ok(())
}

pub(crate) async fn release(session: &Session, args: Args) -> Result<(), Failure> {
    let request = ReleaseWorkRequest {
        work: args.work,
        reason: args.reason,
        request_id: args.request_id,
    };
    let answer = session
        .client()?
        .work()
        .release_work(session.request(request))
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
    } else {
        show(session, answer.work, answer.control_event);
    }
    Ok(())
}

fn show(session: &Session, work: Option<Work>, control_event: String) {
    read::show(session, &work.unwrap_or_default());
    session.out.facts(&[("control event", control_event)]);
}
