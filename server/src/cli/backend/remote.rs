//! A client of a Tidegate server: JSON over HTTP/1.1 with connections kept alive. Never shows the
//! administrator's token, and never reads an answer without a bound.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::BackendError;
use crate::cli::failure::Failure;
use crate::config::Secret;
use crate::edge::body::{CheckBody, RefundBody, ResetBody};
use tidegate::model::{Check, Decision, Refund};
use tidegate::store::Refunded;

/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// How long an answer may take: far longer than any deadline of a check.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(70);

/// The counter of a server's metrics that tells its calls to the store.
const STORE_CALLS_METRIC: &str = "tidegate_store_calls_total ";

/// A server's address, and the connections to it.
pub(in crate::cli) struct RemoteServer {
    client: Client<HttpConnector, Full<Bytes>>,
    base: String,
    authorization: Option<HeaderValue>,
}

/// What came back.
struct Answer {
    status: StatusCode,
    body: Bytes,
}

impl RemoteServer {
    /// A client of the server at `url`, such as `http://127.0.0.1:8080`.
    pub fn new(url: &str, token: Option<Secret>) -> Result<Self, Failure> {
        let authorization = token.map(|token| {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
            value.map(|mut value| {
                value.set_sensitive(true);
                value
            })
        });
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(5)));
        Ok(RemoteServer {
            client: Client::builder(TokioExecutor::new())
                .pool_max_idle_per_host(usize::MAX)
                .build(connector),
            base: base(url)?,
            authorization: authorization
                .transpose()
                .map_err(|_| Failure::new("the administrators' token can't be sent"))?,
        })
    }

    /// Its URL.
    pub fn name(&self) -> &str {
        &self.base
    }

    pub async fn check(&self, check: &Check) -> Result<Decision, BackendError> {
        let answer = self.post("/v1/check", &CheckBody::from(check)).await?;
        self.decision(&answer)
    }

    pub async fn peek(&self, check: &Check) -> Result<Decision, BackendError> {
        let answer = self.post("/v1/peek", &CheckBody::from(check)).await?;
        self.decision(&answer)
    }

    pub async fn refund(&self, refund: &Refund) -> Result<Refunded, BackendError> {
        let answer = self.post("/v1/refund", &RefundBody::from(refund)).await?;
        let refunded = answer
            .json::<Value>()
            .and_then(|json| json.get("refunded").and_then(Value::as_u64));
        match (answer.status, refunded) {
            (StatusCode::OK, Some(units)) => Ok(Refunded::Units(units)),
            // A 404 of an unknown policy is a wrong request; one of the charge says so.
            (StatusCode::NOT_FOUND, _) if answer.detail().contains("no such charge") => {
                Ok(Refunded::NotFound)
            }
            _ => Err(self.trouble(&answer)),
        }
    }

    pub async fn reset(&self, check: &Check) -> Result<(), BackendError> {
        let body = ResetBody {
            policy: check.policy.clone(),
            subject: check.subject.clone(),
            region: check.region.clone(),
        };
        let answer = self.post("/v1/reset", &body).await?;
        match answer.status.is_success() {
            true => Ok(()),
            false => Err(self.trouble(&answer)),
        }
    }

    /// The server's count of calls to its store, when its metrics tell.
    pub async fn calls_sent(&self) -> Option<u64> {
        let request = Request::get(self.uri("/metrics")).body(Full::default());
        let answer = self.send(request.ok()?).await.ok()?;
        let text = std::str::from_utf8(&answer.body).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(STORE_CALLS_METRIC))?;
        line.trim().parse().ok()
    }

    fn uri(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    async fn post(&self, path: &str, body: &impl Serialize) -> Result<Answer, BackendError> {
        let no_answer =
            |error: &dyn std::error::Error| BackendError::Unavailable(error.to_string());
        let json = serde_json::to_vec(body).map_err(|error| no_answer(&error))?;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.uri(path))
            .header(CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request = request
            .body(Full::new(Bytes::from(json)))
            .map_err(|error| no_answer(&error))?;
        self.send(request).await
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, BackendError> {
        let exchange = async {
            let response = self
                .client
                .request(request)
                .await
                .map_err(|error| deepest(&error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX)
                .collect()
                .await
                .map_err(|error| deepest(error.as_ref()))?
                .to_bytes();
            Ok::<_, String>(Answer { status, body })
        };
        match tokio::time::timeout(ANSWER_WAIT_MAX, exchange).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(cause)) => Err(BackendError::Unavailable(format!("{}: {cause}", self.base))),
            Err(_) => {
                let waited = ANSWER_WAIT_MAX.as_secs();
                let cause = format!("{} did not answer within {waited} s", self.base);
                Err(BackendError::Unavailable(cause))
            }
        }
    }

    fn decision(&self, answer: &Answer) -> Result<Decision, BackendError> {
        answer.json().ok_or_else(|| self.trouble(answer))
    }

    /// What an answer that is no decision means.
    fn trouble(&self, answer: &Answer) -> BackendError {
        let detail = answer.detail();
        let status = answer.status;
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let cure = "the token comes from --admin-token-file or TIDEGATE_ADMIN_TOKEN";
                BackendError::BadRequest(Failure::with_cure(detail, cure))
            }
            _ if status.is_client_error() => BackendError::BadRequest(Failure::new(detail)),
            _ => BackendError::Unavailable(format!("{} answered {status}: {detail}", self.base)),
        }
    }
}

impl Answer {
    fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The problem's detail, or what stands there instead.
    fn detail(&self) -> String {
        const SHOWN_MAX: usize = 200;
        let problem = self
            .json::<Value>()
            .and_then(|json| Some(json.get("detail")?.as_str()?.to_owned()));
        problem.unwrap_or_else(|| {
            let text = String::from_utf8_lossy(&self.body);
            let text = text.trim().chars().take(SHOWN_MAX).collect::<String>();
            format!("{} {text}: is this a Tidegate server?", self.status)
        })
    }
}

/// The URL without a slash at its end, when it is one that can be asked.
fn base(url: &str) -> Result<String, Failure> {
    let cure = "write it as http://HOST:PORT; for https put a TLS proxy in front";
    let wrong = || Failure::with_cure(format!("`{url}` is no server's URL"), cure);
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?;
    if uri.scheme_str() != Some("http") || uri.query().is_some() {
        return Err(wrong());
    }
    if authority.as_str().contains('@') {
        let cause = "a server's URL holds no user or password";
        return Err(Failure::with_cure(cause, cure));
    }
    Ok(format!(
        "http://{authority}{}",
        uri.path().trim_end_matches('/')
    ))
}

/// The cause at the bottom: `Connection refused` rather than `client error (Connect)`.
fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_urls_are_taken_and_a_password_is_not_shown() {
        assert_eq!(
            base("http://127.0.0.1:8080/").unwrap(),
            "http://127.0.0.1:8080"
        );
        assert_eq!(base("http://gate/limits/").unwrap(), "http://gate/limits");
        for url in ["", "127.0.0.1:8080", "https://gate", "http://", "redis://a"] {
            assert!(base(url).is_err(), "{url}");
        }
        let failure = base("http://me:hush@gate").unwrap_err();
        assert!(!failure.to_string().contains("hush"));
    }
}
