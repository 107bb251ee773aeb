//! Encrypted connections: which roots are trusted, and who we are when the server asks.
//! Never switches verification off.

use std::path::PathBuf;
use std::sync::Arc;

use fred::types::config::{TlsConfig, TlsConnector, TlsHostMapping};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

/// How `rediss://` connections are verified. The default trusts the system's roots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// PEM file of the authorities to trust, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// PEM files of our certificate chain and its key, when the server wants one
    /// (`tls-auth-clients yes`, its default).
    pub client_certificate: Option<ClientCertificate>,
    /// The name that the nodes' certificates bear, when it isn't the host that they are reached
    /// by: a cluster that announces addresses, with one certificate for a name.
    pub server_name: Option<String>,
}

/// Our own certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// PEM file of the chain, ours first.
    pub chain_file: PathBuf,
    /// PEM file of the private key.
    pub key_file: PathBuf,
}

/// Why encrypted connections can't be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file can't be read, or holds no PEM of the kind wanted.
    #[error("can't read {what} from {}: {cause}", path.display())]
    File {
        /// What was wanted from it.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// This system has no roots that could be trusted.
    #[error("this system offers no certificate authorities ({0}): name a CA file")]
    NoRoots(String),
    /// Name, certificate and key don't fit.
    #[error("TLS can't be set up: {0}")]
    Setup(String),
}

impl TlsOptions {
    /// What fred needs to connect.
    pub(super) fn connector(&self) -> Result<TlsConfig, TlsError> {
        if let Some(name) = &self.server_name {
            ServerName::try_from(name.clone())
                .map_err(|_| TlsError::Setup(format!("`{name}` can't be a server's name")))?;
        }
        // Named, not the process's default: that one exists only when somebody installed it.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let setup = |error: rustls::Error| TlsError::Setup(error.to_string());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(setup)?
            .with_root_certificates(self.roots()?);
        let config = match &self.client_certificate {
            None => builder.with_no_client_auth(),
            Some(ours) => {
                let chain = certificates("our certificate", &ours.chain_file)?;
                let key = PrivateKeyDer::from_pem_file(&ours.key_file)
                    .map_err(|e| file("our private key", &ours.key_file, e.to_string()))?;
                builder.with_client_auth_cert(chain, key).map_err(setup)?
            }
        };
        Ok(TlsConfig {
            connector: TlsConnector::from(config),
            hostnames: TlsHostMapping::None,
        })
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        let Some(path) = &self.ca_file else {
            let found = rustls_native_certs::load_native_certs();
            // A single root that can't be read is no reason to distrust the others.
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let causes: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
                return Err(TlsError::NoRoots(causes.join("; ")));
            }
            return Ok(roots);
        };
        for authority in certificates("certificate authorities", path)? {
            let added = roots.add(authority);
            added.map_err(|e| file("certificate authorities", path, e.to_string()))?;
        }
        Ok(roots)
    }
}

fn certificates(
    what: &'static str,
    path: &PathBuf,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).and_then(|certificates| certificates.collect());
    match found {
        Err(error) => Err(file(what, path, error.to_string())),
        Ok(none) if none.is_empty() => Err(file(what, path, "it holds none".into())),
        Ok(found) => Ok(found),
    }
}

fn file(what: &'static str, path: &std::path::Path, cause: String) -> TlsError {
    TlsError::File {
        what,
        path: path.to_owned(),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_holds_no_authority_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        let options = TlsOptions {
            ca_file: Some(path.clone()),
            ..TlsOptions::default()
        };
        let missing = options.connector().err().unwrap().to_string();
        assert!(missing.contains("ca.pem"), "{missing}");
        std::fs::write(&path, "nothing").unwrap();
        let empty = options.connector().err().unwrap().to_string();
        assert!(empty.contains("holds none"), "{empty}");
    }

    #[test]
    fn a_server_name_is_checked_before_anything_connects() {
        let options = TlsOptions {
            server_name: Some("not a name".into()),
            ..TlsOptions::default()
        };
        assert!(options.connector().is_err());
    }
}
