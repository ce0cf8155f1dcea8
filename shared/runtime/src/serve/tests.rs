//! Processes in the process: real ports, no signals.
#![expect(
    clippy::disallowed_methods,
    reason = "the test is one side of a conversation"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use weir_rpc::Upstream;

use super::*;
use crate::Progress;

fn upstream(running: &Running) -> Upstream {
    weir_rpc::remote(&format!("http://{}", running.addr())).expect("an address")
}

async fn health(running: &Running, service: &str) -> Result<i32, Code> {
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    let answer = HealthClient::new(upstream(running)).check(request).await;
    answer
        .map(|answer| answer.into_inner().status)
        .map_err(|status| status.code())
}

async fn get(address: Option<SocketAddr>, path: &str) -> String {
    let mut stream = TcpStream::connect(address.expect("a health port"))
        .await
        .expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .await
        .expect("it reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .await
        .expect("it answers");
    answer
}

#[tokio::test]
async fn m04_a_component_is_ready_when_its_conditions_hold() {
    let up = Arc::new(AtomicBool::new(false));
    let database = {
        let up = up.clone();
        move || {
            let up = up.load(Ordering::Relaxed);
            async move {
                if up {
                    Ok(())
                } else {
                    Err("connection refused".to_owned())
                }
            }
        }
    };
    let component = Component::new("routing")
        .serving(Routes::default(), ["weir.routing.v1.EventService"])
        .service_serving_when(["behind"], async || Err("away".to_owned()))
        .ready_when("database", database);
    let other = Component::new("gateway").edge();
    let running = Running::start(vec![component, other], ServeOptions::local())
        .await
        .expect("starts");
    let mut readiness = running.readiness();
    let not_yet = |state: &Snapshot| {
        state
            .components
            .iter()
            .any(|c| c.reasons == ["database: connection refused"])
    };
    readiness.wait_for(not_yet).await.expect("it is asked");
    assert_eq!(
        health(&running, "").await,
        Ok(ServingStatus::NotServing as i32)
    );
    let answer = get(running.health_addr(), "/health/ready").await;
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("connection refused"),
        "{answer}"
    );
    assert!(
        get(running.health_addr(), "/health/live")
            .await
            .starts_with("HTTP/1.1 200")
    );

    up.store(true, Ordering::Relaxed);
    running.ready().await;
    for name in ["", "weir.routing.v1.EventService"] {
        assert_eq!(
            health(&running, name).await,
            Ok(ServingStatus::Serving as i32)
        );
    }
    assert_eq!(
        health(&running, "behind").await,
        Ok(ServingStatus::NotServing as i32)
    );
    assert!(
        get(running.health_addr(), "/health/ready")
            .await
            .starts_with("HTTP/1.1 200")
    );
    assert!(
        get(running.health_addr(), "/metrics")
            .await
            .starts_with("HTTP/1.1 200")
    );
    assert_eq!(running.stop().await, Drained::Fully);
}

#[tokio::test]
async fn o02_a_stop_drains_requests_and_tasks() {
    let (entered, may_answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (entered, may_answer) = (entered.clone(), may_answer.clone());
        move || {
            let (entered, may_answer) = (entered.clone(), may_answer.clone());
            async move {
                entered.notify_one();
                may_answer.notified().await;
                "answered"
            }
        }
    };
    let stepped = Arc::new(Notify::new());
    let step = {
        let stepped = stepped.clone();
        move || {
            stepped.notify_one();
            async { anyhow::Ok(Progress::Idle) }
        }
    };
    let component = Component::new("slow")
        .http(Router::new().route("/slow", axum::routing::get(handler)))
        .task(Task::every("slow.step", Duration::from_millis(1)).run(step))
        .task(Task::run("slow.wait", async |stop| {
            stop.cancelled().await;
            Ok(())
        }));
    let running = Running::start(vec![component], ServeOptions::local())
        .await
        .expect("starts");
    running.ready().await;
    stepped.notified().await;
    let (addr, mut readiness) = (running.addr(), running.readiness());
    let request = tokio::spawn(get(Some(addr), "/slow"));
    entered.notified().await;
    let stopping = tokio::spawn(running.stop());
    readiness
        .wait_for(|state| state.draining && !state.ready)
        .await
        .expect("it says so");
    may_answer.notify_one();
    assert!(request.await.expect("no panic").ends_with("answered"));
    assert_eq!(stopping.await.expect("no panic"), Drained::Fully);
    assert!(TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn o02_what_does_not_end_is_cut_off() {
    let endless = Task::run("endless", async |_| std::future::pending().await);
    let mut options = ServeOptions::local();
    options.grace = Duration::from_millis(20);
    options.health_listen = None;
    let running = Running::start(vec![Component::new("x").task(endless)], options)
        .await
        .expect("starts");
    assert_eq!(running.stop().await, Drained::Partly);
}

#[tokio::test]
async fn a_panic_or_an_error_of_a_task_is_the_process_end() {
    for (task, says) in [
        (
            Task::run("bad", async |_| panic!("on purpose")),
            "`bad` panicked: on purpose",
        ),
        (
            Task::run("bad", async |_| anyhow::bail!("no luck")),
            "`bad` failed: no luck",
        ),
    ] {
        let components = vec![Component::new("x").task(task)];
        let running = Running::start(components, ServeOptions::local())
            .await
            .expect("starts");
        assert_eq!(running.failed().await, says);
        assert_eq!(running.stop().await, Drained::Fully);
    }
}

#[tokio::test]
async fn o01_only_health_and_reflection_are_open() {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_request::MessageRequest,
    };

    let (_, guarded) = tonic_health::server::health_reporter();
    // Any service will do: this one is mounted where health, which is open, is not.
    let guarded = Router::new().route_service("/weir.routing.v1.EventService/Publish", guarded);
    let component = Component::new("routing").serving::<String>(Routes::from(guarded), []);
    let mut options = ServeOptions::local();
    options.tokens = vec![Secret::new("t")];
    let running = Running::start(vec![component], options)
        .await
        .expect("starts");
    running.ready().await;
    assert!(health(&running, "").await.is_ok());

    let list = ServerReflectionRequest {
        message_request: Some(MessageRequest::ListServices(String::new())),
        ..ServerReflectionRequest::default()
    };
    let mut client = ServerReflectionClient::new(upstream(&running));
    let answers = client
        .server_reflection_info(tokio_stream::iter([list]))
        .await
        .expect("open");
    let answer = answers
        .into_inner()
        .message()
        .await
        .expect("an answer")
        .expect("one");
    assert!(format!("{answer:?}").contains("weir.routing.v1.EventService"));

    let ask = async |upstream: Upstream| {
        let request = http::Request::builder()
            .method("POST")
            .uri("/weir.routing.v1.EventService/Publish")
            .header("content-type", "application/grpc")
            .body(tonic::body::Body::default())
            .expect("a request");
        let answer = tower::ServiceExt::oneshot(upstream, request)
            .await
            .expect("an answer");
        tonic::Status::from_header_map(answer.headers()).map(|status| status.code())
    };
    assert_eq!(ask(upstream(&running)).await, Some(Code::Unauthenticated));
    let with_token = weir_rpc::with_token(upstream(&running), &Secret::new("t")).expect("a token");
    assert_ne!(ask(with_token).await, Some(Code::Unauthenticated));
    running.stop().await;
}

#[tokio::test]
async fn a_port_that_is_taken_starts_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let mut options = ServeOptions::local();
    options.listen = taken.local_addr().expect("bound");
    let task = Task::run("never", async |_| panic!("work before the port"));
    let error = Running::start(vec![Component::new("x").task(task)], options)
        .await
        .expect_err("taken");
    assert!(
        error
            .to_string()
            .starts_with("cannot listen on `127.0.0.1:")
    );
}

#[tokio::test]
async fn o07_a_process_without_a_health_port_has_its_pages_at_its_edge() {
    let page = || {
        Router::new().route(
            "/health/handlers",
            axum::routing::get(async || "no handlers"),
        )
    };
    let components = || {
        vec![
            Component::new("routing").health_http(page()),
            Component::new("gateway").edge(),
        ]
    };
    let alone = ServeOptions {
        health_listen: None,
        ..ServeOptions::local()
    };
    for (options, at_the_edge) in [(alone, true), (ServeOptions::local(), false)] {
        let running = Running::start(components(), options).await.expect("starts");
        let answer = get(Some(running.addr()), "/health/handlers").await;
        assert_eq!(answer.ends_with("no handlers"), at_the_edge, "{answer}");
        if running.health_addr().is_some() {
            let answer = get(running.health_addr(), "/health/handlers").await;
            assert!(answer.ends_with("no handlers"), "{answer}");
        }
        running.stop().await;
    }
}
