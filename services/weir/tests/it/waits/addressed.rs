//! What operators send to a Work (rule r14).

use tonic::Code;
use weir_proto::gateway::v1 as gateway;
use weir_proto::lifecycle::v1::FailureKind;
use weir_proto::routing::v1::PublishRequest;
use weir_proto::types::v1::{Disposition, EffectKind, Targets, WorkState};

use super::arrange::{WAITING, checked, claimed, lease, of, own, parked, send_input, uids, woken};
use crate::routing::arrange::{fail, publish};
use crate::support::{Weir, event};

#[tokio::test(flavor = "multi_thread")]
async fn r14_what_an_operator_sends_to_a_work_is_its_input_though_no_route_selects_it() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let attempt = claimed(&weir, "1", "k").await;
    let work = &lease(&attempt).work;
    let sent = send_input(&weir, work, "please", "r1")
        .await
        .expect("running");
    let record = weir.record(&sent).await;
    assert_eq!(record.disposition(), Disposition::Queue);
    assert_eq!(
        (record.route.as_str(), record.reason.as_str()),
        ("", "addressed")
    );
    assert_eq!(
        (record.work.as_str(), record.binding.as_str()),
        (work.as_str(), "b")
    );
    // The same request is one input.
    assert_eq!(
        send_input(&weir, work, "please", "r1")
            .await
            .expect("answered"),
        sent
    );
    assert_eq!(weir.inputs(work).await.len(), 2);
    // A route that selects it is asked first.
    let routed = send_input(&weir, work, "other", "r2")
        .await
        .expect("running");
    let record = weir.record(&routed).await;
    assert_eq!(
        (record.route.as_str(), record.binding.as_str()),
        ("other", "other")
    );
    assert_eq!(
        weir.complete(&attempt).await.expect("leased"),
        WorkState::Ready
    );
    let next = weir.claim().await.expect("it is addressed");
    assert_eq!(uids(&next), [sent.as_str()]);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_it_runs_on_the_binding_that_the_work_runs_on_next() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    // Its queued input's.
    let queued = weir.routed("1", "other", &["k1"]).await.work;
    let sent = send_input(&weir, &queued, "please", "")
        .await
        .expect("ready");
    assert_eq!(weir.record(&sent).await.binding, "other");
    // Its retry's.
    let attempt = claimed(&weir, "2", "k2").await;
    fail(&weir, &attempt, FailureKind::Retryable).await;
    let work = &lease(&attempt).work;
    let sent = send_input(&weir, work, "please", "").await.expect("ready");
    assert_eq!(weir.record(&sent).await.binding, "b");
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_a_waiting_work_keeps_it_as_context_and_its_own_wait_is_won_by_it() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let (work, _) = parked(&weir, "1", "k1", &[of("t", "")]).await;
    let sent = send_input(&weir, &work, "please", "")
        .await
        .expect("waiting");
    assert_eq!(weir.record(&sent).await.reason, "addressed");
    checked(&weir).await;
    assert_eq!(weir.work(&work).await.state(), WorkState::Waiting);
    let (work, _) = parked(&weir, "2", "k2", &[own()]).await;
    let sent = send_input(&weir, &work, "please", "")
        .await
        .expect("waiting");
    assert_eq!(weir.record(&sent).await.disposition(), Disposition::Wake);
    assert_eq!(uids(&woken(&weir, &work).await)[1], sent);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_if_its_binding_left_the_scope_it_is_unmatched() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let work = weir.routed("1", "other", &["k"]).await.work;
    let without = WAITING
        .replace("      other: { executor: e }\n", "")
        .replace(
            "      - { slot: other, when: 'event.type == \"other\"', binding: other }\n",
            "",
        );
    weir.apply(&without, 1).await;
    let sent = send_input(&weir, &work, "please", "").await.expect("ready");
    assert_eq!(
        weir.record(&sent).await.disposition(),
        Disposition::Unmatched
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_anyone_elses_event_that_names_a_work_is_routed_by_the_routes_alone() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let work = weir.routed("1", "start", &["k"]).await.work;
    let targets = Some(Targets {
        work: work.clone(),
        attempt: 0,
    });
    let request = PublishRequest {
        scope: "s".to_owned(),
        event: Some(event("2", "please", "{}")),
        keys: Vec::new(),
        targets: targets.clone(),
    };
    let uid = weir.user.events().publish(request).await.expect("accepted");
    let record = weir.record(&uid.into_inner().uid).await;
    assert_eq!(record.disposition(), Disposition::Unmatched);
    // An operator's event that names no Work cannot be, and nobody else may call himself one.
    let mut forged = event("3", "please", "{}");
    forged.source = "core.manual".to_owned();
    let request = PublishRequest {
        scope: "s".to_owned(),
        event: Some(forged.clone()),
        keys: Vec::new(),
        targets: targets.clone(),
    };
    let refused = weir
        .user
        .events()
        .publish(request)
        .await
        .expect_err("reserved");
    assert_eq!(refused.code(), Code::InvalidArgument);

    // A trace says that the operator addressed it.
    let request = gateway::TraceEventRequest {
        scope: "s".to_owned(),
        event: Some(forged),
        targets,
        ..Default::default()
    };
    let trace = weir.user.control().trace_event(request).await;
    let effect = trace
        .expect("traceable")
        .into_inner()
        .effect
        .expect("always there");
    assert_eq!(
        (effect.kind(), effect.reason.as_str()),
        (EffectKind::Queue, "addressed")
    );
    assert_eq!(
        (effect.work.as_str(), effect.binding.as_str()),
        (work.as_str(), "b")
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_what_is_sent_to_a_work_that_ended_is_refused_or_terminal() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let attempt = claimed(&weir, "1", "k").await;
    weir.complete(&attempt).await.expect("leased");
    let refused = send_input(&weir, &lease(&attempt).work, "please", "").await;
    assert_eq!(refused.expect_err("ended").code(), Code::FailedPrecondition);
    let late = publish(&weir, "2", "context", "{}", &["k"]).await;
    assert_eq!(
        weir.record(&late).await.disposition(),
        Disposition::Terminal
    );
    weir.stop().await;
}
