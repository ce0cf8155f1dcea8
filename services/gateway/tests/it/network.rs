//! The same over real connections: gateway and service on ports of their own.

use crate::fake::{Record, World};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Code, Request, Response, Status, Streaming};
use weir_gateway::Upstreams;
use weir_proto::migration::v1 as proto;
use weir_proto::migration::v1::migration_service_client::MigrationServiceClient;
use weir_proto::migration::v1::migration_service_server::{
    MigrationService, MigrationServiceServer,
};

struct Migration;

type Progress<T> = tokio_stream::Iter<std::vec::IntoIter<Result<T, Status>>>;

#[tonic::async_trait]
impl MigrationService for Migration {
    async fn get_status(
        &self,
        request: Request<proto::GetStatusRequest>,
    ) -> Result<Response<proto::GetStatusResponse>, Status> {
        let caller = weir_rpc::Caller::from_request(&request)?;
        assert_eq!(caller, weir_rpc::Caller::new("demo", "zoë"));
        Ok(Response::new(proto::GetStatusResponse::default()))
    }

    type UpStream = Progress<proto::UpResponse>;

    async fn up(&self, _: Request<proto::UpRequest>) -> Result<Response<Self::UpStream>, Status> {
        let steps = vec![
            Ok(proto::UpResponse::default()),
            Err(Status::aborted("halfway")),
        ];
        Ok(Response::new(tokio_stream::iter(steps)))
    }

    type DownStream = Progress<proto::DownResponse>;

    async fn down(
        &self,
        _: Request<proto::DownRequest>,
    ) -> Result<Response<Self::DownStream>, Status> {
        Err(Status::failed_precondition("not empty"))
    }
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    (listener, address)
}

fn call<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert("x-weir-tenant", "demo".parse().expect("ASCII"));
    metadata.insert(
        "x-weir-actor",
        tonic::metadata::MetadataValue::try_from("zoë".as_bytes()).expect("UTF-8"),
    );
    request
}

#[tokio::test]
async fn calls_pass_over_real_connections_and_survive_a_lost_service() {
    let (service, service_address) = listen().await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tonic::transport::Server::builder()
        .add_service(MigrationServiceServer::new(Migration))
        .serve_with_incoming_shutdown(TcpListenerStream::new(service), async {
            stopped.await.ok();
        });
    let migration = weir_rpc::remote(&service_address).expect("an address");
    let world = World::over(
        Upstreams {
            migration,
            ..World::nobody()
        },
        Record::default(),
    );
    let (port, address) = listen().await;
    let app = world.app.clone();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { axum::serve(port, app).await.expect("serves") });
    tasks.spawn(async move { serving.await.expect("serves") });

    let channel = weir_rpc::remote(&address).expect("an address");
    let mut client = MigrationServiceClient::new(channel);
    client
        .get_status(call(proto::GetStatusRequest::default()))
        .await
        .expect("answers");
    let mut progress: Streaming<_> = client
        .up(call(proto::UpRequest::default()))
        .await
        .expect("streams")
        .into_inner();
    assert!(progress.message().await.expect("a step").is_some());
    let broken = progress
        .message()
        .await
        .expect_err("as the service ended it");
    assert_eq!(
        (broken.code(), broken.message()),
        (Code::Aborted, "halfway")
    );
    let refused = client
        .down(call(proto::DownRequest::default()))
        .await
        .expect_err("refused");
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::FailedPrecondition, "not empty")
    );

    stop.send(()).expect("still serving");
    // The service goes at once or with its next call; either way the answer becomes UNAVAILABLE.
    let gone = loop {
        match client
            .get_status(call(proto::GetStatusRequest::default()))
            .await
        {
            Ok(_) => tokio::task::yield_now().await,
            Err(status) => break status,
        }
    };
    assert_eq!(
        (gone.code(), crate::fake::reason(&gone).as_str()),
        (Code::Unavailable, "UPSTREAM_UNAVAILABLE")
    );
    tasks.abort_all();
}
