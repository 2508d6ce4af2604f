//! TLS over ring, for both protocols: collectors with a trusted and with an untrusted authority.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rstest::rstest;
use tempfile::tempdir;

use super::{
    collector::{Collector, Identity},
    exporter, held, offer,
};
use crate::otlp::{Config, ExportError, Exporter, FINISH, Protocol};

/// A certificate for `localhost`, and the authority that signed it, as PEM.
fn identity() -> (Identity, String) {
    let mut authority = CertificateParams::new(Vec::<String>::new()).expect("no names");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer =
        CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let server = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let server = server.signed_by(&key, &issuer).expect("a certificate");
    (Identity { certificate: server.pem(), key: key.serialize_pem() }, issuer.pem())
}

#[rstest]
fn a_trusted_collector_is_reached(#[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol) {
    let (identity, authority) = identity();
    let folder = tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    fs::write(&file, authority).expect("a file");
    let collector = Collector::start_on(protocol, 0, Some(&identity));
    let file = file.to_str().expect("a path");
    let variables = [("OTEL_EXPORTER_OTLP_CERTIFICATE", file)];
    let exporter = exporter(&collector.endpoint(), &variables, |config| config.protocol = Some(protocol));
    let offered = offer(&exporter, 1..101, 3);
    let health = exporter.finish(FINISH);
    assert_eq!(health.spans_sent, offered, "{health:?}");
    assert_eq!(collector.taken().len() as u64, offered);
}

#[rstest]
fn a_stranger_gets_nothing(#[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol) {
    let (identity, _) = identity();
    let folder = tempdir().expect("a folder");
    let collector = Collector::start_on(protocol, 0, Some(&identity));
    let exporter = exporter(&collector.endpoint(), &[], |config| {
        config.protocol = Some(protocol);
        config.folder = Some(held(folder.path()));
    });
    let offered = offer(&exporter, 1..11, 3);
    let health = exporter.finish(FINISH);
    assert_eq!((health.spans_sent, health.spans_spilled), (0, offered), "{health:?}");
    assert!(collector.received().is_empty());
    let error = health.last_error.expect("an error");
    assert!(error.contains("UnknownIssuer"), "{error}");
}

/// Inside an event loop, where the export's own may be neither made nor unmade.
#[tokio::test]
async fn a_certificate_that_cannot_be_read_is_named() {
    let config = Config { endpoint: Some("https://localhost:4317".to_owned()), ..Config::default() };
    let variables = [("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem")];
    let error = Exporter::start_in(config, &super::environment(&variables)).err().expect("it is not there");
    assert!(matches!(error, ExportError::Certificate { .. }), "{error}");
    assert!(error.to_string().ends_with(": /nowhere/ca.pem"), "{error}");
}
