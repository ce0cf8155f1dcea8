//! Records, replays and watching (rules r12, r13, r15, r16, r18, r19, r27).

use tokio_stream::StreamExt as _;
use weir_proto::lifecycle::v1::FailureKind;
use weir_proto::routing::v1::{GetRouteRequest, WatchEventsRequest, WatchEventsResponse};
use weir_proto::types::v1::{
    Disposition, InputState, PendingState, Policy, RouteRecord, WorkState,
};

use super::arrange::{
    ALL, SCRIPTED, create, decided, fail, hanging, publish, read, running, stands,
};
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

async fn watch(weir: &Weir, token: &str) -> tonic::Streaming<WatchEventsResponse> {
    let request = WatchEventsRequest {
        scope: "s".to_owned(),
        resume_token: token.to_owned(),
        from_start: true,
        include_data: false,
    };
    weir.user
        .events()
        .watch_events(request)
        .await
        .expect("watchable")
        .into_inner()
}

/// Takes messages until `n` have come; each as event id, whether it is an update, and whether it has a record.
async fn take(
    stream: &mut tonic::Streaming<WatchEventsResponse>,
    n: usize,
) -> Vec<((String, bool, bool), String)> {
    let mut out = Vec::new();
    while out.len() < n {
        let message = stream.next().await.expect("it goes on").expect("no error");
        let event = message.event.expect("always there");
        let id = event.event.expect("always there").id;
        out.push((
            (id, message.update, event.route.is_some()),
            message.resume_token,
        ));
    }
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn r19_a_watcher_sees_each_event_once_and_its_decision_once() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;
    let seen = |id: &str, update, decided| (id.to_owned(), update, decided);
    weir.routed("first", "start", &["k"]).await;
    script.say("pending", [Say::Match]);
    script.close("pending");
    let pending = publish(&weir, "pending", "x", "{}", &["p"]).await;
    hanging(&weir, "pending").await;
    weir.routed("third", "start", &["k"]).await;

    let mut stream = watch(&weir, "").await;
    let messages = take(&mut stream, 3).await;
    let ids: Vec<_> = messages.iter().map(|m| m.0.clone()).collect();
    assert_eq!(
        ids,
        [
            seen("first", false, true),
            seen("pending", false, false),
            seen("third", false, true)
        ]
    );

    script.open("pending");
    decided(&weir, &pending).await;
    let update = take(&mut stream, 1).await.remove(0);
    assert_eq!(update.0, seen("pending", true, true));
    weir.routed("fourth", "start", &["k"]).await;
    // The decision of the fourth may come with it or as its update.
    let fourth = take(&mut stream, 1).await.remove(0).0;
    assert_eq!((fourth.0.as_str(), fourth.1), ("fourth", false));
    drop(stream);

    // Every token goes on exactly behind its message, at another replica too; owed updates are part of it.
    let other = weir.another().await;
    let request = WatchEventsRequest {
        scope: "s".to_owned(),
        resume_token: messages[1].1.clone(),
        ..Default::default()
    };
    let mut stream = other
        .user
        .events()
        .watch_events(request)
        .await
        .expect("watchable")
        .into_inner();
    let mut rest: Vec<_> = take(&mut stream, 3)
        .await
        .into_iter()
        .map(|m| m.0)
        .collect();
    rest.sort();
    assert_eq!(
        rest,
        [
            seen("fourth", false, true),
            seen("pending", true, true),
            seen("third", false, true)
        ]
    );
    drop(stream);
    let mut stream = watch(&weir, &update.1).await;
    assert_eq!(
        take(&mut stream, 1).await.remove(0).0,
        seen("fourth", false, true),
        "nothing twice"
    );
    drop(stream);
    other.stop().await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r27_routes_are_never_asked_about_core_events() {
    // The first route takes everything that it is asked about.
    let config = SCRIPTED.replacen(
        "routes:\n",
        "routes:\n      - { slot: all, handler: { rust: scripted }, binding: b }\n",
        1,
    );
    let weir = Weir::with(&config).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;
    let created = create(&weir, "b", &["c"]).await.expect("created");
    script.say("skipped", [Say::Fail]);
    let uid = publish(&weir, "skipped", "x", "{}", &["k"]).await;
    stands(&weir, &uid, PendingState::Backoff).await;
    let skip = weir.skip(&uid).await.expect("unrouted").control_event;
    let reroute = weir.reroute(&uid).await.expect("skipped");
    weir.record(&reroute.event).await;
    for control in [&skip, &reroute.control_event] {
        let event = read(&weir, control).await;
        let record = event.route.expect("accepted routed");
        let found = (
            record.disposition(),
            record.reason.as_str(),
            record.route.as_str(),
            record.work.as_str(),
        );
        assert_eq!(found, (Disposition::Drop, "control", "", ""));
        assert_eq!(
            (event.depth, event.parent.as_str(), &event.root),
            (0, "", control)
        );
        assert!(event.pending.is_none());
    }
    let first = weir.inputs(&created.work).await.remove(0);
    let event = read(&weir, &first).await;
    assert_eq!(event.event.expect("kept").r#type, "core.manual.create_work");
    let record = event.route.expect("accepted routed");
    assert_eq!(
        (record.disposition(), &record.work),
        (Disposition::Start, &created.work)
    );
    let asked = script.all_calls();
    assert!(
        !asked.is_empty() && asked.iter().all(|c| !c.kind.starts_with("core.")),
        "{asked:?}"
    );
    weir.stop().await;
}
