//! The service: decode, run, encode.

pub(crate) mod convert;

use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status};
use weir_proto::migration::v1::inspect_service_server::InspectService;
use weir_proto::migration::v1::migration_service_server::MigrationService;
use weir_proto::migration::v1::{
    DiagnoseRequest, DiagnoseResponse, DownRequest, DownResponse, GetStatusRequest,
    GetStatusResponse, UpRequest, UpResponse,
};

use crate::{Error, Report, Runner};

/// Serves status, up and down with one runner a call.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) runner: Runner,
}

#[tonic::async_trait]
impl MigrationService for Service {
    async fn get_status(
        &self,
        _: Request<GetStatusRequest>,
    ) -> Result<Response<GetStatusResponse>, Status> {
        let status = self.runner.status().await.map_err(weir_rpc::status)?;
        Ok(Response::new(convert::status(&status)))
    }

    type UpStream = BoxStream<'static, Result<UpResponse, Status>>;

    async fn up(&self, request: Request<UpRequest>) -> Result<Response<Self::UpStream>, Status> {
        let UpRequest { target, wait } = request.into_inner();
        let wait = convert::wait(wait).map_err(weir_rpc::status)?;
        let runner = self.runner.clone();
        let run = |mut send: Sender<UpResponse>| async move {
            runner
                .up(target, wait, &mut |progress| send(convert::up(progress)))
                .await
        };
        Ok(Response::new(stream(run)))
    }

    type DownStream = BoxStream<'static, Result<DownResponse, Status>>;

    async fn down(
        &self,
        request: Request<DownRequest>,
    ) -> Result<Response<Self::DownStream>, Status> {
        let DownRequest {
            target,
            confirm,
            wait,
        } = request.into_inner();
        let wait = convert::wait(wait).map_err(weir_rpc::status)?;
        let runner = self.runner.clone();
        let run = |mut send: Sender<DownResponse>| async move {
            runner
                .down(target, confirm, wait, &mut |progress| {
                    send(convert::down(progress))
                })
                .await
        };
        Ok(Response::new(stream(run)))
    }
}

#[tonic::async_trait]
impl InspectService for Service {
    async fn diagnose(
        &self,
        _: Request<DiagnoseRequest>,
    ) -> Result<Response<DiagnoseResponse>, Status> {
        Err(weir_rpc::unimplemented(
            "Diagnose",
            "the doctor comes with a later version",
        ))
    }
}

/// Takes an answer for the stream.
type Sender<R> = Box<dyn FnMut(R) + Send>;

/// Answers with what a run says, then with how it ended. The run is part of the stream: a caller who
/// goes away drops it, and with it the step that was running.
fn stream<R, F>(run: impl FnOnce(Sender<R>) -> F) -> BoxStream<'static, Result<R, Status>>
where
    R: Send + 'static,
    F: Future<Output = Result<Report, Error>> + Send + 'static,
{
    let (sender, receiver) = mpsc::unbounded_channel();
    let send = sender.clone();
    // Nobody listens any more: the run is about to be dropped too.
    let run = run(Box::new(move |answer| drop(send.send(Ok(answer)))));
    let ended = async move {
        if let Err(error) = run.await {
            // Through the same channel, so that it comes last.
            drop(sender.send(Err(weir_rpc::status(error))));
        }
    };
    let ended = stream::once(ended).filter_map(async |()| None);
    stream::select(UnboundedReceiverStream::new(receiver), ended).boxed()
}
