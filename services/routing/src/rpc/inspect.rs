//! The doctor's checks of this service come with a later version.

use tonic::{Request, Response, Status};
use weir_proto::routing::v1::inspect_service_server::InspectService;
use weir_proto::routing::v1::{DiagnoseRequest, DiagnoseResponse};

/// Serves `weir.routing.v1.InspectService`.
#[derive(Debug)]
pub(crate) struct Inspect;

#[tonic::async_trait]
impl InspectService for Inspect {
    async fn diagnose(
        &self,
        _: Request<DiagnoseRequest>,
    ) -> Result<Response<DiagnoseResponse>, Status> {
        Err(weir_rpc::unimplemented(
            "weir.routing.v1.InspectService/Diagnose",
            "the doctor comes with a later version",
        ))
    }
}
