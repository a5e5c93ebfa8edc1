# The image is the static binary alone: no shell, no libraries, no root.
#
#	make docker
#	docker run -p 11311:11311 -p 9150:9150 -e MCMW_SERVERS=cache1:11211,cache2:11211 mcmw:VERSION

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$VERSION" -o /mcmw ./cmd/mcmw

FROM scratch
COPY --from=build /mcmw /mcmw
# nobody
USER 65534:65534
# The defaults are loopback addresses, which nobody outside the container could reach.
ENV MCMW_LISTEN=0.0.0.0 MCMW_ADMIN=0.0.0.0:9150
EXPOSE 11311 9150
ENTRYPOINT ["/mcmw"]
CMD ["serve"]
