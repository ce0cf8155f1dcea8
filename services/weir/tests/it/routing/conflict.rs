//! Events that belong to more than one Work (rule r05).

use weir_proto::routing::v1 as routing;
use weir_proto::types::v1::{Disposition, PendingState, Targets, WorkState};

use super::arrange::{ALL, SCRIPTED, decided, publish, publish_together, read, running, stands};
use crate::support::{Weir, event};

#[tokio::test(flavor = "multi_thread")]
async fn r05_an_event_of_two_works_is_set_aside_and_blocks_nobody() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let (first, claimed) = running(&weir, "1", "a").await;
    let second = weir.routed("2", "start", &["b"]).await.work;
    let uid = publish(&weir, "both", "x", "{}", &["a", "b", "new"]).await;
    let pending = weir.pending(&uid).await;
    assert_eq!(pending.state(), PendingState::Conflict);
    let mut works = [first.clone(), second.clone()];
    works.sort();
    assert_eq!(pending.works, works);
    assert_eq!(pending.failures, 0);
    assert!(
        weir.handlers.script.calls("both").is_empty(),
        "no route is asked"
    );

    // Later input goes on, with its keys too, and Complete is not refused.
    assert_eq!(weir.routed("3", "start", &["b"]).await.work, second);
    assert_eq!(
        weir.routed("4", "start", &["new"]).await.disposition(),
        Disposition::Start
    );
    assert_eq!(
        weir.complete(&claimed).await.expect("not refused"),
        WorkState::Completed
    );
    assert_eq!(weir.work(&first).await.keys, ["a"]);

    // Targets must agree, too.
    let request = routing::PublishRequest {
        scope: "s".to_owned(),
        event: Some(event("named", "x", "{}")),
        keys: vec!["b".to_owned()],
        targets: Some(Targets {
            work: first.clone(),
            attempt: 0,
        }),
    };
    let named = weir
        .user
        .events()
        .publish(request)
        .await
        .expect("accepted")
        .into_inner()
        .uid;
    assert_eq!(weir.pending(&named).await.works, works);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r05_a_conflict_is_tried_again_on_a_new_generation_and_leaves_by_skip() {
    let weir = Weir::with(SCRIPTED).await;
    let works = [
        weir.routed("1", "start", &["a"]).await.work,
        weir.routed("2", "start", &["b"]).await.work,
    ];
    // A decision that attaches what another Work owns is the same conflict, for a new Work and an old one.
    let attaching = publish(&weir, "attaching", "attach", r#"{"key":"b"}"#, &["a"]).await;
    let starting = publish(&weir, "starting", "attach", r#"{"key":"b"}"#, &["c"]).await;
    let both = publish(&weir, "both", "start", "{}", &["a", "b"]).await;
    assert_eq!(weir.pending(&attaching).await.works, works);
    assert_eq!(weir.pending(&starting).await.works, works[1..]);
    assert_eq!(weir.pending(&both).await.works, works);
    assert_eq!(
        weir.inputs(&works[0]).await.len(),
        1,
        "nothing of it is written"
    );
    assert_eq!(
        weir.routed("c is free", "start", &["c"])
            .await
            .disposition(),
        Disposition::Start
    );

    // Nothing tries them again by itself; a generation does, and what is no conflict then is decided.
    let next = SCRIPTED.replace(
        "binding: b, attach: ['event.data.key'] }\n      - { slot: inject",
        "binding: b }\n      - { slot: inject",
    );
    assert_ne!(next, SCRIPTED);
    weir.apply(&next, 1).await;
    let record = decided(&weir, &attaching).await;
    assert_eq!(
        (record.disposition(), &record.work, record.generation),
        (Disposition::Queue, &works[0], 2)
    );
    let queued = decided(&weir, &starting).await;
    assert_eq!(
        queued.disposition(),
        Disposition::Queue,
        "`c` has an owner now"
    );
    assert_eq!(
        weir.pending(&both).await.state(),
        PendingState::Conflict,
        "this one still is"
    );

    let skipped = weir
        .skip(&both)
        .await
        .expect("unrouted")
        .record
        .expect("always there");
    assert_eq!(
        (skipped.disposition(), skipped.work.as_str()),
        (Disposition::Skipped, "")
    );
    assert_eq!(weir.count("pending").await, 0);
    assert_eq!(weir.count("pending_key").await, 0);
    weir.stop().await;
}

/// A conflict found in the very pass that attaches one of its keys elsewhere stands aside for that commit, too.
#[tokio::test(flavor = "multi_thread")]
async fn r05_a_conflict_of_the_same_pass_does_not_stop_the_attach_of_its_key() {
    let weir = Weir::with(SCRIPTED).await;
    let works = [
        weir.routed("1", "start", &["a"]).await.work,
        weir.routed("2", "start", &["b"]).await.work,
    ];
    let uids = publish_together(
        &weir,
        &[
            ("both", "x", "{}", &["a", "b", "n"]),
            ("attaches", "attach", r#"{"key":"n"}"#, &["a"]),
            ("after", "start", "{}", &["n"]),
        ],
    )
    .await;
    stands(&weir, &uids[0], PendingState::Conflict).await;
    assert_eq!(weir.record(&uids[1]).await.work, works[0]);
    assert_eq!(weir.record(&uids[2]).await.work, works[0]);
    assert_eq!(weir.work(&works[0]).await.keys, ["a", "n"]);
    assert_eq!(
        read(&weir, &uids[0])
            .await
            .pending
            .expect("a conflict")
            .works,
        works
    );
    weir.stop().await;
}
