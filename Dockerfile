# One image with all programs: `weir` (the command line, and migrations), and `weir-routing`,
# `weir-lifecycle`, `weir-causal`, `weir-migration`, `weir-gateway`. What runs is the command.

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# The caches stay with the builder, not in a layer, so the programs are copied out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --workspace --bins \
    && mkdir /out \
    && for name in weir weir-routing weir-lifecycle weir-causal weir-migration weir-gateway; do \
           install -m 755 "target/release/$name" /out/ && "/out/$name" --help >/dev/null || exit 1; \
       done

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/ /usr/local/bin/
COPY --chmod=755 scripts/ready.sh /usr/local/bin/weir-ready
COPY services/routing/src/tenant/demo.yaml /usr/share/weir/demo.yaml
COPY LICENSE /usr/share/doc/weir/LICENSE
# Nobody in particular, as a number, so that Kubernetes can see that it is not root.
USER 65532:65532
CMD ["weir", "--help"]
