# Images of one static binary each: no shell, no libraries, no root.
#
#	make docker
#	docker run -p 11311:11311 -p 9150:9150 -e MCMW_SERVERS=cache1:11211,cache2:11211 mcmw:0.1.0
#
# For several architectures: docker buildx build --platform linux/amd64,linux/arm64 .
# The lab, for load pods, is mcmwlab:0.1.0.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
COPY lab/go.mod lab/go.sum lab/
RUN go mod download && go -C lab mod download
COPY . .
ARG VERSION=unknown
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/ ./cmd/... && \
	CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go -C lab build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/ ./cmd/...

FROM scratch AS mcmwlab
COPY --from=build /out/mcmwlab /mcmwlab
USER 65534:65534
ENTRYPOINT ["/mcmwlab"]
CMD ["wait"]

FROM scratch AS mcmw
COPY --from=build /out/mcmw /mcmw
# nobody
USER 65534:65534
# The defaults are loopback addresses, which nobody outside the container could reach.
ENV MCMW_LISTEN=:11311 MCMW_ADMIN=:9150
EXPOSE 11311 9150
ENTRYPOINT ["/mcmw"]
CMD ["serve"]
