//! `weir trace`: what would become of an event, and why.

mod document;

use weir_proto::gateway::v1::{TraceCandidateRequest, TraceEventRequest, TraceEventResponse};
use weir_proto::types::v1::{Effect, EffectKind};

use self::document::Document;
use super::error::Failure;
use super::format;
use super::input::{self, EventArgs};
use super::session::Session;

/// Id of a traced event that was given none. It is never stored; one that was accepted under the
/// same source and id would be answered instead.
const ID: &str = "trace";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scope of the event
    #[arg(long)]
    scope: Option<String>,
    /// Event as JSON: a CloudEvent, or a whole request with `scope`, `event` and `keys`; - for
    /// standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "subject", "data", "content_type", "id"])]
    file: Option<String>,
    /// Producer's id
    #[arg(long, default_value = ID, hide_default_value = true)]
    id: String,
    #[command(flatten)]
    event: EventArgs,
    /// Correlation key; may be given several times
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// Decide by this configuration, which is not published, instead of the current one; - for
    /// standard input
    #[arg(long, value_name = "FILE")]
    candidate: Option<String>,
    /// Show only routes whose slot contains this; never changes the decision
    #[arg(long, default_value = "", hide_default_value = true)]
    filter: String,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), Failure> {
    let document = candidate(&args)?;
    let request = request(args)?;
    let mut control = session.client()?.control();
    let answer = match document {
        None => control
            .trace_event(session.request(request))
            .await?
            .into_inner(),
        Some(document) => {
            let request = TraceCandidateRequest {
                trace: Some(request),
                document,
            };
            let answer = control.trace_candidate(session.request(request)).await?;
            answer.into_inner().trace.unwrap_or_default()
        }
    };
    if session.out.is_json() {
        session.out.message(&answer);
    } else {
        show(session, answer);
    }
    Ok(())
}

/// Reads the configuration to try.
fn candidate(args: &Args) -> Result<Option<String>, Failure> {
    let Some(path) = args.candidate.as_deref() else {
        return Ok(None);
    };
    let others = [&args.file, &args.event.data];
    if path == "-" && others.iter().any(|given| given.as_deref() == Some("-")) {
        return Err(Failure::usage(
            "standard input is either the candidate or the event, not both",
        ));
    }
    input::text_file(path).map(Some)
}

fn request(args: Args) -> Result<TraceEventRequest, Failure> {
    let (scope, event, keys) = match &args.file {
        Some(path) => {
            let document = Document::parse(&input::text_file(path)?)
                .map_err(|error| Failure::failed(format!("`{path}` is not an event: {error}")))?;
            let mut keys = document.keys;
            keys.extend(args.keys);
            (args.scope.or(document.scope), document.event, keys)
        }
        None if args.event.kind.is_none() => {
            return Err(Failure::usage(
                "an event needs a --type, such as issues.opened, or a --file",
            ));
        }
        None => (args.scope, args.event.build(&args.id)?, args.keys),
    };
    let scope = scope.ok_or_else(|| Failure::usage("an event needs a --scope, such as github"))?;
    Ok(TraceEventRequest {
        scope,
        event: Some(event),
        keys,
        targets: None,
        filter: args.filter,
    })
}

fn show(session: &Session, answer: TraceEventResponse) {
    let rows = answer
        .verdicts
        .into_iter()
        .map(|verdict| {
            let reason = if verdict.failure.is_empty() {
                verdict.reason
            } else {
                format!("{}: {}", verdict.failure, verdict.reason)
            };
            vec![
                verdict.route,
                format::verdict(verdict.outcome),
                format::short(&reason, 200),
            ]
        })
        .collect();
    session
        .out
        .table(&["ROUTE", "VERDICT", "REASON"], rows, "no route is shown");
    session.out.line("");
    session.out.facts(&[
        (
            "effect",
            answer
                .effect
                .map(|effect| sentence(&effect))
                .unwrap_or_default(),
        ),
        ("generation", answer.generation),
        ("keys", answer.keys.join(" ")),
        (
            "note",
            match answer.accepted_as.as_str() {
                "" => String::new(),
                uid => format!(
                    "this identity was accepted as event {uid}; publishing it again answers that"
                ),
            },
        ),
    ]);
}

/// The effect in words.
fn sentence(effect: &Effect) -> String {
    let kind = EffectKind::try_from(effect.kind).unwrap_or(EffectKind::Unspecified);
    let on = |name: &str, value: &str| {
        if value.is_empty() {
            String::new()
        } else {
            format!(" {name} {value}")
        }
    };
    let mut text = match kind {
        EffectKind::Unspecified => format!("effect {} that this binary does not know", effect.kind),
        EffectKind::Start => "a new Work starts".to_owned(),
        EffectKind::Queue => format!("it is queued{}", on("to work", &effect.work)),
        EffectKind::Inject => format!(
            "it is queued and offered to the running attempt{}",
            on("of work", &effect.work)
        ),
        EffectKind::Interrupt => format!(
            "it is queued and interrupts the running attempt{}",
            on("of work", &effect.work)
        ),
        EffectKind::Wake => format!("it wakes{}", on("work", &effect.work)),
        EffectKind::Drop => format!("it is dropped{}", on("for work", &effect.work)),
        EffectKind::Unmatched => "no route takes it: unmatched".to_owned(),
        EffectKind::Pending => format!(
            "it waits for the end of the running attempt{}",
            on("of work", &effect.work)
        ),
        EffectKind::Conflict => format!(
            "it belongs to several works: {}",
            effect.conflicting_works.join(" ")
        ),
        EffectKind::Failed => format!("routing fails{}", on("with", &effect.reason)),
    };
    text.push_str(&on("by route", &effect.route));
    text.push_str(&on("on binding", &effect.binding));
    if !effect.reason.is_empty() && kind != EffectKind::Failed {
        text.push_str(&format!(" ({})", effect.reason));
    }
    if !effect.error.is_empty() {
        text.push_str(&format!(": {}", effect.error));
    }
    if !effect.also.is_empty() {
        let works = effect
            .also
            .iter()
            .map(|also| also.work.as_str())
            .collect::<Vec<_>>();
        text.push_str(&format!("; it also wakes {}", works.join(" ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_a_sentence() {
        let mut effect = Effect {
            kind: EffectKind::Queue.into(),
            work: "0199".to_owned(),
            route: "issues".to_owned(),
            binding: "triage".to_owned(),
            ..Effect::default()
        };
        assert_eq!(
            sentence(&effect),
            "it is queued to work 0199 by route issues on binding triage"
        );
        effect = Effect {
            kind: EffectKind::Drop.into(),
            route: "bots".to_owned(),
            reason: "policy".to_owned(),
            ..Effect::default()
        };
        assert_eq!(sentence(&effect), "it is dropped by route bots (policy)");
        effect = Effect {
            kind: EffectKind::Failed.into(),
            reason: "handler_failed".to_owned(),
            error: "no such field".to_owned(),
            ..Effect::default()
        };
        assert_eq!(
            sentence(&effect),
            "routing fails with handler_failed: no such field"
        );
    }
}
