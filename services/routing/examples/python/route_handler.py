#!/usr/bin/env python3
"""A route handler in Python: takes the issues that sound urgent.

    pip install grpcio grpcio-tools
    python3 route_handler.py --listen 127.0.0.1:9000

    routes:
      - { slot: custom, handler: { remote: "http://127.0.0.1:9000", name: score }, binding: triage }
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

CONTRACT = "weir/extension/v1/route_handler.proto"
SERVICE = "weir.extension.v1.RouteHandler"
WORDS = {"crash": 2, "data loss": 2, "security": 3, "regression": 1}
ENOUGH = 2


def messages(protos):
    """Compiles the contract and returns its message classes by full name.

    Generated modules would not do: the package `io.cloudevents.v1` becomes a module `io`, which Python has itself.
    """
    well_known = os.path.join(os.path.dirname(protoc.__file__), "_proto")
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "set.binpb")
        arguments = ["", f"-I{protos}", f"-I{well_known}", f"--descriptor_set_out={out}", "--include_imports", CONTRACT]
        if protoc.main(arguments) != 0:
            sys.exit(f"cannot compile {CONTRACT} in {protos}")
        with open(out, "rb") as file:
            files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def score(issue):
    """Returns the score of an issue and the words that made it."""
    text = f"{issue.get('title') or ''} {issue.get('body') or ''}".lower()
    found = [word for word in WORDS if word in text]
    return sum(WORDS[word] for word in found), found


def read_issue(event, context):
    """Returns the issue of an event; what has none is malformed, which is final."""
    raw = event.text_data if event.WhichOneof("data") == "text_data" else event.binary_data
    try:
        data = json.loads(raw)
    except ValueError:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the data is not JSON")
    issue = data.get("issue") if isinstance(data, dict) else None
    if not isinstance(issue, dict):
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the data has no `issue`")
    return issue


def methods(message):
    match_response = message("weir.extension.v1.MatchResponse")
    samples_response = message("weir.extension.v1.ListSamplesResponse")

    def match(request, context):
        if request.name != "score":
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "no handler of this name")
        issue = read_issue(request.event, context)
        points, found = score(issue)
        reason = f"score {points}: {', '.join(found) or 'nothing urgent'}"
        keys = [f"node/{issue['node_id']}"] if issue.get("node_id") else []
        # Nothing may come of a `dry_run`; nothing comes of any call of this one.
        return match_response(match=points >= ENOUGH, reason=reason, attach=keys)

    def list_samples(request, _context):
        response = samples_response()
        sample = response.samples.add(name="a crash", keys=["issue/1"])
        sample.event.id = f"sample/{request.now.seconds}"
        sample.event.source = "sample"
        sample.event.type = "issues.opened"
        sample.event.text_data = json.dumps({"issue": {"title": "Crash on save"}})
        return response

    def unary(call, request):
        return grpc.unary_unary_rpc_method_handler(
            call,
            request_deserializer=message(request).FromString,
            response_serializer=lambda answer: answer.SerializeToString(),
        )

    return {
        "Match": unary(match, "weir.extension.v1.MatchRequest"),
        "ListSamples": unary(list_samples, "weir.extension.v1.ListSamplesRequest"),
    }


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description="Scores issues for Weir's routes.")
    parser.add_argument("--listen", default="127.0.0.1:9000", help="HOST:PORT; port 0 takes a free one")
    parser.add_argument("--protos", default=os.path.join(here, "../../../../proto"), help="folder of Weir's contracts")
    arguments = parser.parse_args()
    # A thread a call: at least as many as are asked at once, or those that wait use up their time.
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=64))
    handlers = methods(messages(arguments.protos))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
    port = server.add_insecure_port(arguments.listen)
    if port == 0:
        sys.exit(f"cannot listen on {arguments.listen}")
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: server.stop(grace=5))
    print(f"listening on {arguments.listen.rsplit(':', 1)[0]}:{port}", flush=True)
    try:
        server.wait_for_termination()
    except KeyboardInterrupt:
        server.stop(grace=5).wait()


if __name__ == "__main__":
    main()
