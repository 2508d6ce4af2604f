//! OTLP over gRPC: the client of the generated service, on one connection.
//!
//! It sends once and waits for nothing but the answer.

use opentelemetry_proto::tonic::collector::{
    metrics::v1::{ExportMetricsServiceRequest, metrics_service_client::MetricsServiceClient},
    trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse, trace_service_client::TraceServiceClient,
    },
};
use tonic::{
    Request, Status,
    codec::CompressionEncoding,
    metadata::MetadataMap,
    transport::{Channel, Endpoint},
};

use super::{
    ExportError,
    bounded::{Allowance, Connector},
    protocol::USER_AGENT,
    settings::Settings,
    tls,
};

/// A client for one collector.
pub(super) struct Grpc {
    client: TraceServiceClient<Channel>,
    metrics: MetricsServiceClient<Channel>,
    metadata: MetadataMap,
}

impl Grpc {
    /// Must be called inside the event loop that will send. Connects at the first attempt, not now.
    pub(super) fn new(settings: &Settings, allowance: Allowance) -> Result<Self, ExportError> {
        let build = |error: tonic::transport::Error| ExportError::Build(settings.scrub(&error.to_string()));
        let mut endpoint = Endpoint::from(settings.url.clone()).timeout(settings.timeout);
        endpoint = endpoint.user_agent(USER_AGENT).map_err(build)?;
        if settings.url.scheme_str() == Some("https") {
            endpoint = endpoint.tls_config(tls::for_grpc(&settings.tls)?).map_err(build)?;
        }
        let channel = endpoint.connect_with_connector_lazy(Connector::new(allowance));
        let mut metrics = MetricsServiceClient::new(channel.clone());
        let mut client = TraceServiceClient::new(channel);
        if settings.gzip {
            let gzip = CompressionEncoding::Gzip;
            client = client.send_compressed(gzip).accept_compressed(gzip);
            metrics = metrics.send_compressed(gzip).accept_compressed(gzip);
        }
        Ok(Self { client, metrics, metadata: MetadataMap::from_headers(settings.headers()) })
    }

    /// Sends once.
    pub(super) async fn send(
        &self,
        request: &ExportTraceServiceRequest,
    ) -> Result<ExportTraceServiceResponse, Status> {
        let mut request = Request::new(request.clone());
        *request.metadata_mut() = self.metadata.clone();
        self.client.clone().export(request).await.map(tonic::Response::into_inner)
    }

    /// Sends metrics once.
    pub(super) async fn send_metrics(&self, request: &ExportMetricsServiceRequest) -> Result<(), Status> {
        let mut request = Request::new(request.clone());
        *request.metadata_mut() = self.metadata.clone();
        self.metrics.clone().export(request).await.map(drop)
    }
}
