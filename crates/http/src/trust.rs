//! Who is believed to be a server: the authorities of TLS.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, InvalidMessage, RootCertStore};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// The certificate authorities that are trusted; none by default, which
/// suffices for unencrypted servers.
#[derive(Debug, Clone, Default)]
pub struct Trust(Vec<Certificate<'static>>);

/// Why there are no certificate authorities.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The system has none.
    #[error("this system has no certificates of authorities{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    NoAuthority {
        /// What was wrong where they should be, if anything was.
        why: Option<String>,
    },
    /// A file has none, or something else.
    #[error("cannot take certificates from {}: {why}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl Trust {
    /// The authorities that this system trusts.
    ///
    /// # Errors
    /// If there are none.
    pub fn of_system() -> Result<Self, TrustError> {
        let found = rustls_native_certs::load_native_certs();
        let (known, _) =
            RootCertStore::empty().add_parsable_certificates(found.certs.iter().cloned());
        if known == 0 {
            let why = found.errors.first().map(ToString::to_string);
            return Err(TrustError::NoAuthority { why });
        }
        Ok(Self::of(&found.certs))
    }

    /// Only the authorities in a PEM file.
    ///
    /// # Errors
    /// If there are none in it, or one that cannot be read.
    pub fn of_file(path: &Path) -> Result<Self, TrustError> {
        let wrong = |why: String| TrustError::File {
            path: path.to_owned(),
            why,
        };
        let found =
            CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
        let mut certificates = Vec::new();
        for certificate in found {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            let mut roots = RootCertStore::empty();
            let added = roots.add(certificate.clone());
            added.map_err(|error| wrong(error.to_string()))?;
            certificates.push(certificate);
        }
        match certificates.is_empty() {
            true => Err(wrong("there are none in it".into())),
            false => Ok(Self::of(&certificates)),
        }
    }

    fn of(all: &[CertificateDer<'_>]) -> Self {
        let all = all.iter().map(|it| Certificate::from_der(it).to_owned());
        Self(all.collect())
    }

    pub(crate) fn tls(self) -> TlsConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        TlsConfig::builder()
            .unversioned_rustls_crypto_provider(provider)
            .root_certs(RootCerts::Specific(Arc::new(self.0)))
            .build()
    }
}

/// Explains a TLS error and what can be done, the cure on a line of its own;
/// `None` for other errors. `cure` is the option that names another authority.
pub fn explained(error: &io::Error, cure: &str) -> Option<String> {
    let told: &rustls::Error = error.get_ref()?.downcast_ref()?;
    let wrong = match told {
        rustls::Error::InvalidCertificate(wrong) => wrong,
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            return Some("it does not speak TLS\n  try: http:// in place of https://".into());
        }
        _ => return Some(format!("TLS failed: {told}")),
    };
    let cure = match wrong {
        CertificateError::UnknownIssuer => format!("\n  try: {cure}"),
        CertificateError::Other(why) if why.to_string().contains("CaUsedAsEndEntity") => {
            "\n  it is an authority's own; make one with basicConstraints=CA:FALSE".into()
        }
        _ => String::new(),
    };
    Some(format!("its certificate is not believed: {wrong}{cure}"))
}

#[cfg(test)]
mod tests {
    use super::{Trust, TrustError};

    #[test]
    fn a_file_without_authorities_is_refused_by_name() {
        for (number, text) in [
            "",
            "no PEM",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ]
        .iter()
        .enumerate()
        {
            let name = format!("prof-http-{}-{number}.pem", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, text).expect("written");
            let told = Trust::of_file(&path)
                .map(|_| ())
                .map_err(|it| it.to_string());
            std::fs::remove_file(&path).expect("removed");
            let told = told.expect_err("nothing to believe");
            assert!(told.contains(&path.display().to_string()), "{told}");
        }
        let none = TrustError::NoAuthority { why: None };
        assert!(none.to_string().ends_with("of authorities"));
    }
}
