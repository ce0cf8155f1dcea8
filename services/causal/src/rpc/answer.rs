//! From outcomes and rows to the wire.

use tonic::Status;
use weir_kernel::RefusalCode;
use weir_ledger::{Accepted, Outcome};
use weir_proto::causal::v1 as pb;
use weir_proto::types::v1::{Acceptance, ItemError, ItemResult};
use weir_rpc::Problem;
use weir_rpc::convert::{duration, timestamp};

use crate::Error;
use crate::draft::Draft;
use crate::query::{DiagnosticView, RootView};

/// Writes what became of one event, or why it was refused.
///
/// # Errors
/// `EVENT_CONFLICT`, `WORK_NOT_FOUND`, and the causal limits' reasons.
pub(super) fn acceptance(
    scope: &str,
    draft: &Draft,
    outcome: Outcome,
) -> Result<Acceptance, Error> {
    let accepted = |a: Accepted, deduplicated| Acceptance {
        uid: a.uid.to_string(),
        // The scope is content (rule a01), so a repeat was accepted by the same one.
        scope: scope.to_owned(),
        position: a.seq,
        accepted_at: Some(timestamp(a.accepted_at)),
        deduplicated,
    };
    match outcome {
        Outcome::Accepted(a) => Ok(accepted(a, false)),
        Outcome::Replay(a) => Ok(accepted(a, true)),
        Outcome::Conflict(uid) => {
            let (source, id) = draft.identity();
            Err(Error::EventConflict {
                source_name: source.to_owned(),
                id: id.to_owned(),
                uid,
            })
        }
        Outcome::Refused(refusal) => Err(Error::Refused(refusal)),
        Outcome::TargetNotFound(work) => Err(Error::TargetNotFound(work)),
    }
}

/// The bounded word of an outcome, for metrics.
pub(super) fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted(_) => "accepted",
        Outcome::Replay(_) => "replay",
        Outcome::Conflict(_) => "conflict",
        Outcome::Refused(refusal) => refusal.code.as_str(),
        Outcome::TargetNotFound(_) => "target_not_found",
    }
}

/// Writes the answer for one event of several.
pub(super) fn item(answer: Result<Acceptance, Error>) -> ItemResult {
    match answer {
        Ok(accepted) => ItemResult {
            accepted: Some(accepted),
            error: None,
        },
        Err(error) => {
            let error = item_error(&weir_rpc::status(error));
            ItemResult {
                accepted: None,
                error: Some(error),
            }
        }
    }
}

fn item_error(status: &Status) -> ItemError {
    let problem = Problem::from(status);
    ItemError {
        code: weir_rpc::code_name(problem.code).to_owned(),
        field: problem
            .violations
            .into_iter()
            .next()
            .map(|v| v.field)
            .unwrap_or_default(),
        reason: problem.reason,
        message: problem.message,
        retry_after: problem.retry_after.map(duration),
    }
}

/// Writes a root.
pub(super) fn root(view: RootView) -> pb::GetRootResponse {
    pb::GetRootResponse {
        root: view.root.to_string(),
        pinned: view.pinned,
        max_depth: view.max_depth.into(),
        per_minute: view.per_minute,
        spent: view.spent,
        braked: view.braked,
    }
}

/// Writes a diagnostic.
///
/// # Errors
/// Its stored code is outside the vocabulary.
pub(super) fn diagnostic(view: DiagnosticView) -> Result<pb::Diagnostic, Error> {
    Ok(pb::Diagnostic {
        root: view.root_uid.to_string(),
        minute: Some(timestamp(view.minute)),
        code: RefusalCode::from_code(view.code)?.to_string(),
        refused: view.refused,
        limit: view.limit_value,
        parent: view.parent_uid.to_string(),
        depth: view.depth,
        r#type: view.kind,
    })
}
