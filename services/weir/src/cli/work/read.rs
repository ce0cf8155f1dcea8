//! `weir work list`, `get`, `attempts` and `inputs`.

use clap::{Args, ValueEnum};
use weir_proto::lifecycle::v1::{
    GetWorkRequest, ListAttemptsRequest, ListInputsRequest, ListWorksRequest,
};
use weir_proto::types::v1::{Attempt, Blocker, Input, Work, WorkState};

use super::super::error::Failure;
use super::super::session::Session;
use super::super::{format, output};

/// The states, as words.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum StateWord {
    Ready,
    Running,
    Waiting,
    Held,
    Completed,
    Failed,
    Cancelled,
}

impl From<StateWord> for WorkState {
    fn from(word: StateWord) -> Self {
        match word {
            StateWord::Ready => Self::Ready,
            StateWord::Running => Self::Running,
            StateWord::Waiting => Self::Waiting,
            StateWord::Held => Self::Held,
            StateWord::Completed => Self::Completed,
            StateWord::Failed => Self::Failed,
            StateWord::Cancelled => Self::Cancelled,
        }
    }
}

/// A page of a list.
#[derive(Debug, Args)]
pub(crate) struct Page {
    /// At most this many in a page, 1 to 1000
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=1000))]
    page_size: i32,
    /// Where the last page ended
    #[arg(long, default_value = "", hide_default_value = true)]
    page_token: String,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// One scope; all scopes when not given
    #[arg(long)]
    scope: Option<String>,
    /// Only Work in this state
    #[arg(long, value_enum)]
    state: Option<StateWord>,
    /// Only Work of this binding
    #[arg(long)]
    binding: Option<String>,
    #[command(flatten)]
    page: Page,
}

pub(crate) async fn list(session: &Session, args: ListArgs) -> Result<(), Failure> {
    let request = ListWorksRequest {
        scope: args.scope.unwrap_or_default(),
        state: args.state.map(|word| WorkState::from(word).into()),
        page_size: args.page.page_size,
        page_token: args.page.page_token,
        binding: args.binding.unwrap_or_default(),
    };
    let answer = session
        .client()?
        .work()
        .list_works(session.request(request))
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
        return Ok(());
    }
    let rows = answer.works.iter().map(row).collect();
    session.out.table(
        &[
            "WORK", "SCOPE", "STATE", "BINDING", "CREATED", "ATTEMPTS", "OPEN", "KEYS",
        ],
        rows,
        "no work",
    );
    more(&answer.next_page_token);
    Ok(())
}

fn row(work: &Work) -> Vec<String> {
    vec![
        work.work.clone(),
        work.scope.clone(),
        format::work_state(work.state),
        work.binding.clone(),
        format::time(work.created_at),
        work.attempts.to_string(),
        work.open_inputs.to_string(),
        format::short(&work.keys.join(" "), 60),
    ]
}

fn more(token: &str) {
    if !token.is_empty() {
        output::complain(&format!("there are more: --page-token {token}"));
    }
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The Work; or give --scope and --key
    #[arg(value_name = "WORK", required_unless_present = "key", conflicts_with_all = ["scope", "key"])]
    work: Option<String>,
    /// Scope of the key
    #[arg(long, requires = "key")]
    scope: Option<String>,
    /// Correlation key that it owns
    #[arg(long, requires = "scope")]
    key: Option<String>,
}

pub(crate) async fn get(session: &Session, args: GetArgs) -> Result<(), Failure> {
    let request = GetWorkRequest {
        work: args.work.unwrap_or_default(),
        scope: args.scope.unwrap_or_default(),
        key: args.key.unwrap_or_default(),
    };
    let answer = session
        .client()?
        .work()
        .get_work(session.request(request))
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
    } else {
        show(session, &answer.work.unwrap_or_default());
    }
    Ok(())
}

pub(super) fn show(session: &Session, work: &Work) {
    session.out.facts(&[
        ("work", work.work.clone()),
        ("scope", work.scope.clone()),
        ("state", format::work_state(work.state)),
        (
            "waits for",
            work.blocked_by.as_ref().map(blocker).unwrap_or_default(),
        ),
        ("held because", work.held_reason.clone()),
        ("binding", work.binding.clone()),
        ("keys", work.keys.join(" ")),
        ("created", format::time(work.created_at)),
        ("ended", format::time(work.ended_at)),
        ("parent", work.parent.clone()),
        ("predecessor", work.predecessor.clone()),
        (
            "attempts",
            format!("{} ({} counted in a row)", work.attempts, work.tries),
        ),
        ("open inputs", work.open_inputs.to_string()),
        ("revision", work.revision.to_string()),
    ]);
}

/// The one thing that would move a Work, in words.
fn blocker(blocker: &Blocker) -> String {
    let mut text = blocker.kind.clone();
    for (name, value) in [
        ("since", format::time(blocker.since)),
        ("until", format::time(blocker.until)),
        ("event", blocker.event.clone()),
    ] {
        if !value.is_empty() {
            text.push_str(&format!(" {name} {value}"));
        }
    }
    if !blocker.detail.is_empty() {
        text.push_str(&format!(": {}", blocker.detail));
    }
    text
}

#[derive(Debug, Args)]
pub(crate) struct PartArgs {
    /// The Work
    #[arg(value_name = "WORK")]
    work: String,
    #[command(flatten)]
    page: Page,
}

pub(crate) async fn attempts(session: &Session, args: PartArgs) -> Result<(), Failure> {
    let request = ListAttemptsRequest {
        work: args.work,
        page_size: args.page.page_size,
        page_token: args.page.page_token,
    };
    let answer = session
        .client()?
        .work()
        .list_attempts(session.request(request))
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
        return Ok(());
    }
    let rows = answer.attempts.iter().map(attempt).collect();
    session.out.table(
        &[
            "ATTEMPT",
            "EPOCH",
            "OUTCOME",
            "OWNER",
            "CLAIMED",
            "ENDED",
            "ERROR OR RESULT",
        ],
        rows,
        "no attempts",
    );
    more(&answer.next_page_token);
    Ok(())
}

fn attempt(attempt: &Attempt) -> Vec<String> {
    let outcome = match format::attempt_outcome(attempt.outcome) {
        running if running.is_empty() => {
            format!("running until {}", format::time(attempt.lease_until))
        }
        ended => ended,
    };
    let text = if attempt.error.is_empty() {
        &attempt.result
    } else {
        &attempt.error
    };
    vec![
        attempt.attempt.to_string(),
        attempt.epoch.to_string(),
        outcome,
        attempt.owner.clone(),
        format::time(attempt.claimed_at),
        format::time(attempt.ended_at),
        format::short(text, 80),
    ]
}

pub(crate) async fn inputs(session: &Session, args: PartArgs) -> Result<(), Failure> {
    let request = ListInputsRequest {
        work: args.work,
        page_size: args.page.page_size,
        page_token: args.page.page_token,
    };
    let answer = session
        .client()?
        .work()
        .list_inputs(session.request(request))
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
        return Ok(());
    }
    let rows = answer.inputs.iter().map(input).collect();
    session.out.table(
        &["NUMBER", "EVENT", "STATE", "ATTEMPT", "BINDING", "INTENT"],
        rows,
        "no inputs",
    );
    more(&answer.next_page_token);
    Ok(())
}

fn input(input: &Input) -> Vec<String> {
    vec![
        input.number.to_string(),
        input.event.clone(),
        format::input_state(input.state),
        if input.attempt == 0 {
            String::new()
        } else {
            input.attempt.to_string()
        },
        input.binding.clone(),
        input.intent.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_types::Timestamp;

    #[test]
    fn what_a_work_waits_for_is_said_in_words() {
        let lease = Blocker {
            kind: "lease".to_owned(),
            until: Some(Timestamp {
                seconds: 0,
                nanos: 0,
            }),
            detail: "attempt 2 of `w1`".to_owned(),
            ..Blocker::default()
        };
        assert_eq!(
            blocker(&lease),
            "lease until 1970-01-01T00:00:00.000Z: attempt 2 of `w1`"
        );
    }
}
