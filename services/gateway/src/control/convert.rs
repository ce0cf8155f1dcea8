//! Between the gateway's contract and routing's, field by field. Every field is named, so that one
//! added to either contract does not compile until somebody decided what becomes of it.

use weir_proto::gateway::v1 as outer;
use weir_proto::routing::v1 as inner;

pub(super) fn skip_request(request: outer::SkipEventRequest) -> inner::SkipEventRequest {
    let outer::SkipEventRequest {
        event,
        source,
        id,
        reason,
        request_id,
    } = request;
    inner::SkipEventRequest {
        event,
        source,
        id,
        reason,
        request_id,
    }
}

pub(super) fn skip_response(response: inner::SkipEventResponse) -> outer::SkipEventResponse {
    let inner::SkipEventResponse {
        record,
        control_event,
    } = response;
    outer::SkipEventResponse {
        record,
        control_event,
    }
}

pub(super) fn reroute_request(request: outer::RerouteEventRequest) -> inner::RerouteEventRequest {
    let outer::RerouteEventRequest {
        event,
        source,
        id,
        reason,
        request_id,
    } = request;
    inner::RerouteEventRequest {
        event,
        source,
        id,
        reason,
        request_id,
    }
}

pub(super) fn reroute_response(
    response: inner::RerouteEventResponse,
) -> outer::RerouteEventResponse {
    let inner::RerouteEventResponse {
        event,
        copied,
        control_event,
    } = response;
    outer::RerouteEventResponse {
        event,
        copied,
        control_event,
    }
}

pub(super) fn trace_request(request: outer::TraceEventRequest) -> inner::TraceRequest {
    let outer::TraceEventRequest {
        scope,
        event,
        keys,
        targets,
        filter,
    } = request;
    inner::TraceRequest {
        scope,
        event,
        keys,
        targets,
        filter,
    }
}

pub(super) fn trace_response(response: inner::TraceResponse) -> outer::TraceEventResponse {
    let inner::TraceResponse {
        verdicts,
        effect,
        generation,
        keys,
        accepted_as,
    } = response;
    outer::TraceEventResponse {
        verdicts,
        effect,
        generation,
        keys,
        accepted_as,
    }
}

pub(super) fn candidate_request(
    request: outer::TraceCandidateRequest,
) -> inner::TraceCandidateRequest {
    let outer::TraceCandidateRequest { trace, document } = request;
    inner::TraceCandidateRequest {
        trace: trace.map(trace_request),
        document,
    }
}

pub(super) fn candidate_response(
    response: inner::TraceCandidateResponse,
) -> outer::TraceCandidateResponse {
    let inner::TraceCandidateResponse { trace } = response;
    outer::TraceCandidateResponse {
        trace: trace.map(trace_response),
    }
}
