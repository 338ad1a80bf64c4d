//! TLS, by rustls: who is believed to be the receiver.

use super::http::Bounded;
use anyhow::{Context, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

/// The authorities that are believed; none where nothing is encrypted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trust(Option<Arc<ClientConfig>>);

impl Trust {
    /// Of the system, or only those of a file (PEM).
    ///
    /// # Errors
    /// If there are none.
    pub(crate) fn load(only: Option<&Path>) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        match only {
            Some(path) => {
                let wrong = || format!("cannot take certificates from {}", path.display());
                for certificate in CertificateDer::pem_file_iter(path).with_context(wrong)? {
                    let certificate = certificate.with_context(wrong)?;
                    roots.add(certificate).with_context(wrong)?;
                }
                if roots.is_empty() {
                    bail!("{}: there are none in it", wrong());
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    let why = found.errors.first().map(ToString::to_string);
                    bail!(
                        "this system has no certificates of authorities{}\n  \
                         try: --cacert FILE, or install ca-certificates",
                        why.map(|why| format!(": {why}")).unwrap_or_default()
                    );
                }
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Some(Arc::new(config))))
    }

    /// A connection to a host, encrypted once it is read or written.
    pub(super) fn encrypted(&self, host: &str, stream: Bounded) -> io::Result<Encrypted> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let config = self.0.clone();
        let config = config.ok_or_else(|| io::Error::other("no authority is believed"))?;
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(StreamOwned::new(connection, stream))
    }
}

/// A connection of which others see nothing.
pub(super) type Encrypted = StreamOwned<ClientConnection, Bounded>;

/// What an error of TLS means, where it is one, and what can be done.
pub(super) fn explained(error: &io::Error) -> Option<String> {
    let told: &rustls::Error = error.get_ref()?.downcast_ref()?;
    let rustls::Error::InvalidCertificate(wrong) = told else {
        return Some(format!("TLS failed: {told}"));
    };
    let cure = match wrong {
        CertificateError::UnknownIssuer => {
            "\n  try: --cacert FILE, with the certificate of who issued it"
        }
        CertificateError::Other(why) if why.to_string().contains("CaUsedAsEndEntity") => {
            "\n  it is an authority's own; make one with basicConstraints=CA:FALSE"
        }
        _ => "",
    };
    Some(format!("its certificate is not believed: {wrong}{cure}"))
}
