//! The service as tonic's generator would write it: each method's name, kind and messages. Yields answers of
//! `server`'s three functions over HTTP/2. It decides nothing.

use std::convert::Infallible;

use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    codegen::{
        BoxFuture, Context, Future, Pin, Poll, Service as Handler, http,
        tokio_stream::wrappers::ReceiverStream,
    },
    server::Grpc,
};
use tonic_prost::ProstCodec;

use super::{
    messages::{ATTEND, Chunk, MOST_BYTES, PULL, PUSH, Presence, Taken, Wanted, Word},
    server::{Chunks, Shared},
};

/// The service, for tonic's server.
#[derive(Clone)]
pub struct Service(pub Shared);

/// Adapter of one method to tonic's interface.
struct Method<F>(F);

impl<M, R, F, A> Handler<Request<M>> for Method<F>
where
    F: FnMut(Request<M>) -> A,
    A: Future<Output = Result<Response<R>, Status>>,
{
    type Response = Response<R>;
    type Error = Status;
    type Future = A;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<M>) -> A {
        (self.0)(request)
    }
}

type Answer<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;

impl Handler<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let shared = self.0.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                ATTEND => {
                    let method = Method(move |words: Request<Streaming<Word>>| {
                        let shared = shared.clone();
                        Box::pin(async move { shared.attend(words).await })
                            as Answer<ReceiverStream<Result<Presence, Status>>>
                    });
                    grpc::<Presence, Word>().streaming(method, request).await
                }
                PULL => {
                    let method = Method(move |wanted: Request<Wanted>| {
                        let shared = shared.clone();
                        Box::pin(async move { shared.pull(wanted) }) as Answer<Chunks>
                    });
                    grpc::<Chunk, Wanted>().server_streaming(method, request).await
                }
                PUSH => {
                    let method = Method(move |chunks: Request<Streaming<Chunk>>| {
                        let shared = shared.clone();
                        Box::pin(async move { shared.push(chunks).await }) as Answer<Taken>
                    });
                    grpc::<Taken, Chunk>().client_streaming(method, request).await
                }
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

fn grpc<Out, In>() -> Grpc<ProstCodec<Out, In>>
where
    Out: prost::Message + 'static,
    In: prost::Message + Default + 'static,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(MOST_BYTES)
}
