//! `weir events get` and `weir events list`.

use clap::{Args, ValueEnum};
use weir_proto::cloudevents::v1::cloud_event::Data;
use weir_proto::routing::v1::{GetEventRequest, ListEventsRequest};
use weir_proto::types::v1::{Disposition, Event};

use super::super::error::Failure;
use super::super::format;
use super::super::session::Session;
use super::Handle;

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    handle: Handle,
    /// Leave the payload out
    #[arg(long)]
    omit_data: bool,
}

pub(crate) async fn get(session: &Session, args: GetArgs) -> Result<(), Failure> {
    let (event, source, id) = args.handle.fields();
    let request = GetEventRequest {
        event,
        source,
        id,
        omit_data: args.omit_data,
    };
    let answer = session
        .client()?
        .events()
        .get_event(session.request(request))
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
        return Ok(());
    }
    show(session, &answer.event.unwrap_or_default());
    Ok(())
}

fn show(session: &Session, event: &Event) {
    let envelope = event.event.clone().unwrap_or_default();
    let payload = match &envelope.data {
        Some(Data::TextData(text)) => text.clone(),
        Some(Data::BinaryData(bytes)) => {
            format!("{} bytes that are no text; --json shows them", bytes.len())
        }
        Some(Data::ProtoData(_)) | None => String::new(),
    };
    let route = event.route.clone().unwrap_or_default();
    let pending = event.pending.clone().unwrap_or_default();
    let failures = if pending.failures > 0 {
        format!(
            "{} since {}: {}",
            pending.failures,
            format::time(pending.first_failed_at),
            pending.last_error
        )
    } else {
        String::new()
    };
    session.out.facts(&[
        ("event", event.uid.clone()),
        ("scope", event.scope.clone()),
        ("position", event.position.to_string()),
        ("accepted", format::time(event.accepted_at)),
        ("actor", event.actor.clone()),
        ("type", envelope.r#type),
        ("source", envelope.source),
        ("id", envelope.id),
        ("keys", event.keys.join(" ")),
        ("root", event.root.clone()),
        ("parent", event.parent.clone()),
        ("copy of", event.copy_of.clone()),
        ("status", format::status(event)),
        ("work", route.work),
        ("route", route.route),
        ("binding", route.binding),
        ("policy", format::policy(route.policy)),
        (
            "reason",
            if event.route.is_some() {
                route.reason
            } else {
                pending.reason
            },
        ),
        ("error", route.error),
        ("failures", failures),
        ("next try", format::time(pending.next_try)),
        ("data", payload),
    ]);
    let refusals = route
        .refusals
        .into_iter()
        .map(|refusal| vec![refusal.route, refusal.reason])
        .collect::<Vec<_>>();
    if !refusals.is_empty() {
        session.out.table(&["DECLINED BY", "REASON"], refusals, "");
    }
}

/// The dispositions, as words.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum DispositionWord {
    Start,
    Queue,
    Inject,
    Interrupt,
    Wake,
    Drop,
    Unmatched,
    Terminal,
    Skipped,
    Failed,
}

impl From<DispositionWord> for Disposition {
    fn from(word: DispositionWord) -> Self {
        match word {
            DispositionWord::Start => Self::Start,
            DispositionWord::Queue => Self::Queue,
            DispositionWord::Inject => Self::Inject,
            DispositionWord::Interrupt => Self::Interrupt,
            DispositionWord::Wake => Self::Wake,
            DispositionWord::Drop => Self::Drop,
            DispositionWord::Unmatched => Self::Unmatched,
            DispositionWord::Terminal => Self::Terminal,
            DispositionWord::Skipped => Self::Skipped,
            DispositionWord::Failed => Self::Failed,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// One scope; all scopes when not given
    #[arg(long)]
    scope: Option<String>,
    /// Only unrouted events
    #[arg(long, conflicts_with = "disposition")]
    unrouted: bool,
    /// Only events that were routed like this
    #[arg(long, value_enum)]
    disposition: Option<DispositionWord>,
    /// Only events of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only events of this Work
    #[arg(long)]
    work: Option<String>,
    /// At most this many in a page, 1 to 1000
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=1000))]
    page_size: i32,
    /// Where the last page ended
    #[arg(long, default_value = "", hide_default_value = true)]
    page_token: String,
    /// Every page
    #[arg(long)]
    all: bool,
}

pub(crate) async fn list(session: &Session, args: ListArgs) -> Result<(), Failure> {
    let mut client = session.client()?.events();
    let mut request = ListEventsRequest {
        scope: args.scope.unwrap_or_default(),
        page_size: args.page_size,
        page_token: args.page_token,
        disposition: args.disposition.map(|word| Disposition::from(word).into()),
        unrouted: args.unrouted,
        r#type: args.kind.unwrap_or_default(),
        work: args.work.unwrap_or_default(),
        include_data: false,
    };
    let mut rows = Vec::new();
    loop {
        let answer = client
            .list_events(session.request(request.clone()))
            .await?
            .into_inner();
        request.page_token.clone_from(&answer.next_page_token);
        if session.out.is_json() {
            session.out.message(&answer);
        } else {
            rows.extend(answer.events.iter().map(row));
        }
        if !args.all || request.page_token.is_empty() {
            break;
        }
    }
    if !session.out.is_json() {
        session.out.table(
            &[
                "EVENT", "SCOPE", "POSITION", "ACCEPTED", "TYPE", "STATUS", "WORK",
            ],
            rows,
            "no events",
        );
        if !request.page_token.is_empty() {
            super::super::output::complain(&format!(
                "there are more: --page-token {}",
                request.page_token
            ));
        }
    }
    Ok(())
}

fn row(event: &Event) -> Vec<String> {
    vec![
        event.uid.clone(),
        event.scope.clone(),
        event.position.to_string(),
        format::time(event.accepted_at),
        event
            .event
            .as_ref()
            .map(|envelope| envelope.r#type.clone())
            .unwrap_or_default(),
        format::status(event),
        event
            .route
            .as_ref()
            .map(|route| route.work.clone())
            .unwrap_or_default(),
    ]
}
