//! Asking a scope's routes in order until one takes the event (rules r03, r20, r28).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use weir_kernel::FailureCode;
use weir_kernel::limits::one_line;

use super::guard::guarded;
use super::remote::Failing;
use super::{Failure, Input, Registry, Verdict};
use crate::cel::{self, Facts};
use crate::route::view::{EventView, WorkView};
use crate::tenant::{CompiledHandler, EffectiveRoute, SelfPolicy};

/// Longest reason kept, in bytes (rule r13).
const MAX_REASON: usize = 500;

/// Calls of Rust handlers at once, a quarter of the threads that block.
static CALLS: Semaphore = Semaphore::const_new(128);

/// What one route answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It takes the event.
    Match {
        /// Why.
        reason: String,
        /// Keys to attach, sorted.
        attach: Vec<String>,
    },
    /// It declines.
    Skip {
        /// Why.
        reason: String,
    },
    /// It failed.
    Failed {
        /// How.
        code: FailureCode,
        /// In words.
        error: String,
    },
}

/// One question to all routes of a scope.
pub struct Ask<'a> {
    /// The routes, in order.
    pub routes: &'a [Arc<EffectiveRoute>],
    /// The event.
    pub event: &'a EventView,
    /// The Work it belongs to.
    pub work: Option<&'a WorkView>,
    /// Rust handlers, and the ways to remote ones.
    pub registry: &'a Registry,
    /// Says that nothing comes of it.
    pub dry_run: bool,
}

/// Asks the routes in order and stops at the first that matches or fails. The answers stand for the first
/// routes, one each.
pub async fn ask_routes(ask: Ask<'_>) -> Vec<Answer> {
    let facts = Arc::new(Facts::new(ask.event.facts(), ask.work.map(WorkView::facts)));
    let own = ask
        .event
        .emitter()
        .is_some_and(|w| Some(w) == ask.work.map(|w| w.id));
    let mut answers: Vec<Answer> = Vec::new();
    while answers.len() < ask.routes.len() {
        if answers
            .last()
            .is_some_and(|a| !matches!(a, Answer::Skip { .. }))
        {
            break;
        }
        let rest = &ask.routes[answers.len()..];
        let expressions = rest
            .iter()
            .take_while(|r| matches!(r.handler, CompiledHandler::Cel(_)))
            .count();
        if expressions > 0 {
            answers.extend(ask_expressions(&rest[..expressions], &facts, own).await);
        } else {
            answers.push(ask_other(&rest[0], &ask, &facts, own).await);
        }
    }
    answers
}

/// Evaluates a run of expressions on one thread. They are bounded in steps and memory, so the deadline is a
/// second net: it starts with the evaluation, not with the wait for a thread, and is charged to the expression
/// that was running.
async fn ask_expressions(
    routes: &[Arc<EffectiveRoute>],
    facts: &Arc<Facts>,
    own: bool,
) -> Vec<Answer> {
    let deadline: Duration = routes.iter().map(|r| r.timeout).max().unwrap_or_default();
    let (sender, receiver) = std::sync::mpsc::channel();
    let (started, start) = tokio::sync::oneshot::channel();
    let (asked, facts) = (routes.to_vec(), Arc::clone(facts));
    let task = tokio::task::spawn_blocking(move || {
        let _ = started.send(());
        for route in &asked {
            let answer = evaluate(route, &facts, own);
            let done = !matches!(answer, Answer::Skip { .. });
            // The receiver is gone when the deadline passed: nobody waits for the rest.
            if sender.send(answer).is_err() || done {
                return;
            }
        }
    });
    let _ = start.await;
    let ended = tokio::time::timeout(deadline, task).await;
    let mut answers: Vec<Answer> = receiver.try_iter().collect();
    let undecided =
        answers.len() < routes.len() && answers.iter().all(|a| matches!(a, Answer::Skip { .. }));
    match ended {
        Err(_) if undecided => answers.push(timed_out(deadline)),
        Ok(Err(_)) if undecided => answers.push(failed(
            FailureCode::HandlerFailed,
            "the evaluation was ended",
        )),
        Ok(_) | Err(_) => {}
    }
    answers
}

fn evaluate(route: &EffectiveRoute, facts: &Facts, own: bool) -> Answer {
    if let Some(refusal) = refuse_own(route, own) {
        return refusal;
    }
    let CompiledHandler::Cel(program) = &route.handler else {
        return Answer::Skip {
            reason: "not an expression".to_owned(),
        };
    };
    let verdict = guarded(|| match program.as_match(facts) {
        cel::Verdict::Match => {
            with_attach(route, facts, "condition is true".to_owned(), Vec::new())
        }
        cel::Verdict::Skip { reason } => Answer::Skip {
            reason: one_line(&reason, MAX_REASON),
        },
        cel::Verdict::Invalid { error } => Answer::Failed {
            code: FailureCode::HandlerInvalid,
            error,
        },
    });
    verdict.unwrap_or_else(|error| Answer::Failed {
        code: FailureCode::HandlerPanic,
        error,
    })
}

/// Adds the keys of the route's `attach` expressions; a missing field yields none.
fn with_attach(
    route: &EffectiveRoute,
    facts: &Facts,
    reason: String,
    mut attach: Vec<String>,
) -> Answer {
    for program in &route.attach {
        match program.as_key(facts) {
            Ok(key) => attach.extend(key),
            Err(error) => {
                let error = format!("attach: {error}");
                return Answer::Failed {
                    code: FailureCode::HandlerInvalid,
                    error,
                };
            }
        }
    }
    attach.sort_unstable();
    attach.dedup();
    Answer::Match {
        reason: one_line(&reason, MAX_REASON),
        attach,
    }
}

fn refuse_own(route: &EffectiveRoute, own: bool) -> Option<Answer> {
    (own && route.self_policy == SelfPolicy::Avoid).then(|| Answer::Skip {
        reason: "self: the work emitted it".to_owned(),
    })
}

async fn ask_other(
    route: &Arc<EffectiveRoute>,
    ask: &Ask<'_>,
    facts: &Arc<Facts>,
    own: bool,
) -> Answer {
    if let Some(refusal) = refuse_own(route, own) {
        return refusal;
    }
    let input = || Input {
        scope: Arc::clone(&ask.event.scope),
        event: Arc::clone(&ask.event.envelope),
        keys: ask.event.keys.clone(),
        work: ask.work.map(WorkView::facts),
        dry_run: ask.dry_run,
    };
    let verdict = match &route.handler {
        CompiledHandler::Cel(_) => return evaluate(route, facts, own),
        CompiledHandler::Rust(name) => match ask.registry.get(name) {
            Some(handler) => {
                let input = input();
                let called = on_thread(route.timeout, move || handler.decide(&input)).await;
                called.and_then(|decided| decided.map_err(said))
            }
            None => Err(missing(name)),
        },
        CompiledHandler::Remote { remote, name } => {
            let remotes = ask.registry.remotes();
            remotes.decide(remote, name, &input(), route.timeout).await
        }
    };
    match verdict {
        Err((code, error)) => Answer::Failed { code, error },
        Ok(Verdict::Skip { reason }) => Answer::Skip {
            reason: one_line(&reason, MAX_REASON),
        },
        Ok(Verdict::Match { reason, attach }) => match bad_key(&attach) {
            Some(error) => Answer::Failed {
                code: FailureCode::HandlerInvalid,
                error,
            },
            None => {
                let (route, facts) = (Arc::clone(route), Arc::clone(facts));
                tokio::task::spawn_blocking(move || with_attach(&route, &facts, reason, attach))
                    .await
                    .unwrap_or_else(|_| failed(FailureCode::HandlerPanic, "attach panicked"))
            }
        },
    }
}

/// Calls a Rust handler on a thread where blocking harms nobody, and catches its panic there.
pub(super) async fn on_thread<T: Send + 'static>(
    timeout: Duration,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failing> {
    // A hung call keeps its permit with its thread: the pool is for expressions and key rules, too.
    let permit = CALLS.try_acquire().map_err(|_| {
        let error = "too many handler calls of this service hang";
        (FailureCode::HandlerFailed, error.to_owned())
    })?;
    let called = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        guarded(call)
    });
    match tokio::time::timeout(timeout, called).await {
        Err(_) => Err((FailureCode::HandlerTimeout, no_decision(timeout))),
        Ok(Err(_)) => {
            let error = "the handler's thread ended";
            Err((FailureCode::HandlerFailed, error.to_owned()))
        }
        Ok(Ok(Err(panic))) => Err((FailureCode::HandlerPanic, panic)),
        Ok(Ok(Ok(answer))) => Ok(answer),
    }
}

/// Says that a handler is not of this process.
pub(super) fn missing(name: &str) -> Failing {
    (
        FailureCode::HandlerMissing,
        format!("handler `{name}` is not registered with this service"),
    )
}

/// Reads what a handler says of its own failure.
fn said(failure: Failure) -> Failing {
    let (code, error) = match failure {
        Failure::Invalid(error) => (FailureCode::HandlerInvalid, error),
        Failure::Failed(error) => (FailureCode::HandlerFailed, error),
    };
    (code, one_line(&error, weir_kernel::limits::MAX_TEXT))
}

fn bad_key(keys: &[String]) -> Option<String> {
    weir_kernel::envelope::key_violations("attach", keys)
        .first()
        .map(|v| format!("{} {}", v.field, v.description))
}

fn failed(code: FailureCode, error: &str) -> Answer {
    Answer::Failed {
        code,
        error: one_line(error, weir_kernel::limits::MAX_TEXT),
    }
}

fn timed_out(after: Duration) -> Answer {
    Answer::Failed {
        code: FailureCode::HandlerTimeout,
        error: no_decision(after),
    }
}

fn no_decision(within: Duration) -> String {
    format!("no decision within {}", humantime::format_duration(within))
}
