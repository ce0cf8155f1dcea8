//! Watching, and events that no route is asked about (rules r19, r27).

use tokio_stream::StreamExt as _;
use weir_proto::routing::v1::{WatchEventsRequest, WatchEventsResponse};
use weir_proto::types::v1::{Disposition, PendingState};

use super::arrange::{ALL, SCRIPTED, create, decided, hanging, publish, read, stands};
use super::script::Say;
use crate::support::Weir;

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
