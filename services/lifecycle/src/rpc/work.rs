//! Work, for operators and readers.

use futures::stream::BoxStream;
use tonic::{Request, Response, Status};
use weir_kernel::envelope::{is_core, key_violations};
use weir_kernel::limits::{self, MAX_IDENTIFIER, MAX_KEY, MAX_PAYLOAD, MAX_TEXT};
use weir_kernel::{TenantId, Violation, WorkId};
use weir_proto::lifecycle::v1 as pb;
use weir_proto::lifecycle::v1::work_service_server::WorkService;
use weir_rpc::{status, unimplemented};

use super::{Context, convert, decode, request_key};
use crate::command::{CancelWork, CreateWork, ReleaseWork, SendInput};
use crate::query::{self, Page, WorkFilter};
use crate::{Error, Hints};

/// The readers' and operators' service.
#[derive(Debug, Clone)]
pub(crate) struct Works {
    pub(crate) context: Context,
    pub(crate) hints: Hints,
}

#[tonic::async_trait]
impl WorkService for Works {
    async fn create_work(
        &self,
        request: Request<pb::CreateWorkRequest>,
    ) -> Result<Response<pb::CreateWorkResponse>, Status> {
        let (tenant, actor, message) = self.context.caller(request).await?;
        let command = create_work(tenant, actor, message).map_err(status)?;
        let response = self.context.db.run(&command).await.map_err(status)?;
        self.hints.work_ready();
        Ok(Response::new(response))
    }

    async fn get_work(
        &self,
        request: Request<pb::GetWorkRequest>,
    ) -> Result<Response<pb::GetWorkResponse>, Status> {
        let (tenant, _, message) = self.context.caller(request).await?;
        let view = self.find(tenant, &message).await.map_err(status)?;
        Ok(Response::new(pb::GetWorkResponse {
            work: Some(convert::work(view)),
        }))
    }

    async fn list_works(
        &self,
        request: Request<pb::ListWorksRequest>,
    ) -> Result<Response<pb::ListWorksResponse>, Status> {
        let (tenant, _, message) = self.context.caller(request).await?;
        let (works, next_page_token) = self.list(tenant, message).await.map_err(status)?;
        let works = works.into_iter().map(convert::work).collect();
        Ok(Response::new(pb::ListWorksResponse {
            works,
            next_page_token,
        }))
    }

    async fn cancel_work(
        &self,
        request: Request<pb::CancelWorkRequest>,
    ) -> Result<Response<pb::CancelWorkResponse>, Status> {
        let (tenant, actor, mut message) = self.context.caller(request).await?;
        let request_id = std::mem::take(&mut message.request_id);
        let decode = || -> Result<CancelWork, Error> {
            let work = decode::work("work", &message.work)?;
            limits::required_text("reason", &message.reason, MAX_TEXT)?;
            let method = "weir.lifecycle.v1.WorkService/CancelWork";
            let request = request_key(tenant, &actor, method, request_id, &message)?;
            Ok(CancelWork {
                tenant,
                actor,
                work,
                reason: message.reason,
                request,
            })
        };
        let command = decode().map_err(status)?;
        Ok(Response::new(
            self.context.db.run(&command).await.map_err(status)?,
        ))
    }

    async fn release_work(
        &self,
        request: Request<pb::ReleaseWorkRequest>,
    ) -> Result<Response<pb::ReleaseWorkResponse>, Status> {
        let (tenant, actor, mut message) = self.context.caller(request).await?;
        let request_id = std::mem::take(&mut message.request_id);
        let decode = || -> Result<ReleaseWork, Error> {
            let work = decode::work("work", &message.work)?;
            limits::required_text("reason", &message.reason, MAX_TEXT)?;
            let method = "weir.lifecycle.v1.WorkService/ReleaseWork";
            let request = request_key(tenant, &actor, method, request_id, &message)?;
            Ok(ReleaseWork {
                tenant,
                actor,
                work,
                reason: message.reason,
                request,
            })
        };
        let command = decode().map_err(status)?;
        let response = self.context.db.run(&command).await.map_err(status)?;
        self.hints.work_ready();
        Ok(Response::new(response))
    }

    async fn list_attempts(
        &self,
        request: Request<pb::ListAttemptsRequest>,
    ) -> Result<Response<pb::ListAttemptsResponse>, Status> {
        let (tenant, _, message) = self.context.caller(request).await?;
        let read = async || -> Result<_, Error> {
            let work = decode::work("work", &message.work)?;
            let page = Page::read(message.page_size, &message.page_token)?;
            let mut conn = self.context.db.acquire().await?;
            let (rows, token) = query::list_attempts(&mut conn, tenant, work, page).await?;
            Ok((work, rows, token))
        };
        let (work, rows, next_page_token) = read().await.map_err(status)?;
        let attempts = rows
            .into_iter()
            .map(|row| convert::attempt(work, row))
            .collect();
        Ok(Response::new(pb::ListAttemptsResponse {
            attempts,
            next_page_token,
        }))
    }

    async fn list_inputs(
        &self,
        request: Request<pb::ListInputsRequest>,
    ) -> Result<Response<pb::ListInputsResponse>, Status> {
        let (tenant, _, message) = self.context.caller(request).await?;
        let read = async || -> Result<_, Error> {
            let work = decode::work("work", &message.work)?;
            let page = Page::read(message.page_size, &message.page_token)?;
            let mut conn = self.context.db.acquire().await?;
            let (rows, token) = query::list_inputs(&mut conn, tenant, work, page).await?;
            Ok((work, rows, token))
        };
        let (work, rows, next_page_token) = read().await.map_err(status)?;
        let inputs = rows
            .into_iter()
            .map(|row| convert::input(work, row))
            .collect();
        Ok(Response::new(pb::ListInputsResponse {
            inputs,
            next_page_token,
        }))
    }

    type WatchWorkStream = BoxStream<'static, Result<pb::WatchWorkResponse, Status>>;

    async fn watch_work(
        &self,
        _: Request<pb::WatchWorkRequest>,
    ) -> Result<Response<Self::WatchWorkStream>, Status> {
        Err(unimplemented(
            "WatchWork",
            "poll GetWork until the next version",
        ))
    }

    async fn rebind_work(
        &self,
        _: Request<pb::RebindWorkRequest>,
    ) -> Result<Response<pb::RebindWorkResponse>, Status> {
        Err(unimplemented(
            "RebindWork",
            "rebinding comes with the next version",
        ))
    }

    async fn send_input(
        &self,
        request: Request<pb::SendInputRequest>,
    ) -> Result<Response<pb::SendInputResponse>, Status> {
        let (tenant, actor, message) = self.context.caller(request).await?;
        let command = send_input(tenant, actor, message).map_err(status)?;
        Ok(Response::new(
            self.context.db.run(&command).await.map_err(status)?,
        ))
    }

    async fn create_successor(
        &self,
        _: Request<pb::CreateSuccessorRequest>,
    ) -> Result<Response<pb::CreateSuccessorResponse>, Status> {
        Err(unimplemented(
            "CreateSuccessor",
            "successors come with the next version",
        ))
    }

    type BulkCancelStream = BoxStream<'static, Result<pb::BulkCancelResponse, Status>>;

    async fn bulk_cancel(
        &self,
        _: Request<pb::BulkCancelRequest>,
    ) -> Result<Response<Self::BulkCancelStream>, Status> {
        Err(unimplemented(
            "BulkCancel",
            "cancel one by one until the next version",
        ))
    }

    type BulkReleaseStream = BoxStream<'static, Result<pb::BulkReleaseResponse, Status>>;

    async fn bulk_release(
        &self,
        _: Request<pb::BulkReleaseRequest>,
    ) -> Result<Response<Self::BulkReleaseStream>, Status> {
        Err(unimplemented(
            "BulkRelease",
            "release one by one until the next version",
        ))
    }
}

impl Works {
    async fn find(
        &self,
        tenant: TenantId,
        message: &pb::GetWorkRequest,
    ) -> Result<query::WorkView, Error> {
        let work: WorkId = if message.work.is_empty() {
            limits::identifier("scope", &message.scope, MAX_IDENTIFIER)?;
            limits::identifier("key", &message.key, MAX_KEY)?;
            let mut conn = self.context.db.acquire().await?;
            query::find_by_key(&mut conn, tenant, &message.scope, &message.key).await?
        } else if !message.key.is_empty() || !message.scope.is_empty() {
            return Err(Error::field("work", "excludes `scope` and `key`"));
        } else {
            decode::work("work", &message.work)?
        };
        let mut conn = self.context.db.acquire().await?;
        query::read_work(&mut conn, tenant, work).await
    }

    async fn list(
        &self,
        tenant: TenantId,
        message: pb::ListWorksRequest,
    ) -> Result<(Vec<query::WorkView>, String), Error> {
        let page = Page::read(message.page_size, &message.page_token)?;
        let named = |text: String| Some(text).filter(|text| !text.is_empty());
        let filter = WorkFilter {
            scope: named(message.scope),
            state: decode::state(message.state)?,
            binding: named(message.binding),
        };
        let mut conn = self.context.db.acquire().await?;
        query::list_works(&mut conn, tenant, &filter, page).await
    }
}

fn create_work(
    tenant: TenantId,
    actor: String,
    mut message: pb::CreateWorkRequest,
) -> Result<CreateWork, Error> {
    let request_id = std::mem::take(&mut message.request_id);
    let mut faults = key_violations("keys", &message.keys);
    faults.extend(limits::identifier("scope", &message.scope, MAX_IDENTIFIER).err());
    faults.extend(limits::identifier("binding", &message.binding, MAX_IDENTIFIER).err());
    faults.extend(limits::required_text("reason", &message.reason, MAX_TEXT).err());
    faults.extend(text_data(&message.text_data).err());
    if !faults.is_empty() {
        return Err(Error::Invalid(faults));
    }
    let method = "weir.lifecycle.v1.WorkService/CreateWork";
    let request = request_key(tenant, &actor, method, request_id, &message)?;
    Ok(CreateWork {
        tenant,
        actor,
        scope: message.scope,
        binding: message.binding,
        keys: message.keys.into_iter().collect(),
        data: or_empty_object(message.text_data),
        reason: message.reason,
        request,
    })
}

/// Type of operator input that was given none.
const MANUAL_INPUT: &str = "manual.input";

fn send_input(
    tenant: TenantId,
    actor: String,
    mut message: pb::SendInputRequest,
) -> Result<SendInput, Error> {
    let request_id = std::mem::take(&mut message.request_id);
    let work = decode::work("work", &message.work)?;
    let mut faults = Vec::new();
    faults.extend(limits::optional_identifier("type", &message.r#type, MAX_IDENTIFIER).err());
    if is_core(&message.r#type) {
        let text = "is reserved: `core` and `core.*` belong to weir";
        faults.push(Violation::new("type", text));
    }
    faults.extend(text_data(&message.text_data).err());
    if !faults.is_empty() {
        return Err(Error::Invalid(faults));
    }
    let method = "weir.lifecycle.v1.WorkService/SendInput";
    let request = request_key(tenant, &actor, method, request_id, &message)?;
    Ok(SendInput {
        tenant,
        actor,
        work,
        kind: Some(message.r#type)
            .filter(|kind| !kind.is_empty())
            .unwrap_or_else(|| MANUAL_INPUT.to_owned()),
        data: or_empty_object(message.text_data),
        request,
    })
}

fn text_data(text: &str) -> Result<(), Violation> {
    if text.len() <= MAX_PAYLOAD {
        return Ok(());
    }
    let size = text.len();
    let text = format!("is {size} bytes, the limit is {MAX_PAYLOAD}");
    Err(Violation::new("text_data", text))
}

/// No payload is an empty object: the envelope says JSON.
fn or_empty_object(text: String) -> String {
    if text.is_empty() {
        "{}".to_owned()
    } else {
        text
    }
}
