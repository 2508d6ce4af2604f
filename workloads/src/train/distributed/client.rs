//! A worker's calls to the server. Yields rows of numbers, or the status that came instead. It waits without
//! a limit: its caller knows better when the server is gone.

use std::time::{Duration, Instant};

use prost::Message;
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    codegen::{
        Bytes,
        http::uri::PathAndQuery,
        tokio_stream::{self, Stream, wrappers::ReceiverStream},
    },
    metadata::MetadataValue,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::{
    error::DistributedError,
    messages::{ATTEND, Chunk, MOST_BYTES, PULL, PUSH, Presence, Row, Taken, Wanted, Word, chunks},
    server::WINDOW_BYTES,
    trace,
};

/// Time between attempts to reach a server that is not there yet.
const AGAIN: Duration = Duration::from_millis(100);

/// A connection to the server.
#[derive(Clone)]
pub struct Client(Grpc<Channel>);

impl Client {
    /// Connects within `limit`; the server may start late, until then.
    pub async fn connect(address: &str, limit: Duration) -> Result<Self, DistributedError> {
        let start = Instant::now();
        let unusable = |reason: String| DistributedError::Address { address: address.to_owned(), reason };
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|error| unusable(error.to_string()))?;
        // The default port 80, where no server listens, would be reported only after the whole time limit.
        if endpoint.uri().port_u16().is_none() {
            return Err(unusable("no port".to_owned()));
        }
        let endpoint = endpoint
            .connect_timeout(limit)
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        loop {
            match endpoint.connect().await {
                Ok(channel) => {
                    return Ok(Self(Grpc::new(channel).max_decoding_message_size(MOST_BYTES)));
                }
                Err(_) if start.elapsed() + AGAIN < limit => tokio::time::sleep(AGAIN).await,
                Err(error) => {
                    let (address, seconds) = (address.to_owned(), limit.as_secs());
                    return Err(DistributedError::Unreachable { address, seconds, reason: root(&error) });
                }
            }
        }
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.0.ready().await.map_err(|error| Status::unavailable(root(&error)))
    }

    /// Joins, and stays until `words` ends.
    pub async fn attend(&mut self, words: ReceiverStream<Word>) -> Result<Streaming<Presence>, Status> {
        self.ready().await?;
        let call = self.0.streaming(Request::new(words), PathAndQuery::from_static(ATTEND), codec());
        Ok(call.await?.into_inner())
    }

    /// Waits for parameters of the wanted version or a newer one, fills `row`, returns their version.
    pub async fn pull(
        &mut self,
        wanted: Wanted,
        mut row: Row,
        header: &str,
    ) -> Result<(u64, Vec<f32>), Status> {
        self.ready().await?;
        let path = PathAndQuery::from_static(PULL);
        let call = self.0.server_streaming(traced(wanted, header), path, codec());
        let mut stream: Streaming<Chunk> = call.await?.into_inner();
        let (length, mut version) = (row.length(), 0);
        while let Some(chunk) = stream.message().await? {
            version = chunk.version;
            if !row.add(&chunk.values) {
                return Err(answer(row.len() + chunk.values.len() / 4, length));
            }
        }
        let found = row.len();
        row.whole().map(|values| (version, values)).ok_or_else(|| answer(found, length))
    }

    /// Hands over a gradient that was computed from parameters of that version.
    pub async fn push(&mut self, row: Bytes, rank: u32, version: u64, header: &str) -> Result<Taken, Status> {
        self.push_chunks(tokio_stream::iter(chunks(row, rank, version)), header).await
    }

    /// Sends a gradient in chunks that the caller makes.
    pub async fn push_chunks(
        &mut self,
        chunks: impl Stream<Item = Chunk> + Send + 'static,
        header: &str,
    ) -> Result<Taken, Status> {
        self.ready().await?;
        let path = PathAndQuery::from_static(PUSH);
        let call = self.0.client_streaming(traced(chunks, header), path, codec());
        Ok(call.await?.into_inner())
    }
}

fn codec<Out, In>() -> ProstCodec<Out, In>
where
    Out: Message + 'static,
    In: Message + Default + 'static,
{
    ProstCodec::default()
}

fn traced<T>(content: T, header: &str) -> Request<T> {
    let mut request = Request::new(content);
    if let Ok(value) = header.parse::<MetadataValue<_>>() {
        request.metadata_mut().insert(trace::KEY, value);
    }
    request
}

fn answer(found: usize, expected: usize) -> Status {
    let error = DistributedError::Answer { found: found as u64, expected: expected as u64 };
    Status::data_loss(error.to_string())
}

/// Message of the lowest error: the others only say that there was one.
fn root(error: &dyn std::error::Error) -> String {
    let mut lowest = error;
    while let Some(source) = lowest.source() {
        lowest = source;
    }
    lowest.to_string()
}
