//! This service's doctor checks.

use tonic::{Request, Response, Status};
use weir_proto::lifecycle::v1 as pb;
use weir_proto::lifecycle::v1::inspect_service_server::InspectService;
use weir_rpc::unimplemented;

/// The inspection service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inspect;

#[tonic::async_trait]
impl InspectService for Inspect {
    async fn diagnose(
        &self,
        _: Request<pb::DiagnoseRequest>,
    ) -> Result<Response<pb::DiagnoseResponse>, Status> {
        Err(unimplemented(
            "Diagnose",
            "the doctor's checks of work come with the next version",
        ))
    }
}
