//! Trusted authorities, for gRPC and HTTP alike: rustls with ring, no C TLS library.
//!
//! The authorities are those of OTEL_EXPORTER_OTLP_CERTIFICATE if it is set, else those of the system, else,
//! in a guest so small that it has none, Mozilla's (webpki-roots). An invalid certificate is never accepted.

use std::{fmt::Display, fs, path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tonic::transport::{ClientTlsConfig, Identity};

use super::{ExportError, settings::TlsFiles};

/// Configuration for tonic, which makes its own rustls configuration.
pub(super) fn for_grpc(files: &TlsFiles) -> Result<ClientTlsConfig, ExportError> {
    let config = ClientTlsConfig::new().trust_anchors(authorities(files)?.roots);
    let TlsFiles { certificate: Some(certificate), key: Some(key), .. } = files else { return Ok(config) };
    let read = |path: &Path| fs::read(path).map_err(|error| unreadable(path, error));
    Ok(config.identity(Identity::from_pem(read(certificate)?, read(key)?)))
}

/// Configuration for hyper.
pub(super) fn for_http(files: &TlsFiles) -> Result<ClientConfig, ExportError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| ExportError::Build(error.to_string()))?
        .with_root_certificates(authorities(files)?);
    let TlsFiles { certificate: Some(certificate), key: Some(key), .. } = files else {
        return Ok(builder.with_no_client_auth());
    };
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
    builder.with_client_auth_cert(read_all(certificate)?, secret).map_err(|error| unreadable(key, error))
}

fn authorities(files: &TlsFiles) -> Result<RootCertStore, ExportError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &files.authorities {
        for certificate in read_all(path)? {
            roots.add(certificate).map_err(|error| unreadable(path, error))?;
        }
        return Ok(roots);
    }
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    Ok(roots)
}

fn read_all(path: &Path) -> Result<Vec<CertificateDer<'static>>, ExportError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(path, error));
    certificates.and_then(|found| {
        if found.is_empty() { Err(unreadable(path, "no certificate in it")) } else { Ok(found) }
    })
}

fn unreadable(path: &Path, error: impl Display) -> ExportError {
    ExportError::Certificate { path: path.to_owned(), why: error.to_string() }
}
