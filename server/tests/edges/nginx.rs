//! A real nginx before a page, with the very configuration that the documentation shows
//! (`docs/proxies/nginx.conf`), asked by a real curl.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::client::Answer;
use crate::server::{POLICIES, Server};

const PAGE: &str = "the page behind\n";

/// A started nginx; dropping it ends it.
struct Nginx {
    port: u16,
    folder: TempDir,
    child: Child,
}

impl Nginx {
    /// Starts nginx before a page, with Tidegate at `tidegate`.
    async fn start(tidegate: &str) -> Self {
        Nginx::start_with(tidegate, |site| site).await
    }

    /// Starts nginx with the documented configuration changed.
    async fn start_with(tidegate: &str, change: fn(String) -> String) -> Self {
        let began = Instant::now();
        loop {
            let mut nginx = Nginx::spawn(tidegate, change);
            while began.elapsed() < Duration::from_secs(20) {
                if TcpStream::connect(("127.0.0.1", nginx.port)).await.is_ok() {
                    return nginx;
                }
                if nginx.child.try_wait().unwrap().is_some() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let log = nginx.log();
            // Another process may have taken the port meanwhile.
            assert!(
                log.contains("Address already in use"),
                "nginx ended:\n{log}"
            );
        }
    }

    fn spawn(tidegate: &str, change: fn(String) -> String) -> Self {
        let folder = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let root = folder.path().join("www");
        std::fs::create_dir_all(root.join("docs")).unwrap();
        for page in ["index.html", "page.html", "docs/index.html"] {
            std::fs::write(root.join(page), PAGE).unwrap();
        }
        let documented = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/proxies/nginx.conf");
        let mut site = std::fs::read_to_string(documented).unwrap();
        for (shown, here) in [
            ("127.0.0.1:8080", tidegate),
            ("listen 80;", &format!("listen 127.0.0.1:{port};")),
            ("/var/www/html", root.to_str().unwrap()),
        ] {
            assert_eq!(site.matches(shown).count(), 1, "{shown}");
            site = site.replace(shown, here);
        }
        std::fs::write(folder.path().join("site.conf"), change(site)).unwrap();
        std::fs::write(folder.path().join("nginx.conf"), SURROUNDINGS).unwrap();
        let child = Command::new("nginx")
            .env("PATH", with_sbin())
            .arg("-p")
            .arg(folder.path())
            .args(["-c", "nginx.conf", "-e", "error.log"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|e| panic!("this test needs nginx (Debian's package `nginx`): {e}"));
        Nginx {
            port,
            folder,
            child,
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default()
    }

    /// Asks as a client of this region with this key.
    async fn ask(&self, region: &str, key: Option<&str>, path: &str) -> Answer {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--include", "--max-time", "10"])
            .arg("--header")
            .arg(format!("Host: {region}.example.org"))
            .arg(format!("http://127.0.0.1:{}{path}", self.port));
        if let Some(key) = key {
            curl.arg("--header").arg(format!("X-API-Key: {key}"));
        }
        let output = curl.output().await;
        let output = output.unwrap_or_else(|e| panic!("this test needs curl: {e}"));
        let text = String::from_utf8(output.stdout).unwrap();
        let parts = text.split_once("\r\n\r\n");
        let (head, body) = parts.unwrap_or_else(|| panic!("curl: {:?}", output.stderr));
        Answer {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body: body.as_bytes().to_vec(),
        }
    }
}

/// Debian keeps nginx where only administrators look.
fn with_sbin() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/usr/local/sbin")
}

/// What a distribution's own nginx.conf brings, within one folder.
const SURROUNDINGS: &str = "
user root;
daemon off;
master_process off;  # one process, which ends with the test that started it
pid nginx.pid;
error_log error.log;
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    types { text/html html; }
    include site.conf;
}
";

async fn started() -> (Server, Nginx) {
    let yaml = format!("{POLICIES}\nserver: {{trusted_proxies: [127.0.0.1]}}");
    let server = Server::start(&yaml).await;
    let nginx = Nginx::start(&server.address.to_string()).await;
    (server, nginx)
}

#[tokio::test]
async fn within_the_ceiling_the_page_beyond_it_429_in_each_region() {
    let (_server, nginx) = started().await;
    for (region, limit) in [("us", 5_u64), ("eu", 3)] {
        for left in (0..limit).rev() {
            let answer = nginx.ask(region, Some("key-1"), "/page.html").await;
            assert_eq!(
                (answer.status, answer.text()),
                (200, PAGE),
                "{}",
                answer.head
            );
            let told = format!("\"video_top.region\";r={left};");
            let field = answer.header("ratelimit").unwrap();
            assert!(field.contains(&told), "{told} in {field}");
            assert_eq!(answer.header("retry-after"), None);
        }
        let answer = nginx.ask(region, Some("key-1"), "/page.html").await;
        answer.assert_problem(429, "");
        assert_eq!(answer.header("retry-after"), Some("60"));
        let policy = format!(r#""video_top.global";q=8;w=60, "video_top.region";q={limit};w=60"#);
        assert_eq!(answer.header("ratelimit-policy"), Some(policy.as_str()));
        let field = answer.header("ratelimit").unwrap();
        assert!(field.contains("\"video_top.region\";r=0;t=60"), "{field}");
        assert!(!answer.text().contains("the page"));
        // Another client still has its own ceiling.
        let other = nginx.ask(region, Some("key-2"), "/page.html").await;
        assert_eq!(other.status, 200);
    }
}

#[tokio::test]
async fn a_directorys_index_is_charged_once() {
    let (_server, nginx) = started().await;
    // nginx asks twice here: for the directory, and for the index that it leads to.
    for (path, left) in [("/", 2), ("/docs/", 1), ("/", 0)] {
        let answer = nginx.ask("eu", Some("key-1"), path).await;
        assert_eq!((answer.status, answer.text()), (200, PAGE));
        let told = format!("\"video_top.region\";r={left};");
        let field = answer.header("ratelimit").unwrap();
        assert!(field.contains(&told), "{told} in {field}");
    }
    assert_eq!(nginx.ask("eu", Some("key-1"), "/").await.status, 429);
}

#[tokio::test]
async fn clients_without_a_key_are_limited_by_the_address_that_nginx_sees() {
    let (server, nginx) = started().await;
    for status in [200, 200, 200, 429] {
        let answer = nginx.ask("eu", None, "/page.html").await;
        assert_eq!(answer.status, status);
    }
    let peek = r#"{"policy":"video_top","subject":"ip:127.0.0.1","region":"eu","cost":0}"#;
    let peeked = crate::client::post(server.address, "/v1/peek", peek).await;
    assert_eq!(peeked.json()["ceilings"][1]["remaining"], 0);
    assert_eq!(
        nginx.ask("eu", Some("key-1"), "/page.html").await.status,
        200
    );
}

#[tokio::test]
async fn a_missing_page_is_404_and_not_a_denial() {
    let (_server, nginx) = started().await;
    assert_eq!(nginx.ask("us", Some("key-1"), "/nothing").await.status, 404);
}

#[tokio::test]
async fn a_store_or_a_tidegate_that_is_away_is_503() {
    let (server, nginx) = started().await;
    server.store().away.store(true, Ordering::SeqCst);
    let answer = nginx.ask("us", Some("key-1"), "/page.html").await;
    answer.assert_problem(503, "");
    assert_eq!(answer.header("retry-after"), Some("1"));
    server.store().away.store(false, Ordering::SeqCst);
    assert_eq!(
        nginx.ask("us", Some("key-1"), "/page.html").await.status,
        200
    );
    server.stop().await;
    let answer = nginx.ask("us", Some("key-1"), "/page.html").await;
    answer.assert_problem(503, "");
    assert!(
        nginx.log().contains("Connection refused"),
        "{}",
        nginx.log()
    );
}

#[tokio::test]
async fn with_the_lines_for_it_uncommented_a_tidegate_that_is_away_limits_nobody() {
    let server = Server::start(POLICIES).await;
    let uncommented = |site: String| {
        assert_eq!(site.matches("#away ").count(), 4);
        site.replace("#away ", "")
    };
    let nginx = Nginx::start_with(&server.address.to_string(), uncommented).await;
    for status in [200, 200, 200, 429] {
        let answer = nginx.ask("eu", Some("key-1"), "/page.html").await;
        assert_eq!(answer.status, status);
    }
    server.store().away.store(true, Ordering::SeqCst);
    let answer = nginx.ask("us", Some("key-1"), "/page.html").await;
    assert_eq!(
        answer.status, 503,
        "the store's outage is the policy's to decide"
    );
    server.stop().await;
    for path in ["/page.html", "/", "/docs/"] {
        let answer = nginx.ask("eu", Some("key-1"), path).await;
        assert_eq!((answer.status, answer.text()), (200, PAGE), "{path}");
        assert_eq!(answer.header("content-type"), Some("text/html"));
    }
    assert_eq!(nginx.ask("eu", None, "/nothing").await.status, 404);
}
