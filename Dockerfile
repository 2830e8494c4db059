# A static binary in an image of its own: no shell, no package, nobody but 65532, nothing written to the root file system.
#
#   docker build -t cloud-controller-manager .
#   docker buildx build --platform linux/arm64 …                       for another kind of machine, emulated
#   docker build --build-arg CLOUD_PROVIDER=linode …                   for manifests that do not name the cloud

# The only base image, by digest: a tag can be moved. The digest is that of the index for all platforms. To refresh it, for instance for a new
# toolchain in rust-toolchain.toml, take the digest that the registry gives for the tag, and change both together:
#
#   docker buildx imagetools inspect rust:1.95.0-alpine
#
# There is no `# syntax=` line: it would fetch one more image, by its tag, to read this file. Every Docker since 23 knows `--mount`.
FROM rust:1.95.0-alpine@sha256:606fd313a0f49743ee2a7bd49a0914bab7deedb12791f3a846a34a4711db7ed2 AS build
# What is built in: all clouds. "clouds,demo" adds the simulated cloud and the demo; "hcloud" alone is smaller.
ARG FEATURES=clouds
# The commit, for metrics and the User-Agent: --build-arg REVISION=$(git rev-parse HEAD)
ARG REVISION=
# The program is built for the machine that the base image is for, linked with musl and static. ring compiles C.
RUN apk add --no-cache gcc musl-dev
WORKDIR /src
# The pinned toolchain first: a layer that changes rarely.
COPY rust-toolchain.toml ./
RUN rustup show
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    target=$(rustc -vV | sed -n 's/^host: //p') && \
    CCM_REVISION="$REVISION" cargo build --profile dist --locked --package cloud-controller-manager --no-default-features --features "$FEATURES" --target "$target" && \
    deploy/image/layout /image "target/$target/dist/cloud-controller-manager" && \
    cargo run --locked --package xtask -- licences --features "$FEATURES" /image/usr/share/ccm-rs

FROM scratch
# The provider that the program presets where neither --cloud-provider nor the name of the program tells one (D-12).
ARG CLOUD_PROVIDER=
ARG REVISION=
# For labels: --build-arg VERSION=… --build-arg CREATED=$(git log -1 --format=%cI)
ARG VERSION=
ARG CREATED=
LABEL org.opencontainers.image.title="cloud-controller-manager" \
      org.opencontainers.image.description="A Kubernetes cloud controller manager" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED" \
      ccm-rs.cloud-provider="$CLOUD_PROVIDER"
# deploy/image/config.json describes the container; a test compares it with this file. The program has the names by which
# published manifests call it, in /, /bin and /usr/local/bin: it is then the program for that cloud.
COPY --from=build /image /
# Some manifests name the program without its path. Certificates have no variable: the program finds them, also if a
# directory of the host hides those of the image.
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    CCM_CLOUD_PROVIDER=$CLOUD_PROVIDER
USER 65532:65532
ENTRYPOINT ["/cloud-controller-manager"]
