//! Records and replays (rules r12, r13, r15, r16, r18).

use weir_proto::lifecycle::v1::FailureKind;
use weir_proto::routing::v1::GetRouteRequest;
use weir_proto::types::v1::{Disposition, InputState, Policy, RouteRecord, WorkState};

use super::arrange::{ALL, SCRIPTED, fail, publish, read, running};
use super::script::Say;
use crate::outside::rows;
use crate::support::Weir;

#[tokio::test(flavor = "multi_thread")]
async fn r12_a_record_has_what_was_applied() {
    let config = SCRIPTED.replace(
        "policy: interrupt }",
        "policy: interrupt, fallback: queue }",
    );
    let weir = Weir::with(&config).await;
    weir.register(&ALL).await;
    let started = weir.routed("w", "start", &["k"]).await;
    let work = started.work.clone();
    let base = RouteRecord {
        scope: "s".to_owned(),
        work: work.clone(),
        generation: 1,
        reason: "condition is true".to_owned(),
        binding: "b".to_owned(),
        ..RouteRecord::default()
    };
    let expected =
        |event: &str, route: &str, disposition: Disposition, policy: Policy| RouteRecord {
            event: event.to_owned(),
            route: route.to_owned(),
            disposition: disposition.into(),
            policy: policy.into(),
            ..base.clone()
        };
    assert_eq!(
        started,
        expected(&started.event, "start", Disposition::Start, Policy::Queue)
    );
    // The policy is the one carried out, not the one written down.
    let idle = weir.routed("idle", "inject", &["k"]).await;
    assert_eq!(
        idle,
        expected(&idle.event, "inject", Disposition::Queue, Policy::Queue)
    );
    weir.claim().await.expect("ready");
    let injected = weir.routed("run", "inject", &["k"]).await;
    assert_eq!(
        injected,
        expected(
            &injected.event,
            "inject",
            Disposition::Inject,
            Policy::Inject
        )
    );
    let dropped = weir.routed("drop", "drop", &["k"]).await;
    let drop = RouteRecord {
        binding: String::new(),
        ..expected(&dropped.event, "drop", Disposition::Drop, Policy::Drop)
    };
    assert_eq!(dropped, drop);
    let next = config.replace(
        "b: { executor: e, capabilities: [inject, interrupt]",
        "b: { executor: e, capabilities: [inject]",
    );
    assert_eq!(weir.apply(&next, 1).await, 2);
    let fallen = weir.routed("fallback", "interrupt", &["k"]).await;
    let reason = "fallback: binding `b` does not claim `interrupt`".to_owned();
    let queue = expected(
        &fallen.event,
        "interrupt",
        Disposition::Queue,
        Policy::Queue,
    );
    assert_eq!(
        fallen,
        RouteRecord {
            reason,
            generation: 2,
            ..queue
        }
    );

    // One record an event, readable in every way alike.
    for record in [&started, &idle, &injected, &dropped, &fallen] {
        let request = GetRouteRequest {
            event: record.event.clone(),
            ..Default::default()
        };
        let answer = weir
            .user
            .events()
            .get_route(request)
            .await
            .expect("known")
            .into_inner();
        assert_eq!(
            (answer.record.as_ref(), answer.pending),
            (Some(record), None)
        );
        assert_eq!(
            read(&weir, &record.event).await.route.as_ref(),
            Some(record)
        );
    }
    assert_eq!(
        weir.inputs(&work).await,
        [started.event, idle.event, injected.event, fallen.event]
    );
    assert_eq!(weir.count("pending").await, 0);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r13_an_unmatched_event_keeps_who_declined_in_order_with_reasons_cut() {
    let weir = Weir::with(SCRIPTED).await;
    let long = format!("x{}\nline two", "é".repeat(400));
    weir.handlers.script.say("long", [Say::Skip(long)]);
    weir.handlers.script.say("none", [Say::Skip(String::new())]);
    let uid = publish(&weir, "long", "x", "{}", &["k"]).await;
    let record = weir.record(&uid).await;
    assert_eq!(
        (record.disposition(), record.reason.as_str()),
        (Disposition::Unmatched, "no_match")
    );
    assert_eq!(
        (
            record.route.as_str(),
            record.binding.as_str(),
            record.work.as_str()
        ),
        ("", "", "")
    );
    let slots: Vec<&str> = record.refusals.iter().map(|r| r.route.as_str()).collect();
    assert_eq!(
        slots,
        [
            "start",
            "drop",
            "other",
            "attach",
            "inject",
            "interrupt",
            "scripted"
        ]
    );
    assert_eq!(record.refusals[0].reason, "condition is false");
    let cut = &record.refusals[6].reason;
    assert_eq!(
        *cut,
        format!("x{}", "é".repeat(249)),
        "499 bytes, and no half letter"
    );
    assert!(!record.refusals_truncated);
    weir.handlers
        .script
        .say("lines", [Say::Skip("line one\nline two".to_owned())]);
    let uid = publish(&weir, "lines", "x", "{}", &["k"]).await;
    assert_eq!(weir.record(&uid).await.refusals[6].reason, "line one");
    // A route that gives no reason declined all the same.
    let uid = publish(&weir, "none", "x", "{}", &["k"]).await;
    let silent = weir.record(&uid).await.refusals;
    assert_eq!((silent.len(), silent[6].reason.as_str()), (7, ""));
    // A matched event keeps none.
    assert!(
        weir.routed("matched", "inject", &["k"])
            .await
            .refusals
            .is_empty()
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_input_of_a_terminal_work_is_checkpointed_and_no_route_is_asked() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let (work, claimed) = running(&weir, "w", "k").await;
    let queued = weir.routed("queued", "start", &["k"]).await.event;
    assert_eq!(
        fail(&weir, &claimed, FailureKind::Permanent).await,
        WorkState::Failed
    );
    let before = weir.work(&work).await;
    for (id, kind) in [
        ("x", "x"),
        ("start", "start"),
        ("drop", "drop"),
        ("inject", "inject"),
    ] {
        let record = weir.routed(id, kind, &["k", "new"]).await;
        let found = (
            record.disposition(),
            record.reason.as_str(),
            record.work.as_str(),
            record.route.as_str(),
        );
        assert_eq!(
            found,
            (Disposition::Terminal, "terminal", work.as_str(), ""),
            "{id}"
        );
    }
    assert!(weir.handlers.script.all_calls().is_empty());
    assert_eq!(
        weir.work(&work).await,
        before,
        "a terminal record is immutable"
    );
    let request = weir_proto::lifecycle::v1::ListInputsRequest {
        work: work.clone(),
        page_size: 9,
        ..Default::default()
    };
    let inputs = weir
        .user
        .work()
        .list_inputs(request)
        .await
        .expect("known")
        .into_inner()
        .inputs;
    assert_eq!(inputs.len(), 2);
    assert_eq!(
        (&inputs[1].event, inputs[1].state()),
        (&queued, InputState::Abandoned)
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_a_routed_event_answers_its_record_again_and_changes_nothing() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let (_, claimed) = running(&weir, "w", "k").await;
    weir.handlers.script.say("bad", [Say::Invalid]);
    let mut records = Vec::new();
    for (id, kind) in [
        ("1", "start"),
        ("2", "inject"),
        ("3", "drop"),
        ("4", "x"),
        ("bad", "x"),
    ] {
        records.push(weir.routed(id, kind, &["k"]).await);
    }
    weir.complete(&claimed).await.expect("it has the lease");
    let (before, calls) = (rows(&weir.db).await, weir.handlers.script.all_calls().len());
    // Under another configuration, too.
    weir.apply(
        &SCRIPTED.replace("binding: b, policy: inject }", "binding: other }"),
        1,
    )
    .await;
    let before = {
        let mut now = rows(&weir.db).await;
        assert!(now["event"] == before["event"]);
        now.remove("event_body");
        now
    };
    for record in &records {
        let again = weir.route(&record.event).await;
        assert_eq!((again.record.as_ref(), again.pending), (Some(record), None));
    }
    let mut after = rows(&weir.db).await;
    after.remove("event_body");
    assert_eq!(after, before);
    assert_eq!(weir.handlers.script.all_calls().len(), calls);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r18_routing_needs_no_executor() {
    let weir = Weir::with(SCRIPTED).await;
    // Nobody registered and nobody is connected: Works start and grow, and wait.
    let work = weir.routed("1", "start", &["k"]).await.work;
    for (id, kind) in [
        ("2", "inject"),
        ("3", "interrupt"),
        ("4", "other"),
        ("5", "start"),
    ] {
        let record = weir.routed(id, kind, &["k"]).await;
        assert_eq!(
            (record.disposition(), &record.work),
            (Disposition::Queue, &work),
            "{id}"
        );
    }
    let found = weir.work(&work).await;
    assert_eq!(
        (found.state(), found.open_inputs, found.attempts),
        (WorkState::Ready, 5, 0)
    );
    assert_eq!(
        (weir.count("intent").await, weir.count("attempt").await),
        (0, 0)
    );
    // Whoever comes later finds all of it: the prefix of one binding first.
    weir.register(&ALL).await;
    assert_eq!(weir.claim().await.expect("ready").inputs.len(), 3);
    weir.stop().await;
}
