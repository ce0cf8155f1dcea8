//! Decisions on a snapshot that nobody changed (rule r01).

use futures::future::join;
use sqlx::AssertSqlSafe;
use weir_proto::lifecycle::v1::FailureKind;
use weir_proto::types::v1::Disposition;

use super::arrange::{ALL, SCRIPTED, create, decided, fail, hanging, publish, running};
use super::script::Say;
use crate::support::Weir;

fn states(weir: &Weir, id: &str) -> Vec<Option<String>> {
    weir.handlers
        .script
        .calls(id)
        .into_iter()
        .map(|c| c.state)
        .collect()
}

fn state(name: &str) -> Option<String> {
    Some(name.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_a_decision_is_made_afresh_when_its_work_moved_meanwhile() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;

    // The Work is claimed: only the epoch tells, and the policy applies to the attempt that runs now.
    let work = weir.routed("w", "start", &["k"]).await.work;
    script.say("claimed", [Say::Match]);
    script.close("claimed");
    let uid = publish(&weir, "claimed", "x", "{}", &["k"]).await;
    hanging(&weir, "claimed").await;
    let claimed = weir.claim().await.expect("ready");
    script.open("claimed");
    let record = weir.record(&uid).await;
    assert_eq!(
        (record.disposition(), record.work.as_str()),
        (Disposition::Inject, work.as_str())
    );
    assert_eq!(states(&weir, "claimed"), [state("ready"), state("running")]);
    assert_eq!(weir.count("intent").await, 1);

    // The Work ends: no decision about a living one is written.
    script.say("ended", [Say::Match]);
    script.close("ended");
    let uid = publish(&weir, "ended", "x", "{}", &["k"]).await;
    hanging(&weir, "ended").await;
    fail(&weir, &claimed, FailureKind::Permanent).await;
    script.open("ended");
    let record = weir.record(&uid).await;
    assert_eq!(
        (record.disposition(), record.work.as_str()),
        (Disposition::Terminal, work.as_str())
    );
    assert_eq!(
        states(&weir, "ended"),
        [state("running")],
        "no route is asked about terminal work"
    );
    assert_eq!(weir.inputs(&work).await.len(), 2);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_a_decision_is_made_afresh_when_a_key_got_an_owner_or_the_configuration_changed() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;

    script.say("keyed", [Say::Match]);
    script.close("keyed");
    let uid = publish(&weir, "keyed", "x", "{}", &["k"]).await;
    hanging(&weir, "keyed").await;
    let owner = create(&weir, "b", &["k"]).await.expect("created");
    script.open("keyed");
    let record = weir.record(&uid).await;
    assert_eq!(
        (record.disposition(), &record.work),
        (Disposition::Queue, &owner.work)
    );
    assert_eq!(states(&weir, "keyed"), [None, state("ready")]);

    script.say("published", [Say::Match]);
    script.close("published");
    let uid = publish(&weir, "published", "x", "{}", &["p"]).await;
    hanging(&weir, "published").await;
    let next = SCRIPTED.replace(
        "slot: scripted, handler: { rust: scripted }, binding: b, policy: inject",
        "slot: scripted, handler: { rust: scripted }, binding: other",
    );
    assert_ne!(next, SCRIPTED);
    assert_eq!(weir.apply(&next, 1).await, 2);
    script.open("published");
    let record = weir.record(&uid).await;
    assert_eq!(
        (record.disposition(), record.generation),
        (Disposition::Start, 2)
    );
    assert_eq!(record.binding, "other", "as the new configuration has it");
    assert_eq!(script.calls("published").len(), 2);
    weir.stop().await;
}

/// Every loss is forced: the router stands at the event's row, the Work moves, and the next holder stands behind
/// the router.
#[tokio::test(flavor = "multi_thread")]
async fn r01_after_five_losses_expressions_decide_under_the_locks() {
    let weir = Weir::start().await;
    let work = weir.routed("w", "start", &["k"]).await.work;
    let mut on_work = weir.db.hold().await;
    on_work
        .run(AssertSqlSafe(format!(
            "SELECT 1 FROM weir.work WHERE work_id = '{work}' FOR UPDATE"
        )))
        .await;
    let uid = weir.publish("e", "start", &["k"]).await;
    weir.db.wait_until_blocked(1).await;

    let moved = format!("UPDATE weir.work SET revision = revision + 1 WHERE work_id = '{work}'");
    let row = format!("SELECT 1 FROM weir.pending WHERE uid = '{uid}' FOR UPDATE");
    on_work.run(AssertSqlSafe(moved.clone())).await;
    let mut next = weir.db.hold().await;
    join(
        async {
            next.run(AssertSqlSafe(row.clone())).await;
        },
        async {
            weir.db.wait_until_blocked(2).await;
            on_work.commit().await;
        },
    )
    .await;
    for _ in 1..=5 {
        // The router has lost again, and `next` has the row.
        weir.db.wait_until_blocked(1).await;
        let held = next;
        next = weir.db.hold().await;
        join(
            async {
                next.run(AssertSqlSafe(row.clone())).await;
            },
            async {
                weir.db.wait_until_blocked(2).await;
                sqlx::query(AssertSqlSafe(moved.clone()))
                    .execute(weir.db.pool())
                    .await
                    .expect("it is free");
                held.release().await;
            },
        )
        .await;
    }
    // The sixth decision was made on what it had locked, though the Work had moved once more before that: it is
    // written, and the last holder found no row.
    let record = decided(&weir, &uid).await;
    assert_eq!(
        (record.disposition(), &record.work),
        (Disposition::Queue, &work)
    );
    assert_eq!(
        weir.work(&work).await.revision,
        1 + 6 + 1,
        "six moves, and this input"
    );
    next.release().await;
    assert_eq!(weir.inputs(&work).await.len(), 2);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_two_replicas_decide_one_event_once() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let second = weir.another().await;
    let script = &weir.handlers.script;
    script.say("e", [Say::Match]);
    script.close("e");
    let uid = publish(&weir, "e", "x", "{}", &["k"]).await;
    // Both are in the middle of it.
    weir.db
        .wait_until("both replicas evaluate", async |_| script.hanging("e") == 2)
        .await;
    script.open("e");
    let record = weir.record(&uid).await;
    assert_eq!(record.disposition(), Disposition::Start);
    let (work, other) = (record.work, running(&weir, "next", "n").await.0);
    assert_ne!(work, other);
    assert_eq!(
        (weir.count("work").await, weir.inputs(&work).await.len()),
        (2, 1)
    );
    second.stop().await;
    weir.stop().await;
}
